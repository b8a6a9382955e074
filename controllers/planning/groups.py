"""Decides which scheduling groups of one JobSet to create, change and delete, and which Jobs may run. Pure.

With `spec.scheduling`, kube-scheduler places the pods of a JobSet by groups of the API scheduling.k8s.io: a PodGroup
has pods as members, and a CompositePodGroup (here: composite) has other groups. A group without a parent is a root, and
a root with all groups below it is a tree. A Workload object lists the templates of all groups of the set.

A Job may run only when all groups of its tree exist as the spec wants them, and the tree has no Job of an earlier
attempt (the time before the last restart of the set). kube-scheduler counts terminating pods of an earlier attempt as
members of a group, and would schedule new pods one by one.
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
    is_scheduled,
    jobs_below,
    refusal,
    required_members,
    roots_with_ending_pods,
)
from controllers.planning.limits import DEFAULT_LIMITS
from controllers.planning.observed import KnownGroups
from kube.model.meta import JSON

NOT_A_WARNING = {"Created", "Suspended", "WaitingForOldGroups", "Discovering", "JobsWithoutGroups"}
"""Reasons of the condition SchedulingObjectsReady for which no Warning event is sent."""

WORKLOAD_LEVEL, ROOT_LEVEL, INNER_LEVEL, POD_GROUP_LEVEL = range(4)
"""The levels in order of creation: the Workload, root composites, composites with a parent, PodGroups.

