"""Decides about the groups of one JobSet (`spec.scheduling`), and which Jobs may run with them. Pure.

A Job starts only when all groups of its tree exist as the spec wants them, and no Job of an earlier attempt is left in
the tree: kube-scheduler counts terminating pods as members, and would schedule new pods one by one.

`decide` handles in this order: an API server that does not serve groups, a suspended set, Jobs that run without groups,
and a set that runs with groups (`_arrange`).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from operator import itemgetter

from api import keys
from api.gang_api import lacking
from api.gang_objects import build_group, build_workload, holds, same
from api.gang_status import StoredGroup, StoredWorkload
from api.gangs import MAX_JOBS, WORKLOAD, Forest, Group, forest, grouped_jobs
from api.jobset import JobSet, ReplicatedJob
from controllers.planning.actions import Action, CreateGroup, DeleteGroup, PatchGroup
from controllers.planning.child_jobs import Child, ChildJobs
from controllers.planning.group_context import (
    GroupContext,
    OwnedGroups,
    group_context,
    held_roots,
    is_scheduled,
    jobs_below,
    refusal,
    required_members,
    waits,
)
from controllers.planning.limits import DEFAULT_LIMITS
from controllers.planning.observed import KnownGroups
from kube.model.meta import JSON

NOT_A_WARNING = {"Created", "Suspended", "WaitingForOldGroups", "Discovering", "JobsWithoutGroups"}
"""Reasons of the condition that need no Warning event."""

WORKLOAD_LEVEL, ROOT_LEVEL, INNER_LEVEL, POD_GROUP_LEVEL = range(4)
"""In which order objects are created: the Workload, composites at the root, those below them, PodGroups.

`api.gangs` builds no more than two levels of composites; Kubernetes takes three (depth 4 of templates, KEP-6012).
"""

State = tuple[bool, str, str]
"""Status, reason and message of a condition."""


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """What to do about groups. `state`: the condition SchedulingObjectsReady; None: not changed.

    - `scheduled`: whether every group was scheduled. `refused`: PodGroups that kube-scheduler cannot place, each with
      its message.
    - `startable`: Jobs that may run, beside those in no group; None: all.
    - `settled`: whether `forest` is final: not before it is known which groups the API server serves.
    - `freed`: the set is suspended, and its groups are gone or being deleted.
    """

    forest: Forest | None
    actions: tuple[Action, ...] = ()
    state: State | None = None
    scheduled: bool = False
    refused: tuple[tuple[str, str], ...] = ()
    startable: frozenset[str] | None = None
    settled: bool = True
    freed: bool = False

    def may_run(self, job: str) -> bool:
        """Whether its group, if it has one, lets a Job be created or resumed."""
        return self.startable is None or job in self.startable or (not self.closed and self.group_of(job) is None)

    @property
    def closed(self) -> bool:
        """Whether no Job may run, in a group or not: the set has too many."""
        return self.forest is None and self.startable is not None

    def group_of(self, job: str) -> Group | None:
        """The PodGroup that a Job's pods are to name; None without groups."""
        return None if self.forest is None else self.forest.of_job(job)


def decide(
    js: JobSet,
    known: KnownGroups | None,
    children: ChildJobs,
    released: Callable[[ReplicatedJob], bool],
    leftovers: frozenset[str] | None = frozenset(),
    most_created: int = DEFAULT_LIMITS.new_groups,
) -> GroupPlan:
    """What to do about groups. `released` says which ReplicatedJobs may start; `known` None: the set has no groups.

    `leftovers`: names of Jobs of which pods of earlier attempts are left; None: that is not known. `most_created`:
    groups that are created in one plan.
    """
    if js.spec.scheduling is not None and grouped_jobs(js) > MAX_JOBS:
        message = f"no Job is created: a JobSet with spec.scheduling may have {MAX_JOBS} Jobs, split it"
        return GroupPlan(None, state=(False, "TooManyJobs", message), startable=frozenset(), settled=False)
    wanted = forest(js)
    if known is None or wanted is None:
        return GroupPlan(wanted, () if known is None else OwnedGroups.from_known(known).removals(workload=True))
    unavailable = _why_unavailable(wanted, known)
    if unavailable is not None:
        return _without_api(js, wanted, *unavailable, required=known.required)
    ctx = group_context(js, wanted, OwnedGroups.from_known(known), children, leftovers)
    if js.spec.suspend:
        return _free_groups(ctx)
    if any(_is_ungrouped(ctx, child) for child in ctx.active.values()):
        message = "Jobs run that were started without groups: the next attempt has them"
        return GroupPlan(None, state=(False, "JobsWithoutGroups", message))
    return _arrange(ctx, {rjob.name for rjob in js.spec.replicated_jobs if released(rjob)}, most_created)


