"""Makes the plan for one JobSet from what the caches have of it.

See docs/reference/lifecycle.md#order-of-a-reconcile. A plan consists of writes of objects (actions), a new status,
events, and the seconds until the next plan. Each step decides one thing, and returns its part of the plan as a
`Partial`. `STEPS` lists the steps in the order in which they decide.

Steps use no clock, no network and no randomness: the time is a field of the observed state. Once a plan has been
carried out, the next plan is empty. Property tests check that.
"""

from collections.abc import Callable
from dataclasses import replace

import msgspec

from api.features import FeatureGates
from api.jobset_status import JobSetStatus
from controllers.planning import counters, recovery, spares
from controllers.planning.actions import CreateJob, Partial, Plan
from controllers.planning.context import Context, context
from controllers.planning.limits import DEFAULT_LIMITS, Limits
from controllers.planning.observed import Observed
from controllers.planning.partial import NOTHING, LastPartial, combine
from controllers.planning.sorted_jobs import SortedJobs
from controllers.planning.steps.adapt_replicas import adapt_replicas
from controllers.planning.steps.apply_failure_policy import apply_failure_policy
from controllers.planning.steps.arrange_groups import arrange_groups
from controllers.planning.steps.complete import complete
from controllers.planning.steps.count_attempt import count_attempt
from controllers.planning.steps.create_claims import create_claims
from controllers.planning.steps.create_jobs import create_jobs
from controllers.planning.steps.create_service import create_service
from controllers.planning.steps.drop_failed_nodes import drop_failed_nodes
from controllers.planning.steps.end_restart import end_restart
from controllers.planning.steps.end_spares import end_spares
from controllers.planning.steps.enforce_deadline import enforce_deadline
from controllers.planning.steps.finish import expire, finish
from controllers.planning.steps.give_places import give_places
from controllers.planning.steps.grow_back import grow_back
from controllers.planning.steps.keep_spares import keep_spares
from controllers.planning.steps.leave_nodes import leave_nodes
from controllers.planning.steps.release_stages import release_stages
from controllers.planning.steps.remove_surplus import remove_surplus
from controllers.planning.steps.resize_jobs import resize_jobs
from controllers.planning.steps.restart_in_place import restart_in_place
from controllers.planning.steps.retire_old_attempts import retire_old_attempts
from controllers.planning.steps.suspend_or_resume import suspend_or_resume
from controllers.planning.steps.watch_nodes import watch_nodes
from controllers.planning.steps.watch_start import watch_start

Step = Callable[[Context], Partial]
"""Makes one decision. The context has the status as the earlier steps have changed it.

No step runs after a step that returns a `LastPartial`.
"""

STEPS: tuple[Step, ...] = (
    watch_nodes,
    finish,
    retire_old_attempts,
    remove_surplus,
    count_attempt,
    end_restart,
    enforce_deadline,
    watch_start,
    drop_failed_nodes,
    apply_failure_policy,
    complete,
    leave_nodes,
    adapt_replicas,
    release_stages,
    arrange_groups,
    create_service,
    create_claims,
    resize_jobs,
    create_jobs,
    suspend_or_resume,
    restart_in_place,
)
STEPS_WITH_SPARES: tuple[Step, ...] = (end_spares, *STEPS, give_places, keep_spares)
"""The steps of a set with spares, which are Jobs that hold nodes for pods that lose their nodes."""


def plan(
    observed: Observed,
    gates: FeatureGates,
    limits: Limits = DEFAULT_LIMITS,
    sorted_jobs: SortedJobs | None = None,
) -> Plan:
    """The plan for the observed state; see `Planning`."""
    return Planning(gates, limits, sorted_jobs).decide(observed)


class Planning:
    """Makes the plan for one observed state, and makes it again each time the plan's `pod_query` has been answered.

    `sorted_jobs`: the Jobs of a large set as the plan before this one sorted them, which saves time.
    """

    def __init__(
        self, gates: FeatureGates, limits: Limits = DEFAULT_LIMITS, sorted_jobs: SortedJobs | None = None
    ) -> None:
        self._gates = gates
        self._limits = limits
        self._sorted_jobs = sorted_jobs
        self._context: Context | None = None

    def decide(self, observed: Observed) -> Plan:
        """The plan for `observed`.

        A later call passes the same state with the answer to the `pod_query` of the last plan. So the Jobs are sorted
        only in the first call.
        """
        js = observed.jobset
        if js.metadata.deletion_timestamp is not None:
            return Plan()
        if not js.is_ours:  # another controller manages the JobSet
            return combine([expire(js, observed.now)])
        if self._context is None:
            self._context = context(observed, self._gates, self._limits, self._sorted_jobs)
        else:
            self._context = replace(self._context, observed=observed)
        return _take_steps(self._context)


