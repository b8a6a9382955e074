"""Decides about the groups of one JobSet (`spec.scheduling`), and which Jobs may run as far as those go. Pure.

A Job starts only when every group of its tree stands as the spec wants it and no Job of an earlier attempt is left in
the tree: kube-scheduler counts pods that are ending as members, and would let new ones in piece by piece.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from api import keys
from api.gang_api import lacking
from api.gang_objects import build_group, build_workload, same
from api.gang_status import INITIALLY_SCHEDULED, StoredGroup, StoredWorkload
from api.gangs import Forest, Group, forest
from api.jobset import JobSet, ReplicatedJob
from api.jsontree import without_nulls
from api.meta import find, is_true
from api.names import job_name
from controllers.planning.actions import Action, CreateGroup, DeleteGroup, PatchGroup
from controllers.planning.child_jobs import Child, ChildJobs
from controllers.planning.counters import job_ready
from controllers.planning.observed import KnownGroups

WORKLOAD, COMPOSITE, POD_GROUP = "Workload", "CompositePodGroup", "PodGroup"


@dataclass(slots=True)
class GroupPlan:
    """What becomes of groups. `state`: (status, reason, message) of SchedulingObjectsReady where it is set."""

    forest: Forest | None
    actions: list[Action] = field(default_factory=list)
    state: tuple[bool, str, str] | None = None
    scheduled: bool = False
    refused: tuple[tuple[str, str], ...] = ()
    """PodGroups that kube-scheduler has found no place for, each with what it says."""
    open: frozenset[str] | None = None
    """Jobs that may run; None: all."""

    def may_run(self, job: str) -> bool:
        """Whether a Job may be created or resumed as far as groups go."""
        return self.open is None or job in self.open or self.group_of(job) is None

    def group_of(self, job: str) -> Group | None:
        """The PodGroup that a Job's pods are to name; None where groups are not wanted."""
        return None if self.forest is None else self.forest.of_job(job)


def decide(
    js: JobSet,
    known: KnownGroups | None,
    children: ChildJobs,
    released: Callable[[ReplicatedJob], bool],
    leftovers: frozenset[str] | None = frozenset(),
) -> GroupPlan:
    """What to do about groups. `released` says which ReplicatedJobs may start; `known` None: there are none.

    `leftovers`: names of Jobs of which pods of earlier attempts are left; None: that is not known.
    """
    wanted = forest(js)
    if known is None:
        return GroupPlan(wanted)
    stage = {rjob.name for rjob in js.spec.replicated_jobs if released(rjob)}
    return _GroupPlanner(js, wanted, known, children, leftovers).decide(stage)


def at_the_end(known: KnownGroups | None) -> list[Action]:
    """A finished set frees its groups; the Workload stays until it goes."""
    return [] if known is None else _Owned(known).removals(workload=False)


class _Owned:
    """The set's groups by kind and name."""

    def __init__(self, known: KnownGroups) -> None:
        self.workloads = {of.metadata.name: of for of in known.workloads}
        self.groups: dict[tuple[str, str], StoredGroup] = {
            **{(COMPOSITE, of.metadata.name): of for of in known.composites},
            **{(POD_GROUP, of.metadata.name): of for of in known.pod_groups},
        }

    def removals(self, *, workload: bool, but: Iterable[tuple[str, str]] = ()) -> list[Action]:
        """Deletions of what is not in `but`."""
        kept = {*but}
        workloads = [((WORKLOAD, name), of.metadata) for name, of in self.workloads.items() if workload]
        groups = [(place, of.metadata) for place, of in self.groups.items() if place not in kept]
        return [
            DeleteGroup(kind, name, meta.uid)
            for (kind, name), meta in [*groups, *workloads]
            if meta.deletion_timestamp is None
        ]


