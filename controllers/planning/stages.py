"""Decides in which order ReplicatedJobs start: dependsOn, startupPolicy InOrder, executionPolicy.

See docs/reference/lifecycle.md#order-of-start.

A state that a ReplicatedJob has reached counts for the rest of the attempt: `started` and `released` in
`status.replicatedJobsStatus[]` record the state. So a pod that loses readiness later neither takes conditions back nor
blocks the creation of other Jobs (defect 18 in docs/reference/defects.md). A restart and a suspension reset both
fields, and the order applies again.
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import msgspec

from api.children import mounted_names
from api.jobset import JobSet, ReplicatedJob
from api.jobset_status import ReplicatedJobStatus
from api.stages import Stage, is_ordered, stage_name, stages
from controllers.planning.attempts import REACHED
from controllers.planning.child_jobs import ChildJobs


class Unmet(NamedTuple):
    """A ReplicatedJob that has not reached the `state` that another ReplicatedJob waits for.

    `state`: Ready, Complete, Active or Succeeded. `reached_jobs` of `needed_jobs` Jobs have reached it.
    """

    replicated_job: str
    state: str
    reached_jobs: int
    needed_jobs: int


class Stages:
    """Which ReplicatedJobs of one observed JobSet may have running Jobs."""

    def __init__(self, js: JobSet, counts: tuple[ReplicatedJobStatus, ...], children: ChildJobs) -> None:
        self._counts = {c.name: c for c in counts}
        self._replicated_jobs = js.spec.replicated_jobs
        self._replicas = {r.name: r.replicas for r in js.spec.replicated_jobs}
        self._tally = children.tally
        self._running = {name for name, tally in children.tallies.items() if tally.running}
        self._position = {name: position for position, name in enumerate(self._replicas)}
        self._suspended = js.spec.suspend
        self._ordered = is_ordered(js.spec)
        self._stages = stages(js.spec)
        self._awaited_ready, self._with_running_dependents = _awaited_ready(js, self._running, ordered=self._ordered)
        self._awaited_state = js.spec.execution_policy.replicated_jobs_status if js.spec.execution_policy else ""
        self._last_released_index = self._last_released()
        self._released = {rjob.name for stage in self._stages[: self._last_released_index + 1] for rjob in stage}
        # In an ordered start: the first ReplicatedJob that has not started. Later ReplicatedJobs wait for it.
        self._first_unstarted = (
            next((name for name in self._replicas if not self.has_started(name)), None) if self._ordered else None
        )

    def has_started(self, name: str) -> bool:
        """Whether every Job of the ReplicatedJob is ready or has succeeded, or was so earlier in this attempt."""
        counts = self._counts.get(name)
        if counts is None:
            return False
        ready_or_succeeded = counts.ready + counts.succeeded - self._tally(name).suspended_ready
        return counts.started or ready_or_succeeded == self._replicas[name] or name in self._with_running_dependents

    def may_start(self, rjob: ReplicatedJob) -> bool:
        """Whether the ReplicatedJob runs already, or its stage is released, or its dependencies are met."""
        if rjob.name in self._running:
            return True
        if self._stages:
            return rjob.name in self._released
        return all(self._is_met(dep.name, dep.status) for dep in rjob.depends_on or () if dep.name != rjob.name)

    def is_next(self, rjob: ReplicatedJob) -> bool:
        """Whether the ReplicatedJob may start and, in an ordered start, all ReplicatedJobs before it have started."""
        return self.may_start(rjob) and (rjob.name in self._running or not self._is_behind_first_unstarted(rjob.name))

    def _is_behind_first_unstarted(self, name: str) -> bool:
        return self._first_unstarted is not None and self._position[name] > self._position[self._first_unstarted]

    def startable_jobs(self) -> Iterator[ReplicatedJob]:
        """The ReplicatedJobs that may start now. An ordered start ends with the first that has not started."""
        for rjob in self._replicated_jobs:
            if self.may_start(rjob):
                yield rjob
                if self._ordered and not self._suspended and not self.has_started(rjob.name):
                    return

    @property
    def all_started(self) -> bool:
        """Whether every ReplicatedJob that may start has started."""
        return all(self.has_started(rjob.name) for rjob in self._replicated_jobs if self.may_start(rjob))

    def unmet_dependencies(self, rjob: ReplicatedJob) -> tuple[Unmet, ...]:
        """What the ReplicatedJob waits for, by any ordering field of the spec; empty if it may start."""
        if self._stages:
            awaited_names = (awaited.name for awaited in self._stage_before(rjob.name))
            names = [name for name in awaited_names if not self.has_reached_state(name)]
            return tuple(Unmet(name, self._awaited_state, self.progress(name), self._replicas[name]) for name in names)
        if self._ordered:
            return (
                (self._unmet_state(self._first_unstarted, "Ready"),)
                if self._first_unstarted and self._is_behind_first_unstarted(rjob.name)
                else ()
            )
        if self.may_start(rjob):
            return ()
        deps = (dep for dep in rjob.depends_on or () if dep.name in self._counts)
        return tuple(self._unmet_state(dep.name, dep.status) for dep in deps if not self._is_met(dep.name, dep.status))

    def _unmet_state(self, name: str, state: str) -> Unmet:
        counts = self._counts[name]
        done = counts.succeeded if state == "Complete" else counts.ready + counts.succeeded
        return Unmet(name, state, done, self._replicas[name])

    def has_reached_state(self, name: str) -> bool:
        """Whether every Job of the ReplicatedJob has reached the state that executionPolicy requires.

        In a suspended set only succeeded Jobs count, since pods that still run are about to end.
        """
        return self.progress(name) == self._replicas[name]

    def progress(self, name: str) -> int:
        """How many Jobs of the ReplicatedJob have reached the state that executionPolicy requires."""
        counts = self._counts[name]
        if self._awaited_state not in {"Ready", "Active"}:
            return counts.succeeded
        tally = self._tally(name)
        in_state = counts.ready - tally.suspended_ready if self._awaited_state == "Ready" else tally.started
        return counts.succeeded + (0 if self._suspended else in_state)

    def status_entries(self) -> tuple[ReplicatedJobStatus, ...]:
        """The counts with the fields of `REACHED` and `remaining`; while the set is suspended nothing is reached."""
        return tuple(
            msgspec.structs.replace(
                counts,
                **(REACHED if self._suspended else self._reached_by(counts)),
                remaining=max(self._replicas[name] - counts.succeeded, 0) if self._stages else None,
            )
            for name, counts in self._counts.items()
        )

    def _reached_by(self, counts: ReplicatedJobStatus) -> dict[str, bool]:
        """The fields of `REACHED`. Only ReplicatedJobs that other ReplicatedJobs wait for are marked as started."""
        started = counts.name in self._awaited_ready and self.has_started(counts.name)
        return {"started": started, "released": counts.released}

    @property
    def last_released_title(self) -> str:
        """The last released stage, such as `trainer (2/3)`; empty if the set has no stages."""
        if not self._stages:
            return ""
        title = stage_name(self._stages[self._last_released_index])
        return f"{title} ({self.last_released_number}/{self.stage_count})"

    @property
    def last_released_number(self) -> int:
        """The number of the last released stage, from 1; 0 if the set has no stages."""
        return self._last_released_index + 1 if self._stages else 0

    @property
    def stage_count(self) -> int:
        """How many stages there are."""
        return len(self._stages)

    def mounted_volumes(self) -> set[str] | None:
        """Names of the volumes that ReplicatedJobs of released stages mount; None if the set has no stages."""
        if not self._stages:
            return None
        released = (rjob for rjob in self._replicated_jobs if rjob.name in self._released)
        return set().union(*(mounted_names(rjob.pod_spec) for rjob in released))

    def newly_released_stages(self) -> dict[int, Stage]:
        """Released stages that the status does not record as released, by their number from 1; none while suspended."""
        if self._suspended:
            return {}
        return {
            number: stage
            for number, stage in enumerate(self._stages[: self._last_released_index + 1], 1)
            if not all(self._counts[rjob.name].released for rjob in stage)
        }

    def _stage_before(self, name: str) -> Stage:
        """The stage that the stage of this ReplicatedJob waits for; empty for released stages."""
        if not self._stages or name in self._released:
            return ()
        index = next(i for i, stage in enumerate(self._stages) if any(rjob.name == name for rjob in stage))
        return self._stages[index - 1]

    def _last_released(self) -> int:
        """Index of the last stage that may start: it was released before, or the stage before it has been reached."""
        last = 0
        for index, stage in enumerate(self._stages):
            is_reached = all(self.has_reached_state(rjob.name) for rjob in self._stages[last])
            if is_reached or any(self._was_released(rjob.name) for rjob in stage):
                last = index
        return last

    def _was_released(self, name: str) -> bool:
        """Whether the ReplicatedJob was released before: its status says so, or its Jobs run."""
        return name in self._running or (self._counts[name].released and not self._suspended)

    def _is_met(self, name: str, status: str) -> bool:
        """Whether a dependency on the state `status` of the ReplicatedJob is met."""
        counts = self._counts.get(name)
        if counts is None:
            return False
        return counts.succeeded == self._replicas[name] if status == "Complete" else self.has_started(name)


def _awaited_ready(
    js: JobSet, running: AbstractSet[str], *, ordered: bool
) -> tuple[AbstractSet[str], AbstractSet[str]]:
    """Two sets of names of ReplicatedJobs: those awaited to be ready, and those of them whose dependents run.

    The latter had started, even if the status does not say so. In an ordered start, the former include the last
    ReplicatedJob: only the condition StartupPolicyCompleted waits for it.
    """
    names = [rjob.name for rjob in js.spec.replicated_jobs]
    if ordered:
        last = max((position for position, name in enumerate(names) if name in running), default=0)
        return frozenset(names), frozenset(names[:last])
    dependencies = [(rjob.name, dep) for rjob in js.spec.replicated_jobs for dep in rjob.depends_on or ()]
    on_ready = [(name, dep.name) for name, dep in dependencies if dep.status == "Ready"]
    return frozenset(dep for _, dep in on_ready), frozenset(dep for name, dep in on_ready if name in running)
