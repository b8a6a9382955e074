"""Rules of policies about failures: restarts of a set and their strategy, and the backoffLimit of its Jobs. Pure."""

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Annotated

from api.failure_actions import ACTIONS
from api.named_actions import named_actions
from api.policies import FailurePolicy
from kube.model.field import SPEC, ErrorType, FieldError, Path, Rule
from kube.model.meta import Base, doc
from policy.cel import NEW, Cel, Index, Root, Writer, cel_path, concat_lists, template_path, texts
from policy.fields import list_of
from policy.judged import JudgedJobSet, Namespace, Template
from policy.limits import CelNumbers, Limit, Number, check_limit, effective_limit, limit_sentence, single_number
from policy.rule import NO_FINDINGS, Compiled, PolicyRule, check_allowed, compile_allowed, findings_only, job_fields
from policy.sentences import sentence


class MaxRestarts(Limit, frozen=True, kw_only=True):
    """How often a failed set may be restarted."""

    forbid_unlimited_actions: Annotated[
        bool,
        doc(
            "Refuse actions of failure policies that restart without being counted, in rules without a maxRestarts and"
            " in nodeFailure."
        ),
    ] = False

    @property
    def has_other_demands(self) -> bool:
        return self.forbid_unlimited_actions


class BackoffLimit(Limit, frozen=True, kw_only=True):
    """How often the Jobs of a set may start pods again."""

    zero_with_restarts: Annotated[
        bool, doc("The backoffLimit has to be 0 where failurePolicy.maxRestarts is larger than 0.")
    ] = False

    @property
    def has_other_demands(self) -> bool:
        return self.zero_with_restarts


class RestartStrategies(Base, frozen=True, kw_only=True):
    """How Jobs may be created again."""

    allowed: Annotated[
        tuple[Annotated[str, doc("A strategy.", enum=["Recreate", "BlockingRecreate", "InPlaceRestart"])], ...],
        list_of("Values of spec.failurePolicy.restartStrategy. A set without one has Recreate."),
    ]


_POLICY_PATH = SPEC.at("failurePolicy")
_NODES_PATH = _POLICY_PATH.at("nodeFailure")
DEFAULT_BACKOFF_LIMIT = 6
"""The default of the API server for a Job without a backoffLimit."""
RESTARTS = limit_sentence("maxRestarts", "write a smaller number")
UNLIMITED = sentence(
    "maxRestarts",
    ErrorType.FORBIDDEN,
    "{action} restarts without a limit",
    "use {counted}, which is counted, or give the rule a maxRestarts",
    "unlimited",
)
BACKOFF = limit_sentence("backoffLimit", "set backoffLimit to at most {limit}: without one a Job has 6")
UNLIMITED_OF_NODES = sentence(
    "maxRestarts",
    ErrorType.FORBIDDEN,
    "{action} restarts without a limit",
    "use {counted}, which is counted",
    "unlimited-of-nodes",
)
RESTARTS_IN_ALL = sentence(
    "maxRestarts",
    ErrorType.FORBIDDEN,
    "{amount} {what} in all, and at most {limit} allowed{source}",
    "write smaller numbers: {parts}",
    "exceeded-in-all",
)
MAX_PARTS = 8
"""At most this many limits are listed in a message."""
NOT_ZERO = sentence(
    "backoffLimit",
    ErrorType.FORBIDDEN,
    "is {value}, and must be 0 in a set with maxRestarts: the set restarts, not the pods",
    "set it to 0",
    "with-restarts",
)
STRATEGY = sentence("restartStrategies", ErrorType.NOT_SUPPORTED, "this strategy is not allowed", "{allowed}")


def _failure_policy(judged: JudgedJobSet) -> FailurePolicy:
    return judged.js.spec.failure_policy or FailurePolicy()


def _restart_limits(judged: JudgedJobSet) -> Mapping[Path, int]:
    """The limits of a set's restarts by path: those of the failure policy and of rules with uncounted restarts."""
    policy = _failure_policy(judged)
    uncounted = {
        action.owner_path.at("maxRestarts"): action.max_restarts
        for action in named_actions(policy)
        if action.action.is_uncounted_restart and action.max_restarts is not None
    }
    limits = {_POLICY_PATH.at("maxRestarts"): policy.max_restarts, **uncounted}
    return {path: max(limit, 0) for path, limit in limits.items()}


