"""The groups and Jobs of one set, and what decisions about groups derive from them. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from api.batch import job_ready
from api.gang_status import INITIALLY_SCHEDULED, StoredGroup, StoredWorkload
from api.gangs import COMPOSITE, POD_GROUP, WORKLOAD, Forest, Group
from api.jobset import JobSet
from api.names import job_name
from controllers.planning.actions import Action, DeleteGroup
from controllers.planning.child_jobs import Child, ChildJobs
from controllers.planning.observed import KnownGroups
from kube.model.meta import find, is_true


@dataclass(frozen=True, slots=True)
class OwnedGroups:
    """The groups of a set by kind and name, and its Workloads by name."""

    workloads: Mapping[str, StoredWorkload]
    groups: Mapping[tuple[str, str], StoredGroup]

    @classmethod
    def from_known(cls, known: KnownGroups) -> "OwnedGroups":
        groups = {(COMPOSITE, group.metadata.name): group for group in known.composites}
        groups |= {(POD_GROUP, group.metadata.name): group for group in known.pod_groups}
        return cls({workload.metadata.name: workload for workload in known.workloads}, groups)

    def removals(self, *, workload: bool, keep: Iterable[tuple[str, str]] = ()) -> tuple[Action, ...]:
        """Deletions of all groups that are not in `keep`, as (kind, name), and, with `workload`, of the Workloads."""
        kept_names = {*keep}
        workloads = [((WORKLOAD, name), found.metadata) for name, found in self.workloads.items() if workload]
        groups = [
            (kind_and_name, found.metadata)
            for kind_and_name, found in self.groups.items()
            if kind_and_name not in kept_names
        ]
        return tuple(
            DeleteGroup(kind, name, meta.uid)
            for (kind, name), meta in [*groups, *workloads]
            if meta.deletion_timestamp is None
        )


@dataclass(frozen=True, slots=True)
class GroupContext:
    """One set with `spec.scheduling`, computed once for a plan.

    - `wanted`: the trees. `owned`: the groups that exist.
    - `active`: Jobs of this attempt that exist and have not ended, by name. `previous`: those of an earlier attempt.
    - `leftovers`: names of Jobs of which pods of earlier attempts are left; None: that is not known.
    - `completed`: names of Jobs. `left`: how many pods have still to succeed, for Jobs of which some have.
    """

    js: JobSet
    wanted: Forest
    owned: OwnedGroups
    active: Mapping[str, Child]
    previous: tuple[Child, ...]
    leftovers: frozenset[str] | None
    completed: frozenset[str]
    left: Mapping[str, int]


def group_context(
    js: JobSet, wanted: Forest, owned: OwnedGroups, children: ChildJobs, leftovers: frozenset[str] | None
) -> GroupContext:
    name = js.metadata.name
    active = {child.name: child for child in children.active if not child.gone}
    completed = frozenset(
        job_name(name, rjob, index) for rjob, indexes in children.completed.items() for index in indexes
    )
    wanted_pods = {rjob.name: rjob.completions for rjob in js.spec.replicated_jobs}
    left = {
        job: max(completions - child.job.status.succeeded, 0)
        for job, child in active.items()
        if child.job.status.succeeded and (completions := wanted_pods[child.replicated_job]) is not None
    }
    return GroupContext(
        js=js,
        wanted=wanted,
        owned=owned,
        active=active,
        previous=children.previous,
        leftovers=leftovers,
        completed=completed,
        left={**left, **dict.fromkeys(completed, 0)},
    )


def is_misplaced(child: Child, wanted: Forest | None) -> bool:
    """Whether a suspended Job names another group than it should. The field is immutable: such a Job is deleted."""
    if not child.job.spec.suspend or child.deleting:
        return False
    group = None if wanted is None else wanted.of_job(child.name)
    return child.job.spec.template.spec.pod_group != ("" if group is None else group.name)


def required_members(ctx: GroupContext, group: Group) -> int | None:
    """How many members of a gang have to fit together: at most those that have not ended yet (kubernetes#142330).

    None if the group is not a gang, or all its members have ended: then the stored number is not changed.
    """
    if group.gang is None:
        return None
    left = sum(map(partial(_has_left, ctx), group.children)) if group.composite else _pods_to_succeed(ctx, group)
    return min(group.gang, left) if left else None


def _pods_to_succeed(ctx: GroupContext, group: Group) -> int:
    """Pods of a PodGroup that have not succeeded and can exist at once."""
    if not ctx.left:
        return sum([pods for _, pods in group.jobs])
    left = ctx.left.get
    return sum([min(pods, left(job, pods)) for job, pods in group.jobs])


def _has_left(ctx: GroupContext, group: Group) -> bool:
    """Whether a group has pods below it that have not succeeded."""
    return _pods_to_succeed(ctx, group) > 0 or any(_has_left(ctx, child) for child in group.children)


def waits(ctx: GroupContext, group: Group) -> bool:
    """Whether a Job below has pods that are not ready: they may wait for ended members."""
    children = [ctx.active[job] for job, _ in jobs_below(group) if job in ctx.active]
    return any(not job_ready(child.job) for child in children)


def held_roots(ctx: GroupContext) -> set[str]:
    """Names of the roots below which pods of an earlier attempt may still end, or a Job is being deleted."""
    wanted, left = ctx.wanted, ctx.leftovers
    # The group of pods of a removed Job is unknown.
    if left is None or (left and not left <= _names(ctx.js)):
        return {root.name for root in wanted.roots}
    ending = [child for child in ctx.active.values() if child.deleting or _halting(ctx, child)]
    old = left.union(child.name for child in (*ctx.previous, *ending))
    # The group of a removed Job is unknown as well, but it was one of its ReplicatedJob.
    lost = {child.replicated_job for child in ctx.previous if wanted.of_job(child.name) is None}
    roots = {root.name for root in wanted.roots if lost and not lost.isdisjoint(root.replicated_jobs)}
    return roots.union(root.name for job in old if (root := wanted.root_of_job(job)) is not None)


def _halting(ctx: GroupContext, child: Child) -> bool:
    """Whether a suspended Job has pods, which count as members until they are gone, or will be deleted."""
    status = child.job.status
    return is_misplaced(child, ctx.wanted) or (child.job.spec.suspend and bool(status.active or status.terminating))


def is_scheduled(ctx: GroupContext, group: Group) -> bool:
    """Whether kube-scheduler has scheduled a PodGroup, or all its Jobs are ready or done."""
    found = ctx.owned.groups.get((POD_GROUP, group.name))
    if found is not None and is_true(found.status.conditions or (), INITIALLY_SCHEDULED):
        return True
    return all(job in ctx.completed or _runs_ready(ctx, job) for job, _ in group.jobs)


def _runs_ready(ctx: GroupContext, job: str) -> bool:
    """Whether the pods of a Job are ready. The counts of a suspended Job are out of date."""
    child = ctx.active.get(job)
    return child is not None and not child.job.spec.suspend and job_ready(child.job)


def refusal(ctx: GroupContext, group: Group) -> str:
    """The scheduler's message about a PodGroup that it cannot place; empty if there is none.

    Its message about a group that has no pods yet is left out.
    """
    found = ctx.owned.groups.get((POD_GROUP, group.name))
    condition = None if found is None else find(found.status.conditions or (), INITIALLY_SCHEDULED)
    if condition is None or is_scheduled(ctx, group):
        return ""
    running = [ctx.active[job].job for job, _ in group.jobs if job in ctx.active]
    return condition.message if any(job.status.active and not job.spec.suspend for job in running) else ""


def jobs_below(group: Group) -> Iterable[tuple[str, int]]:
    """The Jobs in a group and in all groups below it, each with the pods that it has at once."""
    return group.jobs if not group.composite else [job for below in group.walk() for job in below.jobs]


def _names(js: JobSet) -> set[str]:
    """All Jobs of the set, in groups or not."""
    name = js.metadata.name
    return {job_name(name, rjob.name, index) for rjob in js.spec.replicated_jobs for index in range(rjob.replicas)}
