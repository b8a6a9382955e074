"""How many of the active Jobs of each ReplicatedJob are in which state, counted once for all steps of a plan."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from api.batch import Job, pods_at_once


class Counted(Protocol):
    """A child Job."""

    @property
    def job(self) -> Job: ...

    @property
    def replicated_job(self) -> str: ...

    @property
    def deleting(self) -> bool: ...


class Tally(NamedTuple):
    """Active Jobs of one ReplicatedJob.

    - `ready`: every pod that the Job wants at once is ready or has succeeded. `with_pods`: it has a pod.
    - `suspended`: `spec.suspend` is set. `halting`: those of them that are ready still: their pods are about to go.
    - `there`: not suspended, with a pod or ready. `running`: not suspended.
    - `queued`: the Job controller has still to take them up.
    """

    ready: int = 0
    with_pods: int = 0
    suspended: int = 0
    halting: int = 0
    there: int = 0
    running: int = 0
    queued: int = 0


NONE = Tally()


def job_ready(job: Job) -> bool:
    """Whether every pod that the Job wants at once is ready or has succeeded."""
    return job.status.succeeded + (job.status.ready or 0) >= pods_at_once(job.spec)


def of_one(child: Counted) -> Tally:
    """What one active Job counts for."""
    job = child.job
    ready, with_pods, suspended = job_ready(job), job.status.active > 0, job.spec.suspend
    return Tally(
        ready,
        with_pods,
        suspended,
        suspended and ready,
        not suspended and (with_pods or ready),
        not suspended,
        job.queued and not child.deleting,
    )


def tally(children: Iterable[Counted]) -> Mapping[str, Tally]:
    """Of all these, by ReplicatedJob."""
    like: dict[tuple[str, Tally], int] = {}
    for child in children:
        key = child.replicated_job, of_one(child)
        like[key] = like.get(key, 0) + 1
    found: dict[str, Tally] = {}
    for (name, part), number in like.items():
        found[name] = Tally(
            *(before + number * count for before, count in zip(found.get(name, NONE), part, strict=True))
        )
    return found


def exchange(counts: Tally, old: Tally, new: Tally) -> Tally:
    """The counts after one Job has changed."""
    return Tally(*(before - was + now for before, was, now in zip(counts, old, new, strict=True)))
