"""Rules of policies about failures: how often and how a set restarts, how often its Jobs start pods again. Pure."""

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice

from api.named_actions import named_actions
from api.policies import FailurePolicy
from kube.model.field import SPEC, ErrorType, FieldError, Path
from policy.judged import Judged, Namespace, Number, Template, bound
from policy.rule_types import BackoffLimit, MaxRestarts, RestartStrategies
from policy.rules.words import PolicyRule, declared, held, limited, of_jobs, one_of

_POLICY = SPEC.at("failurePolicy")
_NODES = _POLICY.at("nodeFailure")
DEFAULT_BACKOFF = 6
"""What the API server sets for a Job without a backoffLimit."""

RESTARTS = limited("maxRestarts", "write a smaller number")
UNLIMITED = declared(
    "maxRestarts",
    ErrorType.FORBIDDEN,
    "{action} restarts without a limit",
    "use {counted}, which is counted, or give the rule a maxRestarts",
    "unlimited",
)
BACKOFF = limited("backoffLimit", "set backoffLimit to at most {limit}: without one a Job has 6")
UNLIMITED_OF_NODES = declared(
    "maxRestarts",
    ErrorType.FORBIDDEN,
    "{action} restarts without a limit",
    "use {counted}, which is counted",
    "unlimited-of-nodes",
)
RESTARTS_IN_ALL = declared(
    "maxRestarts",
    ErrorType.FORBIDDEN,
    "{amount} {what} in all, and at most {limit} allowed{source}",
    "write smaller numbers: {parts}",
    "exceeded-in-all",
)
MOST_PARTS = 8
"""Limits that a sentence lists."""
NOT_ZERO = declared(
    "backoffLimit",
    ErrorType.FORBIDDEN,
    "is {value}, and must be 0 in a set with maxRestarts: the set restarts, not the pods",
    "set it to 0",
    "with-restarts",
)
STRATEGY = declared("restartStrategies", ErrorType.NOT_SUPPORTED, "this strategy is not allowed", "{allowed}")


def _failure_policy(judged: Judged) -> FailurePolicy:
    return judged.js.spec.failure_policy or FailurePolicy()


def _limits(judged: Judged) -> Mapping[Path, int]:
    """What bounds the restarts of a set: the limit of those that count, and those of rules that have others."""
    policy = _failure_policy(judged)
    free = {
        named.within.at("maxRestarts"): named.limit
        for named in named_actions(policy)
        if named.action.is_uncounted_restart and named.limit is not None
    }
    limits = {_POLICY.at("maxRestarts"): policy.max_restarts, **free}
    return {path: max(limit, 0) for path, limit in limits.items()}


def restarts(rule: MaxRestarts, judged: Judged, namespace: Namespace) -> Iterator[Number]:
    """The `maxRestarts` of the failure policy, 0 for a set without one, and of rules whose restarts do not count."""
    limits = _limits(judged)
    largest = max(limits, key=lambda path: limits[path])
    yield Number("restarts", sum(limits.values()), bound(rule, namespace), lambda: largest, partial(_parts, limits))


def _parts(limits: Mapping[Path, int]) -> list[str]:
    shown = islice(limits.items(), MOST_PARTS)
    return [f"{path} has {limit}" for path, limit in shown] if len(limits) > 1 else []


def max_restarts(rule: MaxRestarts, judged: Judged, namespace: Namespace) -> Iterator[FieldError]:
    """A set may be restarted only so often after failures: `spec.failurePolicy.maxRestarts`.

    Some actions of failure policies restart without being counted. A rule that takes one, at once or as a step of
    `then`, and has a `maxRestarts` of its own adds that number. Without one, a set that always fails never ends:
    `forbidUnlimitedActions` refuses these actions in rules that have no `maxRestarts`, and in `nodeFailure`.
    """
    for number in restarts(rule, judged, namespace):
        yield from held(number, RESTARTS_IN_ALL if number.parts() else RESTARTS, number.amount)
    if rule.forbid_unlimited_actions:
        for path, action, within, limit in named_actions(_failure_policy(judged)):
            if action.is_uncounted_restart and limit is None:
                unlimited = UNLIMITED_OF_NODES if within == _NODES else UNLIMITED
                yield unlimited.at(path, action.name, action=action.name, counted=action.counted_name)


def _backoff(template: Template) -> tuple[str, int]:
    """The field that says how often pods of a Job are started again, and its value."""
    spec = template.rjob.job_spec
    per_index = spec.get("backoffLimitPerIndex")
    if per_index is not None and spec.get("backoffLimit") is None:
        return "backoffLimitPerIndex", per_index
    own = spec.get("backoffLimit")
    return "backoffLimit", DEFAULT_BACKOFF if own is None else own


def backoffs(rule: BackoffLimit, judged: Judged, namespace: Namespace) -> Iterator[Number]:
    """The backoffLimit of each Job template."""
    limit = bound(rule, namespace)
    for template, (field, value) in zip(judged.templates, judged.each(_backoff), strict=True):
        yield Number(field, value, limit, partial(template.job_path.at, field), of=template.rjob.name)


def backoff_limit(rule: BackoffLimit, judged: Judged, namespace: Namespace) -> Iterator[FieldError]:
    """The Jobs of a set may start pods again only so often: `backoffLimit`, which is 6 for a Job without one.

    A Job with `backoffLimitPerIndex` and without `backoffLimit` is judged by the former. In a set that restarts as a
    whole, a Job that retries single pods delays the restart. `zeroWithRestarts` demands 0 where `maxRestarts` of the
    failure policy is larger than 0.
    """
    highest, limit = max((value for _, value in judged.each(_backoff)), default=0), bound(rule, namespace)
    if limit.amount is None or highest > limit.amount:
        for number in backoffs(rule, judged, namespace):
            yield from held(number, BACKOFF, number.amount)
    if rule.zero_with_restarts and _failure_policy(judged).max_restarts > 0:
        for template, (field, value) in zip(judged.templates, judged.each(_backoff), strict=True):
            if value:
                yield NOT_ZERO.at(template.job_path.at(field), value, value=value)


def restart_strategies(rule: RestartStrategies, judged: Judged, _: Namespace) -> Iterator[FieldError]:
    """Only certain restart strategies may be used: `spec.failurePolicy.restartStrategy`.

    A set without a failure policy is never restarted, and passes.
    """
    policy = judged.js.spec.failure_policy
    if policy is not None:
        yield from one_of(STRATEGY, _POLICY.at("restartStrategy"), policy.restart_strategy, rule.allowed)


_RESTARTS = (
    "spec.failurePolicy.maxRestarts",
    "spec.failurePolicy.rules[].maxRestarts",
    "spec.failurePolicy.rules[].action",
    "spec.failurePolicy.rules[].then[].action",
    "spec.failurePolicy.nodeFailure.action",
)
_BACKOFF = (*of_jobs("backoffLimit", "backoffLimitPerIndex"), "spec.failurePolicy.maxRestarts")

RULES = (
    PolicyRule(
        "maxRestarts",
        (RESTARTS, RESTARTS_IN_ALL, UNLIMITED, UNLIMITED_OF_NODES),
        max_restarts,
        restarts,
        reads=_RESTARTS,
    ),
    PolicyRule("backoffLimit", (BACKOFF, NOT_ZERO), backoff_limit, backoffs, reads=_BACKOFF),
    PolicyRule("restartStrategies", (STRATEGY,), restart_strategies, reads=("spec.failurePolicy.restartStrategy",)),
)
