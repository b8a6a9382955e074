"""Rules about failures, times, DNS names and managers, in CEL. Pure."""

from api.failure_actions import ACTIONS, Scope
from api.field import SPEC, Path, Rule
from api.keys import CONTROLLER_NAME
from policy.compiled.cel import Cel, Index, Root, Say, conditional, of_template, place, quoted, text, texts
from policy.compiled.words import Compiled, Numbers, allowed_are, one
from policy.rule_types import BackoffLimit, ManagedBy, MaxRestarts, MaxSeconds, RestartStrategies
from policy.rules import failures, management, times

_POLICY = "?spec.?failurePolicy"


def _restarts(root: Root) -> str:
    return f"{root.name}.{_POLICY}.?maxRestarts.orValue(0)"


def max_restarts(rule: MaxRestarts, say: Say) -> Compiled:
    at = place(str(SPEC.at("failurePolicy", "maxRestarts")))
    number = Numbers(rule, failures.RESTARTS, lambda root: one(_restarts(root), "restarts"), at)
    if not rule.forbid_unlimited_actions:
        return Compiled(numbers=(number,))
    free = [action.name for action in ACTIONS.values() if action.scope is not Scope.NOTHING and not action.counted]
    action, counted = Cel("string(a.action)"), Cel("string(a.action).replace('AndIgnoreMaxRestarts', '')")
    finding = say.at(
        failures.UNLIMITED,
        *place("spec.failurePolicy.rules", Index("i"), ".action"),
        action=action,
        counted=counted,
    )

    def found(root: Root) -> Cel:
        uncounted = f"a.?action.orValue('') in {texts(free)} && !has(a.maxRestarts)"
        return Cel(f"{root.name}.{_POLICY}.?rules.orValue([]).transformList(i, a, {uncounted}, {finding})")

    return Compiled(found, (number,))


def backoff_limit(rule: BackoffLimit, say: Say) -> Compiled:
    spec = "j.?template.?spec"
    per_index = f"({spec}.?backoffLimitPerIndex.hasValue() && !{spec}.?backoffLimit.hasValue())"
    name = f"({per_index} ? 'backoffLimitPerIndex' : 'backoffLimit')"
    value = f"{spec}.?backoffLimit.or({spec}.?backoffLimitPerIndex).orValue({failures.DEFAULT_BACKOFF})"

    def listed(root: Root) -> Cel:
        item = f"{{'amount': dyn({value}), 'what': dyn({name}), 'of': dyn(j.name), 'i': dyn(i)}}"
        return Cel(f"{root.variable('jobs')}.transformList(i, j, {item})")

    at = of_template("n.i", ".template.spec.", Cel("string(n.what)"))
    number = Numbers(rule, failures.BACKOFF, listed, at)
    if not rule.zero_with_restarts:
        return Compiled(numbers=(number,))
    where = of_template("i", ".template.spec.", Cel(name))
    finding = say.at(failures.NOT_ZERO, *where, value=Cel(f"string({value})"))

    def found(root: Root) -> Cel:
        return Cel(
            f"({_restarts(root)} > 0 ? {root.variable('jobs')}.transformList(i, j, {value} != 0, {finding}) : [])"
        )

    return Compiled(found, (number,))


def restart_strategies(rule: RestartStrategies, say: Say) -> Compiled:
    def found(root: Root) -> Cel:
        value = f"{root.name}.{_POLICY}.?restartStrategy"
        return _one_of(failures.STRATEGY, SPEC.at("failurePolicy", "restartStrategy"), value, rule.allowed, say)

    return Compiled(found)


def _one_of(rule: Rule, path: Path, value: str, allowed: tuple[str, ...], say: Say) -> Cel:
    """The finding that a value, an optional one, is there and is none of these."""
    shown = quoted(Cel(f"string({value}.orValue(''))"))
    finding = say.at(rule, text(str(path)), shown=shown, allowed=allowed_are(allowed))
    return conditional(f"{value}.hasValue() && !({value}.orValue('') in {texts(allowed)})", finding)


def network_dns(rule: str, say: Say) -> Compiled:
    path, wanted = SPEC.at("network", "enableDNSHostnames"), "true" if rule == "Enabled" else "false"
    finding = say.at(management.DNS, text(str(path)), wanted=rule.lower(), value=wanted)

    def found(root: Root) -> Cel:
        return conditional(f"{root.name}.?spec.?network.?enableDNSHostnames.orValue(true) != {wanted}", finding)

    return Compiled(found)


def managed_by(rule: ManagedBy, say: Say) -> Compiled:
    def found(root: Root) -> Cel:
        own = f"{root.name}.?spec.?managedBy.orValue('')"
        value = f"optional.of({own} == '' ? {text(CONTROLLER_NAME)} : {own})"
        return _one_of(management.MANAGER, SPEC.at("managedBy"), value, rule.allowed, say)

    return Compiled(found)


def ttl(rule: MaxSeconds, say: Say) -> Compiled:
    return _seconds(rule, SPEC.at("ttlSecondsAfterFinished"), times.NO_TTL, times.TTL, say)


def active_deadline(rule: MaxSeconds, say: Say) -> Compiled:
    return _seconds(rule, SPEC.at("activeDeadlineSeconds"), times.NO_DEADLINE, times.DEADLINE, say)


def _seconds(rule: MaxSeconds, path: Path, missing: Rule, exceeded: Rule, say: Say) -> Compiled:
    field, at = path.parts[-1], place(str(path))

    def listed(root: Root) -> Cel:
        value = f"{root.name}.?spec.?{field}"
        return Cel(f"({value}.hasValue() ? {one(f'{value}.orValue(0)', 'seconds')} : [])")

    def found(root: Root) -> Cel:
        if not rule.required:
            return Cel("[]")
        return conditional(f"!{root.name}.?spec.?{field}.hasValue()", say.at(missing, at[0]))

    return Compiled(found, (Numbers(rule, exceeded, listed, at),))
