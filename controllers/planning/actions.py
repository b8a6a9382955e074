"""The plan for one JobSet, and what it consists of: actions, a status, events, and queries.

An action is a write of one object, or of several objects in one call. A query asks for pods or nodes that the next plan
needs to decide. An attempt is the time between two restarts of the JobSet.

Some actions are about spares (docs/concepts/spares.md). A spare is a Job that does no work: its pods hold nodes for
pods that lose their nodes. The place of a spare pod is its node. A pod gets the place when it is nominated to that
node.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from api.batch import Job
from api.jobset_status import JobSetStatus
from kube.model.meta import JSON


@dataclass(frozen=True, slots=True)
class CreateJob:
    """Create a child Job. The body is built when it is sent, to save memory if there are thousands of Jobs."""

    name: str
    build_body: Callable[[], JSON]


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Delete a child Job and, before it, its pods (foreground). The UID protects a newer Job of the same name.

    `resource_version`: if set, the deletion fails if the Job has another version. This protects a Job that has changed
    while the cache is behind, such as the cache of a process that has just got the lease.
    """

    name: str
    uid: str
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class DeleteJobs:
    """Delete Jobs of earlier attempts in one call, and afterwards their pods (background).

    `selector` selects exactly `jobs`, which are (name, UID). The names are free at once, but a Job is not created again
    before its old pods are gone (`Observed.leftovers`).
    """

    selector: str
    jobs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class PatchJob:
    """Patch a child Job. `patch` has the UID of the Job, and its resourceVersion if the patch must fail after a change.

    - `changes_template`: the patch changes the pod template. If the Job has started, an API server older than 1.36
      accepts such a patch only after the Job's start time is cleared.
    - `changes_resources`: the patch changes containers, so it is a strategic merge patch; else it is a merge patch.
    """

    name: str
    patch: JSON
    changes_template: bool = False
    changes_resources: bool = False


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete a pod without waiting for its node (grace period 0). The UID protects a newer pod of the same name.

    - `replaced`: the pod's Job continues and creates another pod instead, without counting the pod as failed. If the
      Job counted it, the Job would wait until the pod has ended, which an unreachable kubelet does not report, and then
      for its back-off.
    - `graceful`: the node works, so the pod gets its grace period.
    """

    name: str
    uid: str
    replaced: bool = False
    graceful: bool = False


@dataclass(frozen=True, slots=True)
class GivePlace:
    """Nominate a pod to the node of a spare pod, then delete the spare pod without a grace period.

    - `pod`, `spare`: names of the two pods. `node`: the node of the spare pod. The UIDs protect newer pods of the same
      names.
    - `gated`: the pod has a scheduling gate, which is removed last.
    - `ended_job`: the Job of the spare pod, if it is deleted before the pod.
    - In exclusive placement, each Job is alone in a topology domain, which its leader, the pod with completion index 0,
      decides. If `pod` is a leader, `keepers` are the other pods of the spare Job, as (name, UID). They get the label
      `job_key` of the leader's Job, and so keep all other Jobs out of the domain.
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
    """Delete a spare pod without a grace period, and give its place to no pod."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class LiftGate:
    """Remove the scheduling gate from a pod that has waited for the place of a spare."""

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
    """Create a Workload, CompositePodGroup or PodGroup. The body is built when it is sent.

    Objects with a lower `level` are created first.
    """

    kind: str
    name: str
    build_body: Callable[[], JSON]
    level: int


@dataclass(frozen=True, slots=True)
class PatchGroup:
    """Merge-patch a group object, conditional on the observed version.

    `replacement`: if the patch is refused, the group is deleted and created again with this body.
    """

    kind: str
    name: str
    uid: str
    resource_version: str
    patch: JSON
    replacement: JSON | None = None


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """Delete a group object. The UID protects a newer object of the same name."""

    kind: str
    name: str
    uid: str


GroupAction = CreateGroup | PatchGroup | DeleteGroup


@dataclass(frozen=True, slots=True)
class DeleteJobSet:
    """Delete the JobSet itself, which has finished and whose time to live is over."""


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

    `distinct`: events with different notes are not combined into one event with a count.
    """

    type: str
    reason: str
    note: str
    distinct: bool = False


@dataclass(frozen=True, slots=True)
class FailedPodQuery:
    """Asks for the failed pods of `jobs`, which are (name, UID).

    `needed`: whether decisions depend on these pods. If not, only events and `status.attemptHistory` name them.
    """

    jobs: tuple[tuple[str, str], ...]
    needed: bool = False


@dataclass(frozen=True, slots=True)
class PendingPodQuery:
    """Asks for the pending pods of the whole set."""


MAX_NODES = 50
"""A query asks for at most this many nodes."""


@dataclass(frozen=True, slots=True)
class NodeQuery:
    """Asks for these nodes and the set's pods on them."""

    nodes: tuple[str, ...]

    @classmethod
    def about(cls, names: Iterable[str]) -> "NodeQuery":
        """A query about the first `MAX_NODES` of these nodes."""
        return cls(tuple(sorted(names)[:MAX_NODES]))


@dataclass(frozen=True, slots=True)
class PoolQuery:
    """Asks for the set's spare pods and its pods without a node.

    A process that has just started needs them, because an earlier process may have given places.
    """


PodQuery = FailedPodQuery | PendingPodQuery | NodeQuery | PoolQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class Partial:
    """What one step adds to the plan. See `Plan` for the fields.

    `status`: the whole status after this step; None if the step does not change it.
    """

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
    """What to do about one JobSet now. An empty plan means that nothing has to be done.

    - `status` is written after the actions, or before them with `status_first`. `events` are recorded after the status
      is stored.
    - `counters` is the status that is written instead if an action fails: it has the new counts, and no decision.
    - `warnings` are events that are recorded even if no status is written. A warning that later plans repeat is
      recorded once.
    - `requeue_after`: seconds until the next plan, if nothing changes before; None: no plan before a change.
    - `pod_query`: the caller answers this query and makes another plan, and does not carry out this plan.
    - `follow_pods`: the caller has to find out `Observed.leftovers`, and to make a plan after each change of them.
    - `reported_group`: name of a PodGroup; see `Observed`.
    - `queued`: how many Jobs already wait for the Job controller when the plan is made.
    - `counts_wait`: whether the status differs from the stored status, and is written later.
    """

    counters: JobSetStatus | None = None
    queued: int = field(default=0, compare=False)
    counts_wait: bool = False


def has_only_creations(planned: Plan) -> bool:
    """Whether the plan only creates objects. A cache that is behind does no harm then, as names are unique."""
    return all(isinstance(action, CreateJob | CreateService | CreateClaim | CreateGroup) for action in planned.actions)


def deletions(jobs: Iterable[Job]) -> tuple[DeleteJob, ...]:
    """Actions that delete those of the Jobs that are not being deleted yet."""
    return tuple(DeleteJob(job.metadata.name, job.metadata.uid) for job in jobs if not job.metadata.deletion_timestamp)


def deletions_of_unfinished(jobs: Iterable[Job]) -> tuple[DeleteJob, ...]:
    """Actions that delete those of the Jobs that are unfinished and not being deleted, unless they have changed."""
    return tuple(
        DeleteJob(job.metadata.name, job.metadata.uid, job.metadata.resource_version)
        for job in jobs
        if job.outcome is None and job.metadata.deletion_timestamp is None
    )