def restart_numbers(rule: MaxRestarts, judged: JudgedJobSet, namespace: Namespace) -> Iterator[Number]:
    """The sum of the limits of a set's restarts; 0 for a set without a failure policy."""
    limits = _restart_limits(judged)
    largest = max(limits, key=lambda path: limits[path])

    def parts() -> list[str]:
        first_limits = islice(limits.items(), MAX_PARTS)
        return [f"{path} has {limit}" for path, limit in first_limits] if len(limits) > 1 else []

    yield Number("restarts", sum(limits.values()), effective_limit(rule, namespace), lambda: largest, parts)


def find_max_restarts(rule: MaxRestarts, judged: JudgedJobSet, namespace: Namespace) -> Iterator[FieldError]:
    """A set may be restarted only so often after failures: `spec.failurePolicy.maxRestarts`.

    Restarts by some actions of failure policies are not counted. If a rule of a failure policy has such an action, also
    as a step of `then`, and a `maxRestarts` of its own, this number is added. Without a `maxRestarts`, a set that
    always fails never ends. So `forbidUnlimitedActions` refuses these actions in rules without a `maxRestarts`, and in
    `nodeFailure`.
    """
    for number in restart_numbers(rule, judged, namespace):
        yield from check_limit(number, RESTARTS_IN_ALL if number.parts() else RESTARTS, number.amount)
    if rule.forbid_unlimited_actions:
        for path, action, owner_path, limit in named_actions(_failure_policy(judged)):
            if action.is_uncounted_restart and limit is None:
                unlimited = UNLIMITED_OF_NODES if owner_path == _NODES_PATH else UNLIMITED
                yield unlimited.at(path, action.name, action=action.name, counted=action.counted_name)


def _backoff_limit(template: Template) -> tuple[str, int]:
    """The field that limits how often pods of a Job are started again, and its value."""
    spec = template.rjob.job_spec
    per_index = spec.get("backoffLimitPerIndex")
    if per_index is not None and spec.get("backoffLimit") is None:
        return "backoffLimitPerIndex", per_index
    limit = spec.get("backoffLimit")
    return "backoffLimit", DEFAULT_BACKOFF_LIMIT if limit is None else limit


def backoff_limit_numbers(rule: BackoffLimit, judged: JudgedJobSet, namespace: Namespace) -> Iterator[Number]:
    """The backoffLimit of each Job template."""
    limit = effective_limit(rule, namespace)
    for template, (field, value) in zip(judged.templates, judged.each(_backoff_limit), strict=True):
        yield Number(field, value, limit, partial(template.job_path.at, field), replicated_job=template.rjob.name)


def find_backoff_limit(rule: BackoffLimit, judged: JudgedJobSet, namespace: Namespace) -> Iterator[FieldError]:
    """The Jobs of a set may start pods again only so often. `backoffLimit` is 6 for a Job without the field.

    For a Job with `backoffLimitPerIndex` and without `backoffLimit`, `backoffLimitPerIndex` counts. In a set that
    restarts as a whole, a Job that retries single pods delays the restart. `zeroWithRestarts` demands 0 if
    `maxRestarts` of the failure policy is larger than 0.
    """
    largest = max((value for _, value in judged.each(_backoff_limit)), default=0)
    limit = effective_limit(rule, namespace)
    if limit.amount is None or largest > limit.amount:
        for number in backoff_limit_numbers(rule, judged, namespace):
            yield from check_limit(number, BACKOFF, number.amount)
    if rule.zero_with_restarts and _failure_policy(judged).max_restarts > 0:
        for template, (field, value) in zip(judged.templates, judged.each(_backoff_limit), strict=True):
            if value:
                yield NOT_ZERO.at(template.job_path.at(field), value, value=value)


