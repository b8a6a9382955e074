"""Decides what follows from the reports of the agents of in-place restart.

An in-place restart keeps the pods of a JobSet and only starts their containers again. Each run of the set is an attempt
with a number. An agent in each pod starts the worker (the program of the user). Before it starts the worker, the agent
writes the number of the attempt into an annotation of its pod (the report), and waits until the status of the set says
that this attempt may begin. After a failure of its worker, the agent reports a higher attempt. At most one of four
decisions follows from all reports:
- All pods report the same attempt, and it is released: their workers start (`status.currentInPlaceRestartAttempt`).
- Some pods report a higher attempt, and it is requested of all pods: the agents with a lower attempt restart
  (`status.previousInPlaceRestartAttempt`).
- A restart in place is not enough or not possible, and all Jobs of the set are created again.
- The set has restarted too often, and fails.

See `controllers/planning/steps/restart_in_place.py`.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from api import keys
from api.jobset import JobSet
from api.jobset_status import FailedAttempt, JobSetStatus
from api.pod import Pod
from api.restart_agent import jobs_without_agent
from controllers.planning import escalation, failed_nodes
from controllers.planning.attempts import (
    counted_part_restarts,
    fail_set,
    record_failure,
    requested_attempt,
    restart_set,
    uncounted_attempts,
)
from controllers.planning.child_jobs import integer
from controllers.planning.context import Context
from controllers.planning.maintenance import uncounted_restarts
from controllers.planning.status import StatusDraft
from controllers.planning.worker_failures import WorkerFailure, worker_failures
from kube.model.meta import MAX_INT32

_QUOTED = 64
"""At most this many characters of an annotation are quoted. An annotation may be 256 KiB long."""


class Budget(NamedTuple):
    """Numbers that limit the restarts of a set together with maxRestarts.

    - `restarts_in_place`: how many restarts in place are allowed before all Jobs of the set are created again;
      None: any number.
    - `restarts_of_parts`: how many restarts of single Jobs and ReplicatedJobs were counted towards maxRestarts.
    """

    restarts_in_place: int | None = None
    restarts_of_parts: int = 0


def apply_reports(ctx: Context, draft: StatusDraft) -> None:
    """Write what follows from the reports of the pods into the draft, and count the nodes on which workers failed.

    The set has the restart strategy InPlaceRestart.
    """
    in_place_limit = ctx.failure_policy.in_place_restarts if ctx.gates[escalation.GATE] else None
    part_restarts = counted_part_restarts(ctx.status) if ctx.gates["RestartJob"] else 0
    uids = frozenset(child.job.metadata.uid for child in ctx.children.active)
    failures = tuple(worker_failures(ctx.js, ctx.children.active, ctx.observed.pods, ctx.observed.last_ends))
    history_before = draft.status.attempt_history
    apply_attempts(ctx.js, ctx.observed.pods, uids, draft, Budget(in_place_limit, part_restarts), failures)
    if draft.status.attempt_history is not history_before:
        failed_nodes.count_failures(ctx, draft, (failure.child for failure in failures))


def continues_in_place(ctx: Context, draft: StatusDraft) -> bool:
    """Whether the set neither fails nor is created again when the reports of its pods are applied."""
    draft_after = StatusDraft(draft.status, ctx.now)
    apply_reports(ctx, draft_after)
    return (draft_after.status.terminal_state, draft_after.status.restarts) == ("", draft.status.restarts)


def apply_attempts(
    js: JobSet,
    pods: Sequence[Pod],
    job_uids: frozenset[str],
    draft: StatusDraft,
    budget: Budget,
    failures: Iterable[WorkerFailure],
) -> None:
    """Write what follows from the attempts that pods report into the draft of the status.

    `pods` may contain any pods of the namespace. `job_uids` are the UIDs of the active Jobs of the current attempt.
    `failures`: failures of workers for which the set has not restarted yet. The caller has made sure that the gate is
    on, the strategy is InPlaceRestart and the set has not ended.
    """
    if js.spec.suspend:
        return
    max_restarts = js.failure_policy.max_restarts
    current_pods = [pod for pod in pods if pod.job_uid in job_uids]
    reports = _reported_attempts(current_pods, draft)
    attempts = [attempt for _, attempt in reports]
    highest = max(attempts, default=0)
    # maxRestarts also limits how often the containers of one pod restart.
    container_restarts = max((pod.restarts for pod in current_pods), default=0) - uncounted_restarts(js)
    failure = next((failure for failure in failures if failure.attempt == highest), None)
    if max(container_restarts, highest - _attempts_outside_max_restarts(draft.status)) > max_restarts:
        _fail_set(draft, failure)
        return
    restarts_left = max_restarts - draft.status.restarts_count_towards_max - budget.restarts_of_parts
    expected_reports = _expected_reports(js, draft)
    if expected_reports is None or not attempts:
        return
    in_place_limit = budget.restarts_in_place
    if in_place_limit is not None and _has_used_up(in_place_limit, draft.status, attempts):
        subject = "restarts in place have" if in_place_limit > 1 else "restart in place has"
        _recreate_jobs(draft, restarts_left, "InPlaceRestartsUsedUp", f"{in_place_limit} {subject} not helped", failure)
    elif len(attempts) == expected_reports and len(set(attempts)) == 1:
        # All pods report the same attempt: release it.
        if highest < (draft.status.current_in_place_restart_attempt or 0):
            return  # the watch of pods is behind, since a higher attempt was released already
        _record_restart(draft, highest, failure)
        draft.update(current_in_place_restart_attempt=highest)
    elif any(pod.status.phase == "Succeeded" and attempt < highest for pod, attempt in reports) or (
        _leaves_completed_jobs(js, draft.status, highest)
    ):
        reason = "pods have succeeded that a restart in place would leave behind"
        _recreate_jobs(draft, restarts_left, "InPlaceRestartImpossible", reason, failure)
    elif highest > requested_attempt(draft.status):
        # Some pods report an attempt that was not requested yet: request it of all pods.
        _record_restart(draft, highest, failure)
        draft.update(previous_in_place_restart_attempt=highest - 1)


def _reported_attempts(pods: Sequence[Pod], draft: StatusDraft) -> list[tuple[Pod, int]]:
    """Each pod that reports an attempt, with the attempt. Warns about an annotation that is not a valid attempt."""
    reports = []
    for pod in pods:
        text = pod.metadata.annotations.in_place_restart_attempt
        if text is None or not pod.is_reporting:
            continue
        attempt = integer(text)
        if attempt is not None and 0 <= attempt <= MAX_INT32:
            reports.append((pod, attempt))
        else:
            draft.warn(
                "InvalidInPlaceRestartAttempt",
                f"pod {pod.metadata.name}: invalid value {text[:_QUOTED]!r} for annotation"
                f" {keys.IN_PLACE_RESTART_ATTEMPT}, must be a non-negative 32-bit integer. All pods wait for this one:"
                " delete it, or restart its agent, which writes the annotation again.",
            )
    return reports


def _leaves_completed_jobs(js: JobSet, status: JobSetStatus, highest: int) -> bool:
    """Whether pods ask for a new attempt, in which Jobs of the set cannot take part because they have completed.

    `highest`: the highest attempt that a pod reports. Jobs without an agent never take part, and do not count.
    """
    current = status.current_in_place_restart_attempt
    if current is None or highest <= current:
        return False
    without_agent = jobs_without_agent(js)
    return any(entry.succeeded for entry in status.replicated_jobs_status if entry.name not in without_agent)


def _has_used_up(limit: int, status: JobSetStatus, attempts: Sequence[int]) -> bool:
    """Whether pods ask for more restarts in place than `limit`.

    After all Jobs were created again, the first reports of the new pods ask for no restart.
    """
    current, highest = status.current_in_place_restart_attempt, max(attempts)
    if current is None or highest <= current:
        return False
    in_place_restarts = highest - _attempts_outside_max_restarts(status) - status.restarts_count_towards_max
    return in_place_restarts > limit and (min(attempts) < highest or in_place_restarts == limit + 1)


def _fail_set(draft: StatusDraft, failure: WorkerFailure | None) -> None:
    """Fail the set because of maxRestarts. `failure`: the failed worker, if known."""
    reason, message = "ReachedMaxRestarts", "jobset failed due to reaching max number of restarts"
    _record_failure(draft, reason, message, failure)
    fail_set(draft, reason, message)


def _record_failure(draft: StatusDraft, reason: str, message: str, failure: WorkerFailure | None) -> None:
    """Add the end of the attempt to the history. `failure`: the failed worker, whose Job and pod the entry names."""
    entry = FailedAttempt(attempt=draft.status.execution_attempts or 0, reason=reason, message=message)
    record_failure(draft, entry if failure is None else failure.add_to(entry))


def _record_restart(draft: StatusDraft, attempt: int, failure: WorkerFailure | None) -> None:
    """Add the failed worker because of which all pods begin `attempt` to the history, if it is known.

    An attempt that was requested before is in the history already.
    """
    if failure is not None and attempt > requested_attempt(draft.status):
        _record_failure(draft, "InPlaceRestart", "", failure)


def _recreate_jobs(
    draft: StatusDraft, restarts_left: int, reason: str, cause: str, failure: WorkerFailure | None
) -> None:
    """Create all Jobs of the set again if maxRestarts allows another restart; otherwise fail the set."""
    if restarts_left > 0:
        message = f"recreating all jobs: {cause}"
        _record_failure(draft, reason, message, failure)
        restart_set(draft, reason, message, counts=True)
    else:
        _fail_set(draft, failure)


def _attempts_outside_max_restarts(status: JobSetStatus) -> int:
    """How many attempts do not count towards maxRestarts.

    These are attempts after restarts that the failure policy does not count, after resumes, and after planned moves
    away from nodes.
    """
    return status.restarts - status.restarts_count_towards_max + uncounted_attempts(status)


def _expected_reports(js: JobSet, draft: StatusDraft) -> int | None:
    """How many pods have to report an attempt; None, with a warning, if the spec does not determine this number."""
    total = 0
    without_agent = jobs_without_agent(js)
    for rjob in js.spec.replicated_jobs:
        if rjob.parallelism is None or rjob.completions != rjob.parallelism:
            draft.warn(
                "InPlaceRestartMisconfigured",
                f"{rjob.name}: in-place restart requires jobTemplate.spec.completions =="
                " jobTemplate.spec.parallelism != nil; no attempt is released. Set both to the number of pods.",
            )
            return None
        total += 0 if rjob.name in without_agent else rjob.replicas * rjob.parallelism
    return total
