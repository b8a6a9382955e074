"""What this process remembers of each JobSet between reconciles, besides the caches of the watches.

There is one `Memory` for each JobSet. A process that starts, or becomes the leader, begins with empty ones. Only
`Memory.departed` affects decisions. `Memory.resumptions` affects when a Job that another client suspends is resumed,
and `Memory.job_window` how many Jobs are created or resumed at a time. An attempt is the run of a set between two
restarts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from api.batch import Job
from api.jobset_status import JobSetStatus
from api.owners import owning_jobset
from controllers.gang.stalled import NO_EVENTS, Reports
from controllers.jobset.contested_jobs import Resumptions
from controllers.jobset.milestones import AttemptTimes
from controllers.jobset.old_pods import FollowedPods
from controllers.jobset.refused import RefusedJobs
from controllers.planning.actions import Event
from controllers.planning.job_window import UNKNOWN, JobWindow
from controllers.planning.sorted_jobs import SortedJobs
from kube.controller import Request
from kube.model.meta import Owner
from kube.store import ChangeKind

V = TypeVar("V")


class ExpiringValue(NamedTuple, Generic[V]):
    """A value that is valid until a time of the event loop's clock."""

    value: V
    end_time: float


@dataclass(slots=True)
class Memory:
    """The record of the JobSet with `uid`, from its first reconcile in this process until it is gone.

    Each field describes its value, until when it is kept, and what happens without it or if it is wrong. Times are of
    the event loop's clock.
    """

    uid: str

    has_current_caches: bool = False
    """Whether the caches have all writes of earlier leaders, as a read of the JobSet, or a write of its status, in the
    cached version has proved. Without it the JobSet is read once before an existing object is changed."""

    status_write_time: float | None = None
    """When the status was last written, until the next write. Without it counts are written at once, or up to 3 s
    late; 30 s with agents of restarts in place. For speed: at most one write in 3 s for a set whose pods all start."""

    counts_differ_since: float | None = None
    """Since when the stored counts differ from the observed ones, until they are written. Without it they are written
    half a second later, or earlier. For speed: Jobs that start or end together are written together."""

    first_plan_time: float | None = None
    """When the first plan for a set that is new and suspended may be made. Without it the set waits once more."""

    rest_until: float = 0.0
    """No plan is made before this time. The pause is four times as long as the last plan took. Without it the next plan
    is made at once. For speed: planning of one set takes at most a fifth of a processor."""

    failed_plan_line: str = ""
    """The last log line about a plan whose writes failed, until they succeed. Without it the line is logged again."""

    last_warnings: frozenset[Event] = NO_EVENTS
    """The warnings of the last plan, until they change. Without them the same event is sent again; if they are wrong,
    an event is missing."""

    departed: dict[str, Job] = field(default_factory=dict)
    """By UID: Jobs that were deleted after they had finished or were bound to fail, until the status records their end
    or the set has ended. **The only field that cannot be recomputed**: without it the Job is created again, so a
    failure is not counted and a completed Job runs twice."""

    foreign_owners: ExpiringValue[Mapping[str, Owner]] = ExpiringValue(MappingProxyType({}), 0.0)  # noqa: RUF009 (immutable)
    """The owner of each Job that has a wanted name and another owner, by name of the Job, until 10 s after the last
    such Job was found. Without it the creation is tried again; if it is wrong, a Job is created 10 s late."""

    refused_jobs: RefusedJobs = field(default_factory=RefusedJobs)
    """Jobs that could not be created, until they are created or not wanted. Without it all of them are tried at once;
    if it is wrong, one Job is tried first."""

    group_error: ExpiringValue[tuple[str, str] | None] = ExpiringValue(None, 0.0)  # noqa: RUF009 (immutable)
    """Why a group (PodGroup, CompositePodGroup or Workload) could not be created, as reason and message, for 30 s.
    Without it the creation is tried again."""

    namespace_ends_until: float = 0.0
    """No plan is made before this time, for 60 s, since the namespace is being deleted and creations are refused.
    Without it a Job is refused once more; if it is wrong, a Job is created 60 s late."""

    reported_group: str = ""
    """The PodGroup that the condition about unschedulable groups names, until it is scheduled. Without it the condition
    names another PodGroup."""

    watched_status: JobSetStatus | None = None
    """For metrics: the status that the watch showed last, without overlays. Without it an end is not counted."""

    attempt_times: AttemptTimes | None = None
    """For metrics: the times of the attempt. Without them a duration is not measured."""

    pod_reports: Reports = field(default_factory=Reports)
    """The events about pods without a node, and about groups that the scheduler says nothing about, until they change.
    Without them the same event is sent again; if they are wrong, an event is missing."""

    served_pod_times: dict[str, float] | None = None
    """When a pod was given the place of a spare pod, which holds a node for other pods, by UID of the pod, for 30 s.
    Without it a pod that is nominated to a node counts as if it was given a place just now."""

    spare_pods_are_read: bool = False
    """Whether this process has read the spare pods, and the pods that need their places, from the API server. Without
    it they are read once more."""

    next_start_check: str = ""
    """The earliest time (RFC 3339) at which a check of pending pods can find a late pod. Without it they are listed at
    once. For speed: at most 20 lists in the time that a pod may take, instead of one for each change of a pod."""

    followed_pods: FollowedPods | None = None
    """The pods of earlier attempts, until the last is gone. Without it they are listed before a Job is created."""

    resumptions: Resumptions = field(default_factory=Resumptions)
    """Which Jobs were resumed, and how often, until the set is suspended or 10 min after the last resume. Without it a
    Job that another client suspends again and again is resumed at once each time, and its Warning is sent again."""

    sorted_jobs: SortedJobs | None = None
    """The Jobs of a set of 200 or more as they were sorted for the last plan. Without it the next plan sorts all of
    them. For speed: a plan of 10,000 Jobs takes 2.4 ms instead of 30 ms (docs/performance.md)."""

    job_window: JobWindow = UNKNOWN
    """How fast the Job controller takes up the Jobs of the set, for 10 s from each measurement. Without it at most
    40 Jobs wait for the Job controller until it is measured. For speed: a set that is alone starts faster."""

    def stop_following(self) -> None:
        """End the watch of old pods, if there is one."""
        if self.followed_pods is not None:
            self.followed_pods.stop()
            self.followed_pods = None


