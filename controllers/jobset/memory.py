"""What this process knows of each JobSet beyond the caches: one record for each, and one place that forgets.

A process that starts, or becomes the leader, begins with empty records. No decision depends on them, with the one
exception that docs/architecture.md names; it also says what is lost with each of them.
"""

from dataclasses import dataclass, field

from api.batch import Job
from api.jobset_status import JobSetStatus
from controllers.gang.stalled import NO_EVENTS, Reports
from controllers.jobset.milestones import AttemptTimes
from controllers.jobset.old_pods import Followed
from controllers.jobset.refused import RefusedJobs
from controllers.planning.actions import Event
from controllers.planning.sorted_jobs import SortedJobs
from kube.controller import Request
from kube.model.meta import Owner


@dataclass(slots=True)
class Memory:
    """One JobSet of that UID. Times are seconds of the event loop's clock.

    - `confirmed`: this process has carried out a plan that was made from the stored JobSet, as a write of the status or
      a read showed. From then on the caches know all that an earlier leader did.
    - `status_written`: when this process last wrote the status. `rest_until`: no plan is made before (large sets).
    - `tried`: the log line of what was tried last, until it is done: trying it again is no news.
    - `warned`: the warnings of the last plan: each is an event once for as long as it stays the same.
    - `departed`: Jobs by UID that were deleted finished, or bound to fail, and that the status may not record yet.
    - `foreign`: names of Jobs that were found to belong to others, each with its owner, until `foreign_until`.
    - `refused`: Jobs that could not be created and are still wanted.
    - `group_error`: why a group could not be created, as reason and message; retried from `group_error_until` on.
    - `namespace_ends_until`: the namespace is being deleted, so creations are refused: no plan is made before.
    - `reported_group`: the PodGroup that the condition about unschedulable groups is about.
    - `shown`: the status that the watch showed last, without overlays; what is new in the next one is counted.
    - `attempt_times`: for metrics.
    - `stalled`: what was reported of gangs that the scheduler says nothing about, or of pods that it finds no node for.
    - `start_look`: before this moment, RFC 3339, no look at pending pods can find one that is late.
    - `followed`: the pods of earlier attempts, while there may be some.
    - `sorted_jobs`: the Jobs of a large set as they were sorted for the last plan.
    """

    uid: str
    confirmed: bool = False
    status_written: float | None = None
    rest_until: float = 0.0
    tried: str = ""
    warned: frozenset[Event] = NO_EVENTS
    departed: dict[str, Job] = field(default_factory=dict)
    foreign: dict[str, Owner] = field(default_factory=dict)
    foreign_until: float = 0.0
    refused: RefusedJobs = field(default_factory=RefusedJobs)
    group_error: tuple[str, str] | None = None
    group_error_until: float = 0.0
    namespace_ends_until: float = 0.0
    reported_group: str = ""
    shown: JobSetStatus | None = None
    attempt_times: AttemptTimes | None = None
    stalled: Reports = field(default_factory=Reports)
    start_look: str = ""
    followed: Followed | None = None
    sorted_jobs: SortedJobs | None = None

    def stop_following(self) -> None:
        """End the watch of old pods, if there is one."""
        if self.followed is not None:
            self.followed.stop()
            self.followed = None


class Memories:
    """The records by JobSet. As many as there are JobSets."""

    def __init__(self) -> None:
        self._records: dict[Request, Memory] = {}

    def __len__(self) -> int:
        return len(self._records)

    def get(self, request: Request, uid: str) -> Memory | None:
        """The record of the JobSet of that UID; None if there is none, or one of another JobSet of the name."""
        memory = self._records.get(request)
        return memory if memory is not None and memory.uid == uid else None

    def get_or_create(self, request: Request, uid: str) -> Memory:
        """The record of the JobSet of that UID. It replaces the record of an earlier JobSet of that name.

        `departed` is taken over: the watch of Jobs may be ahead of that of JobSets, and may have kept Jobs of the new
        JobSet in the old record. The reconciler leaves out those of other owners.
        """
        memory = self._records.get(request)
        if memory is None or memory.uid != uid:
            departed = {} if memory is None else memory.departed
            if memory is not None:
                memory.stop_following()
            memory = self._records[request] = Memory(uid, departed=departed)
        return memory

    def keep_departed(self, request: Request, uid: str, job: Job) -> None:
        """Keep a Job of the JobSet of that UID, deleted finished or bound to fail, until the status records its end."""
        memory = self._records.get(request) or self.get_or_create(request, uid)
        memory.departed[job.metadata.uid] = job

    def namespace_ends(self, namespace: str, until: float) -> None:
        """None of the JobSets that the namespace has now is planned before that time of the event loop.

        JobSets of a later namespace of the name have records of their own.
        """
        for request, memory in self._records.items():
            if request.namespace == namespace:
                memory.namespace_ends_until = until

    def forget(self, request: Request, uid: str = "") -> None:
        """The JobSet is gone; the one of that UID, if one is given."""
        memory = self._records.get(request)
        if memory is not None and uid in {"", memory.uid}:
            memory.stop_following()
            del self._records[request]