def _take_steps(ctx: Context) -> Plan:
    partials: list[Partial] = []
    steps = STEPS_WITH_SPARES if ctx.observed.spares else STEPS
    # Only a set that runs with fewer Jobs than wanted can grow back.
    for step in (*steps, grow_back) if ctx.js.status.reduced_replicas else steps:
        partial = step(ctx)
        if partial is NOTHING:
            continue
        partials.append(partial)
        if isinstance(partial, LastPartial):
            break
        ctx = ctx.after(partial)
    combined_plan = combine(partials)
    return _final_plan(ctx, combined_plan) if combined_plan.pod_query is None else combined_plan


def _final_plan(ctx: Context, combined_plan: Plan) -> Plan:
    """The plan with the complete status, or with a later requeue if the write of the status may wait.

    A status in which only counts differ from the stored status may wait for related changes.
    """
    stored = ctx.js.status
    decided_status = ctx.status_before_steps if combined_plan.status is None else combined_plan.status
    has_changed = decided_status != stored
    delay = _write_delay(ctx, decided_status) if has_changed else 0
    due_status = _with_late_fields(ctx, decided_status) if has_changed and not delay else None
    is_new_and_suspended = ctx.js.spec.suspend and not stored.replicated_jobs_status
    is_written = due_status is not None and not (is_new_and_suspended and _creates_first_jobs(ctx, combined_plan))
    requeue_after = combined_plan.requeue_after
    if has_changed and not is_written:
        requeue_after = delay if requeue_after is None else min(delay, requeue_after)
    return replace(
        combined_plan,
        status=due_status if is_written else None,
        counters=_status_after_failure(ctx, due_status, decided_status) if combined_plan.actions else due_status,
        events=combined_plan.events if is_written else (),
        requeue_after=requeue_after,
        queued=ctx.queued_jobs,
        counts_wait=has_changed and not is_written,
    )


def _status_after_failure(
    ctx: Context, due_status: JobSetStatus | None, decided_status: JobSetStatus
) -> JobSetStatus | None:
    """The status that is written if an action fails: the new counts without the decisions; None if the counts may wait.

    `decided_status`: the status after all steps. `due_status`: this status with its late fields; None if it may wait.
    """
    stored, counted = ctx.js.status, ctx.status_before_steps
    if stored.replicated_jobs_status and (due_status is None or decided_status == counted):
        return due_status
    is_due = not stored.replicated_jobs_status or (counted != stored and not _write_delay(ctx, counted))
    return _with_late_fields(ctx, counted) if is_due else None


def _creates_first_jobs(ctx: Context, combined_plan: Plan) -> bool:
    """Whether the plan creates the first Jobs of the set.

    The next plan follows at once, and counts these Jobs. So the status of a set that a queue suspends is written once,
    after its Jobs are created.
    """
    return not ctx.observed.jobs and any(isinstance(action, CreateJob) for action in combined_plan.actions)


def _with_late_fields(ctx: Context, status: JobSetStatus) -> JobSetStatus:
    """`status`, which is about to be written, with the fields whose changes alone are no reason to write it."""
    if ctx.gates[recovery.GATE] or status.recovery is not None:
        status = recovery.with_recovery(ctx, status)
    js = ctx.js
    if status.reduced_replicas != js.status.reduced_replicas:
        js = msgspec.structs.replace(ctx.observed.jobset, status=status).with_current_replicas
    status = counters.with_ready_jobs(js, status)
    return spares.with_spare_entries(status, js, ctx.observed.spares) if status.spares else status


def _write_delay(ctx: Context, status: JobSetStatus) -> float:
    """Seconds until `status` is written; 0 if it records the end of a deleted Job."""
    if ctx.children.unrecorded:
        return 0
    jobs, agents = ctx.layout.global_replicas, counters.pod_count(ctx.js) if ctx.restarts_in_place else 0
    return counters.write_delay(ctx.observed, status, jobs, agents=agents)
