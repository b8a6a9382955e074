"""The input of each step of a plan: one JobSet as it was observed, with its Jobs sorted and counted.

An attempt is the time between two restarts of the set. A restart deletes the Jobs of the attempt that has ended. Their
pods may exist for some time after that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from api import elastic
from api.features import FeatureGates
from api.jobset import JobSet
from api.jobset_status import JobSetStatus, ReplicatedJobStatus
from api.layout import JobRange, Layout, layout_of
from api.policies import FailurePolicy
from controllers.planning import batch_deletion, counters, groups, spares
from controllers.planning.actions import CreateJob
from controllers.planning.child_jobs import ChildJobs, sort_jobs
from controllers.planning.groups import GroupPlan
from controllers.planning.limits import Limits
from controllers.planning.observed import Observed
from controllers.planning.partial import Partial
from controllers.planning.sorted_jobs import SortedJobs
from controllers.planning.stages import Stages
from controllers.planning.status import StatusDraft


@dataclass(frozen=True, slots=True)
class Context:
    """One JobSet as it was observed. From step to step only `status` and `job_budget` change.

    - `now`: RFC 3339 in UTC, whole seconds. `gates`: the feature gates. `limits`: limits of the work of one plan.
    - `js`: the JobSet as stored; if it is elastic, with the number of Jobs that it runs now. `failure_policy`: its
      failure policy, empty if it has none.
    - `layout`: the indexes of all Jobs that the spec wants. `ranges`: the part of the layout of each ReplicatedJob, by
      name.
    - `children`: the Jobs by state. `counts`: for each ReplicatedJob, how many of its Jobs are in each state.
    - `job_restarts`: by name of the ReplicatedJob, how often each of its Jobs was restarted alone, by job index.
    - `stages`: which ReplicatedJobs may start. `groups`: what to do about scheduling groups, and which Jobs wait for
      their groups.
    - `leftovers`: names of Jobs that cannot be created yet, because pods of a deleted Job of the same name still exist;
      None: not known. `may_leave_pods`: whether pods of earlier attempts may outlive their Jobs.
    - `may_create`: whether Jobs, the Service and claims may be created now.
    - `restarts_in_place`: whether agents in the pods restart the workers (gate InPlaceRestart).
    - `status_before_steps`: the stored status with the new counts, before any step has decided.
    - `status`: the status as the steps so far have decided it.
    - `queued_jobs`: how many Jobs the Job controller has still to take up.
    - `job_budget`: how many more Jobs may be created or resumed now; may be negative.
    """

    observed: Observed
    now: str
    gates: FeatureGates
    limits: Limits
    js: JobSet
    failure_policy: FailurePolicy
    layout: Layout
    ranges: dict[str, JobRange]
    children: ChildJobs
    counts: tuple[ReplicatedJobStatus, ...]
    job_restarts: Mapping[str, tuple[int, ...]]
    stages: Stages
    groups: GroupPlan
    leftovers: frozenset[str] | None
    may_leave_pods: bool
    may_create: bool
    restarts_in_place: bool
    status_before_steps: JobSetStatus
    status: JobSetStatus
    queued_jobs: int
    job_budget: int

    @property
    def may_have_old_pods(self) -> bool:
        """Whether there may be Jobs or pods of earlier attempts; False only if it is known that there are none."""
        return bool(self.children.previous) or self.leftovers != frozenset()

    def draft(self) -> StatusDraft:
        """A draft of the status so far, which a step may change."""
        return StatusDraft(self.status, self.now)

    def after(self, partial: Partial) -> Context:
        """The context of the next step, after a step with the result `partial`."""
        if not partial.actions and (partial.status is None or partial.status is self.status):
            return self
        created_jobs = [*map(type, partial.actions)].count(CreateJob)
        status = self.status if partial.status is None else partial.status
        return dataclasses.replace(self, status=status, job_budget=self.job_budget - created_jobs)


def context(observed: Observed, gates: FeatureGates, limits: Limits, sorted_jobs: SortedJobs | None = None) -> Context:
    """The context of the first step.

    `sorted_jobs`: the Jobs as the previous plan sorted them, so that only Jobs that changed have to be sorted.
    """
    js = observed.jobset.with_current_replicas if gates[elastic.GATE] else observed.jobset
    layout = layout_of(js)
    ranges = layout.ranges_by_name()
    sort = sort_jobs if sorted_jobs is None else sorted_jobs.sort
    children = sort(js, observed.jobs, layout, gates, observed.departed)
    counts = counters.count_jobs(js, children)
    stages = Stages(js, counts, children)
    may_leave_pods = batch_deletion.may_leave_pods(js, children, layout, gates, limits)
    leftovers = batch_deletion.names_with_leftovers(observed.leftovers, children) if may_leave_pods else frozenset()
    status_before_steps = msgspec.structs.replace(
        js.status,
        replicated_jobs_status=stages.status_entries(),
        spares=spares.spare_counts(observed, js, children) if observed.spares else (),
    )
    # If no other set waits for the Job controller, this set may have as many Jobs wait as was measured.
    max_queued_jobs = limits.queued_jobs if observed.others_wait else max(limits.queued_jobs, observed.job_window)
    queued_jobs = sum(tally.queued for tally in children.tallies.values())
    return Context(
        observed=observed,
        now=observed.now,
        gates=gates,
        limits=limits,
        js=js,
        failure_policy=js.failure_policy,
        layout=layout,
        ranges=ranges,
        children=children,
        counts=counts,
        job_restarts={entry.name: entry.job_restarts for entry in counts},
        stages=stages,
        groups=groups.decide(js, observed.groups, children, stages.may_run_now, leftovers, limits.new_groups),
        leftovers=leftovers,
        may_leave_pods=may_leave_pods,
        may_create=limits.create_suspended or not js.spec.suspend,
        restarts_in_place=gates["InPlaceRestart"] and js.restarts_in_place,
        status_before_steps=status_before_steps,
        status=status_before_steps,
        queued_jobs=queued_jobs,
        # Suspended Jobs are not queued, since the Job controller has nothing to do for them.
        job_budget=limits.suspended_jobs if js.spec.suspend else max_queued_jobs - queued_jobs,
    )
