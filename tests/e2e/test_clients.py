"""What the real clients of JobSet send, end to end: Kueue and Trainer as they were recorded, Metaflow and XPK by hand."""

import copy
import json
from typing import Any

import pytest

from dev.bench.owner_webhook import looking_for_owners, not_found
from dev.bench.scene import Scene
from tests.support.cluster.client_calls import COUNTERS, PREFIX, annotations_of, history, idle, now, post
from tests.support.cluster.jobs import group, manifest
from tests.support.cluster.requests import MERGE, kubectl, request, wait_for
from tests.support.played.streams import USER, Stream

JSON = dict[str, Any]


def pod_path(sets, pod: JSON) -> str:
    return f"/api/v1/namespaces/{sets.namespace}/pods/{pod['metadata']['name']}"


def pod_templates(js: JSON) -> list[JSON]:
    return [rjob["template"]["spec"]["template"] for rjob in js["spec"]["replicatedJobs"]]


def admitted_fields(js: JSON) -> list[JSON]:
    """What Kueue may change in each template; empty is the same as absent."""
    found = []
    for template in pod_templates(js):
        fields = {**template.get("metadata", {}), **template["spec"]}
        names = ("labels", "annotations", "nodeSelector", "tolerations", "schedulingGates")
        found.append({name: fields[name] for name in names if fields.get(name)})
    return found


def changes(sets, name: str = "js") -> list[str]:
    """Reasons of the events about suspensions and resumes."""
    return [reason for _, reason, _ in sets.events(name) if reason in {"SuspendedJobs", "ResumeJobs"}]


