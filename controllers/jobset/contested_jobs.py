"""Jobs that another client suspends after the manager has resumed them: each is resumed after a growing pause.

Without a pause both would write as fast as they can, forever. One Warning names the client that sets `spec.suspend`.
The first resumption, also after a suspension of the set, is never delayed, so that a queue does not wait.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from api import keys
from api.batch import Job
from api.jobset import JobSet
from api.pending import clean_words
from controllers.planning.actions import Event, PatchJob, Plan
from controllers.planning.observed import Observed
from kube.client import Client
from kube.errors import KubeError
from kube.model.meta import JSON, Base
from kube.resources import JOBS
from kube.store import Store

log = logging.getLogger(__name__)

FIRST_PAUSE = 1.0
"""Seconds between the first and the second resumption of a Job, at least. Doubled with each."""

LONGEST_PAUSE = 300.0
"""Seconds between two resumptions of a Job at most."""

FORGET_AFTER = 600.0
"""Seconds after the last resumption after which all resumptions are forgotten."""

GET_TIMEOUT = 2.0
"""Seconds to read the Job that names the client that suspended it: a reconcile waits for it."""

MAX_WORDS = 100
"""Characters of the name of a field manager."""


@dataclass(slots=True)
class Resumptions:
    """How often the Jobs of one JobSet were resumed since the set was last suspended, and which have to wait.

    One entry for each Job at most, by UID. Times: event loop's clock. `is_reported`: whether a Warning was considered
    since the last resumption.
    """

    is_reported: bool = True
    _times: dict[str, int] = field(default_factory=dict)
    _until: dict[str, float] = field(default_factory=dict)
    _forget_at: float = 0.0

    def clear(self) -> None:
        """The set is suspended: forget earlier resumptions."""
        self._times, self._until, self.is_reported, self._forget_at = {}, {}, True, 0.0

    def seconds_left(self, time: float) -> Mapping[str, float]:
        """By UID: the Jobs that must not be resumed yet."""
        if self._times and time >= self._forget_at:
            self.clear()
        if self._until:
            self._until = {uid: until for uid, until in self._until.items() if until > time}
        return {uid: until - time for uid, until in self._until.items()}

    def note(self, plan: Plan, jobs: Store[Job], namespace: str, time: float) -> None:
        """Note the Jobs that a plan has resumed. `jobs`: as they are stored now."""
        for action in plan.actions:
            if not isinstance(action, PatchJob) or action.patch.get("spec", {}).get("suspend") is not False:
                continue
            job, uid = jobs.get(namespace, action.name), action.patch["metadata"]["uid"]
            if job is not None and job.metadata.uid == uid and not job.spec.suspend:
                times = self._times[uid] = self._times.get(uid, 0) + 1
                self._until[uid] = time + min(FIRST_PAUSE * 2 ** min(times - 1, 20), LONGEST_PAUSE)
                self._forget_at, self.is_reported = time + FORGET_AFTER, False


class _Entry(Base, frozen=True, kw_only=True):
    """metav1.ManagedFieldsEntry."""

    manager: str = ""
    time: str = ""
    fields_v1: JSON = msgspec.field(name="fieldsV1", default_factory=dict)


class _Managed(Base, frozen=True, kw_only=True):
    managed_fields: tuple[_Entry, ...] = ()


class _SuspendedJob(Base, frozen=True, kw_only=True):
    """A Job with its managedFields."""

    metadata: _Managed = _Managed()

    @property
    def suspender(self) -> str:
        """The field manager of `spec.suspend`; empty if unknown."""
        of_it = [entry for entry in self.metadata.managed_fields if "f:suspend" in entry.fields_v1.get("f:spec", {})]
        return max(of_it, key=lambda entry: entry.time).manager if of_it else ""


class ContestedJobs:
    """Warns of Jobs that are suspended again: one event for all Jobs of a set in each pause."""

    def __init__(self, client: Client, record: Callable[[JobSet, Event], None]) -> None:
        self._client = client
        self._record = record

    async def check(self, observed: Observed, resumptions: Resumptions) -> None:
        """Warn if a Job that was resumed is suspended again. Never fails."""
        if not observed.held_back or resumptions.is_reported:
            return
        suspended_jobs = [job for job in observed.jobs if job.spec.suspend and job.metadata.uid in observed.held_back]
        if not suspended_jobs:
            return
        resumptions.is_reported = True
        js, name = observed.jobset, suspended_jobs[0].metadata.name
        try:
            job = await self._client.get(
                JOBS, name, namespace=js.metadata.namespace, type=_SuspendedJob, timeout=GET_TIMEOUT
            )
            manager_name = clean_words(job.suspender, MAX_WORDS)
        except (KubeError, TimeoutError) as error:
            log.info("who has suspended Job %s/%s is not known: %s", js.metadata.namespace, name, error)
            manager_name = ""
        self._record(
            js, Event("Warning", keys.JOBS_SUSPENDED_AGAIN, note_of(name, len(suspended_jobs) - 1, manager_name))
        )


def note_of(name: str, more: int, manager_name: str) -> str:
    """The message: the client that suspends Jobs, the Jobs, and what to do."""
    jobs, verbs = (f"Job {name} and {more} more", ("were", "are")) if more else (f"Job {name}", ("was", "is"))
    by = f" by field manager {manager_name}" if manager_name else ""
    return (
        f"{jobs} {verbs[0]} resumed and {verbs[1]} suspended again{by}: the manager resumes such Jobs after a pause,"
        " which grows to 5 min while this goes on. To suspend the set, set spec.suspend of the JobSet; else have that"
        " controller leave the Jobs of JobSets alone"
    )