class Memories:
    """The records of all JobSets."""

    def __init__(self) -> None:
        self._records: dict[Request, Memory] = {}
        self._with_waiting_jobs = set[Request]()

    def __len__(self) -> int:
        return len(self._records)

    def get(self, request: Request, uid: str) -> Memory | None:
        """The record of the JobSet with this UID; None if there is none, or if it is about another UID."""
        memory = self._records.get(request)
        return memory if memory is not None and memory.uid == uid else None

    def get_or_create(self, request: Request, uid: str) -> Memory:
        """The record of the JobSet with this UID. A new record replaces that of an earlier JobSet of the same name.

        The new record takes over `departed`, which may have Jobs of the new JobSet, since the watch of Jobs may be
        ahead of the watch of JobSets. The reconciler leaves out Jobs of other owners.
        """
        memory = self._records.get(request)
        if memory is None or memory.uid != uid:
            departed = {} if memory is None else memory.departed
            if memory is not None:
                memory.stop_following()
            memory = self._records[request] = Memory(uid, departed=departed)
        return memory

    def on_job_event(self, kind: ChangeKind, old: Job | None, _new: Job | None) -> None:
        """Handle a change of a Job: keep it in `Memory.departed` if it is deleted, and had finished or was to fail."""
        if kind is not ChangeKind.DELETED or old is None or not (old.outcome or old.is_failing):
            return
        owner = owning_jobset(old.metadata)
        if owner is not None:
            request = Request(old.metadata.namespace, owner.name)
            memory = self._records.get(request) or self.get_or_create(request, owner.uid)
            memory.departed[old.metadata.uid] = old

    def pause_namespace(self, namespace: str, until: float) -> None:
        """Make no plans before `until` for the JobSets of a namespace that is being deleted.

        JobSets of a later namespace of the same name have other records.
        """
        for request, memory in self._records.items():
            if request.namespace == namespace:
                memory.namespace_ends_until = until

    def note_waiting_jobs(self, request: Request, *, has_waiting_jobs: bool) -> None:
        """Note whether the JobSet has Jobs that wait for the Job controller, or Jobs to create or resume."""
        (self._with_waiting_jobs.add if has_waiting_jobs else self._with_waiting_jobs.discard)(request)

    def others_wait(self, request: Request) -> bool:
        """Whether another JobSet has Jobs that wait for the Job controller, or Jobs to create or resume."""
        return len(self._with_waiting_jobs) > (request in self._with_waiting_jobs)

    def forget(self, request: Request, uid: str = "") -> None:
        """Drop the record of a deleted JobSet; if `uid` is set, only if the record is about that UID."""
        memory = self._records.get(request)
        if memory is not None and uid in {"", memory.uid}:
            memory.stop_following()
            self._with_waiting_jobs.discard(request)
            del self._records[request]