def find_restart_strategies(rule: RestartStrategies, judged: JudgedJobSet, _: Namespace) -> Iterator[FieldError]:
    """Only certain restart strategies may be used: `spec.failurePolicy.restartStrategy`.

    A set without a failure policy is never restarted, and passes.
    """
    policy = judged.js.spec.failure_policy
    if policy is not None:
        yield from check_allowed(STRATEGY, _POLICY_PATH.at("restartStrategy"), policy.restart_strategy, rule.allowed)


_RESTART_FIELDS = (
    "spec.failurePolicy.maxRestarts",
    "spec.failurePolicy.rules[].maxRestarts",
    "spec.failurePolicy.rules[].action",
    "spec.failurePolicy.rules[].then[].action",
    "spec.failurePolicy.nodeFailure.action",
)
_BACKOFF_FIELDS = (*job_fields("backoffLimit", "backoffLimitPerIndex"), "spec.failurePolicy.maxRestarts")
# In the CEL, `a` is the rule of the failure policy with the index `i`, and `s` a step in its field `then`.
_CEL_POLICY = "?spec.?failurePolicy"
_UNCOUNTED = texts(action.name for action in ACTIONS.values() if action.is_uncounted_restart)


def _cel_restarts(root: Root) -> str:
    return f"{root.name}.{_CEL_POLICY}.?maxRestarts.orValue(0)"


def _cel_rules(root: Root) -> str:
    return f"{root.name}.{_CEL_POLICY}.?rules.orValue([])"


def _cel_limits(root: Root) -> Cel:
    """A CEL list of the limits that `_restart_limits` returns, each a map of its `path` and the limit `n`."""
    in_step = f"a.?then.orValue([]).exists(s, s.?action.orValue('') in {_UNCOUNTED})"
    is_uncounted = f"(a.?action.orValue('') in {_UNCOUNTED} || {in_step})"
    of_set = f"[{{'path': dyn('{_POLICY_PATH.at('maxRestarts')}'), 'n': dyn([0, int({_cel_restarts(root)})].max())}}]"
    path = "'spec.failurePolicy.rules[' + string(i) + '].maxRestarts'"
    of_rules = f"{{'path': dyn({path}), 'n': dyn([0, int(a.maxRestarts)].max())}}"
    return Cel(f"{of_set} + {_cel_rules(root)}.transformList(i, a, has(a.maxRestarts) && {is_uncounted}, {of_rules})")


def compile_max_restarts(rule: MaxRestarts, writer: Writer) -> Compiled:
    limits = NEW.variable("restartLimits")
    amounts = f"{limits}.map(x, int(x.n))"
    largest = Cel(f"string({limits}[{amounts}.indexOf({amounts}.max())].path)")
    numbers = f"({limits}.size() > {MAX_PARTS} ? {limits}.slice(0, {MAX_PARTS}) : {limits})"
    parts = Cel(f"{numbers}.map(x, string(x.path) + ' has ' + string(x.n)).join('; ')")

    def number(exceeded: Rule, comparison: str) -> CelNumbers:
        """The sum of all limits, if the number of limits is as `comparison` says: `== 1` or `> 1`."""

        def findings(root: Root) -> Cel:
            of_root = root.variable("restartLimits")
            total_limit = single_number(f"{of_root}.map(x, int(x.n)).sum()", "restarts")
            return Cel(f"({of_root}.size() {comparison} ? {total_limit} : [])")

        return CelNumbers(rule, exceeded, findings, largest, parts=parts)

    return Compiled(
        (lambda root: _compile_unlimited(root, writer)) if rule.forbid_unlimited_actions else (lambda _: NO_FINDINGS),
        (number(RESTARTS, "== 1"), number(RESTARTS_IN_ALL, "> 1")),
        (("restartLimits", _cel_limits),),
    )


