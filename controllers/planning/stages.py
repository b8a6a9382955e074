"""Decides which ReplicatedJobs may start now, in the order that the spec asks for.

Three fields of the spec set an order, and a JobSet uses at most one of them:
- `dependsOn`: a ReplicatedJob waits until another ReplicatedJob is Ready or Complete.
- `startupPolicy` InOrder (an ordered start): each ReplicatedJob waits until the ReplicatedJob before it has started.
- `executionPolicy`: ReplicatedJobs are divided into stages. A stage is released, which means that it may start, when
  all Jobs of the stage before have reached the state `executionPolicy.replicatedJobsStatus`.

`started` and `released` in `status.replicatedJobsStatus[]` record what a ReplicatedJob has reached, for the rest of the
attempt (the time until the next restart). So a pod that is no longer ready neither takes conditions back nor blocks the
creation of other Jobs (defect 18 in docs/reference/defects.md). A restart of the set and a suspension reset both
fields, and the order applies again. See docs/reference/lifecycle.md#order-of-start.
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
    """What a ReplicatedJob waits for: `replicated_job`, another one, has not reached `state`.

    `state`: Ready, Complete, Active or Succeeded. `reached_jobs`: how many Jobs of `replicated_job` have reached the
    state, of the `needed_jobs` that have to reach it.
    """

    replicated_job: str
    state: str
    reached_jobs: int
    needed_jobs: int


class Stages:
    """Which ReplicatedJobs of one observed JobSet may have running Jobs."""

    def __init__(self, js: JobSet, counts: tuple[ReplicatedJobStatus, ...], children: ChildJobs) -> None:
        self._counts = {entry.name: entry for entry in counts}
        self._replicated_jobs = js.spec.replicated_jobs
        self._replicas = {rjob.name: rjob.replicas for rjob in js.spec.replicated_jobs}
        self._tally = children.tally
        # Names of the ReplicatedJobs that have Jobs that are not suspended.
        self._running = {name for name, tally in children.tallies.items() if tally.running}
        self._position = {name: position for position, name in enumerate(self._replicas)}
        self._is_suspended = js.spec.suspend
        self._is_ordered = is_ordered(js.spec)
        self._stages = stages(js.spec)
        self._awaited_ready, self._with_running_dependents = _awaited_ready(
            js, self._running, is_in_order=self._is_ordered
        )
        self._awaited_state = js.spec.execution_policy.replicated_jobs_status if js.spec.execution_policy else ""
        self._last_released_index = self._last_released()
        self._released = {rjob.name for stage in self._stages[: self._last_released_index + 1] for rjob in stage}
        # In an ordered start, all later ReplicatedJobs wait for this one.
        self._first_unstarted = (
            next((name for name in self._replicas if not self.has_started(name)), None) if self._is_ordered else None
        )

    def has_started(self, name: str) -> bool:
        """Whether every Job of the ReplicatedJob is ready or has succeeded, or was ready earlier in this attempt."""
        counts = self._counts.get(name)
        if counts is None:
            return False
        ready_or_succeeded = counts.ready + counts.succeeded - self._tally(name).suspended_ready
        return counts.started or ready_or_succeeded == self._replicas[name] or name in self._with_running_dependents

    def may_start(self, rjob: ReplicatedJob) -> bool:
        """Whether the ReplicatedJob runs already, or its stage is released, or its `dependsOn` is met.

        An ordered start is not considered (see `may_run_now`).
        """
        if rjob.name in self._running:
            return True
        if self._stages:
            return rjob.name in self._released
        return all(self._is_met(dep.name, dep.status) for dep in rjob.depends_on or () if dep.name != rjob.name)

    def may_run_now(self, rjob: ReplicatedJob) -> bool:
        """Whether the ReplicatedJob may start and, in an ordered start, all ReplicatedJobs before it have started."""
        return self.may_start(rjob) and (rjob.name in self._running or not self._is_behind_first_unstarted(rjob.name))

    def _is_behind_first_unstarted(self, name: str) -> bool:
        """Whether the ReplicatedJob has to wait in an ordered start."""
        return self._first_unstarted is not None and self._position[name] > self._position[self._first_unstarted]

    def startable_replicated_jobs(self) -> Iterator[ReplicatedJob]:
        """The ReplicatedJobs that may start now.

        In an ordered start, the last of them is the first ReplicatedJob that has not started.
        """
        for rjob in self._replicated_jobs:
            if self.may_start(rjob):
                yield rjob
                if self._is_ordered and not self._is_suspended and not self.has_started(rjob.name):
                    return

    @property
    def all_started(self) -> bool:
        """Whether every ReplicatedJob that may start has started."""
        return all(self.has_started(rjob.name) for rjob in self._replicated_jobs if self.may_start(rjob))

    def unmet_dependencies(self, rjob: ReplicatedJob) -> tuple[Unmet, ...]:
        """What the ReplicatedJob waits for, for any of the three fields that set an order; empty if it may start."""
        if self._stages:
            awaited_names = (awaited.name for awaited in self._stage_before(rjob.name))
            names = [name for name in awaited_names if not self.has_reached_state(name)]
            return tuple(Unmet(name, self._awaited_state, self.progress(name), self._replicas[name]) for name in names)
        if self._is_ordered:
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
        """The `Unmet` for `state` (Ready or Complete) of the ReplicatedJob."""
        counts = self._counts[name]
        reached_jobs = counts.succeeded if state == "Complete" else counts.ready + counts.succeeded
        return Unmet(name, state, reached_jobs, self._replicas[name])

    def has_reached_state(self, name: str) -> bool:
        """Whether every Job of the ReplicatedJob has reached the state that executionPolicy requires."""
        return self.progress(name) == self._replicas[name]

    def progress(self, name: str) -> int:
        """How many Jobs of the ReplicatedJob have reached the state that executionPolicy requires.

        In a suspended set only succeeded Jobs count, since pods that still run are about to end.
        """
        counts = self._counts[name]
        if self._awaited_state not in {"Ready", "Active"}:
            return counts.succeeded
        tally = self._tally(name)
        jobs_in_state = counts.ready - tally.suspended_ready if self._awaited_state == "Ready" else tally.started
        return counts.succeeded + (0 if self._is_suspended else jobs_in_state)

    def status_entries(self) -> tuple[ReplicatedJobStatus, ...]:
        """The counts with new values of `started`, `released` and `remaining`.

        In a suspended set `started` and `released` are False. `remaining` is the number of Jobs that have not
        succeeded, None without stages.
        """
        return tuple(
            msgspec.structs.replace(
                counts,
                **(REACHED if self._is_suspended else self._started_and_released(counts)),
                remaining=max(self._replicas[name] - counts.succeeded, 0) if self._stages else None,
            )
            for name, counts in self._counts.items()
        )

    def _started_and_released(self, counts: ReplicatedJobStatus) -> dict[str, bool]:
        """The fields `started` and `released`. `started` is only set if another ReplicatedJob waits for this one."""
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
        """By number from 1, the released stages that the status does not record as released; none while suspended."""
        if self._is_suspended:
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
        return name in self._running or (self._counts[name].released and not self._is_suspended)

    def _is_met(self, name: str, status: str) -> bool:
        """Whether a dependency on the state `status` of the ReplicatedJob is met."""
        counts = self._counts.get(name)
        if counts is None:
            return False
        return counts.succeeded == self._replicas[name] if status == "Complete" else self.has_started(name)


def _awaited_ready(
    js: JobSet, running: AbstractSet[str], *, is_in_order: bool
) -> tuple[AbstractSet[str], AbstractSet[str]]:
    """Two sets of names of ReplicatedJobs. `running`: names of the ReplicatedJobs that have running Jobs.

    - The first set has the ReplicatedJobs that have to be ready before something else happens. In an ordered start,
      this includes the last ReplicatedJob, because the condition StartupPolicyCompleted waits for it.
    - The second set has those of the first set for which a running ReplicatedJob had to wait. So these were ready once,
      even if the status does not say so.
    """
    names = [rjob.name for rjob in js.spec.replicated_jobs]
    if is_in_order:
        last_running = max((position for position, name in enumerate(names) if name in running), default=0)
        return frozenset(names), frozenset(names[:last_running])
    dependencies = [(rjob.name, dep) for rjob in js.spec.replicated_jobs for dep in rjob.depends_on or ()]
    ready_dependencies = [(name, dep.name) for name, dep in dependencies if dep.status == "Ready"]
    awaited = frozenset(dep for _, dep in ready_dependencies)
    return awaited, frozenset(dep for name, dep in ready_dependencies if name in running)
