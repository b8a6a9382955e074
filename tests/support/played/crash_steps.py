"""What the user and the pods of a JobSet do on the paths that `crash.run` plays, one thing at a time."""

from typing import Any

from api.keys import (
    COMPLETION_INDEX,
    IN_PLACE_RESTART_ATTEMPT,
    JOB_UID,
    MAINTENANCE_ACKNOWLEDGED,
    PLACEMENT_GATE,
    SPARE_GATE,
)
from controllers.resources import JOBSETS
from dev.simulator.job_status import condition
from kube.resources import JOBS, NODES, PODS, SERVICES
from tests.support.played.kills import Step
from tests.support.played.namespace import NOW, PlayedCluster, Snapshot

FIRST, SECOND = "js-workers-0", "js-workers-1"
_NO_NODE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": NOW}
MAINTENANCE_TAINT = "example.com/maintenance"
UNSCHEDULABLE = {"status": {"conditions": [_NO_NODE]}}


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


async def start_alone_on_no_node(world: PlayedCluster, seen: Snapshot) -> None:
    """As `start_on_no_node`, and the Jobs that come in place of the first one are ready only with a pod that runs."""
    world.make_wait_for_pod(FIRST)
    await start_on_no_node(world, seen)


async def start_on_node(world: PlayedCluster, seen: Snapshot) -> None:
    """The pods of both Jobs come up, that of the first one on a node that exists. It may be drained a second later."""
    await world.create(NODES, {"metadata": {"name": world.node}})
    await _start_pod(world, seen.one(JOBS, FIRST), nodeName=world.node)
    await _start_pod(world, seen.one(JOBS, SECOND))


async def evict_first_pod(world: PlayedCluster, _: Snapshot) -> None:
    """Somebody evicts the pod of the first Job, which has its grace period."""
    await world.evict(FIRST)


async def taint_node(world: PlayedCluster, _: Snapshot) -> None:
    """Somebody announces maintenance of the node of the first pod."""
    taint = {"key": MAINTENANCE_TAINT, "effect": "PreferNoSchedule"}
    await world.patch(NODES, world.node, {"spec": {"taints": [taint]}})


def has_notice(seen: Snapshot) -> bool:
    """Whether the set has a notice that is open."""
    return "noticeTime" in seen.one(JOBSETS, "js")["status"].get("maintenance", {})


async def acknowledge(world: PlayedCluster, seen: Snapshot) -> None:
    """The agents of both pods write that their workers are ready to move: seen together, or the first one alone."""
    notice = seen.one(JOBSETS, "js")["status"]["maintenance"]["noticeTime"]
    for name in (FIRST, SECOND):
        await world.patch(PODS, name, {"metadata": {"annotations": {MAINTENANCE_ACKNOWLEDGED: notice}}})


async def end_deleted_pods(world: PlayedCluster, seen: Snapshot) -> None:
    """The kubelet ends all pods that are being deleted."""
    for pod in seen.of(PODS):
        if "deletionTimestamp" in pod["metadata"]:
            await world.delete(PODS, pod["metadata"]["name"], "Background", grace_period_seconds=0)


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
    await world.create(NODES, {"metadata": {"name": world.node}})
    await _hold(world, seen, "js-spare-0")


async def hold_domain(world: PlayedCluster, seen: Snapshot) -> None:
    """The pods of the first spare are ready on a domain of one node, the leader last."""
    await world.create(NODES, {"metadata": {"name": world.node}})
    for index in (1, 0):
        await _hold(world, seen, "js-spare-0", index)


async def start_domain_on_no_node(world: PlayedCluster, seen: Snapshot) -> None:
    """The pods of the first Job, in exclusive placement, come up on a node that does not exist any more."""
    for index in (0, 1):
        await _start_pod(world, seen.one(JOBS, FIRST), index=index, nodeName="gone")