def release_groups(known: KnownGroups | None) -> tuple[Action, ...]:
    """A finished set frees its groups; the Workload stays until the set is deleted."""
    return () if known is None else OwnedGroups.from_known(known).removals(workload=False)


def _why_unavailable(wanted: Forest, known: KnownGroups) -> tuple[str, str] | None:
    """Why groups cannot be created, as reason and message."""
    if known.error is not None:
        return known.error
    missing = lacking(wanted, known.served)
    return (missing.reason, missing.message) if missing else None


def _without_api(js: JobSet, wanted: Forest, reason: str, message: str, *, required: bool) -> GroupPlan:
    """The API server lacks something: Jobs wait for it or, if groups are not `required`, run without them."""
    if reason == "Discovering" and any(c.type == keys.GROUPS_READY for c in js.status.conditions):
        # After a start of the manager: the condition is set again in a moment, or still holds.
        return GroupPlan(wanted, startable=frozenset(), settled=False)
    if required or reason in {"Discovering", "NameConflict"}:
        state = False, reason, f"no Job is created: {message}"
        return GroupPlan(wanted, state=state, startable=frozenset(), settled=reason != "Discovering")
    message = f"{message}. The Jobs run without groups, as scheduling.whenUnavailable is Ignore"
    return GroupPlan(None, state=(False, reason, message))


def _is_ungrouped(ctx: GroupContext, child: Child) -> bool:
    """Whether a Job runs without the group that it should have: pods in that group would wait for its pods forever."""
    job = child.job
    return (
        not job.spec.suspend
        and not child.deleting
        and not job.spec.template.spec.pod_group
        and ctx.wanted.of_job(child.name) is not None
    )


def _free_groups(ctx: GroupContext) -> GroupPlan:
    """A suspended set frees its groups as soon as all its Jobs are suspended."""
    freed = all(child.job.spec.suspend for child in ctx.active.values())
    actions = ctx.owned.removals(workload=True) if freed else ()
    return GroupPlan(ctx.wanted, actions, (False, "Suspended", "the set is suspended and has no groups"), freed=freed)


@dataclass(frozen=True, slots=True)
class _Outcome:
    """One group or Workload: whether Jobs may start with it, and what to do about it.

    `missing`: it does not exist. `ending`: an earlier one of its name is being deleted: it is kept until its pods end.
    """

    ready: bool
    actions: tuple[Action, ...] = ()
    ending: bool = False
    missing: bool = False


_READY, _MISSING = _Outcome(ready=True), _Outcome(ready=False, missing=True)


def _arrange(ctx: GroupContext, released: set[str], most_created: int) -> GroupPlan:
    """The set runs: create groups of released ReplicatedJobs, delete unwanted ones, and say which Jobs may start."""
    roots = ctx.wanted.roots
    workload = _workload(ctx) if roots else _READY
    groups_and_parents = [(root, group, parent) for root in roots for group, parent in root.with_parents()]
    released_groups = [entry for entry in groups_and_parents if not released.isdisjoint(entry[1].replicated_jobs)]
    outcomes = [(root.name, _group(ctx, group, parent)) for root, group, parent in released_groups]
    missing = [entry for entry, (_, out) in zip(released_groups, outcomes, strict=True) if out.missing]
    # After a restart, groups of later stages may exist already: they stay.
    removals = ctx.owned.removals(
        workload=not roots, keep=((group.kind, group.name) for _, group, _ in groups_and_parents)
    )
    changes = [action for _, out in outcomes for action in out.actions]
    actions = (*workload.actions, *changes, *_creations(ctx, missing, most_created), *removals)
    broken = {root for root, out in outcomes if not out.ready}
    closed = broken | held_roots(ctx) if workload.ready else {root.name for root in roots}
    leaves = [group for _, group, _ in groups_and_parents if not group.composite]
    ending = workload.ending or any(out.ending for _, out in outcomes)
    return GroupPlan(
        ctx.wanted,
        actions,
        _state(len(released_groups), ending=ending, complete=not actions),
        # The status of a group that is being deleted describes pods of the earlier attempt.
        scheduled=bool(leaves) and not ending and all(is_scheduled(ctx, group) for group in leaves),
        refused=tuple((group.name, words) for group in leaves if (words := refusal(ctx, group))),
        startable=frozenset(job for root in roots if root.name not in closed for job, _ in jobs_below(root)),
    )


