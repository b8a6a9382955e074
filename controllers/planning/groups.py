"""Decides about the scheduling groups of one JobSet (`spec.scheduling`), and which Jobs they allow to run. Pure.

A Job starts only when all groups of its tree exist as the spec wants them, and no Job of an earlier attempt is left in
the tree: kube-scheduler counts terminating pods as members, and would schedule new pods one by one.

`decide` handles these cases in this order: the API server does not serve groups, the set is suspended, Jobs run without
groups, and the set runs with groups (`_arrange`).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from operator import itemgetter

from api import keys
from api.gang_api import missing_api
from api.gang_objects import build_group, build_workload, contains, is_same
from api.gang_status import StoredGroup, StoredWorkload
from api.gangs import MAX_JOBS, WORKLOAD, Forest, Group, forest, grouped_jobs
from api.jobset import JobSet, ReplicatedJob
from controllers.planning.actions import Action, CreateGroup, DeleteGroup, PatchGroup
from controllers.planning.child_jobs import Child, ChildJobs
from controllers.planning.group_context import (
    GroupContext,
    OwnedGroups,
    group_context,
    has_waiting_pods,
    held_roots,
    is_scheduled,
    jobs_below,
    refusal,
    required_members,
)
from controllers.planning.limits import DEFAULT_LIMITS
from controllers.planning.observed import KnownGroups
from kube.model.meta import JSON

NOT_A_WARNING = {"Created", "Suspended", "WaitingForOldGroups", "Discovering", "JobsWithoutGroups"}
"""Reasons of the condition that need no Warning event."""

WORKLOAD_LEVEL, ROOT_LEVEL, INNER_LEVEL, POD_GROUP_LEVEL = range(4)
"""The order in which objects are created: the Workload, composites at the root, composites below them, PodGroups.

`api.gangs` builds at most two levels of composites above the PodGroups. Kubernetes allows three (KEP-6012).
"""

State = tuple[bool, str, str]
"""Status, reason and message of a condition."""


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """What to do about groups.

    - `forest`: the trees that the spec wants; None: the set runs without groups.
    - `condition`: the condition SchedulingObjectsReady; None: not changed.
    - `is_scheduled`: whether every group was scheduled. `refused_groups`: (name, message) of each PodGroup that
      kube-scheduler cannot place.
    - `startable`: names of the Jobs in groups that may run; None: all. Jobs without a group may run, too, unless
      `is_closed`.
    - `is_final`: whether `forest` is final. It becomes final when it is known which groups the API server serves.
    - `is_freed`: whether the set is suspended, and its groups are gone or being deleted.
    """

    forest: Forest | None
    actions: tuple[Action, ...] = ()
    condition: State | None = None
    is_scheduled: bool = False
    refused_groups: tuple[tuple[str, str], ...] = ()
    startable: frozenset[str] | None = None
    is_final: bool = True
    is_freed: bool = False

    def may_run(self, job: str) -> bool:
        """Whether groups allow the Job to be created or resumed."""
        return self.startable is None or job in self.startable or (not self.is_closed and self.group_of(job) is None)

    @property
    def is_closed(self) -> bool:
        """Whether no Job may run, in a group or not, because the set has too many Jobs."""
        return self.forest is None and self.startable is not None

    def group_of(self, job: str) -> Group | None:
        """The PodGroup that the pods of a Job have to name; None if the Job has no group."""
        return None if self.forest is None else self.forest.of_job(job)


def decide(
    js: JobSet,
    known: KnownGroups | None,
    children: ChildJobs,
    is_released: Callable[[ReplicatedJob], bool],
    leftovers: frozenset[str] | None = frozenset(),
    creation_limit: int = DEFAULT_LIMITS.new_groups,
) -> GroupPlan:
    """What to do about groups. `is_released` says which ReplicatedJobs may start.

    `known`: the stored groups; None: the set has none and wants none, or the manager has no caches of groups.
    `leftovers`: names of Jobs of which pods of earlier attempts still exist; None: not known. `creation_limit`: how
    many groups one plan creates.
    """
    if js.spec.scheduling is not None and grouped_jobs(js) > MAX_JOBS:
        message = f"no Job is created: a JobSet with spec.scheduling may have {MAX_JOBS} Jobs, split it"
        return GroupPlan(None, condition=(False, "TooManyJobs", message), startable=frozenset(), is_final=False)
    wanted_forest = forest(js)
    if known is None or wanted_forest is None:
        return GroupPlan(wanted_forest, () if known is None else OwnedGroups.from_known(known).removals(workload=True))
    unavailable = _why_unavailable(wanted_forest, known)
    if unavailable is not None:
        return _without_api(js, wanted_forest, *unavailable, required=known.required)
    ctx = group_context(js, wanted_forest, OwnedGroups.from_known(known), children, leftovers)
    if js.spec.suspend:
        return _free_groups(ctx)
    if any(_is_ungrouped(ctx, child) for child in ctx.active.values()):
        message = "Jobs run that were started without groups: the next attempt has them"
        return GroupPlan(None, condition=(False, "JobsWithoutGroups", message))
    return _arrange(ctx, {rjob.name for rjob in js.spec.replicated_jobs if is_released(rjob)}, creation_limit)


def release_groups(known: KnownGroups | None) -> tuple[Action, ...]:
    """Actions that delete the groups of a finished set. The Workload stays until the set is deleted."""
    return () if known is None else OwnedGroups.from_known(known).removals(workload=False)


def _why_unavailable(wanted_forest: Forest, known: KnownGroups) -> tuple[str, str] | None:
    """Reason and message if groups cannot be created, else None."""
    if known.error is not None:
        return known.error
    missing = missing_api(wanted_forest, known.served)
    return (missing.reason, missing.message) if missing else None


def _without_api(js: JobSet, wanted_forest: Forest, reason: str, message: str, *, required: bool) -> GroupPlan:
    """The plan if the API server lacks something: Jobs wait or, if groups are not `required`, run without groups."""
    if reason == "Discovering" and any(c.type == keys.GROUPS_READY for c in js.status.conditions):
        # The manager has just started. In a moment it knows whether the stored condition is still true.
        return GroupPlan(wanted_forest, startable=frozenset(), is_final=False)
    if required or reason in {"Discovering", "NameConflict"}:
        condition = False, reason, f"no Job is created: {message}"
        return GroupPlan(wanted_forest, condition=condition, startable=frozenset(), is_final=reason != "Discovering")
    message = f"{message}. The Jobs run without groups, as scheduling.whenUnavailable is Ignore"
    return GroupPlan(None, condition=(False, reason, message))


def _is_ungrouped(ctx: GroupContext, child: Child) -> bool:
    """Whether a Job runs without its wanted group. Other pods of the group would wait for the Job's pods forever."""
    has_group = bool(child.job.spec.template.spec.pod_group)
    return child.may_run and not has_group and ctx.wanted.of_job(child.name) is not None


