"""Step: move the set away from nodes in maintenance (gate JobSetNodeMaintenance).

See docs/concepts/node-maintenance.md. A node is in maintenance if it has a taint that the policy names, or if a pod of
the set on it is evicted. The notice gives the workers time, for example for a checkpoint. After that the set moves
once, away from all nodes that are in maintenance by then: in place if possible, else all Jobs are created again.

The status keeps a node until its last such taint is removed and no evicted pod is left. A pod that is bound to the node
later tolerates the taints, and is not moved unless it is evicted. The move is stored before any pod is deleted. The
status also has a time: pods on the node that were created until that time have to leave. So any process can delete
them after a move in place. That time and the creation times of pods come from the API server.

An evicted pod ends at the latest when its grace period is over. Without agents, the workers cannot be notified
meanwhile, and the Job may fail at any moment, so the set moves at once. In place, the set moves when the pod has ended.
In the status, a node that is left because of an eviction has no taint. So a process that sees neither the pod nor its
end knows that the other workers have lost a peer.
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
from controllers.planning.attempts import PLANNED, begin_attempt, end_attempt, requested_attempt, restart_set
from controllers.planning.child_jobs import integer
from controllers.planning.context import Context
from controllers.planning.maintenance import GATE, REASON
from controllers.planning.observed import PodOnTaintedNode
from controllers.planning.partial import NOTHING, Partial, Stop, draft_result
from controllers.planning.reported_attempts import apply_reports, continues_in_place
from controllers.planning.spare_places import promise_places
from controllers.planning.status import list_some
from kube.model.meta import age

_NO_MAINTENANCE = MaintenanceStatus()

PodsByNode = Mapping[str, list[PodOnTaintedNode]]


def leave_nodes(ctx: Context) -> Partial:
    """Give notice, move the set when the time is over or, in place, delete pods that have still to leave."""
    policy, stored = ctx.failure_policy.maintenance, ctx.status.maintenance or _NO_MAINTENANCE
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
    """The result of the step for a set with nodes in maintenance. `stored`: `status.maintenance`."""
    pods = _pods_by_node(ctx)
    nodes_with_evictions = set() if _need_not_move(ctx, stored) else maintenance.nodes_of_evictions(ctx.status)
    nodes_in_maintenance = nodes_with_evictions | ctx.observed.nodes_in_maintenance
    stored_nodes = [_with_evictions(node, pods) for node in stored.nodes if node.name in nodes_in_maintenance]
    all_new_nodes = _new_nodes(pods, {node.name for node in stored.nodes})
    new_nodes = all_new_nodes[: MAX_LEFT_NODES - len(stored_nodes)]
    empty_nodes = {
        node.name
        for node in stored_nodes
        if not (node.moved or node.name in nodes_with_evictions or _old_pods(node, pods))
    }
    nodes = [*(replace(node, moved=True) if node.name in empty_nodes else node for node in stored_nodes), *new_nodes]
    waiting_nodes = [node for node in nodes if not node.moved]
    notice = _next_maintenance(ctx, policy, stored, nodes, waiting_nodes)
    # Creation times are whole seconds, so replacement pods must be created in a later second.
    is_later_second = all(node.pods_until < ctx.now for node in waiting_nodes)
    is_due = _is_due(ctx, policy, notice) or any(_has_lost_pods(ctx, node, pods) for node in waiting_nodes)
    moves = bool(waiting_nodes) and is_later_second and not ctx.children.failed and is_due
    left_by_eviction = {node.name for node in waiting_nodes if not node.taint}
    changed_nodes = (
        empty_nodes
        | {node.name for node in stored.nodes} - nodes_in_maintenance
        | left_by_eviction - nodes_with_evictions
    )
    # These nodes are read before the decision, since what the watches have shown of them may be old.
    unread_nodes = changed_nodes.union(node.name for node in waiting_nodes if moves) - ctx.observed.read_nodes
    if unread_nodes:
        return Stop(pod_query=NodeQuery.about(unread_nodes))
    if moves:
        return _move(ctx, notice, waiting_nodes, pods, has_unlisted_nodes=all_new_nodes != new_nodes)
    draft = ctx.draft()
    if notice != stored:
        draft.update(maintenance=notice if nodes else None)
    open_before = {node.name for node in stored.nodes if not node.moved}
    if noticed_nodes := [node for node in waiting_nodes if node.name not in open_before]:
        consequence = f"the set moves at {notice.move_time} at the latest"
        draft.add_event("Normal", "NodeMaintenanceNotice", _node_message(ctx, noticed_nodes, consequence))
    requeue_after = (
        _seconds_until_move(ctx, notice, is_due=is_due, is_later_second=is_later_second) if waiting_nodes else None
    )
    deletions = _deletions(ctx, nodes)
    return draft_result(draft, *deletions, status_first=notice != stored, requeue_after=requeue_after)


def _pods_by_node(ctx: Context) -> PodsByNode:
    """Pods of the attempt that run on nodes with one of the taints, or are evicted; none while the set is suspended."""
    pods: dict[str, list[PodOnTaintedNode]] = {}
    for pod in _pods_of_attempt(ctx):
        if pod.evicted or not (pod.deleting or pod.ended):
            pods.setdefault(pod.node, []).append(pod)
    return pods


def _pods_of_attempt(ctx: Context) -> list[PodOnTaintedNode]:
    """The observed pods to move whose Jobs run; none while the set is suspended."""
    active = () if ctx.js.spec.suspend else ctx.children.active
    running = {child.job.metadata.uid for child in active if child.may_run}
    return [pod for pod in ctx.observed.pods_to_move if pod.job_uid in running]


def _new_nodes(pods: PodsByNode, stored_names: set[str]) -> list[LeftNode]:
    """Nodes that the status does not name and that have evicted pods, or pods that were created before the taint.

    A pod that was created later tolerates the taint.
    """
    nodes = []
    for name in sorted(pods.keys() - stored_names):
        earlier = [
            pod for pod in pods[name] if pod.taint and (not pod.tainted_since or pod.created <= pod.tainted_since)
        ]
        evicted = [pod for pod in pods[name] if pod.evicted]
        if earlier or evicted:
            until = max(pod.created for pod in (*earlier, *evicted))
            nodes.append(LeftNode(name=name, taint="" if evicted else earlier[0].taint, pods_until=until))
    return nodes


def _with_evictions(node: LeftNode, pods: PodsByNode) -> LeftNode:
    """The node as it is stored from now on: with evicted pods that have still to be replaced, it has no taint."""
    evicted = [pod.created for pod in pods.get(node.name, ()) if pod.evicted]
    until = max(evicted, default="")
    if not evicted or (node.moved and until <= node.pods_until):
        return node
    return replace(node, taint="", pods_until=max(until, node.pods_until), moved=False)


def _old_pods(node: LeftNode, pods: PodsByNode) -> list[PodOnTaintedNode]:
    """The pods that have to leave the node: evicted pods, and pods that were there before the taint of the node."""
    return [pod for pod in pods.get(node.name, ()) if _has_to_leave(pod, node)]


def _has_to_leave(pod: PodOnTaintedNode, node: LeftNode) -> bool:
    return pod.created <= node.pods_until and bool(pod.taint or pod.evicted)


def _need_not_move(ctx: Context, stored: MaintenanceStatus) -> bool:
    """Whether the set need not move because of evicted pods that are gone.

    This is so in three cases: the whole set was restarted after the notice; the set is suspended; some pods have
    succeeded, and the evicted pod may be one of them.
    """
    restart = ctx.status.last_restart
    has_restarted = restart is not None and restart.start_time >= stored.notice_time
    return has_restarted or bool(ctx.js.spec.suspend) or not _can_move_in_place(ctx, _agent_pods(ctx))


def _has_lost_pods(ctx: Context, node: LeftNode, pods: PodsByNode) -> bool:
    """Whether an eviction makes the set move at once: there are no agents, or an evicted pod has ended or is gone."""
    evicted = [pod for pod in _old_pods(node, pods) if pod.evicted]
    return not node.taint and (not ctx.restarts_in_place or not evicted or any(pod.ended for pod in evicted))


def _next_maintenance(
    ctx: Context,
    policy: Maintenance,
    stored: MaintenanceStatus,
    nodes: Iterable[LeftNode],
    waiting_nodes: list[LeftNode],
) -> MaintenanceStatus:
    """The new maintenance status. Nodes that come later join the open notice, so that the set moves once."""
    notice_time, move_time = stored.notice_time, stored.move_time
    if waiting_nodes and not notice_time:
        seconds = policy.notice.wait_seconds if policy.notice is not None else 0
        moment = datetime.fromisoformat(ctx.now) + timedelta(seconds=seconds)
        notice_time, move_time = ctx.now, moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    elif not waiting_nodes:
        notice_time = move_time = ""
    return MaintenanceStatus(notice_time=notice_time, move_time=move_time, nodes=tuple(nodes))


def _is_due(ctx: Context, policy: Maintenance, notice: MaintenanceStatus) -> bool:
    """Whether the notice is over, all agents have acknowledged the notice, or the workers restart anyway."""
    if age(notice.move_time, ctx.now) >= 0:
        return True
    pods = _agent_pods(ctx)
    if _restart_begins(ctx, pods):
        return True
    is_signalled = policy.notice is not None and policy.notice.signal
    acknowledgements = [pod.metadata.annotations.maintenance_acknowledged for pod in _agent_pods(ctx, deleting=True)]
    return (
        bool(is_signalled and acknowledgements)
        and len(acknowledgements) == _agent_count(ctx)
        and set(acknowledgements) == {notice.notice_time}
    )


def _seconds_until_move(
    ctx: Context, notice: MaintenanceStatus, *, is_due: bool, is_later_second: bool
) -> float | None:
    """Seconds until the next plan; None if the move waits until a failed Job is deleted.

    `is_later_second`: whether pods that are created now differ in their creation time from pods that have to leave.
    """
    if is_due and is_later_second:
        return None
    seconds = 1 if is_due else -age(notice.move_time, ctx.now)
    return seconds - ctx.observed.second_passed


def _agent_pods(ctx: Context, *, deleting: bool = False) -> list[Pod]:
    """The pods whose agents take part in restarts in place, including pods that have succeeded.

    `deleting`: also the pods that are being deleted and have not failed.
    """
    if not ctx.restarts_in_place:
        return []
    without_agent = jobs_without_agent(ctx.js)
    uids = {child.job.metadata.uid for child in ctx.children.active if child.replicated_job not in without_agent}
    pods = (pod for pod in ctx.observed.pods if pod.job_uid in uids)
    return [pod for pod in pods if pod.is_reporting or (deleting and pod.status.phase != "Failed")]


def _agent_count(ctx: Context) -> int:
    """How many agents the set has if all of its pods run."""
    without_agent = jobs_without_agent(ctx.js)
    rjobs = (rjob for rjob in ctx.js.spec.replicated_jobs if rjob.name not in without_agent)
    return sum(rjob.replicas * (rjob.parallelism or 0) for rjob in rjobs)


def _restart_begins(ctx: Context, pods: Iterable[Pod]) -> bool:
    """Whether the workers begin the next attempt anyway, because they were asked to or an agent has asked for it."""
    current = ctx.status.current_in_place_restart_attempt
    attempts = (integer(pod.metadata.annotations.in_place_restart_attempt) for pod in pods)
    highest = max((attempt for attempt in attempts if attempt is not None), default=0)
    return current is not None and max(highest, requested_attempt(ctx.status)) > current


def _move(
    ctx: Context, notice: MaintenanceStatus, leaving: list[LeftNode], pods: PodsByNode, *, has_unlisted_nodes: bool
) -> Partial:
    """Move the set away from the `leaving` nodes, by one restart that does not count towards maxRestarts.

    A move in place is an attempt of its own, unless the workers have not begun, or begin the next attempt anyway. If
    they begin it after an eviction, the eviction counts as the cause. If no further attempt in place is allowed, the
    set fails or is created again.

    `has_unlisted_nodes`: there are more nodes than the status may name, so all Jobs are created again.
    """
    draft, agents = ctx.draft(), _agent_pods(ctx)
    nodes = tuple(replace(node, moved=True) for node in notice.nodes)
    draft.update(maintenance=MaintenanceStatus(nodes=nodes))
    promise_places(ctx, draft, [pod for node in leaving for pod in _old_pods(node, pods)])
    if has_unlisted_nodes or not _can_move_in_place(ctx, agents):
        restart_set(draft, REASON, _node_message(ctx, leaving, PLANNED), counts=False, event_type="Normal")
        return draft_result(draft, kind=Stop)
    if any(not node.taint for node in leaving) or not _restart_begins(ctx, agents):
        end_attempt(ctx.js, draft, _replicated_jobs(ctx, leaving, pods))
        if draft.status.previous_in_place_restart_attempt != ctx.status.previous_in_place_restart_attempt:
            begin_attempt(draft)
    if not continues_in_place(ctx, draft):
        apply_reports(ctx, draft)
        return draft_result(draft, kind=Stop)
    consequence = f"its pods there are replaced, and all restart in place; {PLANNED}"
    draft.add_event("Normal", REASON, _node_message(ctx, leaving, consequence))
    return draft_result(draft, *_deletions(ctx, nodes), status_first=True)


def _replicated_jobs(ctx: Context, nodes: list[LeftNode], pods: PodsByNode) -> set[str]:
    """Names of the ReplicatedJobs whose pods have to leave these nodes.

    If the evicted pods of a node are gone already, all ReplicatedJobs of the set.
    """
    if any(not (node.taint or _old_pods(node, pods)) for node in nodes):
        return {rjob.name for rjob in ctx.js.spec.replicated_jobs}
    uids = {pod.job_uid for node in nodes for pod in _old_pods(node, pods)}
    return {child.replicated_job for child in ctx.children.active if child.job.metadata.uid in uids}


def _can_move_in_place(ctx: Context, agents: Iterable[Pod]) -> bool:
    """Whether the pods that stay can restart in place. A pod that has succeeded cannot."""
    without_agent = jobs_without_agent(ctx.js)
    has_succeeded = any(pod.status.phase == "Succeeded" for pod in agents)
    has_succeeded = has_succeeded or any(entry.succeeded for entry in ctx.counts if entry.name not in without_agent)
    return ctx.restarts_in_place and not has_succeeded


def _deletions(ctx: Context, nodes: Iterable[LeftNode]) -> list[DeletePod]:
    """Deletions of the pods that have still to leave nodes after a move in place; empty without restarts in place.

    Pods that are being deleted are included as long as their Job tracks them: the Job replaces them only after it has
    released them.
    """
    moved = {node.name: node for node in nodes if node.moved} if ctx.restarts_in_place else {}
    return [
        DeletePod(pod.name, pod.uid, replaced=True, graceful=True)
        for pod in _pods_of_attempt(ctx)
        if pod.node in moved and _has_to_leave(pod, moved[pod.node])
        if not pod.ended and (pod.tracked or not pod.deleting)
    ]


def _node_message(ctx: Context, nodes: Iterable[LeftNode], consequence: str) -> str:
    """Why the set leaves these nodes, and the consequence."""
    causes = (
        f"node {node.name} has the taint {node.taint}" if node.taint else f"pods on node {node.name} are evicted"
        for node in nodes
    )
    return list_some([*causes], consequence, ctx.limits)
