"""What the user and the pods of a JobSet do on the paths that `crash.run` plays, one thing at a time."""

from typing import Any

from api.keys import IN_PLACE_RESTART_ATTEMPT, JOB_UID, SPARE_GATE
from controllers.resources import JOBSETS
from dev.simulator.job_status import condition
from kube.resources import JOBS, NODES, PODS, SERVICES
from tests.support.played.kills import Step
from tests.support.played.namespace import NOW, PlayedCluster, Snapshot

FIRST, SECOND = "js-workers-0", "js-workers-1"


def complete(*names: str) -> Step:
    """The pods of these Jobs succeed, of all at once."""

    async def step(world: PlayedCluster, seen: Snapshot) -> None:
        world.at_once(JOBS, *names)
        for name in names:
            done = seen.one(JOBS, name)["spec"].get("completions", 1)
            await _end(world, seen, name, ("SuccessCriteriaMet", "Complete"), succeeded=done, completionTime=NOW)

    return step


def fail(*names: str) -> Step:
    """A pod of each of these Jobs fails, and with it the Job, of all at once."""

    async def step(world: PlayedCluster, seen: Snapshot) -> None:
        world.at_once(JOBS, *names)
        for name in names:
            await _end(world, seen, name, ("FailureTarget", "Failed"), failed=1)

    return step


def doom(name: str) -> Step:
    """A pod of the Job fails, and with it the Job, while its other pods still end."""

    async def step(world: PlayedCluster, _: Snapshot) -> None:
        status = {"conditions": [condition("FailureTarget", NOW, "BackoffLimitExceeded")]}
        await world.patch(JOBS, name, {"status": status}, "status")

    return step


def exit_with(pod: str, code: int) -> Step:
    """The one container of a pod ends."""

    async def step(world: PlayedCluster, _: Snapshot) -> None:
        ended = {"terminated": {"exitCode": code, "reason": "Error", "finishedAt": NOW, "startedAt": NOW}}
        main = {"name": "main", "image": "busybox", "imageID": "", "ready": False, "restartCount": 0, "state": ended}
        await world.patch(PODS, pod, {"status": {"phase": "Failed", "containerStatuses": [main]}}, "status")

    return step


def edit(**spec: Any) -> Step:
    """The user changes the spec."""

    async def step(world: PlayedCluster, _: Snapshot) -> None:
        await world.patch(JOBSETS, "js", {"spec": spec})

    return step


def delete_job(name: str) -> Step:
    """A person, or the Job's own time to live, deletes a Job."""

    async def step(world: PlayedCluster, _: Snapshot) -> None:
        await world.delete(JOBS, name, "Background")

    return step


async def delete_service(world: PlayedCluster, _: Snapshot) -> None:
    await world.delete(SERVICES, "js", "Background")


async def start_pods(world: PlayedCluster, seen: Snapshot) -> None:
    """Each Job's one pod comes up, with an in-place restart agent in it."""
    for job in seen.of(JOBS):
        await _start_pod(world, job)


async def start_first_pod(world: PlayedCluster, seen: Snapshot) -> None:
    """The pod of the first Job comes up, in place of another one or not."""
    await _start_pod(world, seen.one(JOBS, FIRST))


async def start_on_no_node(world: PlayedCluster, seen: Snapshot) -> None:
    """The pod of the first Job comes up on a node that does not exist any more."""
    await _start_pod(world, seen.one(JOBS, FIRST), nodeName="gone")


async def lose_node_of_first_pod(world: PlayedCluster, seen: Snapshot) -> None:
    """The pod of the first Job runs attempt 0 on a node that does not exist any more: a pod is bound only once."""
    await world.delete(PODS, FIRST, "Background")
    await start_on_no_node(world, seen)
    await report(FIRST, 0)(world, seen)


async def replace_by_pending(world: PlayedCluster, seen: Snapshot) -> None:
    """The pod of the first Job is gone, and the one in its place pends: the scheduler finds no node for it."""
    await _start_pod(world, seen.one(JOBS, FIRST), phase="Pending")
    await world.patch(JOBS, FIRST, {"status": {"ready": 0}}, "status")


async def hold_place(world: PlayedCluster, seen: Snapshot) -> None:
    """The pod of the first spare is ready on a node."""
    node, spare = f"holds-{world.namespace}", "js-spare-0"
    await world.create(NODES, {"metadata": {"name": node}})
    await _start_pod(world, seen.one(JOBS, spare), nodeName=node)
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": NOW}
    await world.patch(PODS, spare, {"status": {"conditions": [ready]}}, "status")


async def replace_by_held_back(world: PlayedCluster, seen: Snapshot) -> None:
    """The next pod of the first Job pends; admission holds it back for the place that it was promised."""
    gates = [{"name": SPARE_GATE}]
    await _start_pod(world, seen.one(JOBS, FIRST), phase="Pending", schedulingGates=gates)
    await world.patch(JOBS, FIRST, {"status": {"ready": 0}}, "status")


async def bind_first_pod(world: PlayedCluster, seen: Snapshot) -> None:
    """The scheduler lets the pod of the first Job run where it was nominated to."""
    pod = seen.one(PODS, FIRST)
    assert not pod["spec"].get("schedulingGates"), "it is held back for good"
    assert pod["status"]["nominatedNodeName"] == f"holds-{world.namespace}"
    await world.patch(PODS, FIRST, {"status": {"phase": "Running"}}, "status")


async def _start_pod(world: PlayedCluster, job: dict[str, Any], phase: str = "Running", **spec: Any) -> None:
    meta = job["metadata"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"], "controller": True}
    labels = {**job["spec"]["template"]["metadata"]["labels"], JOB_UID: meta["uid"]}
    pod = {"name": meta["name"], "labels": labels, "ownerReferences": [owner]}
    await world.create(PODS, {"metadata": pod, "spec": {**job["spec"]["template"]["spec"], **spec}})
    await world.patch(PODS, meta["name"], {"status": {"phase": phase}}, "status")


def report(job: str, attempt: int) -> Step:
    """The agent in the pod of that Job is about to run an attempt."""

    async def step(world: PlayedCluster, _: Snapshot) -> None:
        await world.patch(PODS, job, {"metadata": {"annotations": {IN_PLACE_RESTART_ATTEMPT: str(attempt)}}})

    return step


async def _end(world: PlayedCluster, seen: Snapshot, name: str, kinds: tuple[str, str], **counts: Any) -> None:
    job = seen.one(JOBS, name)
    assert job["status"].get("active"), f"{name} runs no pods that could end"
    old = job["status"].get("conditions", [])
    status = {
        "active": 0,
        "ready": 0,
        "conditions": [*old, *(condition(kind, NOW, "BackoffLimitExceeded") for kind in kinds)],
        "uncountedTerminatedPods": {},
        **counts,
    }
    await world.patch(JOBS, name, {"status": status}, "status")