class TestKueue:
    """Requests of the streams "queued" and "staged": a JobSet of a user's, and what Kueue sent about it."""

    TOPOLOGY = "kueue.x-k8s.io/topology"

    def open_gate(self, sets, pod: JSON) -> None:
        """As Kueue does, once it has chosen a node for the pod."""
        patch = {"spec": {"schedulingGates": []}}
        assert request(sets.cluster, "PATCH", pod_path(sets, pod), patch, MERGE)[0] == 200

    def test_admission_preemption_and_readmission_elsewhere(self, sets):
        stream = Stream(sets, "queued")
        stream.play("created")
        wait_for(lambda: sets.counts().get("suspended") == 3)
        assert idle(sets)
        before = admitted_fields(sets.get())

        stream.play("admitted")
        wait_for(lambda: len(sets.pods()) == 5, what="the pods of the first admission")
        for pod in sets.pods():
            assert pod["spec"]["schedulingGates"] == [{"name": self.TOPOLOGY}]
            assert "nodeName" not in pod["spec"]
            assert pod["spec"]["nodeSelector"]["rack"] == "rack-1"
            assert pod["metadata"]["labels"]["kueue.x-k8s.io/podset"] in {"driver", "workers"}
            assert annotations_of(pod)["kueue.x-k8s.io/workload"].startswith("jobset-js-")
        wait_for(lambda: not idle(sets), what="active as soon as there are pods, scheduled or not")
        for pod in sets.pods():
            self.open_gate(sets, pod)
        sets.wait_ready(3)
        assert {p["spec"]["nodeName"] >= "node-0010" for p in sets.pods()} == {True}

        stream.play("evicted")
        wait_for(lambda: idle(sets) and sets.counts()["suspended"] == 3, what="nothing is active any more")
        assert sets.pods() == []
        assert sets.condition("Suspended")["status"] == "True"
        assert admitted_fields(sets.get()) == before, "the five fields are as they were"

        stream.play("admitted again")
        sets.wait_ready(3)
        for pod in sets.pods():
            spec, labels = pod["spec"], pod["metadata"]["labels"]
            assert spec["nodeName"] < "node-0010"
            assert spec["nodeSelector"]["rack"] == "rack-0"
            assert not spec.get("schedulingGates")
            keys = [t["key"] for t in spec["tolerations"] if t["key"].startswith("flavor-")]
            assert keys == ["flavor-rack-0"], "nothing of the first admission is left, and nothing is doubled"
            assert labels["job-name"].startswith("js-"), "the Job controller's labels are left"
            assert labels["kueue.x-k8s.io/podset"] == labels[f"{PREFIX}replicatedjob-name"]
        for pod in sets.pods(f"{PREFIX}replicatedjob-name=workers"):
            assert pod["spec"]["nodeSelector"]["kubernetes.io/os"] == "linux"

        for pod in sets.pods(f"{PREFIX}replicatedjob-name=driver"):
            sets.end(pod)
        wait_for(lambda: sets.counts()["succeeded"] == 1, what="reclaimable pods")
        for pod in sets.pods():
            sets.end(pod)
        sets.wait_state("Completed")
        assert sets.condition("Completed")["message"] == "jobset completed successfully"
        stream.play("ended")

    def test_a_set_that_partly_completed_continues_where_it_was(self, sets):
        stream = Stream(sets, "queued")
        stream.play("created")
        stream.play("admitted again")
        sets.wait_ready(3)
        chosen = f"{PREFIX}replicatedjob-name=workers,{PREFIX}job-index=1"
        for pod in sets.pods(chosen):
            sets.end(pod)
        wait_for(lambda: sets.counts()["succeeded"] == 1)
        stream.play("evicted")
        wait_for(lambda: sets.counts() == {"ready": 0, "succeeded": 1, "failed": 0, "active": 0, "suspended": 2})
        stream.play("admitted again")
        wait_for(lambda: sets.counts()["ready"] == 2)
        assert sets.counts()["succeeded"] == 1
        assert sets.pods(chosen) == []

    @pytest.mark.slow
    @pytest.mark.timeout(240)
    def test_twenty_suspensions_and_resumes_leave_no_drift(self, sets):
        stream = Stream(sets, "queued")
        stream.play("created")
        wait_for(lambda: sets.counts().get("suspended") == 3)
        before = {job["metadata"]["name"]: (job["metadata"]["uid"], job["spec"]) for job in sets.jobs()}
        for flip in range(20):
            stream.play(("admitted", "admitted again")[flip % 2])
            wait_for(lambda: not idle(sets), what="pods")
            stream.play("evicted")
            wait_for(lambda: idle(sets) and sets.counts()["suspended"] == 3, what="no pods")
        sets.patch({"suspend": False})
        sets.wait_ready(3)
        sets.patch({"suspend": True})
        wait_for(lambda: idle(sets) and sets.counts()["suspended"] == 3)
        after = {job["metadata"]["name"]: (job["metadata"]["uid"], job["spec"]) for job in sets.jobs()}
        assert after == before
        assert sets.status()["executionAttempts"] == 20

    def test_admission_and_eviction_are_events(self, sets):
        """Once each: the second eviction says the same again, and is counted in the series of the first."""
        stream = Stream(sets, "queued")
        stream.play("created")
        wait_for(lambda: sets.condition("Suspended"))
        for phase, suspended in (("admitted", "False"), ("evicted", "True"), ("admitted again", "False")):
            stream.play(phase)
            wait_for(lambda wanted=suspended: sets.condition("Suspended")["status"] == wanted, what=phase)
        wait_for(lambda: changes(sets) == ["SuspendedJobs", "ResumeJobs"], last=sets.events)

    @pytest.mark.manager(featureGates={"RestartJob": True})
    def test_a_failed_job_does_not_release_the_next_stage(self, sets):
        def jobs() -> dict[str, str]:
            return {
                job["metadata"]["name"].removeprefix("staged-"): job["metadata"]["uid"] for job in sets.jobs("staged")
            }

        stream = Stream(sets, "staged")
        stream.play("created")
        stream.play("admitted")
        one, other = (
            wait_for(lambda index=index: sets.pods(f"{PREFIX}job-index={index}", "staged"))[0] for index in range(2)
        )
        before = jobs()
        assert before.keys() == {"first-0", "first-1"}
        self.open_gate(sets, one)
        wait_for(lambda: sets.counts("staged")["ready"] == 1)
        sets.end(one)
        wait_for(lambda: sets.counts("staged")["succeeded"] == 1)
        where = f"{pod_path(sets, other)}/status"
        assert request(sets.cluster, "PATCH", where, {"status": {"phase": "Failed"}}, MERGE)[0] == 200
        wait_for(lambda: jobs().get("first-1", before["first-1"]) != before["first-1"], what="first-1 again", last=jobs)
        [again] = wait_for(lambda: sets.pods(f"{PREFIX}job-index=1", "staged"), what="its pod")
        assert jobs().keys() == {"first-0", "first-1"}, "first-1 was never ready"
        self.open_gate(sets, again)
        wait_for(lambda: "second-0" in jobs(), what="the next stage, once all of the first were ready")
        stream.play("evicted")
        wait_for(lambda: idle(sets, "staged") and sets.pods(name="staged") == [])

    @pytest.mark.slow
    def test_jobs_are_checked_although_the_webhook_for_jobs_does_not_find_their_set(self, sets):
        stream = Stream(sets, "queued")
        [refusal] = stream.phases["created"]["refusals"]
        assert (refusal["code"], refusal["owners"]) == (404, 1)
        assert refusal["message"].endswith(not_found("js")), "the stand-in for it says the same"
        [create] = stream.entries("created", USER)

        def created(body: JSON) -> str:
            text = json.dumps(body)
            return kubectl(sets.cluster, "create", "-f", "-", namespace=sets.namespace, stdin=text, check=False)

        body = {**create["request"]["body"], "metadata": {"name": "js"}}
        faulty = copy.deepcopy({**body, "metadata": {"name": "faulty"}})
        container = faulty["spec"]["replicatedJobs"][1]["template"]["spec"]["template"]["spec"]["containers"][0]
        container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
        with looking_for_owners(Scene(sets.cluster, 0, sets.namespace)):
            answer = created(body)
            assert "created" in answer
            assert "Warning" not in answer
            assert "volumeMounts[0].name" in created(faulty)


