"""Step: move a JobSet away from nodes in maintenance (gate JobSetNodeMaintenance).

See docs/concepts/node-maintenance.md. A node is in maintenance if it has a taint that `failurePolicy.maintenance`
names, or if a pod of the set on the node is evicted. When the step finds such a node, it gives notice: it lists the
node and the time of the move in `status.maintenance`. Until then, the workers can write a checkpoint. The move is one
restart of the set, by which the set leaves all listed nodes.

- In a move in place, only the pods on these nodes are deleted, and their Jobs replace them. In all other pods an agent,
  which is a program beside or around the worker, restarts the worker. Without agents, or if a pod has succeeded, all
  Jobs are deleted and created again.
- An attempt is the time between two such restarts. Agents report in an annotation which attempt they run.
- The status lists a node until the node has no such taint and no evicted pod. `moved` says that the set has left the
  node, so the set leaves it only once.
- A pod has to leave the node if it was created no later than `pods_until` of the node. A later pod tolerates the taint,
  and stays unless it is evicted. The API server sets the creation times, and the move is stored before any pod is
  deleted. So any process can delete the pods after a move in place.
- A listed node whose `taint` is empty is left because of an eviction. An evicted pod ends at the latest when its grace
  period is over. Without agents, the workers cannot be notified meanwhile, and the Job may fail at any moment, so the
  set moves at once. With agents, the set moves when the pod has ended. A process that finds the node in the status, but
  no evicted pod, knows that the other workers have lost a peer.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec.structs import replace

from api.jobset_status import LeftNode, MaintenanceStatus
from api.maintenance import MAX_LEFT_NODES, Maintenance
from api.pod import Pod
from api.restart_agent import jobs_without_agent
from controllers.planning import maintenance
from controllers.planning.actions import DeletePod, NodeQuery
from controllers.planning.attempts import PLANNED, begin_attempt, request_next_attempt, requested_attempt, restart_set
from controllers.planning.child_jobs import integer
from controllers.planning.context import Context
from controllers.planning.maintenance import GATE, REASON
from controllers.planning.observed import PodAtRisk
from controllers.planning.partial import NOTHING, LastPartial, Partial, draft_result
from controllers.planning.reported_attempts import apply_reports, continues_in_place
from controllers.planning.spare_places import promise_places
from controllers.planning.status import list_some
from kube.model.meta import age

_NO_MAINTENANCE = MaintenanceStatus()

PodsByNode = Mapping[str, list[PodAtRisk]]


class _Nodes(NamedTuple):
    """The nodes that `status.maintenance` lists after this plan.

    - `listed`: all of these nodes. `to_leave`: the listed nodes that the set has not left yet.
    - `has_unlisted`: whether there are more nodes in maintenance than the status may list.
    - `changed_names`: names of nodes that the status lists no longer, or lists as left because they have no pod that
      has to leave, and of nodes with an eviction that the status does not record yet.
    """

    listed: list[LeftNode]
    to_leave: list[LeftNode]
    has_unlisted: bool
    changed_names: set[str]


def leave_nodes(ctx: Context) -> Partial:
    """Give notice, move the set when the notice is over, and delete the pods that have to leave after a move in place.

    If the gate is off, end the notice.
    """
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
    nodes = _next_nodes(ctx, stored, pods)
    new = _next_maintenance(ctx, policy, stored, nodes)
    # Creation times are whole seconds, so replacement pods must be created in a later second.
    is_later_second = all(node.pods_until < ctx.now for node in nodes.to_leave)
    is_due = _is_due(ctx, policy, new) or any(_eviction_ends_notice(ctx, node, pods) for node in nodes.to_leave)
    moves_now = bool(nodes.to_leave) and is_later_second and not ctx.children.failed and is_due
    # The watches may be behind, so a plan that decides about a node has read the node and the set's pods on it.
    decided_names = nodes.changed_names.union(node.name for node in nodes.to_leave if moves_now)
    if unread_names := decided_names - ctx.observed.read_nodes:
        return LastPartial(pod_query=NodeQuery.about(unread_names))
    if moves_now:
        return _move(ctx, nodes, pods)
    draft = ctx.draft()
    if new != stored:
        draft.update(maintenance=new if nodes.listed else None)
    noticed_names = {node.name for node in stored.nodes if not node.moved}
    if newly_noticed := [node for node in nodes.to_leave if node.name not in noticed_names]:
        consequence = f"the set moves at {new.move_time} at the latest"
        draft.add_event("Normal", "NodeMaintenanceNotice", _node_message(ctx, newly_noticed, consequence))
    requeue_after = (
        _seconds_until_move(ctx, new, is_due=is_due, is_later_second=is_later_second) if nodes.to_leave else None
    )
    deletions = _deletions(ctx, nodes.listed)
    return draft_result(draft, *deletions, status_first=new != stored, requeue_after=requeue_after)


def _pods_by_node(ctx: Context) -> PodsByNode:
    """By node, the pods of `_observed_pods` that are evicted, or neither end nor have ended."""
    pods: dict[str, list[PodAtRisk]] = {}
    for pod in _observed_pods(ctx):
        if pod.evicted or not (pod.deleting or pod.ended):
            pods.setdefault(pod.node, []).append(pod)
    return pods


def _observed_pods(ctx: Context) -> list[PodAtRisk]:
    """The pods of running Jobs on nodes in maintenance; none while the set is suspended."""
    active = () if ctx.js.spec.suspend else ctx.children.active
    running = {child.job.metadata.uid for child in active if child.may_run}
    return [pod for pod in ctx.observed.pods_to_move if pod.job_uid in running]


def _next_nodes(ctx: Context, stored: MaintenanceStatus, pods: PodsByNode) -> _Nodes:
    """The nodes that the status lists after this plan. `stored`: `status.maintenance`."""
    recorded_evictions = set() if _can_forget_evictions(ctx, stored) else maintenance.nodes_of_evictions(ctx.status)
    names_in_maintenance = recorded_evictions | ctx.observed.nodes_in_maintenance
    stored_names = {node.name for node in stored.nodes}
    old_nodes = [_with_evictions(node, pods) for node in stored.nodes if node.name in names_in_maintenance]
    all_new_nodes = _new_nodes(pods, stored_names)
    new_nodes = all_new_nodes[: MAX_LEFT_NODES - len(old_nodes)]
    # A restart or a suspension during the notice can end all pods that had to leave a node.
    empty_names = {
        node.name
        for node in old_nodes
        if not (node.moved or node.name in recorded_evictions or _leaving_pods(node, pods))
    }
    listed = [*(replace(node, moved=True) if node.name in empty_names else node for node in old_nodes), *new_nodes]
    to_leave = [node for node in listed if not node.moved]
    evictions = {node.name for node in to_leave if not node.taint}
    return _Nodes(
        listed=listed,
        to_leave=to_leave,
        has_unlisted=all_new_nodes != new_nodes,
        changed_names=empty_names | (stored_names - names_in_maintenance) | (evictions - recorded_evictions),
    )


def _can_forget_evictions(ctx: Context, stored: MaintenanceStatus) -> bool:
    """Whether evicted pods that are gone are no reason for a move.

    This is so in three cases: the whole set was restarted after the notice; the set is suspended; the set cannot move
    in place. In the last case some pods have succeeded, and the evicted pod may be one of them.
    """
    restart = ctx.status.last_restart
    has_restarted = restart is not None and restart.start_time >= stored.notice_time
    return has_restarted or bool(ctx.js.spec.suspend) or not _can_move_in_place(ctx)


def _with_evictions(node: LeftNode, pods: PodsByNode) -> LeftNode:
    """The node as a node that is left because of an eviction; unchanged if it has no newly evicted pod."""
    evicted = [pod.created for pod in pods.get(node.name, ()) if pod.evicted]
    until = max(evicted, default="")
    if not evicted or (node.moved and until <= node.pods_until):
        return node
    return replace(node, taint="", pods_until=max(until, node.pods_until), moved=False)


def _new_nodes(pods: PodsByNode, stored_names: set[str]) -> list[LeftNode]:
    """Nodes that the status does not list and that have evicted pods, or pods that were created before the taint.

    A pod that was created later tolerates the taint.
    """
    nodes = []
    for name in sorted(pods.keys() - stored_names):
        earlier = [
            pod for pod in pods[name] if pod.taint and (not pod.at_risk_since or pod.created <= pod.at_risk_since)
        ]
        evicted = [pod for pod in pods[name] if pod.evicted]
        if earlier or evicted:
            until = max(pod.created for pod in (*earlier, *evicted))
            nodes.append(LeftNode(name=name, taint="" if evicted else earlier[0].taint, pods_until=until))
    return nodes


def _leaving_pods(node: LeftNode, pods: PodsByNode) -> list[PodAtRisk]:
    """The pods that have to leave the node."""
    return [pod for pod in pods.get(node.name, ()) if _has_to_leave(pod, node)]


def _has_to_leave(pod: PodAtRisk, node: LeftNode) -> bool:
    return pod.created <= node.pods_until and bool(pod.taint or pod.evicted)


def _next_maintenance(ctx: Context, policy: Maintenance, stored: MaintenanceStatus, nodes: _Nodes) -> MaintenanceStatus:
    """The new maintenance status. Nodes that come later join the open notice, so that the set moves once."""
    notice_time, move_time = stored.notice_time, stored.move_time
    if nodes.to_leave and not notice_time:
        seconds = policy.notice.wait_seconds if policy.notice is not None else 0
        moment = datetime.fromisoformat(ctx.now) + timedelta(seconds=seconds)
        notice_time, move_time = ctx.now, moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    elif not nodes.to_leave:
        notice_time = move_time = ""
    return MaintenanceStatus(notice_time=notice_time, move_time=move_time, nodes=tuple(nodes.listed))


def _is_due(ctx: Context, policy: Maintenance, new: MaintenanceStatus) -> bool:
    """Whether the time of the move has come, all agents have acknowledged the notice, or the workers restart anyway."""
    if age(new.move_time, ctx.now) >= 0 or _begins_next_attempt(ctx):
        return True
    is_signalled = policy.notice is not None and policy.notice.signal
    acknowledgements = [pod.metadata.annotations.maintenance_acknowledged for pod in _agent_pods(ctx, deleting=True)]
    return (
        bool(is_signalled and acknowledgements)
        and len(acknowledgements) == _agent_count(ctx)
        and set(acknowledgements) == {new.notice_time}
    )


def _eviction_ends_notice(ctx: Context, node: LeftNode, pods: PodsByNode) -> bool:
    """Whether an eviction on the node makes the set move at once.

    It does if there are no agents, or if an evicted pod has ended or is gone.
    """
    evicted = [pod for pod in _leaving_pods(node, pods) if pod.evicted]
    return not node.taint and (not ctx.restarts_in_place or not evicted or any(pod.ended for pod in evicted))


def _seconds_until_move(ctx: Context, new: MaintenanceStatus, *, is_due: bool, is_later_second: bool) -> float | None:
    """Seconds until the next plan; None if only a failed Job delays the move: its deletion leads to the next plan.

    `is_later_second`: whether pods that are created now differ in their creation time from pods that have to leave.
    """
    if is_due and is_later_second:
        return None
    seconds = 1 if is_due else -age(new.move_time, ctx.now)
    return seconds - ctx.observed.second_passed


def _agent_pods(ctx: Context, *, deleting: bool = False) -> list[Pod]:
    """The pods with agents that take part in restarts in place, including pods that have succeeded.

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


