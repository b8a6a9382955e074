"""What the real clients of JobSet rely on, each rule by its number (clients.md 2.7), and their sequences end to end.

Rules that are held elsewhere are listed with their tests in docs/reference/defects.md.
"""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from typing import Any

import pytest

from tests.support import cluster
from tests.support.cluster import request, wait_for
from tests.support.jobs import JOBSETS, MERGE, group, manifest

APPLY = "application/apply-patch+yaml"
PREFIX = "jobset.sigs.k8s.io/"
KNOWN_TO_GO = {
    "Completed",
    "Failed",
    "Suspended",
    "StartupPolicyInProgress",
    "StartupPolicyCompleted",
    "RestartingJobSet",
}
COUNTERS = {"active", "failed", "ready", "succeeded", "suspended"}


def path(sets, name: str = "") -> str:
    return JOBSETS.format(sets.namespace) + (f"/{name}" if name else "")


def post(sets, body: dict[str, Any]) -> tuple[int, Any]:
    return request(sets.cluster, "POST", path(sets), body)


def update(sets, change, name: str = "js") -> tuple[int, Any]:
    """Read, change and write the whole object, as clients in Go do; again where somebody was faster."""
    while True:
        body = sets.get(name)
        change(body)
        code, answer = request(sets.cluster, "PUT", path(sets, name), body)
        if code != 409:
            return code, answer


def server_side_apply(sets, body: dict[str, Any], name: str) -> dict[str, Any]:
    where = f"{path(sets, name)}?fieldManager=trainer&force=true"
    code, answer = request(sets.cluster, "PATCH", where, body, APPLY)
    assert code in {200, 201}, answer
    return answer


def history(sets, since: str) -> list[dict[str, Any]]:
    """Every state of the namespace's JobSets that was ever stored after a resourceVersion."""
    events = cluster.history(sets.cluster, path(sets), since)
    return [event["object"] for event in events if event["type"] in {"ADDED", "MODIFIED"}]


def now(sets) -> str:
    return request(sets.cluster, "GET", path(sets))[1]["metadata"]["resourceVersion"]


def idle(sets, name: str = "js") -> bool:
    """What Kueue calls not active."""
    return all(entry["active"] == 0 for entry in sets.status(name)["replicatedJobsStatus"])


def annotations_of(obj: dict[str, Any]) -> dict[str, str]:
    return obj["metadata"].get("annotations", {})


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

    def test_axlearn_reads_no_true_condition_that_it_does_not_know(self, eventful_life):
        known = {"SUSPENDED", "COMPLETED", "FAILED", "STARTUPPOLICYCOMPLETED"}
        as_upstream = {"RESTARTINGJOBSET", "STARTUPPOLICYINPROGRESS"}
        first_true = [
            next((c["type"].upper() for c in state["status"].get("conditions", []) if c["status"] == "True"), None)
            for state in eventful_life
        ]
        assert set(first_true) <= known | as_upstream | {None}
        assert {"SUSPENDED", "STARTUPPOLICYCOMPLETED", "FAILED"} <= set(first_true)

    def test_axlearn_reads_the_status_alone_writes_annotations_and_deletes_in_the_foreground(self, sets):
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

    def test_contract_09_nulls_are_accepted(self, sets):
        nothing = dict.fromkeys(
            (
                "successPolicy",
                "failurePolicy",
                "network",
                "startupPolicy",
                "coordinator",
                "managedBy",
                "ttlSecondsAfterFinished",
                "volumeClaimPolicies",
                "suspend",
            )
        )
        assert post(sets, {**manifest(group(), **nothing), "status": None})[0] == 201
        sets.wait_ready(1)
        sets.end(sets.pods()[0])
        sets.wait_state("Completed")

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

    def test_contract_11_no_replicas_are_accepted_and_fewer_are_not(self, sets):
        sets.apply(manifest(group("none", 0), group("one", 1)))
        assert post(sets, manifest(group(replicas=-1), name="negative"))[0] == 422
        sets.wait_ready(1)
        assert [r["replicas"] for r in sets.get()["spec"]["replicatedJobs"]] == [0, 1]
        assert {s["name"]: s["active"] for s in sets.status()["replicatedJobsStatus"]} == {"none": 0, "one": 1}

    def test_contract_15_generated_names_work(self, sets):
        body = manifest(group(replicas=2))
        body["metadata"] = {"generateName": "sweep-"}
        names = []
        for _ in range(2):
            code, answer = post(sets, body)
            assert code == 201, answer
            names.append(answer["metadata"]["name"])
        for name in names:
            sets.wait_ready(2, name)
            assert {job["metadata"]["name"] for job in sets.jobs(name)} == {f"{name}-workers-{i}" for i in range(2)}