class TestTrainer:
    """Requests of the stream "train": a TrainJob that Kueue queues. Kueue changes the TrainJob, Trainer applies the set."""

    KUEUE = "kueue.x-k8s.io/podset"

    def test_contract_08_the_same_apply_three_times_is_one_generation(self, sets):
        stream = Stream(sets, "train")
        apply = stream.entries("created", "trainer")[-1]
        answers = [stream.send(apply) for _ in range(3)]
        wait_for(lambda: sets.counts("train").get("suspended", 0) >= 2)
        answers += [stream.send(apply) for _ in range(3)]
        assert {answer["metadata"]["generation"] for answer in answers} == {1}
        assert len({json.dumps(answer["spec"], sort_keys=True) for answer in answers}) == 1

    @pytest.mark.parametrize("empty", ["as recorded", {}, {"labels": {}, "annotations": {}}, None])
    def test_labels_and_annotations_that_are_dropped_leave_no_null_behind(self, sets, empty):
        """After an eviction by Kueue Trainer applies its labels no longer; the API server leaves null for them."""
        stream = Stream(sets, "train")
        stream.play("created")
        stream.play("admitted")
        wait_for(lambda: len(sets.pods(name="train")) == 2, what="the pods of the first stage")
        for pod in sets.pods(name="train"):
            assert pod["metadata"]["labels"][self.KUEUE] == pod["metadata"]["labels"][f"{PREFIX}replicatedjob-name"]
        *earlier, apply = copy.deepcopy(stream.entries("evicted", "trainer"))
        for template in pod_templates(apply["request"]["body"]) if empty != "as recorded" else ():
            template["metadata"] = empty
        for entry in (*earlier, apply):
            stream.send(entry)
        answers = [stream.send(apply) for _ in range(3)]
        for template in pod_templates(answers[-1]):
            assert not any(template.get("metadata", {}).values())
            assert "rack" not in template["spec"].get("nodeSelector", {})
        assert answers[-1]["metadata"]["generation"] == answers[-2]["metadata"]["generation"]
        wait_for(lambda: idle(sets, "train") and sets.pods(name="train") == [], what="the end of the first admission")
        assert stream.play("admitted again")[-1]["spec"]["suspend"] is False
        wait_for(lambda: len(sets.pods(name="train")) == 2, what="the pods of the first stage")
        assert {pod["spec"]["nodeSelector"]["rack"] for pod in sets.pods(name="train")} == {"rack-0"}

    def test_from_suspended_to_the_end_in_stages(self, sets):
        def jobs() -> set[str]:
            return {job["metadata"]["name"].removeprefix("train-") for job in sets.jobs("train")}

        def finish(step: str) -> None:
            chosen = f"{PREFIX}replicatedjob-name={step}"
            for pod in wait_for(lambda: sets.pods(chosen, "train"), what=f"pods of {step}"):
                sets.end(pod)

        stream = Stream(sets, "train")
        stream.play("created")
        wait_for(lambda: sets.counts("train").get("suspended") == 2)
        assert jobs() == {"dataset-initializer-0", "model-initializer-0"}
        stream.play("admitted again")
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
        stream.play("ended")


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
            return sets.status()["replicatedJobsStatus"]

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