def _free_groups(ctx: GroupContext) -> GroupPlan:
    """The plan of a suspended set, which deletes its groups as soon as all its Jobs are suspended."""
    are_suspended = all(child.job.spec.suspend for child in ctx.active.values())
    actions = ctx.owned.removals(workload=True) if are_suspended else ()
    condition = False, "Suspended", "the set is suspended and has no groups"
    return GroupPlan(ctx.wanted, actions, condition, is_freed=are_suspended)


@dataclass(frozen=True, slots=True)
class _ObjectPlan:
    """What to do about one group or Workload. `is_ready`: Jobs may start with it. `is_missing`: it does not exist.

    `is_ending`: it is being deleted, which finalizers delay until its pods have ended.
    """

    is_ready: bool
    actions: tuple[Action, ...] = ()
    is_ending: bool = False
    is_missing: bool = False


_READY, _MISSING = _ObjectPlan(is_ready=True), _ObjectPlan(is_ready=False, is_missing=True)


def _arrange(ctx: GroupContext, released: set[str], creation_limit: int) -> GroupPlan:
    """The plan of a running set: create groups of released ReplicatedJobs, delete unwanted groups, start Jobs."""
    roots = ctx.wanted.roots
    workload = _workload_plan(ctx) if roots else _READY
    groups_and_parents = [(root, group, parent) for root in roots for group, parent in root.with_parents()]
    released_groups = [
        (root, group, parent)
        for root, group, parent in groups_and_parents
        if not released.isdisjoint(group.replicated_jobs)
    ]
    group_plans = [(root.name, _group_plan(ctx, group, parent)) for root, group, parent in released_groups]
    missing = [entry for entry, (_, plan) in zip(released_groups, group_plans, strict=True) if plan.is_missing]
    # After a restart, groups of later stages may exist already, and stay.
    removals = ctx.owned.removals(
        workload=not roots, keep=((group.kind, group.name) for _, group, _ in groups_and_parents)
    )
    changes = [action for _, plan in group_plans for action in plan.actions]
    actions = (*workload.actions, *changes, *_creations(ctx, missing, creation_limit), *removals)
    not_ready = {root for root, plan in group_plans if not plan.is_ready}
    closed_roots = not_ready | held_roots(ctx) if workload.is_ready else {root.name for root in roots}
    pod_groups = [group for _, group, _ in groups_and_parents if not group.is_composite]
    is_ending = workload.is_ending or any(plan.is_ending for _, plan in group_plans)
    return GroupPlan(
        ctx.wanted,
        actions,
        _ready_condition(len(released_groups), is_ending=is_ending, is_complete=not actions),
        # The status of a group that is being deleted describes pods of the earlier attempt.
        is_scheduled=bool(pod_groups) and not is_ending and all(is_scheduled(ctx, group) for group in pod_groups),
        refused_groups=tuple((group.name, message) for group in pod_groups if (message := refusal(ctx, group))),
        startable=frozenset(job for root in roots if root.name not in closed_roots for job, _ in jobs_below(root)),
    )


