"""What a failed Job means for the set (behaviour section 5.8).

One failed Job decides each step: the earliest that matches the first rule that matches any; ties of time (the wire has
whole seconds) go to the lower global index. Actions on a single Job leave the other failures to be decided in the same
round, each counted; actions on the set settle them all.
"""

from collections.abc import Sequence

from api import keys
from api.features import FeatureGates
from api.jobset import FailurePolicyRule, JobSet
from api.patterns import compiled
from controllers.jobset.buckets import Child
from controllers.jobset.draft import Draft

FAIL = "FailJobSet"
RESTART = "RestartJobSet"
RESTART_JOB = "RestartJob"
RESTART_JOB_FREE = "RestartJobAndIgnoreMaxRestarts"


def apply(js: JobSet, failed: Sequence[Child], draft: Draft, gates: FeatureGates) -> None:
    """Decide about every failed Job and write the outcome into the draft. `failed` is not empty."""
    left = sorted(failed, key=_failure_order)
    if js.spec.failure_policy is None:
        draft.fail("FailedJobs", _with_first_failed("jobset failed due to one or more job failures", left[0]))
        return
    while left and not draft.status.terminal_state:
        rule, child = _decide(js.spec.failure_policy.rules, left)
        action = rule.action if rule else RESTART
        if action not in {RESTART_JOB, RESTART_JOB_FREE}:
            _act_on_set(js, action, rule, child, draft, gates)
            return
        _act_on_job(js, action, child, draft)
        left.remove(child)


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


def _act_on_set(
    js: JobSet, action: str, rule: FailurePolicyRule | None, child: Child, draft: Draft, gates: FeatureGates
) -> None:
    message = _with_first_failed(f"applying {action} failure policy action", child)
    if action == FAIL:
        draft.fail("FailJobSetFailurePolicyAction", message)
        return
    if action == RESTART and _budget_used_up(js, draft, whole_set=not gates["RestartJob"]):
        _fail_for_restarts(child, draft)
        return
    status = draft.status
    draft.update(restarts=status.restarts + 1)
    if action == RESTART:
        draft.update(restarts_count_towards_max=status.restarts_count_towards_max + 1)
    reason = f"FailurePolicy_{rule.name}" if rule else "DefaultFailurePolicy"
    draft.condition(keys.RESTARTING, true=True, reason=reason, message=message, event_type="Warning")
    draft.event("Warning", f"{action}FailurePolicyAction", message)


def _act_on_job(js: JobSet, action: str, child: Child, draft: Draft) -> None:
    counts = action == RESTART_JOB
    if counts and _budget_used_up(js, draft, whole_set=False):
        _fail_for_restarts(child, draft)
        return
    replicas = next(r.replicas for r in js.spec.replicated_jobs if r.name == child.replicated_job)
    draft.restart_job(child.replicated_job, child.job_index, replicas, counts=counts)
    message = _with_first_failed(f"applying {action} failure policy action", child)
    draft.event("Warning", f"{action}FailurePolicyAction", message)


def _budget_used_up(js: JobSet, draft: Draft, *, whole_set: bool) -> bool:
    """Whether another counted restart is one too many. `whole_set`: restarts of single Jobs do not count."""
    policy = js.spec.failure_policy
    used = draft.status.restarts_count_towards_max
    if not whole_set:
        used += sum(sum(s.job_restarts_count_towards_max) for s in draft.status.replicated_jobs_status)
    return policy is not None and used >= policy.max_restarts


def _fail_for_restarts(child: Child, draft: Draft) -> None:
    base = "jobset failed due to reaching max number of restarts"
    draft.fail("ReachedMaxRestarts", _with_first_failed(base, child))


def _failure_order(child: Child) -> tuple[str, int]:
    failure = child.job.failure
    return (failure.last_transition_time if failure else "", child.global_index)


def _with_first_failed(message: str, child: Child) -> str:
    return f"{message} (first failed job: {child.name})"