class TestContractOfChildren:
    def test_contract_06_the_job_key_is_the_sha_1_that_clients_compute(self, sets):
        sets.apply(manifest(group("job", 3)))
        sets.wait_ready(3)
        for index in range(3):
            name = f"js-job-{index}"
            key = hashlib.sha1(f"{sets.namespace}/{name}".encode(), usedforsecurity=False).hexdigest()
            [pod] = sets.pods(f"{PREFIX}job-key={key}")
            assert pod["metadata"]["labels"]["job-name"] == name

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

    def test_contract_14_dns_names_have_the_agreed_shape(self, sets):
        sets.apply(manifest(group("launcher"), group("node", 1, 2), network={"subdomain": "net"}))
        sets.wait_ready(2)
        names = {f"{p['spec']['hostname']}.{p['spec']['subdomain']}" for p in sets.pods()}
        assert names == {"js-launcher-0-0.net", "js-node-0-0.net", "js-node-0-1.net"}
        service = request(sets.cluster, "GET", f"/api/v1/namespaces/{sets.namespace}/services/net")[1]["spec"]
        assert (service["clusterIP"], service["publishNotReadyAddresses"]) == ("None", True)


def admission(rack: str, gates: tuple[str, ...] = ()):
    """What Kueue changes when it admits: all in one update."""

    def change(body: dict[str, Any]) -> None:
        body["spec"]["suspend"] = False
        for rjob in body["spec"]["replicatedJobs"]:
            template = rjob["template"]["spec"]["template"]
            meta, spec = template.setdefault("metadata", {}), template["spec"]
            meta["labels"] = {**meta.get("labels", {}), "kueue.x-k8s.io/podset": rjob["name"], f"on-{rack}": "yes"}
            meta["annotations"] = {**(meta.get("annotations") or {}), "kueue.x-k8s.io/workload": f"wl-{rack}"}
            spec["nodeSelector"] = {**spec.get("nodeSelector", {}), "rack": rack}
            spec["tolerations"] = [*spec.get("tolerations", []), {"key": f"flavor-{rack}", "operator": "Exists"}]
            if gates:
                spec["schedulingGates"] = [{"name": name} for name in gates]

    return change


def eviction(original: dict[str, Any]):
    """What Kueue changes when it stops a set: suspend, and the five fields as they were."""

    def change(body: dict[str, Any]) -> None:
        body["spec"] = {**original["spec"], "suspend": True}

    return change


