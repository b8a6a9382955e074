"""The scheduling groups and Jobs of one JobSet, and what follows from their state for decisions about groups. Pure.

A group is a PodGroup, whose members are pods, or a CompositePodGroup (here: composite), whose members are groups. A
group without a parent is a root, and a root with all groups below it is a tree. A gang is a group whose members
kube-scheduler places together. The Workload lists the templates of the groups. An attempt is the time between two
restarts of the set. See docs/glossary.md#gang-scheduling.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from api.batch import is_job_ready
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
    """The groups that exist for a set, by kind and name, and its Workloads, by name."""

    workloads: Mapping[str, StoredWorkload]
    groups: Mapping[tuple[str, str], StoredGroup]

    @classmethod
    def from_known(cls, known: KnownGroups) -> "OwnedGroups":
        groups = {(COMPOSITE, group.metadata.name): group for group in known.composites}
        groups |= {(POD_GROUP, group.metadata.name): group for group in known.pod_groups}
        return cls({workload.metadata.name: workload for workload in known.workloads}, groups)

    def removals(self, *, workload: bool, keep: Iterable[tuple[str, str]] = ()) -> tuple[Action, ...]:
        """Deletions of all groups whose (kind, name) is not in `keep` and, with `workload`, of the Workloads.

        Objects that are being deleted already are left out.
        """
        kept_names = {*keep}
        workloads = [((WORKLOAD, name), stored.metadata) for name, stored in self.workloads.items() if workload]
        groups = [
            (kind_and_name, stored.metadata)
            for kind_and_name, stored in self.groups.items()
            if kind_and_name not in kept_names
        ]
        return tuple(
            DeleteGroup(kind, name, meta.uid)
            for (kind, name), meta in [*groups, *workloads]
            if meta.deletion_timestamp is None
        )


@dataclass(frozen=True, slots=True)
class GroupContext:
    """The data about one set with `spec.scheduling` that decisions about groups need. A plan computes them once.

    - `wanted`: the trees of groups that the spec wants. `owned`: the groups that exist.
    - `active`: Jobs of this attempt that exist and have not ended, by name. `previous`: Jobs of an earlier attempt.
    - `leftovers`: names of the Jobs of which pods of earlier attempts still exist; None: not known.
    - `completed`: names of completed Jobs.
    - `unfinished_pods`: by name of the Job, how many of its pods have still to succeed. A Job without a succeeded pod
      is left out.
    """

    js: JobSet
    wanted: Forest
    owned: OwnedGroups
    active: Mapping[str, Child]
    previous: tuple[Child, ...]
    leftovers: frozenset[str] | None
    completed: frozenset[str]
    unfinished_pods: Mapping[str, int]


def group_context(
    js: JobSet, wanted: Forest, owned: OwnedGroups, children: ChildJobs, leftovers: frozenset[str] | None
) -> GroupContext:
    """The `GroupContext` of a set. `children`: all Jobs of the set, by state."""
    name = js.metadata.name
    active = {child.name: child for child in children.active if not child.was_deleted}
    completed = frozenset(
        job_name(name, rjob, index) for rjob, indexes in children.completed.items() for index in indexes
    )
    wanted_pods = {rjob.name: rjob.completions for rjob in js.spec.replicated_jobs}
    unfinished_pods = {
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
        unfinished_pods={**unfinished_pods, **dict.fromkeys(completed, 0)},
    )


def is_misplaced(child: Child, wanted: Forest | None) -> bool:
    """Whether the pod template of a suspended Job names a wrong group.

    The Job has to be deleted, since the field is immutable.
    """
    if not child.job.spec.suspend or child.deleting:
        return False
    group = None if wanted is None else wanted.of_job(child.name)
    return child.job.spec.template.spec.pod_group != ("" if group is None else group.name)


def required_members(ctx: GroupContext, group: Group) -> int | None:
    """How many members of a gang are placed together: no more than have not succeeded yet (kubernetes#142330).

    None if the group is not a gang, or all its members have succeeded. The number in the stored group then stays.
    """
    if group.gang_size is None:
        return None
    members = (
        sum(map(partial(_is_unfinished, ctx), group.children)) if group.is_composite else _pods_to_succeed(ctx, group)
    )
    return min(group.gang_size, members) if members else None


def _pods_to_succeed(ctx: GroupContext, group: Group) -> int:
    """How many pods of a PodGroup have still to succeed and may exist at the same time."""
    if not ctx.unfinished_pods:
        return sum([pods for _, pods in group.jobs])
    return sum([min(pods, ctx.unfinished_pods.get(job, pods)) for job, pods in group.jobs])


def _is_unfinished(ctx: GroupContext, group: Group) -> bool:
    """Whether a group has pods in it or below it that have not succeeded."""
    return _pods_to_succeed(ctx, group) > 0 or any(_is_unfinished(ctx, child) for child in group.children)


def has_waiting_pods(ctx: GroupContext, group: Group) -> bool:
    """Whether a Job in or below the group has pods that are not ready.

    Such pods may wait until as many members exist as the group requires, even if some members have ended already.
    """
    children = [ctx.active[job] for job, _ in jobs_below(group) if job in ctx.active]
    return any(not is_job_ready(child.job) for child in children)


def roots_with_ending_pods(ctx: GroupContext) -> set[str]:
    """Names of the roots whose trees have ending pods or may have them. No Job may start in such a tree.

    The pods belong to an earlier attempt, or to a Job that is suspended, is being deleted or has to be deleted.
    """
    wanted, leftovers = ctx.wanted, ctx.leftovers
    # If the spec no longer has the Job of leftover pods, the group of the pods is not known.
    if leftovers is None or (leftovers and not leftovers <= _job_names(ctx.js)):
        return {root.name for root in wanted.roots}
    ending = [child for child in ctx.active.values() if child.deleting or _is_ending(ctx, child)]
    ending_jobs = leftovers.union(child.name for child in (*ctx.previous, *ending))
    # The group of a Job that the spec no longer has is not known, but it was a group of the Job's ReplicatedJob.
    shrunk_names = {child.replicated_job for child in ctx.previous if wanted.of_job(child.name) is None}
    roots = {root.name for root in wanted.roots if shrunk_names and not shrunk_names.isdisjoint(root.replicated_jobs)}
    return roots.union(root.name for job in ending_jobs if (root := wanted.root_of_job(job)) is not None)


def _is_ending(ctx: GroupContext, child: Child) -> bool:
    """Whether a Job is suspended, and has to be deleted or still has pods.

    kube-scheduler counts the pods as members of their group until they are gone.
    """
    status = child.job.status
    return is_misplaced(child, ctx.wanted) or (child.job.spec.suspend and bool(status.active or status.terminating))


def is_scheduled(ctx: GroupContext, group: Group) -> bool:
    """Whether a PodGroup is scheduled: kube-scheduler reports it, or all Jobs of the group are ready or completed."""
    stored = ctx.owned.groups.get((POD_GROUP, group.name))
    if stored is not None and is_true(stored.status.conditions or (), INITIALLY_SCHEDULED):
        return True
    return all(job in ctx.completed or _is_running_and_ready(ctx, job) for job, _ in group.jobs)


def _is_running_and_ready(ctx: GroupContext, job: str) -> bool:
    """Whether a Job runs and its pods are ready. The counts of a suspended Job are out of date."""
    child = ctx.active.get(job)
    return child is not None and not child.job.spec.suspend and is_job_ready(child.job)


def refusal(ctx: GroupContext, group: Group) -> str:
    """The message of kube-scheduler about a PodGroup that it cannot place.

    Empty if kube-scheduler has placed the group or has not reported about it, or if the group has no pods.
    """
    stored = ctx.owned.groups.get((POD_GROUP, group.name))
    condition = None if stored is None else find(stored.status.conditions or (), INITIALLY_SCHEDULED)
    if condition is None or is_scheduled(ctx, group):
        return ""
    running = [ctx.active[job].job for job, _ in group.jobs if job in ctx.active]
    return condition.message if any(job.status.active and not job.spec.suspend for job in running) else ""


def jobs_below(group: Group) -> Iterable[tuple[str, int]]:
    """The Jobs in a group and in all groups below it: name, and how many pods the Job has at the same time."""
    return group.jobs if not group.is_composite else [job for below in group.walk() for job in below.jobs]


def _job_names(js: JobSet) -> set[str]:
    """The names of all Jobs of the set, in groups or not."""
    name = js.metadata.name
    return {job_name(name, rjob.name, index) for rjob in js.spec.replicated_jobs for index in range(rjob.replicas)}
