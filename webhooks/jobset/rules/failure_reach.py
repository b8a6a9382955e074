"""Rules of the failure policy that never match a failed Job. Warnings only."""

from collections.abc import Iterator, Sequence
from itertools import islice

from api.exit_codes import exit_codes_of
from api.failure_actions import action_of
from api.policies import FailurePolicyRule, OnExitCodes
from kube.model.field import FieldError, Path
from kube.model.jsontree import dig
from kube.model.patterns import MAX_PATTERNS, compile_pattern
from webhooks.jobset.rules import Source
from webhooks.jobset.rules.failure import FAILURE, RULES
from webhooks.jobset.subject import Entry, Subject

MAX_COMPARED = 100
"""The most rules whose exit codes are checked and which are compared with each other.

Also the most reasons of one rule that are checked.
"""
MAX_COMPILED_PATTERNS = 64
"""The most patterns of a JobSet that admission compiles."""

_FAILURE_POLICY = Source("docs/reference/failure-policy.md#failure-policy")
MAX_RESTARTS = _FAILURE_POLICY.warning("max-restarts-negative", "below 0 means 0: no restart", "write 0 or more")
PATTERN = Source("docs/reference/validation.md#failure-policy, defect 15").warning(
    "failure-rule-pattern",
    "never matches, not RE2: {why}",
    "correct it",
)
PATTERNS_UNREAD = _FAILURE_POLICY.warning(
    "failure-rule-patterns-unread",
    f"the policy has {{count}} patterns, and those after the first {MAX_PATTERNS} never match",
    "join some with |",
)
SHADOWED = _FAILURE_POLICY.warning(
    "failure-rule-shadowed",
    "never reached: rule {by} matches everything that it would match",
    "move it up, or remove it",
)
REASON_NEVER = Source("batch/v1 Job").warning(
    "failure-rule-reason-never",
    "Jobs never fail for this reason: no target sets {field}",
    "set it",
)
BUDGET_NEVER = Source("failurePolicy.rules[].maxRestarts").warning(
    "failure-rule-budget-never",
    "never reached: spec.failurePolicy.maxRestarts is {limit}",
    "write a smaller number, or raise spec.failurePolicy.maxRestarts",
)
CODES_NEVER = Source("failurePolicy.rules[].onExitCodes").warning(
    "failure-rule-codes-never",
    "never matches: {why}",
    "remove the rule",
)


def check_reachability(subject: Subject) -> Iterator[FieldError]:
    """Findings about rules that no failed Job can reach."""
    policy = subject.failure_policy
    if policy.max_restarts < 0:
        yield MAX_RESTARTS.at(FAILURE.at("maxRestarts"), policy.max_restarts)
    yield from _unusable_patterns(policy.rules)
    for path, rule in RULES.each(policy.rules):
        yield from _impossible_reasons(path.at("onJobFailureReasons"), rule, subject)
        if action_of(rule.action).counts_restarts and (rule.max_restarts or 0) > max(policy.max_restarts, 0):
            yield BUDGET_NEVER.at(path.at("maxRestarts"), rule.max_restarts, limit=max(policy.max_restarts, 0))
    for path, rule in RULES.each(policy.rules[:MAX_COMPARED]):
        yield from _impossible_exit_codes(path.at("onExitCodes"), rule, subject)
    yield from _unreachable_rules(subject, policy.rules[:MAX_COMPARED])


def _unusable_patterns(rules: Sequence[FailurePolicyRule]) -> Iterator[FieldError]:
    """Findings about patterns that are not RE2, among the first MAX_COMPILED_PATTERNS, and about too many patterns."""
    count = sum(len(rule.on_job_failure_message_patterns) for rule in rules)
    if not count:
        return
    patterns = (
        pattern
        for path, rule in RULES.each(rules)
        for pattern in path.at("onJobFailureMessagePatterns").each(rule.on_job_failure_message_patterns)
    )
    for path, pattern in islice(patterns, MAX_COMPILED_PATTERNS):
        compiled = compile_pattern(pattern)
        if isinstance(compiled, str):
            yield PATTERN.at(path, pattern, why=compiled)
    if count > MAX_PATTERNS:
        yield PATTERNS_UNREAD.at(RULES, count, count=count)


def _impossible_reasons(path: Path, rule: FailurePolicyRule, subject: Subject) -> Iterator[FieldError]:
    """Findings about reasons for which no target can fail, because no target has the field that leads to the reason."""
    for reason_path, reason in path.each(rule.on_job_failure_reasons[:MAX_COMPARED]):
        field, _ = _FIELD_OF_REASON.get(reason, ("", None))
        if field and not any(_can_fail_for(entry, reason) for entry in subject.targets(rule.target_replicated_jobs)):
            yield REASON_NEVER.at(reason_path, reason, field=field)