class TestKueue:
    TOPOLOGY = "kueue.x-k8s.io/topology"

    def open_gates(self, sets) -> None:
        for pod in sets.pods():
            where = f"/api/v1/namespaces/{sets.namespace}/pods/{pod['metadata']['name']}"
            patch = {"spec": {"schedulingGates": []}}
            assert request(sets.cluster, "PATCH", where, patch, MERGE)[0] == 200

    def test_admission_preemption_and_readmission_elsewhere(self, sets):
        body = manifest(group("driver"), group("workers", 2, 2, pod={"nodeSelector": {"kubernetes.io/os": "linux"}}))
        body["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "q"}
        body["spec"]["suspend"] = True
        sets.apply(body)
        original = sets.get()
        wait_for(lambda: sets.counts().get("suspended") == 3)
        assert idle(sets)

        assert update(sets, admission("rack-1", (self.TOPOLOGY,)))[0] == 200
        wait_for(lambda: len(sets.pods()) == 5, what="the pods of the first admission")
        for pod in sets.pods():
            assert pod["spec"]["schedulingGates"] == [{"name": self.TOPOLOGY}]
            assert "nodeName" not in pod["spec"]
            assert pod["metadata"]["labels"]["on-rack-1"] == "yes"
            assert annotations_of(pod)["kueue.x-k8s.io/workload"] == "wl-rack-1"
        wait_for(lambda: not idle(sets), what="active as soon as there are pods, scheduled or not")
        self.open_gates(sets)
        sets.wait_ready(3)
        assert {p["spec"]["nodeName"] >= "node-0010" for p in sets.pods()} == {True}

        assert update(sets, eviction(original))[0] == 200
        wait_for(lambda: idle(sets) and sets.counts()["suspended"] == 3, what="nothing is active any more")
        assert sets.pods() == []
        assert sets.condition("Suspended")["status"] == "True"

        assert update(sets, admission("rack-0"))[0] == 200
        sets.wait_ready(3)
        for pod in sets.pods():
            spec, labels = pod["spec"], pod["metadata"]["labels"]
            assert spec["nodeName"] < "node-0010"
            assert spec["nodeSelector"]["rack"] == "rack-0"
            assert not spec.get("schedulingGates")
            keys = [t["key"] for t in spec["tolerations"] if t["key"].startswith("flavor-")]
            assert keys == ["flavor-rack-0"], "nothing of the first admission is left, and nothing is doubled"
            assert "on-rack-1" not in labels
            assert labels["on-rack-0"] == "yes"
            assert labels["job-name"].startswith("js-"), "the Job controller's labels are left"
            assert annotations_of(pod)["kueue.x-k8s.io/workload"] == "wl-rack-0"
        for pod in sets.pods(f"{PREFIX}replicatedjob-name=workers"):
            assert pod["spec"]["nodeSelector"]["kubernetes.io/os"] == "linux"

        for pod in sets.pods(f"{PREFIX}replicatedjob-name=driver"):
            sets.end(pod)
        wait_for(lambda: sets.counts()["succeeded"] == 1, what="reclaimable pods")
        for pod in sets.pods():
            sets.end(pod)
        sets.wait_state("Completed")
        assert sets.condition("Completed")["message"] == "jobset completed successfully"

    def test_a_set_that_partly_completed_goes_on_where_it_was(self, sets):
        sets.apply(manifest(group(replicas=3)))
        sets.wait_ready(3)
        sets.end(sets.pods(f"{PREFIX}job-index=1")[0])
        wait_for(lambda: sets.counts()["succeeded"] == 1)
        original = sets.get()
        assert update(sets, eviction(original))[0] == 200
        wait_for(lambda: sets.counts() == {"ready": 0, "succeeded": 1, "failed": 0, "active": 0, "suspended": 2})
        assert update(sets, admission("rack-0"))[0] == 200
        wait_for(lambda: sets.counts()["ready"] == 2)
        assert sets.counts()["succeeded"] == 1
        assert {pod["metadata"]["labels"][f"{PREFIX}job-index"] for pod in sets.pods()} == {"0", "2"}

    @pytest.mark.timeout(240)
    def test_twenty_flips_leave_no_drift(self, sets):
        sets.apply(manifest(group(replicas=2), suspend=True))
        wait_for(lambda: sets.counts().get("suspended") == 2)
        original = sets.get()
        before = {job["metadata"]["name"]: (job["metadata"]["uid"], job["spec"]) for job in sets.jobs()}
        for flip in range(20):
            assert update(sets, admission(f"rack-{flip % 2}"))[0] == 200
            wait_for(lambda: not idle(sets), what="pods")
            assert update(sets, eviction(original))[0] == 200
            wait_for(lambda: idle(sets) and sets.counts()["suspended"] == 2, what="no pods")
        sets.patch({"suspend": False})
        sets.wait_ready(2)
        sets.patch({"suspend": True})
        wait_for(lambda: idle(sets) and sets.counts()["suspended"] == 2)
        after = {job["metadata"]["name"]: (job["metadata"]["uid"], job["spec"]) for job in sets.jobs()}
        assert after == before
        assert sets.status()["executionAttempts"] == 20


class TestTrainer:
    @staticmethod
    def body(**spec: Any) -> dict[str, Any]:
        """What Trainer applies: fields it owns, none of our defaults."""

        def part(name: str, number: int = 1, **extra: Any) -> dict[str, Any]:
            pod = {"spec": {"containers": [{"name": "node", "image": "busybox", "command": ["true"]}]}}
            template = {"parallelism": number, "completions": number, "backoffLimit": 0, "template": pod}
            labels = {"trainer.kubeflow.org/trainjob-ancestor-step": name}
            return {
                "name": name,
                "replicas": 1,
                "template": {"metadata": {"labels": labels}, "spec": template},
                **extra,
            }

        ready = [
            {"name": "dataset-initializer", "status": "Complete"},
            {"name": "model-initializer", "status": "Complete"},
        ]
        return {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": "train", "labels": {"app": "x"}},
            "spec": {
                "network": {"publishNotReadyAddresses": True},
                "successPolicy": {"operator": "All", "targetReplicatedJobs": ["launcher"]},
                "replicatedJobs": [
                    part("dataset-initializer"),
                    part("model-initializer"),
                    part("node", 2, dependsOn=ready),
                    part("launcher", dependsOn=[{"name": "node", "status": "Ready"}]),
                ],
                **spec,
            },
        }

    def test_contract_08_the_same_apply_three_times_is_one_generation(self, sets):
        answers = [server_side_apply(sets, self.body(suspend=True), "train") for _ in range(3)]
        wait_for(lambda: sets.counts("train").get("suspended", 0) >= 2)
        answers += [server_side_apply(sets, self.body(suspend=True), "train") for _ in range(3)]
        assert {answer["metadata"]["generation"] for answer in answers} == {1}
        assert len({json.dumps(answer["spec"], sort_keys=True) for answer in answers}) == 1

    def test_from_suspended_to_the_end_in_stages(self, sets):
        def jobs() -> set[str]:
            return {job["metadata"]["name"].removeprefix("train-") for job in sets.jobs("train")}

        def finish(step: str) -> None:
            chosen = f"{PREFIX}replicatedjob-name={step}"
            for pod in wait_for(lambda: sets.pods(chosen, "train"), what=f"pods of {step}"):
                sets.end(pod)

        server_side_apply(sets, self.body(suspend=True), "train")
        wait_for(lambda: sets.counts("train").get("suspended") == 2)
        assert jobs() == {"dataset-initializer-0", "model-initializer-0"}
        assert server_side_apply(sets, self.body(suspend=False), "train")["metadata"]["generation"] == 2
        finish("dataset-initializer")
        wait_for(lambda: sets.counts("train")["succeeded"] == 1)
        assert "node-0" not in jobs()
        finish("model-initializer")
        wait_for(lambda: "launcher-0" in jobs(), what="the launcher, after the nodes are ready")
        finish("launcher")
        sets.wait_state("Completed", "train")
        condition = sets.condition("Completed", "train")
        assert (condition["reason"], condition["message"]) == ("AllJobsCompleted", "jobset completed successfully")
        wait_for(lambda: idle(sets, "train"), what="Trainer patches nothing while anything is active")
        assert {entry["name"]: entry["succeeded"] for entry in sets.status("train")["replicatedJobsStatus"]} == {
            "dataset-initializer": 1,
            "model-initializer": 1,
            "node": 0,
            "launcher": 1,
        }


class TestMetaflow:
    def test_control_and_workers_with_nulls_are_read_by_index(self, sets):
        def part(name: str, replicas: int) -> dict[str, Any]:
            pod = {"subdomain": "js", "setHostnameAsFQDN": True, "activeDeadlineSeconds": 3600}
            out = group(name, replicas, pod=pod, job={"ttlSecondsAfterFinished": 7 * 86400})
            out["template"]["metadata"] = {"namespace": sets.namespace}
            return out

        nothing = dict.fromkeys(("successPolicy", "failurePolicy", "network"))
        order = {"startupPolicyOrder": "InOrder"}
        body = manifest(part("control", 1), part("worker", 2), suspend=False, startupPolicy=order, **nothing)
        assert post(sets, {**body, "status": None})[0] == 201

        def running() -> list[dict[str, int]]:
            return sets.status().get("replicatedJobsStatus", [])

        wait_for(running)
        since = now(sets)
        sets.wait_ready(3)
        assert [(running()[i]["active"], running()[i]["succeeded"], running()[i]["failed"]) for i in range(2)] == [
            (2, 0, 0),
            (1, 0, 0),
        ], "workers first: by name descending"
        [control] = sets.pods(f"{PREFIX}replicatedjob-name=control")
        assert (control["spec"]["hostname"], control["spec"]["subdomain"]) == ("js-control-0-0", "js")
        for pod in sets.pods():
            sets.end(pod)
        sets.wait_state("Completed")
        for state in history(sets, since):
            assert all(entry.keys() >= COUNTERS for entry in state["status"]["replicatedJobsStatus"])
            ended = [c for c in state["status"].get("conditions", []) if c["type"] in {"Completed", "Failed"}]
            assert all(c["status"] == "True" for c in ended), "Metaflow does not look at the status of these two"


class TestXpk:
    CODES = [42, *range(127, 256)]

    def body(self, name: str) -> dict[str, Any]:
        rule = {
            "action": "FailJob",
            "onPodConditions": [],
            "onExitCodes": {"containerName": "main", "operator": "NotIn", "values": self.CODES},
        }
        job = {"podFailurePolicy": {"rules": [rule]}}
        policy = {
            "rules": [{"action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}],
            "maxRestarts": 1,
            "restartStrategy": "Recreate",
        }
        network = {"enableDNSHostnames": True, "publishNotReadyAddresses": True}
        spec = {"failurePolicy": policy, "network": network, "ttlSecondsAfterFinished": 43200}
        return manifest(group("slice-job", 2, job=job), name=name, coordinator={"replicatedJob": "slice-job"}, **spec)

    def test_a_code_of_the_list_restarts_and_another_one_fails_the_set(self, sets):
        sets.apply(self.body("js"))
        sets.wait_ready(2)
        sets.end(sets.pods()[0], 137)
        wait_for(lambda: sets.status()["restarts"] == 1)
        sets.wait_ready(2)
        assert sets.status()["attemptHistory"][0]["exitCode"] == 137
        sets.end(sets.pods()[0], 1)
        sets.wait_state("Failed")
        assert sets.condition("Failed")["reason"] == "FailJobSetFailurePolicyAction"
        assert sets.status()["restarts"] == 1