def _creations(ctx: GroupContext, missing: list[tuple[Group, Group, str]], most: int) -> list[CreateGroup]:
    """Up to that many of the missing groups, upper levels first; the next plan creates more."""
    first = sorted(((_level(group, parent), group, parent) for _, group, parent in missing), key=itemgetter(0))[:most]
    return [
        CreateGroup(group.kind, group.name, partial(_body, ctx, group, parent), level) for level, group, parent in first
    ]


def _workload(ctx: GroupContext) -> _Outcome:
    """The Workload, whose templates follow the spec."""
    name, body = ctx.wanted.workload, build_workload(ctx.js, ctx.wanted)
    found = ctx.owned.workloads.get(name)
    if found is None:
        return _Outcome(ready=False, actions=(CreateGroup(WORKLOAD, name, lambda: body, WORKLOAD_LEVEL),))
    if not _usable(ctx, found, ()):
        return _Outcome(ready=False, ending=True)
    templates = {key: value for key, value in body["spec"].items() if key != "controllerRef"}
    if holds(found.spec, templates):
        return _READY
    meta = found.metadata
    change = PatchGroup(WORKLOAD, name, meta.uid, meta.resource_version, {"spec": templates}, body)
    return _Outcome(ready=True, actions=(change,))


def _group(ctx: GroupContext, group: Group, parent: str) -> _Outcome:
    """A group of the tree below the composite of that name, empty for a root."""
    kind = group.kind
    found = ctx.owned.groups.get((kind, group.name))
    if found is None:
        return _MISSING
    if not _usable(ctx, found, group.jobs):
        return _Outcome(ready=False, ending=True)
    if not same(found, group, parent):
        # The spec was changed while the set was suspended, or the group by hand. These fields are immutable.
        return _Outcome(ready=False, actions=(DeleteGroup(kind, group.name, found.metadata.uid),))
    gang, need = found.spec.scheduling_policy.gang, required_members(ctx, group)
    if gang is None or need is None or gang.count == need:
        return _READY
    if gang.count < need or gang.count > (group.gang or 0) or waits(ctx, group):
        body = _body(ctx, group, parent)
        policy = {"spec": {"schedulingPolicy": body["spec"]["schedulingPolicy"]}}
        replacement = body if group.composite else None
        meta = found.metadata
        change = PatchGroup(kind, group.name, meta.uid, meta.resource_version, policy, replacement)
        return _Outcome(ready=gang.count > need, actions=(change,))
    return _READY


def _body(ctx: GroupContext, group: Group, parent: str) -> JSON:
    """The body of a new group."""
    return build_group(ctx.js, ctx.wanted, group, parent, required_members(ctx, group) or group.gang)


def _usable(ctx: GroupContext, found: StoredGroup | StoredWorkload, members: Iterable[tuple[str, int]]) -> bool:
    """Whether pods can join it. One that is deleted while its pods run exists, and works, until they end."""
    if found.metadata.deletion_timestamp is None:
        return True
    running = [child for job, _ in members if (child := ctx.active.get(job)) and not child.job.spec.suspend]
    return any(not child.deleting for child in running)


def _state(groups: int, *, ending: bool, complete: bool) -> State | None:
    """The condition; None while groups are being created, which is too short to report."""
    if ending:
        # No names or numbers: otherwise each deleted group would be a write of the status.
        message = "groups of an earlier attempt are being deleted: PodGroups stay until their pods have ended"
        return False, "WaitingForOldGroups", message
    if not complete:
        return None
    return True, "Created", f"the Workload and {groups} {'group' if groups == 1 else 'groups'} are there"


def _level(group: Group, parent: str) -> int:
    if not group.composite:
        return POD_GROUP_LEVEL
    return INNER_LEVEL if parent else ROOT_LEVEL
