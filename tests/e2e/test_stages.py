"""Stages (spec.executionPolicy) on the full control plane: real Jobs and pods, as users and queues see them."""

from collections import Counter
from typing import Any

from tests.support.cluster.jobs import Sets, group, manifest
from tests.support.cluster.requests import history, kubectl, version_now, wait_for

READY = "kwok.jobset.dev/ready"
RJOB = "jobset.sigs.k8s.io/replicatedjob-name"
NOWHERE = {"nodeSelector": {"rack": "none"}}


def staged(*rjobs: dict[str, Any], state: str = "Succeeded", alone: int | None = None, **spec: Any) -> dict[str, Any]:
    """A JobSet whose ReplicatedJobs are stages."""
    policy: dict[str, Any] = {"executionPolicyOrder": "InOrder", "replicatedJobsStatus": state}
    if alone is not None:
        policy["sequentialReplicatedJobs"] = alone
    return manifest(*rjobs, executionPolicy=policy, **spec)


def of(sets: Sets, name: str) -> dict[str, Any]:
    """The status of one ReplicatedJob."""
    entries = sets.status()["replicatedJobsStatus"]
    return next((entry for entry in entries if entry["name"] == name), {})


def wait_count(sets: Sets, name: str, **counts: int) -> None:
    """Until a ReplicatedJob has so many Jobs in these states."""
    wait_for(lambda: counts.items() <= of(sets, name).items(), timeout=60, what=f"{name} {counts}")


def jobs(sets: Sets) -> list[str]:
    return sorted(job["metadata"]["name"].removeprefix("js-") for job in sets.jobs())


def uids(sets: Sets) -> dict[str, str]:
    return {job["metadata"]["name"].removeprefix("js-"): job["metadata"]["uid"] for job in sets.jobs()}


def pods(sets: Sets, rjob: str) -> list[dict[str, Any]]:
    return sets.pods(f"{RJOB}={rjob}")


def end(sets: Sets, rjob: str, code: int = 0) -> None:
    for pod in pods(sets, rjob):
        sets.end(pod, code)


def annotate(sets: Sets, rjob: str, value: str) -> None:
    """Whether the pods are ready from now on."""
    names = [pod["metadata"]["name"] for pod in pods(sets, rjob)]
    kubectl(sets.cluster, "annotate", "--overwrite", "pods", *names, f"{READY}={value}", namespace=sets.namespace)


def releases(sets: Sets) -> list[str]:
    return [note for _, reason, note in sets.events() if reason == "StageReleased"]


class Pods:
    """Every pod that there has been in the namespace since now."""

    def __init__(self, sets: Sets) -> None:
        self._cluster = sets.cluster
        self._path = f"/api/v1/namespaces/{sets.namespace}/pods"
        self._since = version_now(self._cluster, self._path)

    def made(self) -> Counter[str]:
        """How many by ReplicatedJob."""
        changes = history(self._cluster, self._path, self._since)
        return Counter(c["object"]["metadata"]["labels"][RJOB] for c in changes if c["type"] == "ADDED")


def test_ready_order_waits_for_readiness_and_does_not_look_back(sets):
    data = group("data", annotations={READY: "false"})
    sets.apply(staged(data, group("train", 2), state="Ready"))
    wait_count(sets, "data", active=1)
    wait_for(lambda: [p for p in pods(sets, "data") if p["status"]["phase"] == "Running"], what="data runs, not ready")
    assert jobs(sets) == ["data-0"]
    annotate(sets, "data", "true")
    wait_count(sets, "train", ready=2)
    assert of(sets, "data")["ready"] == 1, "data keeps running beside it"
    annotate(sets, "data", "false")
    wait_count(sets, "data", ready=0)
    gone = uids(sets)["train-1"]
    kubectl(sets.cluster, "delete", "job", "js-train-1", namespace=sets.namespace)
    wait_for(lambda: uids(sets).get("train-1") not in {None, gone}, what="train-1 again, though data is not ready")
    wait_count(sets, "train", ready=2)
    assert releases(sets) == ["stage 1 of 2 is released: data (1 Job)", "stage 2 of 2 is released: train (2 Jobs)"]


def test_active_order_waits_for_pods_that_may_still_be_pending(sets):
    sets.apply(staged(group("server", pod=NOWHERE), group("client"), state="Active"))
    wait_count(sets, "client", ready=1)
    assert of(sets, "server")["ready"] == 0
    assert [pod["status"]["phase"] for pod in pods(sets, "server")] == ["Pending"]


def test_suspended_in_the_middle_it_continues_where_it_was(sets):
    made = Pods(sets)
    sets.apply(staged(group("data"), group("train", 2), group("export"), suspend=True))
    wait_for(lambda: sets.counts().get("suspended") == 1)
    assert jobs(sets) == ["data-0"], "a suspended set has the Jobs of its first stage"
    sets.patch({"suspend": False})
    wait_count(sets, "data", ready=1)
    end(sets, "data")
    wait_count(sets, "train", ready=2)
    sets.end(pods(sets, "train")[0])
    wait_count(sets, "train", succeeded=1)
    before = uids(sets)
    sets.patch({"suspend": True})
    wait_for(lambda: (sets.counts()["active"], sets.counts()["suspended"]) == (0, 1), what="the suspension")
    assert sets.pods() == []
    assert of(sets, "train").get("released", False) is False, "the order is enforced again"
    sets.patch({"suspend": False})
    wait_count(sets, "train", ready=1)
    assert uids(sets) == before, "no Job of a stage that has succeeded was made again"
    end(sets, "train")
    wait_count(sets, "export", ready=1)
    end(sets, "export")
    sets.wait_state("Completed")
    assert made.made() == {"data": 1, "train": 3, "export": 1}, "only the pod that was interrupted ran twice"


def queue_view(sets: Sets) -> tuple[bool, bool, dict[str, int]]:
    """What a queue reads: active, all pods ready, and pods whose quota it takes back."""
    spec, found = sets.get()["spec"], sets.status()["replicatedJobsStatus"]
    per_job = {r["name"]: r["template"]["spec"]["parallelism"] for r in spec["replicatedJobs"]}
    wanted = sum(r["replicas"] for r in spec["replicatedJobs"])
    there = sum(entry["ready"] + entry["succeeded"] for entry in found)
    reclaimable = {e["name"]: e["succeeded"] * per_job[e["name"]] for e in found if e["succeeded"]}
    return any(entry["active"] for entry in found), there == wanted, reclaimable


def test_a_queue_reads_each_stage_right_and_applying_again_changes_nothing(sets):
    body = manifest(
        group("data", 2), group("train", 2, 3), executionPolicy={"executionPolicyOrder": "InOrder"}, suspend=True
    )
    sets.apply(body)
    wait_for(lambda: sets.counts().get("suspended") == 2)
    assert queue_view(sets) == (False, False, {})
    sets.patch({"suspend": False})
    wait_count(sets, "data", ready=2)
    assert queue_view(sets) == (True, False, {}), "not all ready: train is still to come"
    end(sets, "data")
    wait_count(sets, "train", ready=2)
    assert queue_view(sets) == (True, True, {"data": 2})
    before = (sets.get()["metadata"]["generation"], uids(sets), sets.status())
    sets.apply({**body, "spec": {**body["spec"], "suspend": False}})
    assert (sets.get()["metadata"]["generation"], uids(sets), sets.status()) == before
    end(sets, "train")
    sets.wait_state("Completed")
    assert queue_view(sets) == (False, True, {"data": 2, "train": 6})