async def replace_domain_by_held_back(world: PlayedCluster, seen: Snapshot) -> None:
    """The next pods of the first Job pend: the leader for the domain that it was promised, the other for the leader, too."""
    await world.patch(JOBS, FIRST, {"status": {"ready": 0}}, "status")
    for index, gates in ((1, [SPARE_GATE, PLACEMENT_GATE]), (0, [SPARE_GATE])):
        await _start_pod(
            world,
            seen.one(JOBS, FIRST),
            "Pending",
            index,
            schedulingGates=[{"name": gate} for gate in gates],
        )


async def replace_by_unschedulable(world: PlayedCluster, seen: Snapshot) -> None:
    """The next pod of the first Job pends, and the scheduler finds no node for it."""
    await _start_pod(world, seen.one(JOBS, FIRST), phase="Pending")
    await world.patch(PODS, FIRST, UNSCHEDULABLE, "status")
    await world.patch(JOBS, FIRST, {"status": {"ready": 0}}, "status")


def bind_to_domain(index: int) -> Step:
    """The scheduler binds that pod of the first Job to the node to which it was nominated, and it runs."""

    async def step(world: PlayedCluster, seen: Snapshot) -> None:
        name = f"{FIRST}-{index}-a"
        pod = seen.one(PODS, name)
        assert not pod["spec"].get("schedulingGates"), "it is held back for good"
        assert pod["status"]["nominatedNodeName"] == world.node
        await world.bind(name, world.node)
        await world.patch(PODS, name, {"status": {"phase": "Running"}}, "status")

    return step


async def lead_follower(world: PlayedCluster, seen: Snapshot) -> None:
    """The placement controller lets the other pod of the first Job follow its leader."""
    name = f"{FIRST}-1-a"
    gates = seen.one(PODS, name)["spec"]["schedulingGates"]
    left = [gate for gate in gates if gate["name"] != PLACEMENT_GATE]
    await world.patch(PODS, name, {"spec": {"schedulingGates": left}})


async def _hold(world: PlayedCluster, seen: Snapshot, spare: str, index: int | None = None) -> None:
    name = await _start_pod(world, seen.one(JOBS, spare), index=index, nodeName=world.node)
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": NOW}
    await world.patch(PODS, name, {"status": {"conditions": [ready]}}, "status")


async def replace_by_held_back(world: PlayedCluster, seen: Snapshot) -> None:
    """The next pod of the first Job pends; admission holds it back for the place that it was promised."""
    gates = [{"name": SPARE_GATE}]
    await _start_pod(world, seen.one(JOBS, FIRST), phase="Pending", schedulingGates=gates)
    await world.patch(JOBS, FIRST, {"status": {"ready": 0}}, "status")


async def bind_first_pod(world: PlayedCluster, seen: Snapshot) -> None:
    """The scheduler lets the pod of the first Job run where it was nominated to."""
    pod = seen.one(PODS, FIRST)
    assert not pod["spec"].get("schedulingGates"), "it is held back for good"
    assert pod["status"]["nominatedNodeName"] == world.node
    await world.patch(PODS, FIRST, {"status": {"phase": "Running"}}, "status")


async def _start_pod(
    world: PlayedCluster, job: dict[str, Any], phase: str = "Running", index: int | None = None, **spec: Any
) -> str:
    """A pod of the Job is in this phase; its name. With an `index` it is one of several, else its name is the Job's."""
    meta, template = job["metadata"], job["spec"]["template"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"], "controller": True}
    pod = {"name": meta["name"], "labels": {**template["metadata"]["labels"], JOB_UID: meta["uid"]}}
    if index is not None:
        pod["name"] += f"-{index}-a"
        pod["annotations"] = {**template["metadata"]["annotations"], COMPLETION_INDEX: str(index)}
    await world.create(PODS, {"metadata": {**pod, "ownerReferences": [owner]}, "spec": {**template["spec"], **spec}})
    await world.patch(PODS, pod["name"], {"status": {"phase": phase}}, "status")
    return pod["name"]


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
