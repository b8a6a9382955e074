"""Step: the set leaves nodes before they go (gate JobSetNodeMaintenance). See docs/concepts/node-maintenance.md.

A node is recognized by its taint; its workers then have the time of the notice. Then the set moves once, away from all
nodes known by then: in place if possible, else all Jobs are created again. The status keeps a node until the last of
the taints is removed. A pod that is bound to it later tolerates them, and is never moved. The move is stored first. In
place, the pods are deleted afterwards, by whichever process: those created until a time in the status. That time and
those of pods come from the API server.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from msgspec.structs import replace

from api.jobset_status import LeftNode, MaintenanceStatus
from api.maintenance import MOST_LEFT_NODES, Maintenance
from api.pod import Pod
from api.restart_agent import jobs_without_agent
from controllers.planning import maintenance
from controllers.planning.actions import DeletePod, NodeQuery
from controllers.planning.attempts import begin_attempt, end_attempt, requested_attempt, restart_set
from controllers.planning.child_jobs import integer
from controllers.planning.context import Context
from controllers.planning.maintenance import GATE, REASON
from controllers.planning.observed import PodOnTaintedNode
from controllers.planning.partial import NOTHING, Partial, Stop, draft_result
from controllers.planning.spare_places import promise_places
from controllers.planning.status import list_some
from kube.model.meta import age

MOST_NODES = 50
"""Nodes that are asked for at a time."""
_NO_WORDS = MaintenanceStatus()

PodsByNode = Mapping[str, list[PodOnTaintedNode]]


def leave_nodes(ctx: Context) -> Partial:
    """The notice, the move or, in place, its remaining deletions, and the time until the move."""
    policy, stored = maintenance.policy_of(ctx.js), ctx.status.maintenance or _NO_WORDS
    if policy is None:
        return NOTHING
    if not ctx.gates[GATE]:
        draft = ctx.draft()
        draft.warn_of_gate("spec.failurePolicy.maintenance", GATE)
        if stored.notice_time:
            draft.update(maintenance=replace(stored, notice_time="", move_time=""))
        return draft_result(draft)
    if not (stored.nodes or ctx.observed.pods_to_move):
        return NOTHING
    return _decide(ctx, policy, stored)


def _decide(ctx: Context, policy: Maintenance, stored: MaintenanceStatus) -> Partial:
    """`stored`: the maintenance in the status."""
    pods = _pods_by_node(ctx)
    tainted = [node for node in stored.nodes if node.name in ctx.observed.nodes_in_maintenance]
    found = _new_nodes(pods, {node.name for node in stored.nodes})
    new = found[: MOST_LEFT_NODES - len(tainted)]
    empty = {node.name for node in tainted if not (node.moved or _old_pods(node, pods))}
    nodes = [*(replace(node, moved=True) if node.name in empty else node for node in tainted), *new]
    waiting = [node for node in nodes if not node.moved]
    notice = _notice(ctx, policy, stored, nodes, waiting)
    # Times of pods are whole seconds: replacement pods need a later second.
    is_due = all(node.pods_until < ctx.now for node in waiting)
    moves = bool(waiting) and is_due and not ctx.children.failed and _is_due(ctx, policy, notice)
    changed = empty.union(node.name for node in stored.nodes if node not in tainted)
    unread = changed.union(node.name for node in waiting if moves) - ctx.observed.read_nodes
    if unread:
        return Stop(pod_query=NodeQuery(tuple(sorted(unread)[:MOST_NODES])))
    if moves:
        return _move(ctx, notice, waiting, pods, whole=found != new)
    draft = ctx.draft()
    if notice != stored:
        draft.update(maintenance=notice if nodes else None)
    if new:
        follows = f"the set moves at {notice.move_time} at the latest"
        draft.event("Normal", "NodeMaintenanceNotice", _words(ctx, new, follows))
    left = max(-age(notice.move_time, ctx.now), 0 if is_due else 1) if waiting else 0
    again = left - ctx.observed.second_passed if left > 0 else None  # none if a failed Job has to be deleted first
    deletions = _deletions(ctx, nodes, pods)
    return draft_result(draft, *deletions, status_first=notice != stored, requeue_after=again)


def _pods_by_node(ctx: Context) -> PodsByNode:
    """Pods of the attempt that run on nodes with one of the taints; none while the set is suspended."""
    found: dict[str, list[PodOnTaintedNode]] = {}
    active = () if ctx.js.spec.suspend else ctx.children.active
    running = {child.job.metadata.uid for child in active if not (child.deleting or child.job.spec.suspend)}
    for pod in ctx.observed.pods_to_move:
        if pod.job_uid in running and not (pod.deleting or pod.ended):
            found.setdefault(pod.node, []).append(pod)
    return found


def _new_nodes(pods: PodsByNode, known: set[str]) -> list[LeftNode]:
    """Nodes that got a taint after pods were bound to them. A pod that came after the taint tolerates it."""
    nodes = []
    for name in sorted(pods.keys() - known):
        earlier = [pod for pod in pods[name] if not pod.since or pod.created <= pod.since]
        if earlier:
            until = max(pod.created for pod in earlier)
            nodes.append(LeftNode(name=name, taint=earlier[0].taint, pods_until=until))
    return nodes


def _old_pods(node: LeftNode, pods: PodsByNode) -> list[PodOnTaintedNode]:
    """The pods that have to leave the node."""
    return [pod for pod in pods.get(node.name, ()) if pod.created <= node.pods_until]


def _notice(
    ctx: Context, policy: Maintenance, stored: MaintenanceStatus, nodes: Iterable[LeftNode], waiting: list[LeftNode]
) -> MaintenanceStatus:
    """The new notice in the status. Nodes that come later join the notice that is open: the set moves once."""
    start, end = stored.notice_time, stored.move_time
    if waiting and not start:
        seconds = policy.notice.wait_seconds if policy.notice is not None else 0
        moment = datetime.fromisoformat(ctx.now) + timedelta(seconds=seconds)
        start, end = ctx.now, moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    elif not waiting:
        start = end = ""
    return MaintenanceStatus(notice_time=start, move_time=end, nodes=tuple(nodes))


def _is_due(ctx: Context, policy: Maintenance, notice: MaintenanceStatus) -> bool:
    """Whether the time is over, all agents have reported that they are ready, or the workers restart anyway."""
    if age(notice.move_time, ctx.now) >= 0:
        return True
    pods = _agent_pods(ctx)
    if _restart_begins(ctx, pods):
        return True
    signalled = policy.notice is not None and policy.notice.signal
    acknowledgements = [pod.metadata.annotations.maintenance_acknowledged for pod in pods]
    return (
        bool(signalled and acknowledgements)
        and len(acknowledgements) == _agents(ctx)
        and set(acknowledgements) == {notice.notice_time}
    )


def _agent_pods(ctx: Context) -> list[Pod]:
    """The pods whose agents take part in restarts in place, with those that have succeeded."""
    if not ctx.restarts_in_place:
        return []
    early = jobs_without_agent(ctx.js)
    uids = {child.job.metadata.uid for child in ctx.children.active if child.replicated_job not in early}
    return [pod for pod in ctx.observed.pods if pod.job_uid in uids and pod.counts]


def _agents(ctx: Context) -> int:
    """How many agents the set has if all of its pods run."""
    early = jobs_without_agent(ctx.js)
    rjobs = (rjob for rjob in ctx.js.spec.replicated_jobs if rjob.name not in early)
    return sum(rjob.replicas * (rjob.parallelism or 0) for rjob in rjobs)


def _restart_begins(ctx: Context, pods: Iterable[Pod]) -> bool:
    """Whether the workers begin another attempt than the one that runs: they have been asked to, or an agent asks."""
    current = ctx.status.current_in_place_restart_attempt
    attempts = (integer(pod.metadata.annotations.in_place_restart_attempt) for pod in pods)
    highest = max((attempt for attempt in attempts if attempt is not None), default=0)
    return current is not None and max(highest, requested_attempt(ctx.status)) > current


def _move(
    ctx: Context, notice: MaintenanceStatus, leaving: list[LeftNode], pods: PodsByNode, *, whole: bool
) -> Partial:
    """Leave these nodes once, by a restart that does not count.

    In place it is an attempt of its own, unless the workers have not begun, or begin another attempt anyway.

    `whole`: there are more nodes than the status may name, so all Jobs are created again.
    """
    draft, agents = ctx.draft(), _agent_pods(ctx)
    nodes = tuple(replace(node, moved=True) for node in notice.nodes)
    draft.update(maintenance=MaintenanceStatus(nodes=nodes))
    promise_places(ctx, draft, [pod for node in leaving for pod in _old_pods(node, pods)])
    planned = "this restart is planned, and does not count towards maxRestarts"
    if whole or not _can_stay(ctx, agents):
        restart_set(draft, REASON, _words(ctx, leaving, planned), counts=False, event_type="Normal")
        return draft_result(draft, kind=Stop)
    if not _restart_begins(ctx, agents):
        end_attempt(ctx.js, draft, _replicated_jobs(ctx, leaving, pods))
        if draft.status.previous_in_place_restart_attempt != ctx.status.previous_in_place_restart_attempt:
            begin_attempt(draft)
    draft.event(
        "Normal", REASON, _words(ctx, leaving, f"its pods there are replaced, and all restart in place; {planned}")
    )
    return draft_result(draft, *_deletions(ctx, nodes, pods), status_first=True)


def _replicated_jobs(ctx: Context, nodes: Iterable[LeftNode], pods: PodsByNode) -> set[str]:
    """Names of the ReplicatedJobs of the pods that have to leave these nodes."""
    uids = {pod.job_uid for node in nodes for pod in _old_pods(node, pods)}
    return {child.replicated_job for child in ctx.children.active if child.job.metadata.uid in uids}


def _can_stay(ctx: Context, agents: Iterable[Pod]) -> bool:
    """Whether the other pods restart in place. Those that have succeeded could not."""
    early = jobs_without_agent(ctx.js)
    ended = any(pod.status.phase == "Succeeded" for pod in agents)
    ended = ended or any(entry.succeeded for entry in ctx.counts if entry.name not in early)
    return ctx.restarts_in_place and not ended


def _deletions(ctx: Context, nodes: Iterable[LeftNode], pods: PodsByNode) -> list[DeletePod]:
    """In place: the pods that have to leave nodes which the status says the set has left."""
    moved = [node for node in nodes if node.moved] if ctx.restarts_in_place else []
    old = (pod for node in moved for pod in _old_pods(node, pods))
    return [DeletePod(pod.name, pod.uid, replaced=True, graceful=True) for pod in old]


def _words(ctx: Context, nodes: Iterable[LeftNode], follows: str) -> str:
    return list_some([f"node {node.name} has the taint {node.taint}" for node in nodes], follows, ctx.limits)
