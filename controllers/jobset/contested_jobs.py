"""Delays the next resume of contested Jobs, which another client suspends after the manager has resumed them.

Each pause is twice as long as the pause before, up to `LONGEST_PAUSE`. Without pauses the manager and the other client
would write as fast as they can, forever. One Warning names the client that sets `spec.suspend`. The first resume of a
Job, also after a suspension of the set, is never delayed, so that a queue such as Kueue does not wait.
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
"""At least this many seconds are between the first and the second resume of a Job. Each further pause is doubled."""

LONGEST_PAUSE = 300.0
"""The longest pause, in seconds, before a Job is resumed again."""

FORGET_AFTER = 600.0
"""Seconds from the last resume until all resumes are forgotten."""

GET_TIMEOUT = 2.0
"""Seconds until the read of a suspended Job times out, since a reconcile waits for it."""

MAX_MANAGER_NAME = 100
"""At most this many characters of the name of a field manager."""


@dataclass(slots=True)
class Resumptions:
    """How often each Job of one JobSet was resumed since the set was last suspended, and which Jobs have to wait.

    At most one entry for each Job, by UID. Times are of the event loop's clock. `is_reported`: False from a resume
    until a Warning reports that the Job was suspended again.
    """

    is_reported: bool = True
    _resume_counts: dict[str, int] = field(default_factory=dict)
    _paused_until: dict[str, float] = field(default_factory=dict)
    _forget_at: float = 0.0

    def clear(self) -> None:
        """Forget earlier resumes, since the set is suspended."""
        self._resume_counts, self._paused_until, self.is_reported, self._forget_at = {}, {}, True, 0.0

    def seconds_left(self, time: float) -> Mapping[str, float]:
        """The Jobs that must not be resumed yet, by UID, each with the seconds until it may be resumed."""
        if self._resume_counts and time >= self._forget_at:
            self.clear()
        if self._paused_until:
            self._paused_until = {uid: until for uid, until in self._paused_until.items() if until > time}
        return {uid: until - time for uid, until in self._paused_until.items()}

    def note_resumed(self, plan: Plan, jobs: Store[Job], namespace: str, time: float) -> None:
        """Note the Jobs that a plan has resumed at `time`. `jobs`: the cache with the answers to the plan's writes."""
        for action in plan.actions:
            if not isinstance(action, PatchJob) or action.patch.get("spec", {}).get("suspend") is not False:
                continue
            job, uid = jobs.get(namespace, action.name), action.patch["metadata"]["uid"]
            if job is not None and job.metadata.uid == uid and not job.spec.suspend:
                count = self._resume_counts[uid] = self._resume_counts.get(uid, 0) + 1
                self._paused_until[uid] = time + min(FIRST_PAUSE * 2 ** min(count - 1, 20), LONGEST_PAUSE)
                self._forget_at, self.is_reported = time + FORGET_AFTER, False


class _ManagedFieldsEntry(Base, frozen=True, kw_only=True):
    """metav1.ManagedFieldsEntry."""

    manager: str = ""
    time: str = ""
    fields_v1: JSON = msgspec.field(name="fieldsV1", default_factory=dict)


class _JobMetadata(Base, frozen=True, kw_only=True):
    managed_fields: tuple[_ManagedFieldsEntry, ...] = ()


class _SuspendedJob(Base, frozen=True, kw_only=True):
    """A suspended Job with its managedFields."""

    metadata: _JobMetadata = _JobMetadata()

    @property
    def suspender(self) -> str:
        """The field manager of `spec.suspend`; empty if unknown."""
        entries = [entry for entry in self.metadata.managed_fields if "f:suspend" in entry.fields_v1.get("f:spec", {})]
        return max(entries, key=lambda entry: entry.time).manager if entries else ""


class ContestedJobs:
    """Warns of contested Jobs, by at most one event about a set in each pause."""

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
            manager_name = clean_words(job.suspender, MAX_MANAGER_NAME)
        except (KubeError, TimeoutError) as error:
            log.info("who has suspended Job %s/%s is not known: %s", js.metadata.namespace, name, error)
            manager_name = ""
        self._record(
            js,
            Event("Warning", keys.JOBS_SUSPENDED_AGAIN, describe_contest(name, len(suspended_jobs) - 1, manager_name)),
        )


def describe_contest(name: str, more_jobs: int, manager_name: str) -> str:
    """The message of the Warning about a Job and `more_jobs` further ones: who suspends them, and what to do."""
    jobs, verbs = (f"Job {name} and {more_jobs} more", ("were", "are")) if more_jobs else (f"Job {name}", ("was", "is"))
    by = f" by field manager {manager_name}" if manager_name else ""
    return (
        f"{jobs} {verbs[0]} resumed and {verbs[1]} suspended again{by}: the manager resumes such Jobs after a pause,"
        " which grows to 5 min while this goes on. To suspend the set, set spec.suspend of the JobSet; else have that"
        " controller leave the Jobs of JobSets alone"
    )
