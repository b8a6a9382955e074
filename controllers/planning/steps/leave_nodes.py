"""Step: the set leaves nodes before they go (gate JobSetNodeMaintenance). See docs/concepts/node-maintenance.md.

A node is recognized by its taint, or by a pod that is evicted; its workers then have the time of the notice. Then the
set moves once, away from all nodes known by then: in place if possible, else all Jobs are created again. The status
keeps a node until the last of the taints is removed, and no evicted pod is left. A pod that is bound to it later
tolerates them, and is not moved unless it is evicted. The move is stored first. In place, the pods are deleted
afterwards, by whichever process: those created until a time in the status. That time and those of pods come from the
API server.

An evicted pod ends with its grace period at the latest. Without agents no worker can be told meanwhile, and the
Job may fail at any moment: the set moves at once. In place it moves when the pod has ended; the status says that a node
was left because of an eviction, so that also a process that sees neither the pod nor its end knows what the other
workers have lost.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from msgspec.structs import replace

from api.jobset_status import LeftNode, MaintenanceStatus
from api.maintenance import MAX_LEFT_NODES, Maintenance
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
from controllers.planning.reported_attempts import apply_reports, continues_in_place
from controllers.planning.spare_places import promise_places
from controllers.planning.status import list_some
from kube.model.meta import age

MAX_NODES = 50
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
    evictions = set() if _is_overtaken(ctx, stored) else maintenance.nodes_of_evictions(ctx.status)
    remembered = evictions | ctx.observed.nodes_in_maintenance
    kept = [_with_evictions(node, pods) for node in stored.nodes if node.name in remembered]
    found = _new_nodes(pods, {node.name for node in stored.nodes})
    new = found[: MAX_LEFT_NODES - len(kept)]
    empty = {node.name for node in kept if not (node.moved or node.name in evictions or _old_pods(node, pods))}
    nodes = [*(replace(node, moved=True) if node.name in empty else node for node in kept), *new]
    waiting = [node for node in nodes if not node.moved]
    notice = _notice(ctx, policy, stored, nodes, waiting)
    # Times of pods are whole seconds: replacement pods need a later second.
    begun = all(node.pods_until < ctx.now for node in waiting)
    due = _is_due(ctx, policy, notice) or any(_has_lost_pods(ctx, node, pods) for node in waiting)
    moves = bool(waiting) and begun and not ctx.children.failed and due
    evicted = {node.name for node in waiting if not node.taint}
    changed = empty | {node.name for node in stored.nodes} - remembered | evicted - evictions
    unread = changed.union(node.name for node in waiting if moves) - ctx.observed.read_nodes
    if unread:
        return Stop(pod_query=NodeQuery(tuple(sorted(unread)[:MAX_NODES])))
    if moves:
        return _move(ctx, notice, waiting, pods, whole=found != new)
    draft = ctx.draft()
    if notice != stored:
        draft.update(maintenance=notice if nodes else None)
    open_before = {node.name for node in stored.nodes if not node.moved}
    if noticed := [node for node in waiting if node.name not in open_before]:
        follows = f"the set moves at {notice.move_time} at the latest"
        draft.event("Normal", "NodeMaintenanceNotice", _words(ctx, noticed, follows))
    again = _seconds_until_move(ctx, notice, due=due, begun=begun) if waiting else None
    deletions = _deletions(ctx, nodes)
    return draft_result(draft, *deletions, status_first=notice != stored, requeue_after=again)


def _pods_by_node(ctx: Context) -> PodsByNode:
    """Pods of the attempt that run on nodes with one of the taints, or are evicted; none while the set is suspended."""
    found: dict[str, list[PodOnTaintedNode]] = {}
    for pod in _pods_of_attempt(ctx):
        if pod.evicted or not (pod.deleting or pod.ended):
            found.setdefault(pod.node, []).append(pod)
    return found


def _pods_of_attempt(ctx: Context) -> list[PodOnTaintedNode]:
    active = () if ctx.js.spec.suspend else ctx.children.active
    running = {child.job.metadata.uid for child in active if not (child.deleting or child.job.spec.suspend)}
    return [pod for pod in ctx.observed.pods_to_move if pod.job_uid in running]


def _new_nodes(pods: PodsByNode, known: set[str]) -> list[LeftNode]:
    """Nodes that got a taint after pods were bound to them, or with evicted pods.

    A pod that came after the taint tolerates it.
    """
    nodes = []
    for name in sorted(pods.keys() - known):
        earlier = [pod for pod in pods[name] if pod.taint and (not pod.since or pod.created <= pod.since)]
        evicted = [pod for pod in pods[name] if pod.evicted]
        if earlier or evicted:
            until = max(pod.created for pod in (*earlier, *evicted))
            nodes.append(LeftNode(name=name, taint="" if evicted else earlier[0].taint, pods_until=until))
    return nodes


def _with_evictions(node: LeftNode, pods: PodsByNode) -> LeftNode:
    """The node, to be left because of its evicted pods if there are some for which the set has not moved yet."""
    evicted = [pod.created for pod in pods.get(node.name, ()) if pod.evicted]
    until = max(evicted, default="")
    if not evicted or (node.moved and until <= node.pods_until):
        return node
    return replace(node, taint="", pods_until=max(until, node.pods_until), moved=False)


def _old_pods(node: LeftNode, pods: PodsByNode) -> list[PodOnTaintedNode]:
    """The pods that have to leave the node. Without a taint only evicted ones have to."""
    return [pod for pod in pods.get(node.name, ()) if _has_to_leave(pod, node)]


def _has_to_leave(pod: PodOnTaintedNode, node: LeftNode) -> bool:
    return pod.created <= node.pods_until and bool(pod.taint or pod.evicted)


def _is_overtaken(ctx: Context, stored: MaintenanceStatus) -> bool:
    """Whether the set need not move because of evicted pods that are gone.

    After a restart of the whole set, or a suspension. Or some pods have succeeded: the evicted one may be one of them.
    """
    restart = ctx.status.last_restart
    restarted = restart is not None and restart.start_time >= stored.notice_time
    return restarted or bool(ctx.js.spec.suspend) or not _can_stay(ctx, _agent_pods(ctx))


def _has_lost_pods(ctx: Context, node: LeftNode, pods: PodsByNode) -> bool:
    """Whether the move need not wait: there are no agents, or an evicted pod of the node has ended or is gone."""
    evicted = [pod for pod in _old_pods(node, pods) if pod.evicted]
    return not node.taint and (not ctx.restarts_in_place or not evicted or any(pod.ended for pod in evicted))


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
    acknowledgements = [pod.metadata.annotations.maintenance_acknowledged for pod in _agent_pods(ctx, deleting=True)]
    return (
        bool(signalled and acknowledgements)
        and len(acknowledgements) == _agents(ctx)
        and set(acknowledgements) == {notice.notice_time}
    )


def _seconds_until_move(ctx: Context, notice: MaintenanceStatus, *, due: bool, begun: bool) -> float | None:
    """When to plan again. None if the move waits for something else: a failed Job has to be deleted first.

    `begun`: whether pods that are created now can be told from those that have to leave, by their second.
    """
    if due and begun:
        return None
    seconds = 1 if due else -age(notice.move_time, ctx.now)
    return seconds - ctx.observed.second_passed


def _agent_pods(ctx: Context, *, deleting: bool = False) -> list[Pod]:
    """The pods whose agents take part in restarts in place, with those that have succeeded.

    `deleting`: also those that are being deleted, and have not ended yet.
    """
    if not ctx.restarts_in_place:
        return []
    early = jobs_without_agent(ctx.js)
    uids = {child.job.metadata.uid for child in ctx.children.active if child.replicated_job not in early}
    found = (pod for pod in ctx.observed.pods if pod.job_uid in uids)
    return [pod for pod in found if pod.counts or (deleting and pod.status.phase != "Failed")]


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

    In place it is an attempt of its own, unless the workers have not begun, or begin another attempt anyway. If they do
    that when a pod was evicted, it is because of that pod. If they may not begin another one in place, the set ends, or
    is created again, because of that.

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
    if any(not node.taint for node in leaving) or not _restart_begins(ctx, agents):
        end_attempt(ctx.js, draft, _replicated_jobs(ctx, leaving, pods))
        if draft.status.previous_in_place_restart_attempt != ctx.status.previous_in_place_restart_attempt:
            begin_attempt(draft)
    if not continues_in_place(ctx, draft):
        apply_reports(ctx, draft)
        return draft_result(draft, kind=Stop)
    draft.event(
        "Normal", REASON, _words(ctx, leaving, f"its pods there are replaced, and all restart in place; {planned}")
    )
    return draft_result(draft, *_deletions(ctx, nodes), status_first=True)


def _replicated_jobs(ctx: Context, nodes: list[LeftNode], pods: PodsByNode) -> set[str]:
    """Names of the ReplicatedJobs of the pods that have to leave these nodes; all, if evicted ones are gone already."""
    if any(not (node.taint or _old_pods(node, pods)) for node in nodes):
        return {rjob.name for rjob in ctx.js.spec.replicated_jobs}
    uids = {pod.job_uid for node in nodes for pod in _old_pods(node, pods)}
    return {child.replicated_job for child in ctx.children.active if child.job.metadata.uid in uids}


def _can_stay(ctx: Context, agents: Iterable[Pod]) -> bool:
    """Whether the other pods restart in place. Those that have succeeded could not."""
    early = jobs_without_agent(ctx.js)
    ended = any(pod.status.phase == "Succeeded" for pod in agents)
    ended = ended or any(entry.succeeded for entry in ctx.counts if entry.name not in early)
    return ctx.restarts_in_place and not ended


def _deletions(ctx: Context, nodes: Iterable[LeftNode]) -> list[DeletePod]:
    """In place: the pods that have to leave nodes which the status says the set has left.

    Also those that are being deleted, until they are released: Jobs that count them wait before they make the next.
    """
    moved = {node.name: node for node in nodes if node.moved} if ctx.restarts_in_place else {}
    return [
        DeletePod(pod.name, pod.uid, replaced=True, graceful=True)
        for pod in _pods_of_attempt(ctx)
        if pod.node in moved and _has_to_leave(pod, moved[pod.node])
        if not pod.ended and (pod.tracked or not pod.deleting)
    ]


def _words(ctx: Context, nodes: Iterable[LeftNode], follows: str) -> str:
    names = (
        f"node {node.name} has the taint {node.taint}" if node.taint else f"pods on node {node.name} are evicted"
        for node in nodes
    )
    return list_some([*names], follows, ctx.limits)
