"""Sorts the Jobs of a JobSet by what they wait for. Pure.

The functions of the manager decide which Jobs are ready or may start, so `explain` and the manager agree.
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field

from api import keys
from api.batch import Job, job_ready, pods_at_once
from api.features import FeatureGates
from api.jobset import JobSet
from api.layout import JobPosition, Layout, layout_of
from api.placeholders import placeholders_of
from api.spares import running_part
from controllers.planning import counters
from controllers.planning.child_jobs import Child, ChildJobs, sort_jobs
from controllers.planning.limits import DEFAULT_LIMITS
from controllers.planning.stages import Stages, Unmet


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The Jobs of the current attempt. Tuples are sorted by global index. A default `Survey` means: not known.

    - `total`: the number of Jobs in the spec. `settled`: the number of Jobs that are ready or completed.
    - `missing`: Jobs that neither exist nor have completed.
    - `halted`: Jobs that are suspended although the set is not.
    - `unready`: Jobs that run and are not ready.
    - `failed`: failed Jobs. `previous`: Jobs of an earlier attempt that still exist.
    - `queued`: the number of Jobs that the Job controller has not started yet.
    - `unmet`: what a ReplicatedJob that may not start yet waits for, by its name.
    - `stages`: the same in words, such as `driver to be ready (0 of 1)`.
    - `stage`: the running stage of `spec.executionPolicy`, such as `1 of 3`; else empty.
    - `pods`: the number of pods that should run at once now, by ReplicatedJob, but for ReplicatedJobs in `unmet`.
    """

    total: int = 0
    settled: int = 0
    missing: tuple[JobPosition, ...] = ()
    halted: tuple[Child, ...] = ()
    unready: tuple[Child, ...] = ()
    failed: tuple[Child, ...] = ()
    previous: tuple[Child, ...] = ()
    queued: int = 0
    unmet: Mapping[str, tuple[Unmet, ...]] = field(default_factory=dict)
    stages: Mapping[str, str] = field(default_factory=dict)
    stage: str = ""
    pods: Counter[str] = field(default_factory=Counter)

    @property
    def is_queue_full(self) -> bool:
        """Whether the manager creates no further Jobs before the Job controller has started some."""
        return self.queued >= DEFAULT_LIMITS.queued_jobs

    def waiting_for_settled_jobs(self, beginning: Container[str]) -> frozenset[str]:
        """The ReplicatedJobs in `unmet` that wait only for settled Jobs.

        `beginning`: ReplicatedJobs whose Jobs are being created.
        """
        names = (
            *(position.replicated_job.name for position in self.missing),
            *(child.replicated_job for child in self._unsettled_jobs),
        )
        unsettled, next_in_order = {name for name in names if name not in beginning}, set[str]()
        # In the order of the spec, a ReplicatedJob comes after the ReplicatedJobs that it waits for.
        for name, unmet in self.unmet.items():
            awaited = {condition.replicated_job for condition in unmet}
            if awaited & unsettled <= next_in_order:
                next_in_order.add(name)
        return frozenset(next_in_order)

    @property
    def _unsettled_jobs(self) -> tuple[Child, ...]:
        """Jobs that exist and are not settled."""
        return (*self.halted, *self.unready, *self.failed)

    @property
    def waiting(self) -> tuple[str, ...]:
        """Names of all Jobs that are not settled."""
        return (*(position.name for position in self.missing), *(child.name for child in self._unsettled_jobs))


def missing_pods(job: Job) -> int:
    """How many pods of a Job do not exist yet."""
    return max(pods_at_once(job.spec) - job.status.active - job.status.succeeded, 0)


def survey_jobs(js: JobSet, jobs: Iterable[Job]) -> Survey:
    """The survey of the Jobs that `js` owns. The status shows whether the manager runs with the gate RestartJob."""
    gates = FeatureGates({"RestartJob": any(counts.job_restarts for counts in js.status.replicated_jobs_status)})
    running, jobs = running_part(js), tuple(jobs)
    if running is not js:
        spares = {rjob.name for rjob in js.spec.replicated_jobs if rjob.spare_for}
        jobs = tuple(job for job in jobs if job.metadata.labels.get(keys.REPLICATED_JOB_NAME) not in spares)
    if placeholders := placeholders_of(running, jobs):
        jobs = tuple(job for job in jobs if job not in placeholders)
    js = running.with_current_replicas
    layout = layout_of(js)
    children = sort_jobs(js, jobs, layout, gates)
    order = Stages(js, counters.count(js, children), children)
    active = [child for child in children.active if child.job.spec.suspend or not job_ready(child.job)]
    missing = _missing_jobs(js, layout, children)
    total = layout.global_replicas
    unmet = {rjob.name: conditions for rjob in js.spec.replicated_jobs if (conditions := order.unmet(rjob))}
    return Survey(
        total=total,
        settled=total - len(missing) - len(active) - len(children.failed),
        missing=missing,
        halted=tuple(child for child in active if child.job.spec.suspend and not js.spec.suspend),
        unready=tuple(child for child in active if not child.job.spec.suspend),
        failed=children.failed,
        previous=children.previous,
        queued=sum(tally.queued for tally in children.tallies.values()),
        unmet=unmet,
        stages={name: " and ".join(map(_describe_unmet, conditions)) for name, conditions in unmet.items()},
        stage=f"{order.number} of {order.total}" if order.total else "",
        pods=_pods_at_once(js, children, missing, unmet),
    )


def _missing_jobs(js: JobSet, layout: Layout, children: ChildJobs) -> tuple[JobPosition, ...]:
    """The Jobs that neither exist nor have completed, or whose name a Job of an earlier attempt still has."""
    previous_jobs = {child.name for child in children.previous}
    return tuple(
        position
        for jobs in layout.ranges
        for position in jobs.positions(js.metadata.name)
        if position.name in previous_jobs
        or (
            position.job_index not in children.existing[jobs.replicated_job.name]
            and position.job_index not in children.completed[jobs.replicated_job.name]
        )
    )


def _pods_at_once(
    js: JobSet, children: ChildJobs, missing: Iterable[JobPosition], unmet: Container[str]
) -> Counter[str]:
    """By ReplicatedJob, the number of pods that its running Jobs still need, and that its missing Jobs may have."""
    at_once = {rjob.name: max(pods_at_once(rjob), 0) for rjob in js.spec.replicated_jobs if rjob.name not in unmet}
    pods = Counter[str]()
    for position in missing:
        pods[position.replicated_job.name] += at_once.get(position.replicated_job.name, 0)
    for child in children.active:
        spec, succeeded = child.job.spec, child.job.status.succeeded
        to_complete = pods_at_once(spec) if spec.completions is None else spec.completions - succeeded
        pods[child.replicated_job] += 0 if spec.suspend else max(min(pods_at_once(spec), to_complete), 0)
    return pods


def _describe_unmet(unmet: Unmet) -> str:
    state = "have succeeded" if unmet.state == "Succeeded" else f"be {unmet.state.lower()}"
    return f"{unmet.replicated_job} to {state} ({unmet.done} of {unmet.needed})"