def _compile_unlimited(root: Root, writer: Writer) -> Cel:
    """An expression for the findings about actions without any limit, in rules, their steps and nodeFailure."""

    def finding(unlimited: Rule, holder: str, *parts: str | Index) -> Cel:
        counted = Cel(f"string({holder}.action).replace('AndIgnoreMaxRestarts', '')")
        return writer.at(
            unlimited, *cel_path("spec.failurePolicy", *parts), action=Cel(f"string({holder}.action)"), counted=counted
        )

    def is_uncounted(holder: str) -> str:
        return f"{holder}.?action.orValue('') in {_UNCOUNTED}"

    of_rule = finding(UNLIMITED, "a", ".rules", Index("i"), ".action")
    of_step = finding(UNLIMITED, "s", ".rules", Index("i"), ".then", Index("k"), ".action")
    of_nodes = finding(UNLIMITED_OF_NODES, "a", ".nodeFailure.action")
    rules, nodes = _cel_rules(root), f"{root.name}.{_CEL_POLICY}.?nodeFailure"
    steps = f"a.then.transformList(k, s, {is_uncounted('s')}, {of_step})"
    return concat_lists(
        Cel(f"{rules}.transformList(i, a, {is_uncounted('a')} && !has(a.maxRestarts), {of_rule})"),
        Cel(f"{rules}.transformList(i, a, has(a.then) && !has(a.maxRestarts), {steps}).flatten()"),
        Cel(f"({nodes}.hasValue() ? [{nodes}.value()] : []).filter(a, {is_uncounted('a')}).map(a, {of_nodes})"),
    )


def compile_backoff_limit(rule: BackoffLimit, writer: Writer) -> Compiled:
    spec = "j.?template.?spec"
    per_index = f"({spec}.?backoffLimitPerIndex.hasValue() && !{spec}.?backoffLimit.hasValue())"
    name = f"({per_index} ? 'backoffLimitPerIndex' : 'backoffLimit')"
    value = f"{spec}.?backoffLimit.or({spec}.?backoffLimitPerIndex).orValue({DEFAULT_BACKOFF_LIMIT})"

    def numbers(root: Root) -> Cel:
        item = f"{{'amount': dyn({value}), 'what': dyn({name}), 'of': dyn(j.name), 'i': dyn(i)}}"
        return Cel(f"{root.variable('jobs')}.transformList(i, j, {item})")

    path, _ = template_path("n.i", ".template.spec.", Cel("string(n.what)"))
    number = CelNumbers(rule, BACKOFF, numbers, path)
    if not rule.zero_with_restarts:
        return Compiled(numbers=(number,))
    zero_path = template_path("i", ".template.spec.", Cel(name))
    finding = writer.at(NOT_ZERO, *zero_path, value=Cel(f"string({value})"))

    def findings(root: Root) -> Cel:
        return Cel(
            f"({_cel_restarts(root)} > 0 ? {root.variable('jobs')}.transformList(i, j, {value} != 0, {finding}) : [])"
        )

    return Compiled(findings, (number,))


@findings_only
def compile_restart_strategies(rule: RestartStrategies, writer: Writer, root: Root) -> Cel:
    value = f"{root.name}.{_CEL_POLICY}.?restartStrategy"
    return compile_allowed(STRATEGY, _POLICY_PATH.at("restartStrategy"), value, rule.allowed, writer)


MaxRestartsRule = Annotated[
    MaxRestarts | None,
    doc("Restarts after failures."),
    PolicyRule(
        "maxRestarts",
        (RESTARTS, RESTARTS_IN_ALL, UNLIMITED, UNLIMITED_OF_NODES),
        find_max_restarts,
        compile_max_restarts,
        numbers=restart_numbers,
        reads=_RESTART_FIELDS,
    ),
]
BackoffLimitRule = Annotated[
    BackoffLimit | None,
    doc("backoffLimit of Jobs."),
    PolicyRule(
        "backoffLimit",
        (BACKOFF, NOT_ZERO),
        find_backoff_limit,
        compile_backoff_limit,
        numbers=backoff_limit_numbers,
        reads=_BACKOFF_FIELDS,
    ),
]
RestartStrategiesRule = Annotated[
    RestartStrategies | None,
    doc("spec.failurePolicy.restartStrategy."),
    PolicyRule(
        "restartStrategies",
        (STRATEGY,),
        find_restart_strategies,
        compile_restart_strategies,
        reads=("spec.failurePolicy.restartStrategy",),
    ),
]
