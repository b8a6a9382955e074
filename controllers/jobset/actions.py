"""The vocabulary between planning and doing: what a plan may ask for. No behaviour lives here."""

from dataclasses import dataclass

from api.batch import Job
from api.jobset import JobSet, JobSetStatus
from api.meta import JSON


@dataclass(frozen=True, slots=True)
class CreateJob:
    """Create a child Job from its complete body."""

    name: str
    body: JSON


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Delete a child Job and, before it, its pods (foreground). The UID guards a newer Job of the same name."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class PatchJob:
    """Merge-patch a child Job. The UID guards a newer Job of the same name.

    `template_changed` tells that the pod template changes: servers older than 1.36 accept that on a Job that has
    started only after its start time is cleared.
    """

    name: str
    uid: str
    patch: JSON
    template_changed: bool = False


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
class DeleteJobSet:
    """Delete the JobSet itself: it is finished and its time to live is over."""


Action = CreateJob | DeleteJob | PatchJob | CreateService | CreateClaim | DeleteJobSet


@dataclass(frozen=True, slots=True)
class Event:
    """An event about the JobSet: type Normal or Warning."""

    type: str
    reason: str
    note: str


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything a plan may look at.

    `jobs` are the Jobs whose controlling owner has the JobSet's UID, those in deletion included. `claims` are names of
    volume claims that exist. `service_exists` is about the name, whoever owns it. `now` is RFC 3339 in UTC, seconds.
    `since_status_write` is the time in seconds since the last status write, None if there was none in this process.
    """

    jobset: JobSet
    jobs: tuple[Job, ...]
    service_exists: bool
    claims: frozenset[str]
    now: str
    since_status_write: float | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now. An empty plan means that all is as it should be.

    `status` is written after the actions, `events` are recorded after the status is stored. If an action fails,
    `counters` is written in place of `status`: what was counted holds, what was decided does not.
    """

    actions: tuple[Action, ...] = ()
    status: JobSetStatus | None = None
    counters: JobSetStatus | None = None
    events: tuple[Event, ...] = ()
    requeue_after: float | None = None
