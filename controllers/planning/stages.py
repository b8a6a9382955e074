"""In which order ReplicatedJobs start: dependsOn, startupPolicy InOrder, executionPolicy.

See docs/reference/lifecycle.md#order-of-start.

States that were reached stay reached for the attempt: `status.replicatedJobsStatus[].started` and `.released` remember
it, so that a pod that loses readiness later neither takes conditions back nor blocks the recreation of other Jobs
(defect 18 in docs/reference/defects.md). A restart and a suspension reset them, and the order is enforced again.
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
    """A ReplicatedJob that another one waits for: the state that it has to reach, and how many of its Jobs have.

    `state`: Ready, Complete, Active or Succeeded.
    """

    replicated_job: str
    state: str
    done: int
    needed: int


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
        self._awaited_ready, self._passed = _awaited_ready(js, self._running, ordered=self._ordered)
        self._state = js.spec.execution_policy.replicated_jobs_status if js.spec.execution_policy else ""
        self._last = self._last_released()
        self._released = {rjob.name for stage in self._stages[: self._last + 1] for rjob in stage}
        # In an ordered start: the first that has not started. Those after it wait.
        self._front = next((name for name in self._replicas if not self.started(name)), None) if self._ordered else None

    def started(self, name: str) -> bool:
        """Whether every Job of it is ready or has succeeded, or had been in this attempt. A failed Job is neither."""
        counts = self._counts.get(name)
        if counts is None:
            return False
        done = counts.ready + counts.succeeded - self._tally(name).halting
        return counts.started or done == self._replicas[name] or name in self._passed

    def may_start(self, rjob: ReplicatedJob) -> bool:
        """Whether it runs already, or its stage is released, or its dependencies are reached."""
        if rjob.name in self._running:
            return True
        if self._stages:
            return rjob.name in self._released
        return all(self._depended_on(dep.name, dep.status) for dep in rjob.depends_on or () if dep.name != rjob.name)

    def is_next(self, rjob: ReplicatedJob) -> bool:
        """Whether it may start and, in an ordered start, everything before it has started."""
        return self.may_start(rjob) and (rjob.name in self._running or not self._behind_front(rjob.name))

    def _behind_front(self, name: str) -> bool:
        return self._front is not None and self._position[name] > self._position[self._front]

    def startable_jobs(self) -> Iterator[ReplicatedJob]:
        """The ReplicatedJobs that may start now, in order: in an ordered start up to the first that has not started."""
        for rjob in self._replicated_jobs:
            if self.may_start(rjob):
                yield rjob
                if self._ordered and not self._suspended and not self.started(rjob.name):
                    return

    @property
    def all_started(self) -> bool:
        """Whether every one that may start has started."""
        return all(self.started(rjob.name) for rjob in self._replicated_jobs if self.may_start(rjob))

    def unmet(self, rjob: ReplicatedJob) -> tuple[Unmet, ...]:
        """The ReplicatedJobs that it waits for, by any ordering field of the spec; none if it may start."""
        if self._stages:
            names = [awaited.name for awaited in self._stage_before(rjob.name) if not self.reached(awaited.name)]
            return tuple(Unmet(name, self._state, self.progress(name), self._replicas[name]) for name in names)
        if self._ordered:
            return (self._waits_for(self._front, "Ready"),) if self._front and self._behind_front(rjob.name) else ()
        if self.may_start(rjob):
            return ()
        deps = (dep for dep in rjob.depends_on or () if dep.name in self._counts)
        return tuple(
            self._waits_for(dep.name, dep.status) for dep in deps if not self._depended_on(dep.name, dep.status)
        )

    def _waits_for(self, name: str, state: str) -> Unmet:
        counts = self._counts[name]
        done = counts.succeeded if state == "Complete" else counts.ready + counts.succeeded
        return Unmet(name, state, done, self._replicas[name])

    def reached(self, name: str) -> bool:
        """Whether every Job of it has reached the state that executionPolicy requires (`replicatedJobsStatus`).

        In a suspended set only Jobs that have succeeded count: pods that still run are about to end.
        """
        return self.progress(name) == self._replicas[name]

    def progress(self, name: str) -> int:
        """How many of its Jobs have reached the state that executionPolicy requires."""
        counts = self._counts[name]
        if self._state not in {"Ready", "Active"}:
            return counts.succeeded
        tally = self._tally(name)
        there = counts.ready - tally.halting if self._state == "Ready" else tally.there
        return counts.succeeded + (0 if self._suspended else there)

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
        """The fields of `REACHED`; `started` only of ReplicatedJobs that others wait for."""
        started = counts.name in self._awaited_ready and self.started(counts.name)
        return {"started": started, "released": counts.released}

    @property
    def current(self) -> str:
        """The last stage that is released, `trainer (2/3)`; empty when the set is not staged."""
        if not self._stages:
            return ""
        return f"{stage_name(self._stages[self._last])} ({self._last + 1}/{len(self._stages)})"

    @property
    def number(self) -> int:
        """The number of the last stage that is released, from 1; 0 when the set is not staged."""
        return self._last + 1 if self._stages else 0

    @property
    def total(self) -> int:
        """How many stages there are."""
        return len(self._stages)

    def mounted_volumes(self) -> set[str] | None:
        """Names of the volumes of ReplicatedJobs that may start; None if the set is not staged."""
        if not self._stages:
            return None
        released = (rjob for rjob in self._replicated_jobs if rjob.name in self._released)
        return set().union(*(mounted_names(rjob.pod_spec) for rjob in released))

    def newly_released(self) -> dict[int, Stage]:
        """Released stages that the status does not record as released, by their number from 1; none while suspended."""
        if self._suspended:
            return {}
        return {
            number: stage
            for number, stage in enumerate(self._stages[: self._last + 1], 1)
            if not all(self._counts[rjob.name].released for rjob in stage)
        }

    def _stage_before(self, name: str) -> Stage:
        """The ReplicatedJobs that the stage of this one waits for; none for the first stage and for released ones."""
        if not self._stages or name in self._released:
            return ()
        number = next(n for n, stage in enumerate(self._stages) if any(rjob.name == name for rjob in stage))
        return self._stages[number - 1]

    def _last_released(self) -> int:
        """Index of the last stage that may start: the one before it has been reached, or it was released before."""
        last = 0
        for number, stage in enumerate(self._stages):
            reached = all(self.reached(rjob.name) for rjob in self._stages[last])
            if reached or any(self._was_released(rjob.name) for rjob in stage):
                last = number
        return last

    def _was_released(self, name: str) -> bool:
        """Whether its stage was released before: the status says so, or its Jobs run."""
        return name in self._running or (self._counts[name].released and not self._suspended)

    def _depended_on(self, name: str, status: str) -> bool:
        counts = self._counts.get(name)
        if counts is None:
            return False
        return counts.succeeded == self._replicas[name] if status == "Complete" else self.started(name)


def _awaited_ready(
    js: JobSet, running: AbstractSet[str], *, ordered: bool
) -> tuple[AbstractSet[str], AbstractSet[str]]:
    """Names of ReplicatedJobs that have to be ready before others start, and those of them that others have waited for.

    The latter had started, even if the status does not say so: such others run. In an ordered start the former include
    the last one: only the condition StartupPolicyCompleted waits for it.
    """
    names = [rjob.name for rjob in js.spec.replicated_jobs]
    if ordered:
        last = max((position for position, name in enumerate(names) if name in running), default=0)
        return frozenset(names), frozenset(names[:last])
    waits = [(rjob.name, dep) for rjob in js.spec.replicated_jobs for dep in rjob.depends_on or ()]
    ready = [(name, dep.name) for name, dep in waits if dep.status == "Ready"]
    return frozenset(dep for _, dep in ready), frozenset(dep for name, dep in ready if name in running)
