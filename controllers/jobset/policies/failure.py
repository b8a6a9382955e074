"""What a failed Job means for the set (behaviour section 5.8).

One failed Job decides each step: the earliest that matches the first rule that matches any; ties of time (the wire has
whole seconds) go to the lower global index. Actions on a single Job leave the other failures to be decided in the same
round, each counted; actions on the set settle them all.
"""

from collections.abc import Sequence

from api import keys
from api.features import FeatureGates
from api.jobset import FailedAttempt, JobSet
from api.patterns import compiled
from api.policies import FailurePolicyRule
from controllers.jobset.actions import Evidence
from controllers.jobset.buckets import Child
from controllers.jobset.draft import Draft

FAIL = "FailJobSet"
RESTART = "RestartJobSet"
RESTART_JOB = "RestartJob"
RESTART_JOB_FREE = "RestartJobAndIgnoreMaxRestarts"


MESSAGE_LIMIT = 1024
"""Bytes of a message in the attempt history."""


def apply(
    js: JobSet, failed: Sequence[Child], draft: Draft, gates: FeatureGates, evidence: Evidence | None
) -> Child | None:
    """Decide about every failed Job and write the outcome into the draft. `failed` is not empty.

    Gives the Job that ended the attempt of the whole set, if one did; `evidence` is what is known of its pods.
    """
    left = sorted(failed, key=_failure_order)
    attempt = draft.status.execution_attempts or 0
    while left:
        rule, child = _decide(js.spec.failure_policy.rules if js.spec.failure_policy else (), left)
        action = rule.action if rule else RESTART
        reason: str | None
        if action not in {RESTART_JOB, RESTART_JOB_FREE}:
            reason = _act_on_set(js, rule, child, draft, gates)
        elif gates["RestartJob"]:
            reason = _act_on_job(js, action, child, draft)
        else:
            draft.warn(
                "FeatureGateDisabled",
                f"Job {child.name} failed and a rule asks for {action}, which needs the feature gate RestartJob: start"
                " the manager with --feature-gates=RestartJob=true, or delete the JobSet",
            )
            return None
        if reason:
            draft.record_failure(_failed_attempt(attempt, reason, child, evidence or Evidence()))
            return child
        left.remove(child)
    return None


def _decide(rules: Sequence[FailurePolicyRule], failed: Sequence[Child]) -> tuple[FailurePolicyRule | None, Child]:
    """The rule that wins and the failed Job it is applied to; no rule means the default action."""
    for rule in rules:
        match = next((child for child in failed if matches(rule, child)), None)
        if match is not None:
            return rule, match
    return None, failed[0]


def matches(rule: FailurePolicyRule, child: Child) -> bool:
    """Whether reason, message and ReplicatedJob of a failed Job are all among those the rule names."""
    failure = child.job.failure
    if failure is None:
        return False
    if rule.on_job_failure_reasons and failure.reason not in rule.on_job_failure_reasons:
        return False
    patterns = [p for p in map(compiled, rule.on_job_failure_message_patterns) if not isinstance(p, str)]
    if rule.on_job_failure_message_patterns and not any(p.search(failure.message) for p in patterns):
        return False
    return not rule.target_replicated_jobs or child.replicated_job in rule.target_replicated_jobs


def _act_on_set(js: JobSet, rule: FailurePolicyRule | None, child: Child, draft: Draft, gates: FeatureGates) -> str:
    """Fail or restart the set; the reason of the condition that says so."""
    if js.spec.failure_policy is None:
        draft.fail("FailedJobs", _with_first_failed("jobset failed due to one or more job failures", child))
        return "FailedJobs"
    action = rule.action if rule else RESTART
    message = _with_first_failed(f"applying {action} failure policy action", child)
    if action == FAIL:
        draft.fail("FailJobSetFailurePolicyAction", message)
        return "FailJobSetFailurePolicyAction"
    if action == RESTART and _budget_used_up(js, draft, whole_set=not gates["RestartJob"]):
        return _fail_for_restarts(child, draft)
    reason = f"FailurePolicy_{rule.name}" if rule else "DefaultFailurePolicy"
    draft.restart(reason, counts=action == RESTART)
    draft.condition(keys.RESTARTING, true=True, reason=reason, message=message, event_type="Warning")
    draft.event("Warning", f"{action}FailurePolicyAction", message)
    return reason


def _act_on_job(js: JobSet, action: str, child: Child, draft: Draft) -> str | None:
    """Restart the one Job; a reason only if that was one restart too many and the set has failed."""
    counts = action == RESTART_JOB
    if counts and _budget_used_up(js, draft, whole_set=False):
        return _fail_for_restarts(child, draft)
    replicas = next(r.replicas for r in js.spec.replicated_jobs if r.name == child.replicated_job)
    draft.restart_job(child.replicated_job, child.job_index, replicas, counts=counts)
    message = _with_first_failed(f"applying {action} failure policy action", child)
    draft.event("Warning", f"{action}FailurePolicyAction", message)
    return None


def _budget_used_up(js: JobSet, draft: Draft, *, whole_set: bool) -> bool:
    """Whether another counted restart is one too many. `whole_set`: restarts of single Jobs do not count."""
    policy = js.spec.failure_policy
    used = draft.status.restarts_count_towards_max
    if not whole_set:
        used += sum(sum(s.job_restarts_count_towards_max) for s in draft.status.replicated_jobs_status)
    return policy is not None and used >= policy.max_restarts


def _fail_for_restarts(child: Child, draft: Draft) -> str:
    base = "jobset failed due to reaching max number of restarts"
    draft.fail("ReachedMaxRestarts", _with_first_failed(base, child))
    return "ReachedMaxRestarts"


def _failed_attempt(attempt: int, reason: str, child: Child, evidence: Evidence) -> FailedAttempt:
    failure = child.job.failure
    text = f"{failure.reason}: {failure.message}" if failure else ""
    return FailedAttempt(
        attempt=attempt,
        reason=reason,
        message=text.encode()[:MESSAGE_LIMIT].decode(errors="ignore"),
        failed_job=child.name,
        pod=evidence.pod,
        node=evidence.node,
        exit_code=evidence.exit_code,
    )


def _failure_order(child: Child) -> tuple[str, int]:
    failure = child.job.failure
    return (failure.last_transition_time if failure else "", child.global_index)


def _with_first_failed(message: str, child: Child) -> str:
    return f"{message} (first failed job: {child.name})"
