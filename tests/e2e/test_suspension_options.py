"""One Job moves while its siblings run; and a suspension that deletes the Jobs (gate JobSetSuspensionOptions)."""

from typing import Any

import pytest

from api.keys import DELETE_ON_SUSPEND, SKIP_SUSPEND
from tests.support.cluster.jobs import Sets, group, manifest
from tests.support.cluster.requests import MERGE, request, wait_for

JSON = dict[str, Any]
pytestmark = [pytest.mark.slow, pytest.mark.manager(featureGates={"JobSetSuspensionOptions": True})]


def annotated(key: str, *rjobs: JSON, **spec: Any) -> JSON:
    body = manifest(*rjobs, **spec)
    body["metadata"]["annotations"] = {key: "true"}
    return body


def change_job(sets: Sets, name: str, spec: JSON) -> None:
    path = f"/apis/batch/v1/namespaces/{sets.namespace}/jobs/{name}?fieldManager=queue"
    code, body = request(sets.cluster, "PATCH", path, {"spec": spec}, MERGE)
    assert code == 200, body


def job(sets: Sets, name: str) -> JSON:
    return next(job for job in sets.jobs() if job["metadata"]["name"] == name)


def test_one_job_moves_to_another_node_while_its_siblings_run(sets: Sets):
    sets.apply(annotated(SKIP_SUSPEND, group(replicas=3)))
    sets.wait_ready(3)
    pods = {pod["metadata"]["name"] for pod in sets.pods()}
    [moved] = sets.pods("batch.kubernetes.io/job-name=js-workers-1")
    change_job(sets, "js-workers-1", {"suspend": True})
    wait_for(
        lambda: any(c["type"] == "Suspended" for c in job(sets, "js-workers-1")["status"].get("conditions", [])),
        timeout=30,
        what="the Job controller says that the Job is suspended",
    )
    wait_for(lambda: sets.counts().items() >= {"ready": 2, "suspended": 1}.items(), what="the counts say so, too")
    sets.wait_explained("js-workers-1: is still suspended", SKIP_SUSPEND)
    taken = moved["spec"]["nodeName"]
    [other, *_] = [pod["spec"]["nodeName"] for pod in sets.pods() if pod["spec"]["nodeName"] != taken] or [taken]
    selector = {"kubernetes.io/hostname": other}
    change_job(sets, "js-workers-1", {"suspend": False, "template": {"spec": {"nodeSelector": selector}}})
    sets.wait_ready(3)
    [new] = sets.pods("batch.kubernetes.io/job-name=js-workers-1")
    assert new["spec"]["nodeName"] == other
    assert pods - {pod["metadata"]["name"] for pod in sets.pods()} == {moved["metadata"]["name"]}, "siblings stay"
    assert sets.status()["restarts"] == 0


def test_all_pods_of_a_set_come_back_although_some_had_succeeded(sets: Sets):
    sets.apply(annotated(DELETE_ON_SUSPEND, group(pods_per_job=3)))
    sets.wait_ready(1)
    first = job(sets, "js-workers-0")["metadata"]["uid"]
    sets.end(sets.pods("batch.kubernetes.io/job-completion-index=1")[0])
    wait_for(lambda: job(sets, "js-workers-0")["status"].get("succeeded") == 1, timeout=30, what="a pod has succeeded")
    sets.patch({"suspend": True})
    wait_for(
        lambda: [j["spec"]["suspend"] for j in sets.jobs() if j["metadata"]["uid"] != first] == [True],
        timeout=30,
        what="another Job, which is suspended",
    )
    assert sets.pods(ending=True) == []
    sets.patch({"suspend": False})
    sets.wait_ready(1)
    assert len(sets.pods()) == 3
    assert sets.status()["restarts"] == 0
