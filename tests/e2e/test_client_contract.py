"""What the real clients of JobSet rely on, each rule by its number.

Rules that are held elsewhere are listed with their tests in docs/reference/defects.md.
"""

import hashlib
from datetime import datetime
from typing import Any

import pytest

from tests.support.cluster.client_calls import COUNTERS, PREFIX, annotations_of, history, idle, now, path, update
from tests.support.cluster.jobs import group, manifest
from tests.support.cluster.requests import MERGE, request, wait_for

KNOWN_TO_GO = {
    "Completed",
    "Failed",
    "Suspended",
    "StartupPolicyInProgress",
    "StartupPolicyCompleted",
    "RestartingJobSet",
}


@pytest.fixture
def eventful_life(sets):
    """Every stored state of sets that were suspended, resumed, restarted and that ended both ways."""
    since = now(sets)
    order = {"startupPolicyOrder": "InOrder"}
    policy = {"maxRestarts": 1}
    sets.apply(manifest(group("a"), group("b"), suspend=True, startupPolicy=order, failurePolicy=policy))
    wait_for(lambda: sets.counts().get("suspended") == 2)
    sets.patch({"suspend": False})
    sets.wait_ready(2)
    sets.end(sets.pods(f"{PREFIX}replicatedjob-name=b")[0], 1)
    wait_for(lambda: sets.status()["restarts"] == 1)
    sets.wait_ready(2)
    wait_for(lambda: sets.condition("RestartingJobSet")["status"] == "False")
    for pod in sets.pods():
        sets.end(pod)
    sets.wait_state("Completed")
    sets.apply(manifest(group(), name="bad"))
    sets.wait_ready(1, "bad")
    sets.end(sets.pods(name="bad")[0], 1)
    sets.wait_state("Failed", "bad")
    states = [state for state in history(sets, since) if state.get("status")]
    assert len(states) > 10
    return states


class TestContractOfStatus:
    def test_contract_02_active_falls_to_0_soon_after_suspend(self, sets):
        sets.apply(manifest(group("a", 10), group("b", 10)))
        sets.wait_ready(20)
        assert not idle(sets)
        sets.patch({"suspend": True})
        wait_for(lambda: idle(sets), timeout=15)
        assert sets.pods() == []
        assert sets.counts() == {"ready": 0, "succeeded": 0, "failed": 0, "active": 0, "suspended": 20}

    def test_contract_03_04_05_and_16_every_stored_state_is_one_that_clients_can_read(self, eventful_life):
        seen = set()
        for state in eventful_life:
            status = state["status"]
            for entry in status["replicatedJobsStatus"]:
                assert entry.keys() >= COUNTERS, "rule 3: zeros are written, never omitted"
            assert [e["name"] for e in status["replicatedJobsStatus"]] == sorted(
                (r["name"] for r in state["spec"]["replicatedJobs"]), reverse=True
            )
            assert "restarts" in status
            for condition in status.get("conditions", []):
                assert condition["type"] in KNOWN_TO_GO, "rule 5: no new condition types"
                assert condition["status"] == "True" or condition["type"] not in {"Completed", "Failed"}, "rule 4"
                assert datetime.fromisoformat(condition["lastTransitionTime"])
                assert condition["reason"]
                assert condition["message"]
            ended = {c["type"] for c in status.get("conditions", [])} & {"Completed", "Failed"}
            assert {status.get("terminalState")} == (ended or {None}), "rule 16: the two words, with the condition"
            seen |= ended
        assert seen == {"Completed", "Failed"}

    def test_axlearn_reads_the_status_patches_annotations_and_deletes_in_foreground(self, sets):
        sets.apply(manifest(group("job", 2), failurePolicy={"maxRestarts": 1, "restartStrategy": "BlockingRecreate"}))
        sets.wait_ready(2)
        code, body = request(sets.cluster, "GET", f"{path(sets, 'js')}/status")
        assert (code, body["status"]["replicatedJobsStatus"][0]["ready"]) == (200, 2)
        generation = body["metadata"]["generation"]
        patch = {"metadata": {"annotations": {"axlearn/seen": "yes"}}}
        assert request(sets.cluster, "PATCH", path(sets, "js"), patch, MERGE)[0] == 200
        assert sets.get()["metadata"]["generation"] == generation
        sets.end(sets.pods()[0], 1)
        wait_for(lambda: sets.status()["restarts"] == 1)
        sets.wait_ready(2)
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"}
        assert request(sets.cluster, "DELETE", path(sets, "js"), options)[0] == 200
        wait_for(lambda: sets.get() is None)
        assert sets.jobs() == []