`api.gangs` builds at most two levels of composites above the PodGroups. Kubernetes allows three (KEP-6012).
"""

ConditionState = tuple[bool, str, str]
"""Status, reason and message of a condition."""


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """What to do about groups.

    - `forest`: all trees that the spec wants; None: the set runs without groups.
    - `actions`: creations, patches and deletions of groups and of the Workload.
    - `condition`: the new condition SchedulingObjectsReady; None: it does not change.
    - `is_scheduled`: whether kube-scheduler has scheduled every PodGroup. `refused_groups`: name of each PodGroup that
      kube-scheduler cannot place, with its message.
    - `startable_jobs`: names of the Jobs with a group that may run; None: all Jobs may run. A Job without a group may
      run in any case, except if the set has too many Jobs (`is_closed`).
    - `is_final`: False if `forest` may change: the set has too many Jobs, or this process does not know yet which
      groups the API server serves.
    - `is_freed`: whether the set is suspended, and its groups are deleted or being deleted.
    """

    forest: Forest | None
    actions: tuple[Action, ...] = ()
    condition: ConditionState | None = None
    is_scheduled: bool = False
    refused_groups: tuple[tuple[str, str], ...] = ()
    startable_jobs: frozenset[str] | None = None
    is_final: bool = True
    is_freed: bool = False

    def may_run(self, job: str) -> bool:
        """Whether groups allow the Job to be created or resumed."""
        if self.startable_jobs is None or job in self.startable_jobs:
            return True
        return not self.is_closed and self.group_of(job) is None

    @property
    def is_closed(self) -> bool:
        """Whether no Job may run, in a group or not, because the set has too many Jobs."""
        return self.forest is None and self.startable_jobs is not None

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
    """What to do about groups.

    - `known`: the groups that exist; None: the set has none and wants none, or the manager has no caches of groups.
    - `is_released`: says whether a ReplicatedJob may start, according to the order in which ReplicatedJobs start.
    - `leftovers`: names of the Jobs of which pods of earlier attempts still exist; None: not known.
    - `creation_limit`: how many groups one plan creates.
    """
    if js.spec.scheduling is not None and grouped_jobs(js) > MAX_JOBS:
        message = f"no Job is created: a JobSet with spec.scheduling may have {MAX_JOBS} Jobs, split it"
        return GroupPlan(None, condition=(False, "TooManyJobs", message), startable_jobs=frozenset(), is_final=False)
    wanted_forest = forest(js)
    if known is None or wanted_forest is None:
        return GroupPlan(wanted_forest, () if known is None else OwnedGroups.from_known(known).removals(workload=True))
    reason_and_message = _why_unavailable(wanted_forest, known)
    if reason_and_message is not None:
        return _plan_without_api(js, wanted_forest, *reason_and_message, required=known.required)
    ctx = group_context(js, wanted_forest, OwnedGroups.from_known(known), children, leftovers)
    if js.spec.suspend:
        return _plan_of_suspended_set(ctx)
    if any(_is_ungrouped(ctx, child) for child in ctx.active.values()):
        message = "Jobs run that were started without groups: the next attempt has them"
        return GroupPlan(None, condition=(False, "JobsWithoutGroups", message))
    released_names = {rjob.name for rjob in js.spec.replicated_jobs if is_released(rjob)}
    return _plan_of_running_set(ctx, released_names, creation_limit)


def release_groups(known: KnownGroups | None) -> tuple[Action, ...]:
    """Actions that delete the groups of a finished set. The Workload stays until the set is deleted."""
    return () if known is None else OwnedGroups.from_known(known).removals(workload=False)


def _why_unavailable(wanted_forest: Forest, known: KnownGroups) -> tuple[str, str] | None:
    """Reason and message for the condition if the wanted groups cannot be created; None if they can."""
    if known.error is not None:
        return known.error
    missing = missing_api(wanted_forest, known.served)
    return (missing.reason, missing.message) if missing else None


def _plan_without_api(js: JobSet, wanted_forest: Forest, reason: str, message: str, *, required: bool) -> GroupPlan:
    """The plan if groups cannot be created. Jobs wait if groups are `required`, else they run without groups."""
    if reason == "Discovering" and any(c.type == keys.GROUPS_READY for c in js.status.conditions):
        # The manager has just started. In a moment it knows whether the stored condition is still true.
        return GroupPlan(wanted_forest, startable_jobs=frozenset(), is_final=False)
    if required or reason in {"Discovering", "NameConflict"}:
        return GroupPlan(
            wanted_forest,
            condition=(False, reason, f"no Job is created: {message}"),
            startable_jobs=frozenset(),
            is_final=reason != "Discovering",
        )
    message = f"{message}. The Jobs run without groups, as scheduling.whenUnavailable is Ignore"
    return GroupPlan(None, condition=(False, reason, message))


def _is_ungrouped(ctx: GroupContext, child: Child) -> bool:
    """Whether a Job runs whose pods name no group, although the spec wants a group for the Job.

    Its pods never become members. So the pods of other Jobs in the same group would wait for them forever.
    """
    has_group = bool(child.job.spec.template.spec.pod_group)
    return child.may_run and not has_group and ctx.wanted.of_job(child.name) is not None


def _plan_of_suspended_set(ctx: GroupContext) -> GroupPlan:
    """Deletes the groups and the Workload as soon as all Jobs of the set are suspended."""
    are_suspended = all(child.job.spec.suspend for child in ctx.active.values())
    actions = ctx.owned.removals(workload=True) if are_suspended else ()
    condition = False, "Suspended", "the set is suspended and has no groups"
    return GroupPlan(ctx.wanted, actions, condition, is_freed=are_suspended)


@dataclass(frozen=True, slots=True)
class _ObjectPlan:
    """What to do about one group, or about the Workload.

    - `is_ready`: Jobs may start with the object. `is_missing`: the object does not exist.
    - `is_ending`: the object is being deleted. Finalizers keep a PodGroup until its pods have ended.
    """

    is_ready: bool
    actions: tuple[Action, ...] = ()
    is_ending: bool = False
    is_missing: bool = False


_READY = _ObjectPlan(is_ready=True)
_MISSING = _ObjectPlan(is_ready=False, is_missing=True)


def _plan_of_running_set(ctx: GroupContext, released_names: set[str], creation_limit: int) -> GroupPlan:
    """Creates groups of released ReplicatedJobs, deletes groups that the spec no longer wants, and lets Jobs start.

    `released_names`: names of the ReplicatedJobs that may start.
    """
    roots = ctx.wanted.roots
    groups_with_parents = [(root, group, parent) for root in roots for group, parent in root.with_parents()]
    released_groups = [
        (root, group, parent)
        for root, group, parent in groups_with_parents
        if not released_names.isdisjoint(group.replicated_jobs)
    ]
    workload_plan = _workload_plan(ctx) if roots else _READY
    group_plans = [_group_plan(ctx, group, parent) for _, group, parent in released_groups]
    is_ending = workload_plan.is_ending or any(plan.is_ending for plan in group_plans)

    missing_groups = [
        (group, parent)
        for (_, group, parent), plan in zip(released_groups, group_plans, strict=True)
        if plan.is_missing
    ]
    # Groups of ReplicatedJobs that start later may exist already, since before a restart. They are kept.
    wanted_names = ((group.kind, group.name) for _, group, _ in groups_with_parents)
    actions = (
        *workload_plan.actions,
        *(action for plan in group_plans for action in plan.actions),
        *_creations(ctx, missing_groups, creation_limit),
        *ctx.owned.removals(workload=not roots, keep=wanted_names),
    )

    waiting_roots = {root.name for root in roots}
    if workload_plan.is_ready:
        waiting_roots = roots_with_ending_pods(ctx).union(
            root.name for (root, _, _), plan in zip(released_groups, group_plans, strict=True) if not plan.is_ready
        )
    pod_groups = [group for _, group, _ in groups_with_parents if not group.is_composite]
    return GroupPlan(
        ctx.wanted,
        actions,
        _ready_condition(len(released_groups), is_ending=is_ending, is_complete=not actions),
        # The status of a group that is being deleted describes pods of the earlier attempt.
        is_scheduled=bool(pod_groups) and not is_ending and all(is_scheduled(ctx, group) for group in pod_groups),
        refused_groups=tuple((group.name, message) for group in pod_groups if (message := refusal(ctx, group))),
        startable_jobs=frozenset(
            job for root in roots if root.name not in waiting_roots for job, _ in jobs_below(root)
        ),
    )


def _creations(ctx: GroupContext, missing_groups: list[tuple[Group, str]], limit: int) -> list[CreateGroup]:
    """Creations of up to `limit` groups, upper levels first. The next plan creates more.

    `missing_groups`: each group with the name of its parent.
    """
    by_level = sorted(((_level(group, parent), group, parent) for group, parent in missing_groups), key=itemgetter(0))
    return [
        CreateGroup(group.kind, group.name, partial(_body, ctx, group, parent), level)
        for level, group, parent in by_level[:limit]
    ]


def _workload_plan(ctx: GroupContext) -> _ObjectPlan:
    """What to do about the Workload. A Workload whose templates differ from the spec is patched."""
    name, body = ctx.wanted.workload, build_workload(ctx.js, ctx.wanted)
    stored = ctx.owned.workloads.get(name)
    if stored is None:
        return _ObjectPlan(is_ready=False, actions=(CreateGroup(WORKLOAD, name, lambda: body, WORKLOAD_LEVEL),))
    if not _is_usable(ctx, stored, jobs=()):
        return _ObjectPlan(is_ready=False, is_ending=True)
    templates = {key: value for key, value in body["spec"].items() if key != "controllerRef"}
    if contains(stored.spec, templates):
        return _READY
    meta = stored.metadata
    change = PatchGroup(WORKLOAD, name, meta.uid, meta.resource_version, {"spec": templates}, body)
    return _ObjectPlan(is_ready=True, actions=(change,))


def _group_plan(ctx: GroupContext, group: Group, parent: str) -> _ObjectPlan:
    """What to do about a group. `parent`: name of the composite above the group, empty for a root."""
    kind = group.kind
    stored = ctx.owned.groups.get((kind, group.name))
    if stored is None:
        return _MISSING
    if not _is_usable(ctx, stored, (job for job, _ in group.jobs)):
        return _ObjectPlan(is_ready=False, is_ending=True)
    if not is_same(stored, group, parent):
        # Somebody has changed the group, or has changed the spec while the set was suspended. The compared fields are
        # immutable, so the group is deleted and created again.
        return _ObjectPlan(is_ready=False, actions=(DeleteGroup(kind, group.name, stored.metadata.uid),))
    gang, required = stored.spec.scheduling_policy.gang, required_members(ctx, group)
    if gang is None or required is None or gang.count == required:
        return _READY
    # `gang.count` is the number of members in the stored group. If it is too small, kube-scheduler would place only a
    # part of the gang, so Jobs wait for the patch. If it is too large, pods wait for members that have ended. Then it
    # is patched only if it is larger than in the spec, or pods are waiting.
    if gang.count < required or gang.count > (group.gang_size or 0) or has_waiting_pods(ctx, group):
        body = _body(ctx, group, parent)
        policy = {"spec": {"schedulingPolicy": body["spec"]["schedulingPolicy"]}}
        replacement = body if group.is_composite else None
        meta = stored.metadata
        change = PatchGroup(kind, group.name, meta.uid, meta.resource_version, policy, replacement)
        return _ObjectPlan(is_ready=gang.count > required, actions=(change,))
    return _READY


def _body(ctx: GroupContext, group: Group, parent: str) -> JSON:
    """The body of a new group. A gang gets the number of members that are placed together now."""
    return build_group(ctx.js, ctx.wanted, group, parent, required_members(ctx, group) or group.gang_size)


def _is_usable(ctx: GroupContext, stored: StoredGroup | StoredWorkload, jobs: Iterable[str]) -> bool:
    """Whether pods can join a group. `jobs`: names of the Jobs whose pods are members.

    Pods can join a group that is being deleted as long as one of its Jobs runs and is not being deleted.
    """
    if stored.metadata.deletion_timestamp is None:
        return True
    children = (child for job in jobs if (child := ctx.active.get(job)))
    return any(not child.job.spec.suspend and not child.deleting for child in children)


def _ready_condition(groups: int, *, is_ending: bool, is_complete: bool) -> ConditionState | None:
    """The condition SchedulingObjectsReady; None while groups are being created, a time too short to report.

    `groups`: how many groups the set needs now. `is_ending`: a group is being deleted. `is_complete`: no group has to
    be written.
    """
    if is_ending:
        # The message has no names or numbers, which would change with each deleted group and cause a write.
        message = "groups of an earlier attempt are being deleted: PodGroups stay until their pods have ended"
        return False, "WaitingForOldGroups", message
    if not is_complete:
        return None
    return True, "Created", f"the Workload and {groups} {'group' if groups == 1 else 'groups'} are there"


def _level(group: Group, parent: str) -> int:
    """The level of a group, as in `WORKLOAD_LEVEL` and the following constants."""
    if not group.is_composite:
        return POD_GROUP_LEVEL
    return INNER_LEVEL if parent else ROOT_LEVEL