class _GroupPlanner:
    """One run of `decide`."""

    def __init__(
        self,
        js: JobSet,
        wanted: Forest | None,
        known: KnownGroups,
        children: ChildJobs,
        leftovers: frozenset[str] | None,
    ) -> None:
        self._js = js
        self._known = known
        self._owned = _Owned(known)
        self._active = {child.name: child for child in children.active if not child.gone}
        self._previous = children.previous
        self._leftovers = leftovers
        self._names = _names(js) if leftovers else set()
        self._completions = {rjob.name: rjob.completions for rjob in js.spec.replicated_jobs}
        self._done = _completed(js, children)
        self._out = GroupPlan(wanted)
        self._ending = False

    def decide(self, released: set[str]) -> GroupPlan:
        out, wanted = self._out, self._out.forest
        if wanted is None:
            out.actions += self._owned.removals(workload=True)
        elif self._known.error is not None:
            self._lacking(*self._known.error)
        elif lack := lacking(wanted, self._known.served):
            self._lacking(lack.reason, lack.message)
        elif not self._js.suspended and any(self._ungrouped(child, wanted) for child in self._active.values()):
            out.forest = None
            message = "Jobs run that were started without groups: the next attempt has them"
            out.state = False, "JobsWithoutGroups", message
        elif self._js.suspended:
            out.state = (False, "Suspended", "the set is suspended and has no groups")
            if all(child.job.spec.suspend for child in self._active.values()):
                out.actions += self._owned.removals(workload=True)
        else:
            self._build(wanted, released)
        return out

    def _lacking(self, reason: str, message: str) -> None:
        if reason == "Discovering" and any(c.type == keys.GROUPS_READY for c in self._js.status.conditions):
            # After a start of the manager: the condition is set again in a moment, or still holds.
            self._out.open = frozenset()
        elif self._known.required or reason in {"Discovering", "NameConflict"}:
            self._out.open = frozenset()
            self._out.state = (False, reason, f"no Job is created: {message}")
        else:
            self._out.forest = None
            message = f"{message}. The Jobs run without groups, as scheduling.whenUnavailable is Ignore"
            self._out.state = (False, reason, message)

    def _build(self, wanted: Forest, released: set[str]) -> None:
        out = self._out
        ready = not wanted.roots or self._workload(wanted)
        places = [(root, group, parent) for root in wanted.roots for group, parent in root.with_parents()]
        here = [place for place in places if not released.isdisjoint(place[1].replicated_jobs)]
        broken = {root.name for root, group, parent in here if not self._group(wanted, group, parent)}
        # What later stages want may be there already, after a restart: it stays.
        kept = [(_kind(group), group.name) for _, group, _ in places]
        out.actions += self._owned.removals(workload=not wanted.roots, but=kept)
        closed = broken | self._held(wanted) if ready else {root.name for root in wanted.roots}
        out.open = frozenset(job for root in wanted.roots if root.name not in closed for job, _ in _jobs(root))
        leaves = [group for _, group, _ in places if not group.composite]
        out.scheduled = bool(leaves) and all(self._is_scheduled(group) for group in leaves)
        out.refused = tuple((group.name, words) for group in leaves if (words := self._refusal(group)))
        out.state = self._state(len(here))

    def _held(self, wanted: Forest) -> set[str]:
        """Names of the roots below which pods of an earlier attempt may still end, or a Job is being deleted."""
        left = self._leftovers
        if left is None or any(wanted.of_job(name) is None for name in left - self._names):
            return {root.name for root in wanted.roots}
        ending = [child for child in self._active.values() if child.deleting or self._halting(child)]
        old = left.union(child.name for child in (*self._previous, *ending))
        # Of Jobs that the set has no more, it is not known in which group they were.
        lost = {child.replicated_job for child in self._previous if wanted.of_job(child.name) is None}
        return {
            root.name
            for root in wanted.roots
            if not lost.isdisjoint(root.replicated_jobs) or any(job in old for job, _ in _jobs(root))
        }

    def _halting(self, child: Child) -> bool:
        """Whether a suspended Job still has pods, which count as members until they are gone, or is to go itself."""
        status = child.job.status
        return misplaced(child, self._out) or (child.job.spec.suspend and bool(status.active or status.terminating))

    def _ungrouped(self, child: Child, wanted: Forest) -> bool:
        """Whether a Job runs that was started without groups: one with groups would wait for its pods in vain."""
        job = child.job
        return (
            not job.spec.suspend
            and not child.deleting
            and not job.spec.template.spec.pod_group
            and wanted.of_job(child.name) is not None
        )

    def _state(self, groups: int) -> tuple[bool, str, str] | None:
        """The condition; None while groups are being made, which is too short to report."""
        if self._ending:
            # Without names and numbers: each that goes would be a write of the status.
            return (
                False,
                "WaitingForOldGroups",
                "groups of an earlier attempt are being deleted: PodGroups stay until their pods have ended",
            )
        if self._out.actions:
            return None
        return True, "Created", f"the Workload and {groups} {'group' if groups == 1 else 'groups'} are there"

    def _workload(self, wanted: Forest) -> bool:
        """Whether the Workload stands; what is to be done if it does not."""
        found, body = self._owned.workloads.get(wanted.workload), build_workload(self._js, wanted)
        if found is None:
            self._out.actions.append(CreateGroup(WORKLOAD, wanted.workload, body, 0))
            return False
        if not self._usable(found, ()):
            return False
        templates = {key: value for key, value in body["spec"].items() if key != "controllerRef"}
        if without_nulls(found.spec) | templates != without_nulls(found.spec):
            change = PatchGroup(WORKLOAD, wanted.workload, found.metadata.uid, {"spec": templates}, body)
            self._out.actions.append(change)
        return True

    def _usable(self, found: StoredGroup | StoredWorkload, members: Iterable[tuple[str, int]]) -> bool:
        """Whether it can have members. One that is deleted while its pods run stays, and serves, until they end."""
        if found.metadata.deletion_timestamp is None:
            return True
        running = [child for job, _ in members if (child := self._active.get(job)) and not child.job.spec.suspend]
        if any(not child.deleting for child in running):
            return True
        self._ending = True
        return False

    def _group(self, wanted: Forest, group: Group, parent: str) -> bool:
        """Whether a group stands as it is wanted; what is to be done if it does not."""
        kind, need = _kind(group), self._needed(group)
        body = build_group(self._js, wanted, group, parent, need or group.gang)
        found = self._owned.groups.get((kind, group.name))
        if found is None:
            depth = 1 + (0 if not parent else 1) + (0 if group.composite else 8)
            self._out.actions.append(CreateGroup(kind, group.name, body, depth))
            return False
        if not self._usable(found, group.jobs):
            return False
        if not same(found, group, parent):
            # Changed while the set was suspended, or by hand: none of it may change in place.
            self._out.actions.append(DeleteGroup(kind, group.name, found.metadata.uid))
            return False
        gang = found.spec.scheduling_policy.gang
        if gang is None or need is None or gang.count == need:
            return True
        if gang.count < need or gang.count > (group.gang or 0) or self._waits(group):
            policy = {"spec": {"schedulingPolicy": body["spec"]["schedulingPolicy"]}}
            replacement = body if group.composite else None
            self._out.actions.append(PatchGroup(kind, group.name, found.metadata.uid, policy, replacement))
            return gang.count > need
        return True

    def _needed(self, group: Group) -> int | None:
        """How many members have to fit together: no more than are still to come (kubernetes#142330).

        None where there is no such number, or nothing is left that could wait: then what is there stays as it is.
        """
        if group.gang is None:
            return None
        if group.composite:
            left = sum(1 for child in group.children if any(self._left(*job) for job in _jobs(child)))
        else:
            left = sum(self._left(*job) for job in group.jobs)
        return min(group.gang, left) if left else None

    def _left(self, job: str, pods: int) -> int:
        """Pods of a Job that have not succeeded and can exist at once."""
        if job in self._done:
            return 0
        child = self._active.get(job)
        wanted = None if child is None else self._completions[child.replicated_job]
        if child is None or wanted is None:
            return pods
        return min(pods, max(wanted - child.job.status.succeeded, 0))

    def _waits(self, group: Group) -> bool:
        """Whether a Job below has a pod that is not ready, and may wait for members that do not come any more."""
        children: list[Child] = [self._active[job] for job, _ in _jobs(group) if job in self._active]
        return any(not job_ready(child.job) for child in children)

    def _is_scheduled(self, group: Group) -> bool:
        found = self._owned.groups.get((POD_GROUP, group.name))
        if found is not None and is_true(found.status.conditions or (), INITIALLY_SCHEDULED):
            return True
        return all(
            job in self._done or (job in self._active and job_ready(self._active[job].job)) for job, _ in group.jobs
        )

    def _refusal(self, group: Group) -> str:
        """What the scheduler says of a PodGroup whose pods it has found no place for; empty where it has not.

        Of a group that has no pods yet it says the same.
        """
        found = self._owned.groups.get((POD_GROUP, group.name))
        said = None if found is None else find(found.status.conditions or (), INITIALLY_SCHEDULED)
        waits = any(job in self._active and self._active[job].job.status.active for job, _ in group.jobs)
        return said.message if said is not None and waits and not self._is_scheduled(group) else ""


NOT_A_WARNING = {"Created", "Suspended", "WaitingForOldGroups", "Discovering", "JobsWithoutGroups"}
"""Reasons of the condition that are part of a normal life."""


def _kind(group: Group) -> str:
    return COMPOSITE if group.composite else POD_GROUP


def _jobs(group: Group) -> list[tuple[str, int]]:
    return [job for below in group.walk() for job in below.jobs]


def _names(js: JobSet) -> set[str]:
    """All Jobs of the set, in groups or not."""
    name = js.metadata.name
    return {job_name(name, rjob.name, index) for rjob in js.spec.replicated_jobs for index in range(rjob.replicas)}


def _completed(js: JobSet, children: ChildJobs) -> set[str]:
    return {
        job_name(js.metadata.name, name, index) for name, indexes in children.completed.items() for index in indexes
    }


def misplaced(child: Child, gangs: GroupPlan) -> bool:
    """Whether the pods of a suspended Job would name another group than they should: no Job can change that."""
    if not child.job.spec.suspend or child.deleting:
        return False
    wanted = gangs.group_of(child.name)
    return child.job.spec.template.spec.pod_group != ("" if wanted is None else wanted.name)