def _begins_next_attempt(ctx: Context) -> bool:
    """Whether the workers begin the next attempt without a move: the status or an agent has requested the attempt."""
    current = ctx.status.current_in_place_restart_attempt
    attempts = (integer(pod.metadata.annotations.in_place_restart_attempt) for pod in _agent_pods(ctx))
    highest = max((attempt for attempt in attempts if attempt is not None), default=0)
    return current is not None and max(highest, requested_attempt(ctx.status)) > current


def _can_move_in_place(ctx: Context) -> bool:
    """Whether the pods that stay can restart in place. A pod that has succeeded cannot."""
    without_agent = jobs_without_agent(ctx.js)
    has_succeeded = any(pod.status.phase == "Succeeded" for pod in _agent_pods(ctx))
    has_succeeded = has_succeeded or any(entry.succeeded for entry in ctx.counts if entry.name not in without_agent)
    return ctx.restarts_in_place and not has_succeeded


def _move(ctx: Context, nodes: _Nodes, pods: PodsByNode) -> Partial:
    """Move the set away from `nodes.to_leave` by one restart that does not count towards maxRestarts.

    All Jobs are created again if the set cannot move in place, or if the status cannot list all nodes. A move in place
    begins an attempt, with two exceptions: the workers have not begun their first attempt, or they begin the next
    attempt anyway. After an eviction, the second exception does not apply, since the eviction is the cause of that
    attempt. If no further attempt in place is allowed, the set fails or is created again.
    """
    draft = ctx.draft()
    left_nodes = tuple(replace(node, moved=True) for node in nodes.listed)
    draft.update(maintenance=MaintenanceStatus(nodes=left_nodes))
    promise_places(ctx, draft, [pod for node in nodes.to_leave for pod in _leaving_pods(node, pods)])
    if nodes.has_unlisted or not _can_move_in_place(ctx):
        message = _node_message(ctx, nodes.to_leave, PLANNED)
        restart_set(draft, REASON, message, counts=False, event_type="Normal")
        return draft_result(draft, kind=LastPartial)
    if any(not node.taint for node in nodes.to_leave) or not _begins_next_attempt(ctx):
        request_next_attempt(ctx.js, draft, _replicated_jobs(ctx, nodes.to_leave, pods))
        if draft.status.previous_in_place_restart_attempt != ctx.status.previous_in_place_restart_attempt:
            begin_attempt(draft)
    if not continues_in_place(ctx, draft):
        apply_reports(ctx, draft)
        return draft_result(draft, kind=LastPartial)
    consequence = f"its pods there are replaced, and all restart in place; {PLANNED}"
    draft.add_event("Normal", REASON, _node_message(ctx, nodes.to_leave, consequence))
    return draft_result(draft, *_deletions(ctx, left_nodes), status_first=True)


