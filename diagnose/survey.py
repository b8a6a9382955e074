"""Sorts the Jobs of a JobSet by their state. A Job is settled if it is ready or has completed. Pure.

It calls the functions by which the manager decides which Jobs are ready or may start, so that both agree.
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field

from api import keys
from api.batch import Job, is_job_ready, pods_at_once
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
    """The Jobs of the current attempt. Tuples are sorted by global index. If the Jobs are unknown, all is empty.

    - `job_count`: the number of Jobs in the spec. `settled_count`: the number of Jobs that are ready or completed.
    - `missing_jobs`: Jobs that neither exist nor have completed. `startable_jobs`: missing Jobs that may start now.
    - `halted_jobs`: Jobs that are suspended although the JobSet is not.
    - `unready_jobs`: Jobs that run and are not ready.
    - `failed_jobs`: failed Jobs. `previous_jobs`: Jobs of an earlier attempt that still exist.
    - `queued_count`: the number of Jobs that the Job controller has not started yet.
    - `unmet_conditions`: what a ReplicatedJob that may not start yet waits for, by its name.
    - `unmet_texts`: the unmet conditions in words, such as `driver to be ready (0 of 1)`, by the same name.
    - `running_stage`: the running stage of `spec.executionPolicy`, such as `1 of 3`; else empty.
    - `pods_at_once`: the number of pods that should run at once now, by ReplicatedJob. ReplicatedJobs in
      `unmet_conditions` count with their existing Jobs only.
    """

    job_count: int = 0
    settled_count: int = 0
    missing_jobs: tuple[JobPosition, ...] = ()
    startable_jobs: tuple[JobPosition, ...] = ()
    halted_jobs: tuple[Child, ...] = ()
    unready_jobs: tuple[Child, ...] = ()
    failed_jobs: tuple[Child, ...] = ()
    previous_jobs: tuple[Child, ...] = ()
    queued_count: int = 0
    unmet_conditions: Mapping[str, tuple[Unmet, ...]] = field(default_factory=dict)
    unmet_texts: Mapping[str, str] = field(default_factory=dict)
    running_stage: str = ""
    pods_at_once: Counter[str] = field(default_factory=Counter)

    @property
    def is_queue_full(self) -> bool:
        """Whether the manager creates no further Jobs before the Job controller has started some."""
        return self.queued_count >= DEFAULT_LIMITS.queued_jobs

    def rjobs_behind_settled_jobs(self, beginning: Container[str]) -> frozenset[str]:
        """The ReplicatedJobs in `unmet_conditions` that wait only for settled Jobs, directly or through each other.

        `beginning`: names of ReplicatedJobs whose Jobs are being created. They count as settled.
        """
        rjobs_of_missing_jobs = (position.replicated_job.name for position in self.missing_jobs)
        names = (*rjobs_of_missing_jobs, *(child.replicated_job for child in self._unsettled_jobs))
        unsettled_rjobs, behind_settled = {name for name in names if name not in beginning}, set[str]()
        # In the order of the spec, a ReplicatedJob comes after the ReplicatedJobs that it waits for.
        for name, conditions in self.unmet_conditions.items():
            awaited_rjobs = {condition.replicated_job for condition in conditions}
            if awaited_rjobs & unsettled_rjobs <= behind_settled:
                behind_settled.add(name)
        return frozenset(behind_settled)

    @property
    def _unsettled_jobs(self) -> tuple[Child, ...]:
        """Jobs that exist and are not settled."""
        return (*self.halted_jobs, *self.unready_jobs, *self.failed_jobs)

    @property
    def unsettled_names(self) -> tuple[str, ...]:
        """Names of all Jobs that are not settled."""
        return (*(position.name for position in self.missing_jobs), *(child.name for child in self._unsettled_jobs))


def missing_pods(job: Job) -> int:
    """How many pods of a Job do not exist yet."""
    return max(pods_at_once(job.spec) - job.status.active - job.status.succeeded, 0)


def survey_jobs(js: JobSet, jobs: Iterable[Job]) -> Survey:
    """The survey of the Jobs that `js` owns. The status shows whether the manager runs with the gate RestartJob."""
    gates = FeatureGates({"RestartJob": any(counts.job_restarts for counts in js.status.replicated_jobs_status)})
    js_without_spares, jobs = running_part(js), tuple(jobs)
    if js_without_spares is not js:
        spares = {rjob.name for rjob in js.spec.replicated_jobs if rjob.spare_for}
        jobs = tuple(job for job in jobs if job.metadata.labels.get(keys.REPLICATED_JOB_NAME) not in spares)
    if placeholders := placeholders_of(js_without_spares, jobs):
        jobs = tuple(job for job in jobs if job not in placeholders)
    js = js_without_spares.with_current_replicas
    layout = layout_of(js)
    children = sort_jobs(js, jobs, layout, gates)
    stages = Stages(js, counters.count_jobs(js, children), children)
    unsettled = [child for child in children.active if child.job.spec.suspend or not is_job_ready(child.job)]
    missing = _missing_jobs(js, layout, children)
    rjobs = js.spec.replicated_jobs
    unmet = {rjob.name: conditions for rjob in rjobs if (conditions := stages.unmet_dependencies(rjob))}
    return Survey(
        job_count=layout.global_replicas,
        settled_count=layout.global_replicas - len(missing) - len(unsettled) - len(children.failed),
        missing_jobs=missing,
        startable_jobs=tuple(position for position in missing if position.replicated_job.name not in unmet),
        halted_jobs=tuple(child for child in unsettled if child.job.spec.suspend and not js.spec.suspend),
        unready_jobs=tuple(child for child in unsettled if not child.job.spec.suspend),
        failed_jobs=children.failed,
        previous_jobs=children.previous,
        queued_count=sum(tally.queued for tally in children.tallies.values()),
        unmet_conditions=unmet,
        unmet_texts={name: " and ".join(map(_describe_unmet, conditions)) for name, conditions in unmet.items()},
        running_stage=f"{stages.last_released_number} of {stages.stage_count}" if stages.stage_count else "",
        pods_at_once=_pods_at_once(js, children, missing, unmet),
    )


def _missing_jobs(js: JobSet, layout: Layout, children: ChildJobs) -> tuple[JobPosition, ...]:
    """The Jobs that neither exist nor have completed, or whose name a Job of an earlier attempt still has."""
    previous_jobs = {child.name for child in children.previous}
    missing_jobs: list[JobPosition] = []
    for jobs in layout.ranges:
        rjob, positions = jobs.replicated_job.name, jobs.positions(js.metadata.name)
        existing, completed = children.existing[rjob], children.completed[rjob]
        missing_jobs += (
            position
            for position in positions
            if position.name in previous_jobs or not (position.job_index in existing or position.job_index in completed)
        )
    return tuple(missing_jobs)


def _pods_at_once(
    js: JobSet, children: ChildJobs, missing: Iterable[JobPosition], unmet: Container[str]
) -> Counter[str]:
    """By ReplicatedJob, the number of pods that its running Jobs still need, and that its missing Jobs may have."""
    pods_per_job = {rjob.name: max(pods_at_once(rjob), 0) for rjob in js.spec.replicated_jobs if rjob.name not in unmet}
    pod_counts = Counter[str]()
    for position in missing:
        pod_counts[position.replicated_job.name] += pods_per_job.get(position.replicated_job.name, 0)
    for child in children.active:
        spec, succeeded = child.job.spec, child.job.status.succeeded
        completions_left = pods_at_once(spec) if spec.completions is None else spec.completions - succeeded
        pod_counts[child.replicated_job] += 0 if spec.suspend else max(min(pods_at_once(spec), completions_left), 0)
    return pod_counts


def _describe_unmet(unmet: Unmet) -> str:
    state = "have succeeded" if unmet.state == "Succeeded" else f"be {unmet.state.lower()}"
    return f"{unmet.replicated_job} to {state} ({unmet.reached_jobs} of {unmet.needed_jobs})"