_FIELD_OF_REASON = {
    "PodFailurePolicy": ("podFailurePolicy", "pod_failure_policy"),
    "FailedIndexes": ("backoffLimitPerIndex", "backoff_limit_per_index"),
    "MaxFailedIndexesExceeded": ("maxFailedIndexes", "max_failed_indexes"),
    "DeadlineExceeded": ("activeDeadlineSeconds", "active_deadline_seconds"),
}
"""For each reason, the field of the Job that leads to it: its name in JSON, and in the record."""


def _can_fail_for(entry: Entry, reason: str) -> bool:
    """Whether a Job of this ReplicatedJob can fail for the reason."""
    policy = entry.rjob.exit_code_policy
    if reason == "PodFailurePolicy" and policy is not None and exit_codes_of(policy)[0]:
        return True
    return getattr(entry.job, _FIELD_OF_REASON[reason][1]) is not None


def _impossible_exit_codes(path: Path, rule: FailurePolicyRule, subject: Subject) -> Iterator[FieldError]:
    """Findings about exit codes that never match: a deadline decides, or the Job creates the pod again."""
    codes = rule.on_exit_codes
    if codes is None or not codes.values:
        return
    if set(rule.on_job_failure_reasons) == {"DeadlineExceeded"}:
        yield CODES_NEVER.at(path, why="the deadline decides, no exit code")
    targets = subject.targets(rule.target_replicated_jobs)
    if codes.operator == "In" and targets and all(_retries(entry, codes) for entry in targets):
        yield CODES_NEVER.at(path, why="exitCodePolicy retries all of them")


def _retries(entry: Entry, codes: OnExitCodes) -> bool:
    """Whether the Job creates every pod again that has ended with one of these codes.

    The Job's own podFailurePolicy decides before, and so does another container that has ended with a permanent code.
    """
    policy = entry.rjob.exit_code_policy
    if policy is None or dig(entry.job.pod_failure_policy, "rules"):
        return False
    permanent, retryable = exit_codes_of(policy)
    is_same_container = policy.container_name in {"", codes.container_name}
    is_only_container = bool(policy.container_name) or len(entry.container_names) == 1 or not permanent
    return is_same_container and is_only_container and set(codes.values) <= set(retryable)


def _unreachable_rules(subject: Subject, rules: tuple[FailurePolicyRule, ...]) -> Iterator[FieldError]:
    """Findings about rules without effect, since an earlier rule matches all failures that they match."""
    all_names = frozenset(subject.replicated_job_names)
    targets = [frozenset(rule.target_replicated_jobs) or all_names for rule in rules]
    for j, later in enumerate(rules):
        for i, earlier in enumerate(rules[:j]):
            if targets[i] >= targets[j] and _matches_all_of(earlier, later):
                yield SHADOWED.at(RULES.at(j), by=i)
                break


def _matches_all_of(wide: FailurePolicyRule, narrow: FailurePolicyRule) -> bool:
    """Whether `wide` certainly matches every failure that `narrow` matches, if targets are ignored."""
    return (
        _matches_all_texts(wide.on_job_failure_reasons, narrow.on_job_failure_reasons)
        and _matches_all_texts(wide.on_job_failure_message_patterns, narrow.on_job_failure_message_patterns)
        and _matches_all_texts(wide.on_pod_reasons, narrow.on_pod_reasons)
        and _matches_all_codes(wide.on_exit_codes, narrow.on_exit_codes)
    )


def _matches_all_texts(wide: tuple[str, ...], narrow: tuple[str, ...]) -> bool:
    """Whether `wide` matches every text that `narrow` matches. An empty list matches every text."""
    return not wide or (bool(narrow) and set(wide) >= set(narrow))


def _matches_all_codes(wide: OnExitCodes | None, narrow: OnExitCodes | None) -> bool:
    """Whether `wide` matches every exit code that `narrow` matches. `In` never matches all codes of a `NotIn`."""
    if wide is None or narrow is None:
        return wide is None
    if wide.container_name not in {"", narrow.container_name}:
        return False
    narrow_codes, wide_codes = set(narrow.values), set(wide.values)
    if wide.operator == "In":
        return narrow.operator == "In" and wide_codes >= narrow_codes
    return wide_codes.isdisjoint(narrow_codes) if narrow.operator == "In" else wide_codes <= narrow_codes