def _replicated_jobs(ctx: Context, nodes: list[LeftNode], pods: PodsByNode) -> set[str]:
    """Names of the ReplicatedJobs whose pods have to leave these nodes.

    If the evicted pods of a node are gone already, all ReplicatedJobs of the set.
    """
    if any(not (node.taint or _leaving_pods(node, pods)) for node in nodes):
        return {rjob.name for rjob in ctx.js.spec.replicated_jobs}
    uids = {pod.job_uid for node in nodes for pod in _leaving_pods(node, pods)}
    return {child.replicated_job for child in ctx.children.active if child.job.metadata.uid in uids}


def _deletions(ctx: Context, nodes: Iterable[LeftNode]) -> list[DeletePod]:
    """Deletions of the pods that still have to leave nodes after a move in place; empty without restarts in place.

    Pods that are being deleted are included as long as their Job tracks them, because the Job creates the replacement
    only after the pod's finalizer for this tracking is removed.
    """
    left_nodes = {node.name: node for node in nodes if node.moved} if ctx.restarts_in_place else {}
    return [
        DeletePod(pod.name, pod.uid, replaced=True, graceful=True)
        for pod in _observed_pods(ctx)
        if pod.node in left_nodes and _has_to_leave(pod, left_nodes[pod.node])
        if not pod.ended and (pod.is_tracked_by_job or not pod.deleting)
    ]


def _node_message(ctx: Context, nodes: Iterable[LeftNode], consequence: str) -> str:
    """A message that says why the set leaves these nodes, and the consequence."""
    causes = (
        f"node {node.name} has the taint {node.taint}" if node.taint else f"pods on node {node.name} are evicted"
        for node in nodes
    )
    return list_some([*causes], consequence, ctx.limits)