class TestContractOfSpec:
    FIELDS = {
        "labels": ("metadata", {"team": "a"}),
        "annotations": ("metadata", {"note": "a"}),
        "nodeSelector": ("spec", {"rack": "rack-0"}),
        "tolerations": ("spec", [{"key": "a", "operator": "Exists"}]),
        "schedulingGates": ("spec", [{"name": "example.com/gate"}]),
    }

    @staticmethod
    def setting(field: str, part: str, value: Any, **spec: Any):
        def change(body: dict[str, Any]) -> None:
            template = body["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
            template.setdefault(part, {})[field] = value
            body["spec"].update(spec)

        return change

    def test_contract_01_five_fields_change_if_the_old_or_the_new_set_is_suspended(self, sets):
        sets.apply(manifest(group(), name="queued", suspend=True))
        sets.apply(manifest(group(), name="running"))
        for field, (part, value) in self.FIELDS.items():
            assert update(sets, self.setting(field, part, value), "queued")[0] == 200, field
            code, answer = update(sets, self.setting(field, part, value), "running")
            assert code == 422, field
            assert "field is immutable" in answer["message"]
        old = self.setting("nodeSelector", "spec", {"rack": "rack-1"}, suspend=False)
        assert update(sets, old, "queued")[0] == 200, "the old one is suspended"
        new = self.setting("nodeSelector", "spec", {}, suspend=True)
        assert update(sets, new, "running")[0] == 200, "the new one is suspended"

        def other(body: dict[str, Any]) -> None:
            body["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]["image"] = "b"

        assert update(sets, other, "running")[0] == 422, "and nothing else changes, suspended or not"

    def test_contract_10_a_set_of_another_manager_is_untouched_but_for_its_time_to_live(self, sets):
        theirs = manifest(
            group(), name="theirs", managedBy="kueue.x-k8s.io/multikueue", ttlSecondsAfterFinished=2, suspend=True
        )
        sets.apply(theirs)
        stored = sets.get("theirs")
        sets.apply(manifest(group()))
        sets.wait_ready(1)
        sets.patch({"suspend": False}, "theirs")
        status = {
            "restarts": 0,
            "replicatedJobsStatus": [{"name": "workers", **dict.fromkeys(COUNTERS, 7)}],
            "conditions": [],
        }
        assert request(sets.cluster, "PATCH", f"{path(sets, 'theirs')}/status", {"status": status}, MERGE)[0] == 200
        sets.patch({"suspend": True})
        wait_for(lambda: idle(sets), what="the controller has been at work meanwhile")
        assert sets.jobs("theirs") == []
        assert sets.status("theirs") == status
        assert sets.get("theirs")["metadata"]["uid"] == stored["metadata"]["uid"]
        assert sets.events("theirs") == []
        at = datetime.fromisoformat(stored["metadata"]["creationTimestamp"]).strftime("%Y-%m-%dT%H:%M:%SZ")
        done = {"type": "Completed", "status": "True", "reason": "r", "message": "m", "lastTransitionTime": at}
        body = {"status": {"conditions": [done], "terminalState": "Completed"}}
        assert request(sets.cluster, "PATCH", f"{path(sets, 'theirs')}/status", body, MERGE)[0] == 200
        wait_for(lambda: sets.get("theirs") is None, what="its time to live is over")


class TestContractOfChildren:
    def test_contract_07_and_xpk_every_key_is_label_and_annotation_of_job_and_pod(self, sets):
        body = manifest(group("slice", 2, 2), coordinator={"replicatedJob": "slice"})
        body["metadata"]["annotations"] = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}
        sets.apply(body)
        sets.wait_ready(2)
        uid = sets.get()["metadata"]["uid"]
        for obj in [*sets.jobs(), *sets.pods()]:
            labels, annotations = obj["metadata"]["labels"], annotations_of(obj)
            index = labels[f"{PREFIX}job-index"]
            wanted = {
                "jobset-name": "js",
                "jobset-uid": uid,
                "replicatedjob-name": "slice",
                "replicatedjob-replicas": "2",
                "restart-attempt": "0",
                "job-index": index,
                "job-global-index": index,
                "job-group-index": index,
                "global-replicas": "2",
                "group-name": "default",
                "group-replicas": "2",
                "job-key": hashlib.sha1(
                    f"{sets.namespace}/js-slice-{index}".encode(), usedforsecurity=False
                ).hexdigest(),
                "coordinator": "js-slice-0-0.js",
            }
            # Of a pod's own there is one more label, and no annotation: the priority, as with the Go JobSet.
            assert labels.pop(f"{PREFIX}priority", "0") == "0"
            for found in (labels, annotations):
                assert {k.removeprefix(PREFIX): v for k, v in found.items() if k.startswith(PREFIX)} == wanted
            assert annotations["alpha.jobset.sigs.k8s.io/exclusive-topology"] == "rack"
