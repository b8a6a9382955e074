"""The vocabulary between planning and doing: what a plan may look at and ask for. No behaviour lives here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from api.batch import Job, Service
from api.gang_api import NOT_ASKED, Served
from api.gang_status import StoredGroup, StoredWorkload
from api.jobset import JobSet, JobSetStatus
from api.meta import JSON
from api.pod import Pod
from api.priority import Priorities


@dataclass(frozen=True, slots=True, match_args=False)
class CreateJob:
    """Create a child Job. Its body is made when it is asked for: a large set has thousands, and few are in flight."""

    __match_args__: ClassVar = ("name", "body")

    name: str
    build: Callable[[], JSON]

    @property
    def body(self) -> JSON:
        """The complete body."""
        return self.build()


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Delete a child Job and, before it, its pods (foreground). The UID guards a newer Job of the same name."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class DeleteJobs:
    """Delete Jobs of earlier attempts in one call; their pods go after them (background).

    `selector` finds just these Jobs, given as (name, UID). Their names are free at once: whoever creates one anew
    waits for its pods (`Observed.lingering`).
    """

    selector: str
    jobs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class PatchJob:
    """Patch a child Job. The UID guards a newer Job of the same name.

    `template_changed` tells that the pod template changes: servers older than 1.36 accept that on a Job that has
    started only after its start time is cleared. `resources` tells that containers are named in the patch, which is
    then a strategic merge patch; else it is a merge patch.
    """

    name: str
    uid: str
    patch: JSON
    template_changed: bool = False
    resources: bool = False


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
    """Create a Workload, CompositePodGroup or PodGroup; those of a lower `level` first."""

    kind: str
    name: str
    body: JSON
    level: int


@dataclass(frozen=True, slots=True)
class PatchGroup:
    """Merge patch of one of those. `replacement`: what to create anew in its place if the API server refuses it."""

    kind: str
    name: str
    uid: str
    patch: JSON
    replacement: JSON | None = None


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """Delete one of those. The UID guards a newer one of the same name."""

    kind: str
    name: str
    uid: str


GroupAction = CreateGroup | PatchGroup | DeleteGroup


@dataclass(frozen=True, slots=True)
class DeleteJobSet:
    """Delete the JobSet itself: it is finished and its time to live is over."""


Action = CreateJob | DeleteJob | DeleteJobs | PatchJob | CreateService | CreateClaim | GroupAction | DeleteJobSet


@dataclass(frozen=True, slots=True)
class Event:
    """An event about the JobSet: type Normal or Warning. `distinct`: one with another note is another event."""

    type: str
    reason: str
    note: str
    distinct: bool = False


@dataclass(frozen=True, slots=True)
class Ended:
    """A container that ended with an exit code other than 0. `at` is RFC 3339, empty when it is not known."""

    container: str
    exit_code: int
    at: str = ""


@dataclass(frozen=True, slots=True)
class FailedPod:
    """A pod of phase Failed.

    - `ends`: init containers last, each kind in the order of the pod: of those that end in the same second as a
      container they are sidecars, ended with it. `ended_at`: when the last container had ended, RFC 3339, may be
      empty. `conditions`: (type, status). `deleting`: its end may not be its own doing.
    - `index_failures`: how often its index had failed before it; 0 where the Job does not count that.
    """

    name: str
    node: str = ""
    ends: tuple[Ended, ...] = ()
    ended_at: str = ""
    conditions: frozenset[tuple[str, str]] = frozenset()
    deleting: bool = False
    index_failures: int = 0


Evidence = Mapping[str, tuple[FailedPod, ...]]
"""Failed pods by the UID of their Job. A Job that was asked about and has none is there, with none."""


@dataclass(frozen=True, slots=True)
class Question:
    """Failed Jobs, as (name, UID), whose failed pods the plan would like to see.

    `needed`: nothing can be decided without the answer. Else it is for events and `status.attemptHistory` only.
    """

    jobs: tuple[tuple[str, str], ...]
    needed: bool = False


@dataclass(frozen=True, slots=True)
class KnownGroups:
    """The groups that a set owns, and what is known of the scheduling API.

    `required`: whether its Jobs wait when the API server lacks something; else they run without groups. `trouble`:
    reason and message of what kept a group from being made a moment ago.
    """

    served: Served = NOT_ASKED
    required: bool = True
    trouble: tuple[str, str] | None = None
    workloads: tuple[StoredWorkload, ...] = ()
    composites: tuple[StoredGroup, ...] = ()
    pod_groups: tuple[StoredGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything a plan may look at.

    - `jobs`: Jobs whose controlling owner has the JobSet's UID, those in deletion included.
    - `departed`: Jobs of that UID that were deleted finished or doomed and that the status may not remember yet.
    - `foreign`: names of Jobs that others own, of those that carry this JobSet's name: name -> owner, in words.
    - `service`: the Service of the wanted name, whoever owns it.
    - `claims`: names of volume claims that exist.
    - `pods`: pods of `jobs`; looked up for in-place restart only.
    - `lingering`: names of Jobs of which pods of earlier attempts are left; None: that is not known.
    - `priorities`: the cluster's priority classes; None: pods are not labelled with their priority.
    - `groups`: what is known of scheduling groups; None: the set asks for none and has none.
    - `evidence`: the answers to `Plan.question` so far.
    - `now`: RFC 3339 in UTC, seconds. `since_status_write`: seconds since the last status write, None if there was
      none in this process.
    """

    jobset: JobSet
    jobs: tuple[Job, ...]
    service: Service | None
    claims: frozenset[str]
    now: str
    since_status_write: float | None = None
    departed: tuple[Job, ...] = ()
    foreign: Mapping[str, str] = field(default_factory=dict)
    pods: tuple[Pod, ...] = ()
    evidence: Evidence = field(default_factory=dict)
    lingering: frozenset[str] | None = frozenset()
    priorities: Priorities | None = None
    groups: KnownGroups | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now. An empty plan means that all is as it should be.

    `status` is written after the actions, or before them with `status_first`; `events` are recorded after the status
    is stored. If an action fails, `counters` is written in place of `status`: what was counted holds, what was decided
    does not. `warnings` are told whatever happens, once for as long as they stay the same. A plan with a `question` is
    provisional: answer it and plan again, never carry it out. `follow_pods`: from now on `Observed.lingering` has to
    be known, and every change of it is a reason to plan again.
    """

    actions: tuple[Action, ...] = ()
    status: JobSetStatus | None = None
    counters: JobSetStatus | None = None
    events: tuple[Event, ...] = ()
    requeue_after: float | None = None
    status_first: bool = False
    warnings: tuple[Event, ...] = ()
    question: Question | None = None
    follow_pods: bool = False