def _creations(ctx: GroupContext, missing: list[tuple[Group, Group, str]], limit: int) -> list[CreateGroup]:
    """Creations of up to `limit` missing groups, upper levels first; the next plan creates more."""
    by_level = sorted(((_level(group, parent), group, parent) for _, group, parent in missing), key=itemgetter(0))
    return [
        CreateGroup(group.kind, group.name, partial(_body, ctx, group, parent), level)
        for level, group, parent in by_level[:limit]
    ]


def _workload_plan(ctx: GroupContext) -> _ObjectPlan:
    """What to do about the Workload, whose templates follow the spec."""
    name, body = ctx.wanted.workload, build_workload(ctx.js, ctx.wanted)
    stored = ctx.owned.workloads.get(name)
    if stored is None:
        return _ObjectPlan(is_ready=False, actions=(CreateGroup(WORKLOAD, name, lambda: body, WORKLOAD_LEVEL),))
    if not _is_usable(ctx, stored, ()):
        return _ObjectPlan(is_ready=False, is_ending=True)
    templates = {key: value for key, value in body["spec"].items() if key != "controllerRef"}
    if contains(stored.spec, templates):
        return _READY
    meta = stored.metadata
    change = PatchGroup(WORKLOAD, name, meta.uid, meta.resource_version, {"spec": templates}, body)
    return _ObjectPlan(is_ready=True, actions=(change,))


def _group_plan(ctx: GroupContext, group: Group, parent: str) -> _ObjectPlan:
    """What to do about a group. `parent`: name of the composite above it, empty for a root."""
    kind = group.kind
    stored = ctx.owned.groups.get((kind, group.name))
    if stored is None:
        return _MISSING
    if not _is_usable(ctx, stored, group.jobs):
        return _ObjectPlan(is_ready=False, is_ending=True)
    if not is_same(stored, group, parent):
        # The spec was changed while the set was suspended, or somebody has changed the group. These fields are
        # immutable, so the group is deleted and created again.
        return _ObjectPlan(is_ready=False, actions=(DeleteGroup(kind, group.name, stored.metadata.uid),))
    gang, required = stored.spec.scheduling_policy.gang, required_members(ctx, group)
    if gang is None or required is None or gang.count == required:
        return _READY
    # Jobs wait for the patch if the stored number is too small: kube-scheduler would place a part of the gang.
    if gang.count < required or gang.count > (group.gang_size or 0) or has_waiting_pods(ctx, group):
        body = _body(ctx, group, parent)
        policy = {"spec": {"schedulingPolicy": body["spec"]["schedulingPolicy"]}}
        replacement = body if group.is_composite else None
        meta = stored.metadata
        change = PatchGroup(kind, group.name, meta.uid, meta.resource_version, policy, replacement)
        return _ObjectPlan(is_ready=gang.count > required, actions=(change,))
    return _READY


def _body(ctx: GroupContext, group: Group, parent: str) -> JSON:
    """The body of a new group."""
    return build_group(ctx.js, ctx.wanted, group, parent, required_members(ctx, group) or group.gang_size)


def _is_usable(ctx: GroupContext, stored: StoredGroup | StoredWorkload, members: Iterable[tuple[str, int]]) -> bool:
    """Whether pods can join the group. A group that is being deleted works as long as Jobs of its members run."""
    if stored.metadata.deletion_timestamp is None:
        return True
    running = [child for job, _ in members if (child := ctx.active.get(job)) and not child.job.spec.suspend]
    return any(not child.deleting for child in running)


def _ready_condition(groups: int, *, is_ending: bool, is_complete: bool) -> State | None:
    """The condition SchedulingObjectsReady; None while groups are being created, which is too short to report."""
    if is_ending:
        # The message has no names or numbers, which would change with each deleted group and cause a write.
        message = "groups of an earlier attempt are being deleted: PodGroups stay until their pods have ended"
        return False, "WaitingForOldGroups", message
    if not is_complete:
        return None
    return True, "Created", f"the Workload and {groups} {'group' if groups == 1 else 'groups'} are there"


def _level(group: Group, parent: str) -> int:
    if not group.is_composite:
        return POD_GROUP_LEVEL
    return INNER_LEVEL if parent else ROOT_LEVEL
