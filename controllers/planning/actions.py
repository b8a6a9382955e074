"""The parts of a plan: writes, a status, events, and queries about pods."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from api.batch import Job
from api.jobset_status import JobSetStatus
from controllers.planning.child_jobs import Child
from kube.model.meta import JSON


@dataclass(frozen=True, slots=True)
class CreateJob:
    """Create a child Job. Its body is built when it is sent, to save memory with thousands of Jobs."""

    name: str
    build: Callable[[], JSON]

    @property
    def body(self) -> JSON:
        """The complete body."""
        return self.build()


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Delete a child Job and, before it, its pods (foreground). The UID guards a newer Job of the same name.

    `resource_version`, if given: of the Job that the decision was made from. A process that has just become the leader
    deletes nothing that has changed since.
    """

    name: str
    uid: str
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class DeleteJobs:
    """Delete Jobs of earlier attempts in one call; their pods go after them (background).

    `selector` selects exactly these Jobs, given as (name, UID). Their names are free at once, but a Job is not created
    again before its old pods are gone (`Observed.leftovers`).
    """

    selector: str
    jobs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class PatchJob:
    """Patch a child Job. The patch names the UID of the Job that was planned on, and its version if that matters.

    `template_changed`: the pod template changes: servers older than 1.36 accept that on a Job that has started only
    after its start time is cleared. `resources`: the patch changes containers, so it is a strategic merge patch; else
    it is a merge patch.
    """

    name: str
    patch: JSON
    template_changed: bool = False
    resources: bool = False


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete a pod without waiting for its node (grace period 0). The UID guards a newer pod of the same name.

    `replaced`: its Job continues and creates another pod instead. The Job must not count it as failed: it would wait
    for the end of the pod, which its unreachable kubelet does not report, and then for its back-off. `graceful`: its
    node works, so the pod gets its grace period.
    """

    name: str
    uid: str
    replaced: bool = False
    graceful: bool = False


@dataclass(frozen=True, slots=True)
class GivePlace:
    """Nominate a pod to the node of a spare, then delete the spare without a grace period.

    `gated`: the pod is held back until then. The UIDs guard newer pods of the same names. For a leader in exclusive
    placement, `keepers`, as (name, UID), are the other pods of that spare: they take the key of the leader's Job, and
    keep all other Jobs out of the domain. `ended_job`: the Job of the spare, which is deleted before the spare.
    """

    pod: str
    pod_uid: str
    spare: str
    spare_uid: str
    node: str
    gated: bool
    job_key: str = ""
    keepers: tuple[tuple[str, str], ...] = ()
    ended_job: DeleteJob | None = None


@dataclass(frozen=True, slots=True)
class EndSpare:
    """Delete a pod of a spare whose place is not given to a pod, without a grace period."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class LiftGate:
    """Remove the scheduling gate of a pod that waited for the place of a spare."""

    pod: str
    uid: str


@dataclass(frozen=True, slots=True)
class CreateService:
    """Create the headless Service."""

    body: JSON


@dataclass(frozen=True, slots=True)
class CreateClaim:
    """Create a volume claim."""

    name: str
    body: JSON


@dataclass(frozen=True, slots=True)
class CreateGroup:
    """Create a Workload, CompositePodGroup or PodGroup; those of a lower `level` first. Built when it is sent."""

    kind: str
    name: str
    build: Callable[[], JSON]
    level: int

    @property
    def body(self) -> JSON:
        """The complete body."""
        return self.build()


@dataclass(frozen=True, slots=True)
class PatchGroup:
    """Merge patch of a group object, conditional on the observed version.

    `replacement`: the body to create in its place if the patch is refused.
    """

    kind: str
    name: str
    uid: str
    resource_version: str
    patch: JSON
    replacement: JSON | None = None


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """Delete a group object. The UID guards a newer one of the same name."""

    kind: str
    name: str
    uid: str


GroupAction = CreateGroup | PatchGroup | DeleteGroup


@dataclass(frozen=True, slots=True)
class DeleteJobSet:
    """Delete the JobSet itself: it is finished and its time to live is over."""


Action = (
    CreateJob
    | DeleteJob
    | DeleteJobs
    | PatchJob
    | DeletePod
    | GivePlace
    | EndSpare
    | LiftGate
    | CreateService
    | CreateClaim
    | GroupAction
    | DeleteJobSet
)


@dataclass(frozen=True, slots=True)
class Event:
    """An event about the JobSet: type Normal or Warning.

    `distinct`: events that differ in the note are different events.
    """

    type: str
    reason: str
    note: str
    distinct: bool = False


@dataclass(frozen=True, slots=True)
class FailedPodQuery:
    """Failed Jobs, as (name, UID), whose failed pods the plan needs.

    `needed`: whether decisions depend on the answer; else only events and `status.attemptHistory` use it.
    """

    jobs: tuple[tuple[str, str], ...]
    needed: bool = False


@dataclass(frozen=True, slots=True)
class PendingPodQuery:
    """Asks for the pending pods of the whole set."""


@dataclass(frozen=True, slots=True)
class NodeQuery:
    """Asks for these nodes and the set's pods on them."""

    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PoolQuery:
    """Asks for the spares of the set, and its pods that have no node: an earlier process may have given places."""


PodQuery = FailedPodQuery | PendingPodQuery | NodeQuery | PoolQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class Partial:
    """What one step adds to the plan. `status`: the whole status after this step; None: not changed."""

    actions: tuple[Action, ...] = ()
    status: JobSetStatus | None = None
    events: tuple[Event, ...] = ()
    warnings: tuple[Event, ...] = ()
    status_first: bool = False
    requeue_after: float | None = None
    pod_query: PodQuery | None = None
    follow_pods: bool = False
    reported_group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Partial):
    """What to do now. An empty plan means that nothing has to be done.

    `status` is written after the actions, or before them with `status_first`; `events` are recorded after the status
    is stored. If an action fails, `counters` is written in place of `status`: it has what was counted, and nothing that
    was decided. `warnings` are recorded whatever happens, once for as long as they stay the same. A plan with a
    `pod_query` is provisional: answer it and plan again, never carry it out. `follow_pods`: from now on
    `Observed.leftovers` has to be known, and every change of it is a reason to plan again. `reported_group`: see
    `Observed`. `queued`: how many Jobs the Job controller has still to take up before the plan is carried out.
    `counts_wait`: the status differs from the stored one, and is written later.
    """

    counters: JobSetStatus | None = None
    queued: int = field(default=0, compare=False)
    counts_wait: bool = False


def creates_only(decided: Plan) -> bool:
    """Whether the plan changes and deletes no existing objects. Names guard creations: nothing is created twice."""
    return all(isinstance(action, CreateJob | CreateService | CreateClaim | CreateGroup) for action in decided.actions)


def delete(children: Iterable[Child]) -> tuple[DeleteJob, ...]:
    """Delete the Jobs that are not being deleted yet."""
    return tuple(DeleteJob(child.name, child.job.metadata.uid) for child in children if not child.deleting)


def delete_unfinished(jobs: Iterable[Job]) -> tuple[DeleteJob, ...]:
    """Delete unfinished Jobs that are not being deleted yet, unless they have changed since."""
    return tuple(
        DeleteJob(job.metadata.name, job.metadata.uid, job.metadata.resource_version)
        for job in jobs
        if job.outcome is None and job.metadata.deletion_timestamp is None
    )
