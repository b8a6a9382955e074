"""Which Jobs of a JobSet are where they should be, and which wait for an earlier stage. Pure.

Read from the context that the manager plans with, so that both mean the same by "ready" and by "may start".
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

from api.batch import Job, pods_at_once
from api.features import FeatureGates
from api.jobset import JobSet
from api.layout import JobPosition
from controllers.planning.child_jobs import Child
from controllers.planning.context import Context, context
from controllers.planning.limits import DEFAULT_LIMITS
from controllers.planning.observed import Observed
from controllers.planning.stages import Unmet
from controllers.planning.tally import job_ready


@dataclass(frozen=True, slots=True)
class Survey:
    """The Jobs of the current attempt, each tuple by global index.

    - `total`: Jobs that the spec asks for. `settled`: of those, the ready and the completed ones.
    - `missing`: neither exist nor have completed. `halted`: suspended though the set is not. `unready`: run, not ready.
    - `failed`; `previous`: Jobs of an earlier attempt that still exist.
    - `job_budget`: how many more Jobs the manager would create or resume now, before the Job controller takes up more.
    - `unmet`: what a ReplicatedJob that may not start yet waits for, by its name. `stages`: the same in words:
      `driver to be ready (0 of 1)`. `stage`: with `spec.executionPolicy`, which one runs: `1 of 3`; else empty.
    - `pods`: how many pods are to run at once now, by ReplicatedJob; none of those that may not start yet.
    """

    total: int
    settled: int
    missing: tuple[JobPosition, ...]
    halted: tuple[Child, ...]
    unready: tuple[Child, ...]
    failed: tuple[Child, ...]
    previous: tuple[Child, ...]
    job_budget: int
    unmet: Mapping[str, tuple[Unmet, ...]]
    stages: Mapping[str, str]
    stage: str
    pods: Counter[str]

    def in_turn(self, beginning: Container[str]) -> frozenset[str]:
        """Of the ReplicatedJobs in `unmet` those that wait only for Jobs that are as they should be.

        `beginning`: ReplicatedJobs whose Jobs are being created.
        """
        awaited = (
            *(position.replicated_job.name for position in self.missing),
            *(unmet_stage.replicated_job for unmet_stage in self._there),
        )
        waiting, found = {name for name in awaited if name not in beginning}, set[str]()
        for name, unmet in self.unmet.items():  # in the order of the spec: each stands behind what it waits for
            if all(
                unmet_stage.replicated_job not in waiting or unmet_stage.replicated_job in found
                for unmet_stage in unmet
            ):
                found.add(name)
        return frozenset(found)

    @property
    def _there(self) -> tuple[Child, ...]:
        """Jobs that exist and are not settled."""
        return (*self.halted, *self.unready, *self.failed)

    @property
    def waiting(self) -> tuple[str, ...]:
        """Names of all Jobs that are not settled."""
        return (*(position.name for position in self.missing), *(child.name for child in self._there))


def lacking(job: Job) -> int:
    """How many of the pods that a Job should have do not exist yet."""
    return max(pods_at_once(job.spec) - job.status.active - job.status.succeeded, 0)


def survey_jobs(js: JobSet, jobs: Iterable[Job]) -> Survey:
    """Sort the Jobs that `js` owns. The manager's feature gates show in what it wrote."""
    gates = FeatureGates(
        {"RestartJob": any(unmet_stages.job_restarts for unmet_stages in js.status.replicated_jobs_status)}
    )
    observed = Observed(js, tuple(jobs), service=None, claims=frozenset(), now="")
    ctx = context(observed, gates, DEFAULT_LIMITS)
    active = [child for child in ctx.children.active if child.job.spec.suspend or not job_ready(child.job)]
    missing = _missing(ctx)
    total = ctx.layout.global_replicas
    unmet = {rjob.name: found for rjob in js.spec.replicated_jobs if (found := ctx.stages.unmet(rjob))}
    stages = {name: " and ".join(map(_in_words, unmet_stages)) for name, unmet_stages in unmet.items()}
    return Survey(
        total=total,
        settled=total - len(missing) - len(active) - len(ctx.children.failed),
        missing=missing,
        halted=tuple(child for child in active if child.job.spec.suspend and not js.suspended),
        unready=tuple(child for child in active if not child.job.spec.suspend),
        failed=ctx.children.failed,
        previous=ctx.children.previous,
        job_budget=ctx.job_budget,
        unmet=unmet,
        stages=stages,
        stage=f"{ctx.stages.number} of {ctx.stages.total}" if ctx.stages.total else "",
        pods=_pods(ctx, missing, stages),
    )


def _missing(ctx: Context) -> tuple[JobPosition, ...]:
    """Jobs of an earlier attempt are in the way of those that are missing: they count as missing here."""
    children, old = ctx.children, {child.name for child in ctx.children.previous}
    return tuple(
        position
        for jobs in ctx.layout.ranges
        for position in jobs.positions(ctx.js.metadata.name)
        if position.name in old
        or (
            position.job_index not in children.existing[jobs.replicated_job.name]
            and position.job_index not in children.completed[jobs.replicated_job.name]
        )
    )


def _pods(ctx: Context, missing: Iterable[JobPosition], stages: Mapping[str, str]) -> Counter[str]:
    """Pods of the Jobs that run, as many as they still need, and of those that may be created."""
    at_once = {rjob.name: max(pods_at_once(rjob), 0) for rjob in ctx.js.spec.replicated_jobs if rjob.name not in stages}
    pods = Counter[str]()
    for position in missing:
        pods[position.replicated_job.name] += at_once.get(position.replicated_job.name, 0)
    for child in ctx.children.active:
        spec, succeeded = child.job.spec, child.job.status.succeeded
        left = pods_at_once(spec) if spec.completions is None else min(pods_at_once(spec), spec.completions - succeeded)
        pods[child.replicated_job] += 0 if spec.suspend else max(left, 0)
    return pods


def _in_words(unmet: Unmet) -> str:
    state = "have succeeded" if unmet.state == "Succeeded" else f"be {unmet.state.lower()}"
    return f"{unmet.replicated_job} to {state} ({unmet.done} of {unmet.needed})"
