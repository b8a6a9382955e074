"""Which Jobs of a JobSet are where they should be, and which wait for an earlier stage. Pure.

Sorted by the same code as the controller sorts by, so that both mean the same by "ready" and by "may start".
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from api.batch import Job, pods_at_once
from api.features import FeatureGates
from api.jobset import JobSet, ReplicatedJobStatus
from api.placement import Placement, Slot, placement
from api.stages import in_order, staged
from controllers.planning import counters
from controllers.planning.child_jobs import Child, ChildJobs, sort_jobs
from controllers.planning.stages import Stages


@dataclass(frozen=True, slots=True)
class Survey:
    """The Jobs of the current attempt, each tuple by global index.

    - `total`: Jobs that the spec asks for. `settled`: of those, the ready and the completed ones.
    - `missing`: neither exist nor have completed. `halted`: suspended though the set is not. `unready`: run, not ready.
    - `failed`; `previous`: Jobs of an earlier attempt that still exist.
    - `stages`: why a ReplicatedJob may not start yet, by its name: `driver to be ready (0 of 1)`.
    """

    total: int
    settled: int
    missing: tuple[Slot, ...]
    halted: tuple[Child, ...]
    unready: tuple[Child, ...]
    failed: tuple[Child, ...]
    previous: tuple[Child, ...]
    stages: Mapping[str, str]

    @property
    def waiting(self) -> tuple[str, ...]:
        """Names of all Jobs that are not settled."""
        children = (*self.halted, *self.unready, *self.failed)
        return (*(slot.name for slot in self.missing), *(child.name for child in children))


def lacking(job: Job) -> int:
    """Pods that a Job should have and that nobody has made."""
    return max(pods_at_once(job.spec) - job.status.active - job.status.succeeded, 0)


def survey(js: JobSet, jobs: Iterable[Job]) -> Survey:
    """Sort the Jobs that `js` owns. The manager's feature gates show in what it wrote."""
    gates = FeatureGates({"RestartJob": any(of.job_restarts for of in js.status.replicated_jobs_status)})
    placed = placement(js)
    children = sort_jobs(js, jobs, placed, gates)
    counts = counters.count(js, children, gates)
    active = [child for child in children.active if child.job.spec.suspend or not counters.job_ready(child.job)]
    halted = tuple(child for child in active if child.job.spec.suspend and not js.suspended)
    missing = _missing(js, placed, children)
    return Survey(
        total=placed.global_replicas,
        settled=placed.global_replicas - len(missing) - len(active) - len(children.failed),
        missing=missing,
        halted=halted,
        unready=tuple(child for child in active if not child.job.spec.suspend),
        failed=children.failed,
        previous=children.previous,
        stages=_stages(js, counts, children),
    )


def _missing(js: JobSet, placed: Placement, children: ChildJobs) -> tuple[Slot, ...]:
    """Jobs of an earlier attempt are in the way of those that are missing: they count as missing here."""
    old = {child.name for child in children.previous}
    there = {name: children.existing[name] | children.completed[name] for name in children.existing}
    return tuple(
        slot
        for group in placed.groups
        for slot in group.slots(js.metadata.name)
        if slot.job_index not in there[group.replicated_job.name] or slot.name in old
    )


def _stages(js: JobSet, counts: tuple[ReplicatedJobStatus, ...], children: ChildJobs) -> dict[str, str]:
    stages = Stages(js, counts, children)
    policy = js.spec.execution_policy
    if policy is not None and staged(js.spec):
        return _staged(js, stages, policy.replicated_jobs_status)
    of = {count.name: count for count in counts}
    replicas = {rjob.name: rjob.replicas for rjob in js.spec.replicated_jobs}

    def reached(name: str, status: str) -> str:
        count = of[name]
        done = count.succeeded if status == "Complete" else count.ready + count.succeeded + count.failed
        return f"{name} to be {status.lower()} ({done} of {replicas[name]})"

    out: dict[str, str] = {}
    first = ""
    for rjob in js.spec.replicated_jobs:
        if first:
            out[rjob.name] = reached(first, "Ready")
        elif not stages.may_start(rjob):
            unmet = [
                reached(dep.name, dep.status)
                for dep in rjob.depends_on or ()
                if dep.name in of and not _met(stages, of[dep.name], dep.status, replicas[dep.name])
            ]
            out[rjob.name] = " and ".join(unmet)
        if in_order(js.spec) and not first and not stages.started(rjob.name):
            first = rjob.name
    return out


def _staged(js: JobSet, stages: Stages, state: str) -> dict[str, str]:
    """Of each ReplicatedJob that is not released, what in the stage ahead of it is not as far as that takes."""
    out: dict[str, str] = {}
    for rjob in js.spec.replicated_jobs:
        unmet = [
            f"{of.name} to {'have succeeded' if state == 'Succeeded' else f'be {state.lower()}'}"
            f" ({stages.progress(of.name)} of {of.replicas})"
            for of in stages.awaited(rjob.name)
            if not stages.reached(of.name)
        ]
        if unmet:
            out[rjob.name] = " and ".join(unmet)
    return out


def _met(stages: Stages, count: ReplicatedJobStatus, status: str, replicas: int) -> bool:
    return count.succeeded == replicas if status == "Complete" else stages.started(count.name)
