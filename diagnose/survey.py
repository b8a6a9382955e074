"""Sorts the Jobs of a JobSet: those that are ready or completed, those that are not, and those of later stages. Pure.

It calls the manager's own functions, so "ready" and "may start" mean the same in both.
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
    """The Jobs of the current attempt, each tuple by global index. By default Jobs are not known.

    - `total`: Jobs that the spec asks for. `settled`: of those, the ready and the completed ones.
    - `missing`: neither exist nor have completed. `halted`: suspended though the set is not. `unready`: run, not ready.
    - `failed`; `previous`: Jobs of an earlier attempt that still exist.
    - `queued`: how many Jobs the Job controller has still to take up.
    - `unmet`: by name of a ReplicatedJob that may not start yet, those that it waits for. `stages`: the same in words:
      `driver to be ready (0 of 1)`. `stage`: with `spec.executionPolicy`, which one runs: `1 of 3`; else empty.
    - `pods`: how many pods are to run at once now, by ReplicatedJob; none of those that may not start yet.
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
        """Whether the manager creates no further Jobs before the Job controller has taken up some."""
        return self.queued >= DEFAULT_LIMITS.queued_jobs

    def waiting_for_settled_jobs(self, beginning: Container[str]) -> frozenset[str]:
        """The ReplicatedJobs in `unmet` that wait only for settled Jobs.

        `beginning`: ReplicatedJobs whose Jobs are being created.
        """
        names = (
            *(position.replicated_job.name for position in self.missing),
            *(child.replicated_job for child in self._unsettled_jobs),
        )
        waiting, found = {name for name in names if name not in beginning}, set[str]()
        for name, unmet in self.unmet.items():  # in the order of the spec: each comes after those that it waits for
            if all(condition.replicated_job not in waiting or condition.replicated_job in found for condition in unmet):
                found.add(name)
        return frozenset(found)

    @property
    def _unsettled_jobs(self) -> tuple[Child, ...]:
        """Jobs that exist and are not settled."""
        return (*self.halted, *self.unready, *self.failed)

    @property
    def waiting(self) -> tuple[str, ...]:
        """Names of all Jobs that are not settled."""
        return (*(position.name for position in self.missing), *(child.name for child in self._unsettled_jobs))


def lacking(job: Job) -> int:
    """How many of the pods that a Job should have do not exist yet."""
    return max(pods_at_once(job.spec) - job.status.active - job.status.succeeded, 0)


def survey_jobs(js: JobSet, jobs: Iterable[Job]) -> Survey:
    """Sort the Jobs that `js` owns. The manager's feature gates show in what it wrote."""
    gates = FeatureGates({"RestartJob": any(counts.job_restarts for counts in js.status.replicated_jobs_status)})
    part, jobs = running_part(js), tuple(jobs)
    if part is not js:
        spares = {rjob.name for rjob in js.spec.replicated_jobs if rjob.spare_for}
        jobs = tuple(job for job in jobs if job.metadata.labels.get(keys.REPLICATED_JOB_NAME) not in spares)
    if placeholders := placeholders_of(part, jobs):
        jobs = tuple(job for job in jobs if job not in placeholders)
    js = part.with_current_replicas
    layout = layout_of(js)
    children = sort_jobs(js, jobs, layout, gates)
    order = Stages(js, counters.count(js, children), children)
    active = [child for child in children.active if child.job.spec.suspend or not job_ready(child.job)]
    missing = _missing_jobs(js, layout, children)
    total = layout.global_replicas
    unmet = {rjob.name: found for rjob in js.spec.replicated_jobs if (found := order.unmet(rjob))}
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
    """The Jobs that neither exist nor have completed, and those whose name a Job of an earlier attempt has."""
    old = {child.name for child in children.previous}
    return tuple(
        position
        for jobs in layout.ranges
        for position in jobs.positions(js.metadata.name)
        if position.name in old
        or (
            position.job_index not in children.existing[jobs.replicated_job.name]
            and position.job_index not in children.completed[jobs.replicated_job.name]
        )
    )


def _pods_at_once(
    js: JobSet, children: ChildJobs, missing: Iterable[JobPosition], unmet: Container[str]
) -> Counter[str]:
    """Pods of the Jobs that run, as many as they still need, and of those that may be created."""
    at_once = {rjob.name: max(pods_at_once(rjob), 0) for rjob in js.spec.replicated_jobs if rjob.name not in unmet}
    pods = Counter[str]()
    for position in missing:
        pods[position.replicated_job.name] += at_once.get(position.replicated_job.name, 0)
    for child in children.active:
        spec, succeeded = child.job.spec, child.job.status.succeeded
        left = pods_at_once(spec) if spec.completions is None else min(pods_at_once(spec), spec.completions - succeeded)
        pods[child.replicated_job] += 0 if spec.suspend else max(left, 0)
    return pods


def _describe_unmet(unmet: Unmet) -> str:
    state = "have succeeded" if unmet.state == "Succeeded" else f"be {unmet.state.lower()}"
    return f"{unmet.replicated_job} to {state} ({unmet.done} of {unmet.needed})"
