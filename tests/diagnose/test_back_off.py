"""What `jobset explain` says of pods that fail while their Job makes new ones after a pause."""

from __future__ import annotations

from typing import Any

import pytest

from diagnose.gather import gather
from kube.client import Client
from tests.support.explain.objects import (
    MOMENT,
    NOW,
    at,
    causes,
    event,
    explanation_of,
    facts,
    job_of,
    lease,
    made,
    pod_of,
)
from tests.support.explain.stuck_jobs import failed_pod
from tests.support.model.fake_cluster import Cluster
from tests.support.objects.jobsets import jobset, rjob, stored

JSON = dict[str, Any]
PAUSE = "the Job controller makes the next pod after a pause: 10 s, doubled with each failure, at most 10 min"


def crashing(pods: int = 1, **status: Any) -> tuple[JSON, JSON]:
    """A set, and its Job that has failed pods and no condition that says so."""
    js = made(stored(jobset(rjob(parallelism=pods, completions=pods), namespace="team-a")))
    return js, made(job_of(js, 0, backoffLimit=6), **{"active": 0, "ready": 0, "failed": 1, **status})


def test_one_of_several_pods_has_failed():
    js, job = crashing(4, active=3, ready=3)
    text, body = explanation_of(facts(js, [job], [failed_pod(job, 2, 137, "OOMKilled")], lease=lease()))
    assert (body["level"], causes(body)) == ("fault", ["pod-failed"])
    assert (
        "Job train-workers-0: 3 of 4 pods ready; pod train-workers-0-2 has failed: container main, exit code 137"
        in text
    )
    assert "(OOMKilled); 1 failure, backoffLimit allows 6\n" in text
    assert body["since"] == at(MOMENT), "when the pod ended"
    assert f"jobset logs train -n team-a --job train-workers-0 shows what it wrote; {PAUSE}" in text


def test_failures_are_told_while_the_next_pod_starts():
    js, job = crashing(active=1)
    starts = made(pod_of(job, 0, node="node-2", phase="Pending", containers=[{"name": "main", "ready": False}]))
    starts["metadata"] |= {"name": "next", "uid": "next"}
    text, body = explanation_of(facts(js, [job], [failed_pod(job, 0, 2), starts], lease=lease()))
    assert causes(body) == ["not-ready"]
    assert " starting on node node-2; 1 failure before, the last in train-workers-0-0" in text
    assert "container main, exit code 2, backoffLimit allows 6" in text
    assert "jobset logs train -n team-a --job train-workers-0 shows what the failed pod wrote" in text


def test_failures_are_told_while_the_next_pod_runs():
    js, job = crashing(active=1, ready=1, failed=2)
    text, body = explanation_of(facts(js, [job], lease=lease()))
    assert (body["state"], causes(body)) == ("runs", ["failures"])
    assert "Job train-workers-0: 2 failures so far, backoffLimit allows 6\n" in text
    assert "jobset logs train -n team-a --job train-workers-0 shows what its pods wrote" in text


def test_a_job_whose_pods_do_not_end_is_no_riddle():
    js, job = crashing(failed=0, terminating=2)
    text, body = explanation_of(facts(js, [job], [], lease=lease()))
    assert causes(body) == ["pods-ending"]
    assert "Job train-workers-0: 2 pods have not ended yet, and the next wait for that" in text
    assert "kubectl delete pods -n team-a -l batch.kubernetes.io/job-name=train-workers-0 --force" in text


def test_the_pod_that_failed_last_is_the_one_that_is_named():
    js, job = crashing(failed=2)
    first, last = failed_pod(job), failed_pod(job, code=127, finishedAt=at(NOW))
    last["metadata"]["name"] = "last"
    text, _ = explanation_of(facts(js, [job], [last, first], lease=lease()))
    assert "pod last has failed: container main, exit code 127 (the command was not found); 2 failures" in text


def test_a_pod_without_a_failed_container_says_the_reason_of_its_status():
    js, job = crashing()
    pod = made(pod_of(job, node="n", phase="Failed", containers=[]), reason="UnexpectedAdmissionError")
    assert "has failed: UnexpectedAdmissionError; 1 failure" in explanation_of(facts(js, [job], [pod]))[0]


@pytest.mark.parametrize(
    ("before", "says", "pause"),
    [("0", "1 failure of index 0, backoffLimitPerIndex allows 1", True), ("1", "2 failures of index 0", False)],
)
def test_failures_of_an_index_count_by_themselves(before: str, says: str, pause: bool):
    js, job = crashing(2, active=1, ready=1, failed=5)
    job["spec"]["backoffLimitPerIndex"] = 1
    pod = failed_pod(job)
    pod["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] = before
    text, _ = explanation_of(facts(js, [job], [pod], lease=lease()))
    assert says in text
    assert (PAUSE in text) is pause, "no pod comes for an index that has failed too often"


def test_a_next_pod_that_was_refused_is_the_cause():
    js, job = crashing()
    said = event("FailedCreate", "pods is forbidden: no", about=job["metadata"]["uid"])
    _, body = explanation_of(facts(js, [job], [failed_pod(job)], job_warnings=[said], lease=lease()))
    assert causes(body) == ["pods-refused"]
    earlier = event("FailedCreate", "pods is forbidden: no", about=job["metadata"]["uid"], ago=3000)
    _, body = explanation_of(facts(js, [job], [failed_pod(job)], job_warnings=[earlier], lease=lease()))
    assert causes(body) == ["pod-failed"]


def test_a_failed_pod_in_whose_place_another_runs_is_not_the_cause():
    js, job = crashing(active=1)
    again = made(pod_of(job, unscheduled="0/2 nodes are available: 2 node(s) didn't have free ports"))
    _, body = explanation_of(facts(js, [job], [failed_pod(job), again], lease=lease()))
    assert causes(body) == ["unscheduled"]


@pytest.mark.looptime
async def test_failed_pods_are_read_of_jobs_that_lack_pods():
    js, job = crashing(3, active=2, ready=2, startTime=at(MOMENT))
    found = await gather(Client(cluster := Cluster(js, job, failed_pod(job, 2))), "team-a", "train", NOW)
    assert causes(explanation_of(found)[1])[-1] == "pod-failed"
    assert sum("Failed" in str(dict(request.query).get("fieldSelector")) for request in cluster.asked) == 1
    healthy = made(job, active=3, ready=2, failed=1)
    await gather(Client(cluster := Cluster(js, healthy)), "team-a", "train", NOW)
    assert not any("Failed" in str(dict(request.query).get("fieldSelector")) for request in cluster.asked)
