"""JobSets that are created on a real API server with our webhooks: what is stored, and what is refused and how."""

from dev.cluster.cluster import Cluster
from tests.support.cluster.admission_calls import create, manifest, path
from tests.support.cluster.requests import kubectl_apply, request
from tests.support.objects.jobsets import JSON, rjob


def refused(server: Cluster, ns: str, js: JSON) -> JSON:
    """The Status of a create that must be refused by our webhook."""
    status, body = request(server, "POST", path(ns), js)
    assert status == 422, body
    assert body["reason"] == "Invalid"
    assert body["message"].startswith('admission webhook "vjobset.kb.io" denied the request: JobSet.jobset.x-k8s.io "')
    return body


def test_defaults_are_stored(server, ns):
    js = manifest(ns, rjob("a"), failurePolicy={"rules": [{"action": "FailJobSet"}]})
    spec = create(server, ns, js)["spec"]
    assert spec["successPolicy"] == {"operator": "All"}
    assert spec["startupPolicy"] == {"startupPolicyOrder": "AnyOrder"}
    assert spec["network"] == {"enableDNSHostnames": True, "publishNotReadyAddresses": True}
    assert spec["failurePolicy"] == {
        "restartStrategy": "Recreate",
        "rules": [{"action": "FailJobSet", "name": "failurePolicyRule0"}],
    }
    [entry] = spec["replicatedJobs"]
    assert (entry["replicas"], entry["groupName"]) == (1, "default")
    assert entry["template"]["spec"]["completionMode"] == "Indexed"
    assert entry["template"]["spec"]["template"]["spec"]["restartPolicy"] == "OnFailure"


def test_a_generated_name_works_and_its_checks_too(server, ns):
    js = manifest(ns)
    js["metadata"] = {"generateName": "train-", "namespace": ns}
    assert create(server, ns, js)["metadata"]["name"].startswith("train-")
    js["metadata"]["generateName"] = "g" * 58
    causes = refused(server, ns, js)["details"]["causes"]
    assert {cause["field"] for cause in causes} == {"spec.replicatedJobs[0].name"}


def test_kubectl_shows_faults_of_the_schema_with_all_others(server, ns):
    waiting = rjob("b", dependsOn=[{"name": "a", "status": "Ready"}], exitCodePolicy={"retryable": [0]})
    order = {"executionPolicyOrder": "InOrder", "replicatedJobsStatus": "Suspended"}
    js = manifest(ns, rjob("a"), waiting, executionPolicy=order, managedBy="",
                  successPolicy={"minSucceeded": 3, "operator": "Any"})  # fmt: skip
    text = kubectl_apply(server, ns, js, check=False)
    assert text.startswith('The JobSet "train" is invalid:')
    for words in (
        "keep dependsOn where a ReplicatedJob waits for several or for certain ones",
        "a suspended JobSet starts nothing, so no stage can follow on it",
        "spec.replicatedJobs[1].exitCodePolicy.retryable[0]: Invalid value: 0",
        "exitCodePolicy needs restartPolicy Never",
        "keep All beside minSucceeded",
        "write at most 2",
        "spec.managedBy: Required value",
    ):
        assert words in text


def test_an_unchanged_manifest_can_replace_the_object(server, ns):
    js = manifest(ns, failurePolicy={"rules": [{"action": "FailJobSet"}]})
    stored = create(server, ns, js)
    js["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"]
    status, body = request(server, "PUT", path(ns, "train"), js)
    assert status == 200, body
    assert body["metadata"]["generation"] == 1
