"""The sequences of the real clients of JobSet, end to end: Kueue, Trainer, Metaflow and XPK."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.client_calls import COUNTERS, PREFIX, annotations_of, history, idle, now, path, post, update
from tests.support.cluster import MERGE, request, wait_for
from tests.support.jobs import group, manifest

APPLY = "application/apply-patch+yaml"


def server_side_apply(sets, body: dict[str, Any], name: str) -> dict[str, Any]:
    where = f"{path(sets, name)}?fieldManager=trainer&force=true"
    code, answer = request(sets.cluster, "PATCH", where, body, APPLY)
    assert code in {200, 201}, answer["message"]
    return answer


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

    def test_a_set_that_partly_completed_continues_where_it_was(self, sets):
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
    def test_twenty_suspensions_and_resumes_leave_no_drift(self, sets):
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

    @pytest.mark.parametrize("empty", [{}, {"labels": {}, "annotations": {}}, None])
    def test_labels_and_annotations_that_are_dropped_leave_no_null_behind(self, sets, empty):
        """As after an eviction by Kueue, whose labels Trainer applies no longer; the API server leaves null for them."""
        labels = {"labels": {"queue": "a"}, "annotations": {"flavor": "b"}}

        def applied(metadata: dict[str, Any] | None) -> dict[str, Any]:
            body = self.body(suspend=True)
            for rjob in body["spec"]["replicatedJobs"]:
                rjob["template"]["spec"]["template"]["metadata"] = metadata
            return server_side_apply(sets, body, "train")

        applied(labels)
        wait_for(lambda: sets.counts("train").get("suspended") == 2)
        answers = [applied(empty) for _ in range(3)]
        for rjob in answers[-1]["spec"]["replicatedJobs"]:
            assert not any(rjob["template"]["spec"]["template"].get("metadata", {}).values())
        assert answers[-1]["metadata"]["generation"] == answers[-2]["metadata"]["generation"]
        body = self.body(suspend=False)
        assert server_side_apply(sets, body, "train")["spec"]["suspend"] is False
        wait_for(lambda: len(sets.pods(name="train")) == 2, what="the pods of the first stage")
        assert not any("queue" in pod["metadata"]["labels"] for pod in sets.pods(name="train"))

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
