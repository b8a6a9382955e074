"""The policies of manifests/reserved-label on a real control plane: who gets the label of exclusive placement."""

import functools
import json
from typing import Any

import pytest

from api import keys
from dev.cluster.spec import ClusterSpec
from manifests import files
from tests.support.cluster.requests import MERGE, kubectl, request, wait_for

JSON = dict[str, Any]
PODS, JOBS = "/api/v1/namespaces/default/pods", "/apis/batch/v1/namespaces/default/jobs"
MANAGER = "system:serviceaccount:jobset-system:jobset-controller-manager"
TENANT = "tenant"
STRANGERS = (
    TENANT,
    "system:serviceaccount:default:jobset-controller-manager",
    "system:serviceaccount:kube-system:replicaset-controller",
    "system:serviceaccount:kube-system:cronjob-controller",
)
LABEL = {keys.JOB_KEY: "0" * 40}
RESERVED = f"the label {keys.JOB_KEY} is reserved"


def pod(name: str, labels: JSON) -> JSON:
    meta = {"name": name, "labels": labels}
    return {"metadata": meta, "spec": {"containers": [{"name": "main", "image": "busybox"}]}}


def job(name: str, labels: JSON, *, suspend: bool = False) -> JSON:
    template = {**pod("", labels), "metadata": {"labels": labels}}
    template["spec"]["restartPolicy"] = "Never"
    return {"metadata": {"name": name}, "spec": {"template": template, "suspend": suspend}}


@pytest.fixture(scope="module")
def server(own_cluster):
    """A control plane of its own, with the Job controller: what is installed concerns pods of every namespace."""
    with own_cluster(ClusterSpec(name="reserved")) as cluster:
        wait_for(
            lambda: request(cluster, "GET", "/api/v1/namespaces/default/serviceaccounts/default")[0] == 200,
            what="the account of pods",
        )
        before = request(cluster, "POST", PODS, pod("before", LABEL), user=TENANT)
        assert before[0] == 201, before
        kubectl(cluster, "apply", "--server-side", "-k", str(files.ROOT / "reserved-label"))

        def refused(path: str, body: JSON) -> bool:
            return request(cluster, "POST", f"{path}?dryRun=All", body, user=TENANT)[0] == 403

        for path, body in ((PODS, pod("probe", LABEL)), (JOBS, job("probe", LABEL))):
            wait_for(functools.partial(refused, path, body), what="the policies in force")
        yield cluster


@pytest.mark.parametrize("labels", [LABEL, {keys.JOB_KEY: ""}], ids=["a value", "no value"])
@pytest.mark.parametrize("user", STRANGERS)
@pytest.mark.parametrize(("path", "made"), [(PODS, pod), (JOBS, job)], ids=["pod", "job"])
def test_what_strangers_create_does_not_get_it(server, path, made, user, labels):
    status, answer = request(server, "POST", f"{path}?dryRun=All", made("x", labels), user=user)
    assert status == 403
    assert RESERVED in answer["message"]
    others = {keys.JOBSET_NAME: "js", keys.PRIORITY: "0"}
    assert request(server, "POST", f"{path}?dryRun=All", made("x", others), user=user)[0] == 201


def test_what_exists_does_not_get_it_later(server):
    assert request(server, "POST", PODS, pod("later", {}), user=TENANT)[0] == 201
    assert request(server, "POST", JOBS, job("later", {}, suspend=True), user=TENANT)[0] == 201
    in_template = {"spec": {"template": {"metadata": {"labels": LABEL}}}}
    for path, patch in ((PODS, {"metadata": {"labels": LABEL}}), (JOBS, in_template)):
        status, answer = request(server, "PATCH", f"{path}/later", patch, MERGE, user=TENANT)
        assert status == 403
        assert RESERVED in answer["message"]
    # Kubernetes lets the labels of a suspended Job's template change.
    assert request(server, "PATCH", f"{JOBS}/later", in_template, MERGE, user=MANAGER)[0] == 200


def test_what_had_it_before_can_be_changed_and_loses_it(server):
    def patch(labels: JSON, **meta: JSON) -> int:
        return request(server, "PATCH", f"{PODS}/before", {"metadata": {"labels": labels, **meta}}, MERGE, user=TENANT)[
            0
        ]

    assert patch({}, annotations={"a": "b"}) == 200
    assert patch({keys.JOB_KEY: "1" * 40}) == 403, "another Job's pods"
    assert patch({keys.JOB_KEY: None}) == 200
    assert patch(LABEL) == 403


@pytest.mark.parametrize("user", ["system:serviceaccount:kube-system:job-controller", "system:kube-controller-manager"])
def test_the_job_controller_creates_pods_with_it(server, user):
    assert request(server, "POST", f"{PODS}?dryRun=All", pod("made", LABEL), user=user)[0] == 201


def test_jobs_of_the_manager_get_their_pods(server):
    """By the real Job controller, as the API server knows it."""
    status, answer = request(server, "POST", JOBS, job("js-w-0", LABEL), user=MANAGER)
    assert status == 201, answer

    def labels() -> list[str]:
        found = request(server, "GET", f"{PODS}?labelSelector=batch.kubernetes.io/job-name=js-w-0")[1]["items"]
        return [each["metadata"]["labels"][keys.JOB_KEY] for each in found]

    wait_for(lambda: labels() == [LABEL[keys.JOB_KEY]], what="its pod")


def test_nothing_in_the_policies_is_a_warning(server):
    """The API server checks the types of expressions when a policy is stored."""
    stored = json.loads(kubectl(server, "get", "-k", str(files.ROOT / "reserved-label"), "-o", "json"))["items"]
    policies = [each for each in stored if each["kind"] == "ValidatingAdmissionPolicy"]
    assert len(policies) == 2
    for each in policies:
        path = f"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/{each['metadata']['name']}"

        def checked(path: str = path) -> JSON | None:
            return request(server, "GET", path)[1].get("status", {}).get("typeChecking")

        wait_for(lambda checked=checked: checked() is not None, what="the types are checked")
        assert checked() == {}
