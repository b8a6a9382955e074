"""Rules about failures, times, DNS names and managers, in CEL. Pure."""

from api.failure_actions import ACTIONS
from api.keys import CONTROLLER_NAME
from kube.model.field import SPEC, Path, Rule
from policy.compiled.cel import NEW, Cel, Index, Root, Say, added, conditional, of_template, place, quoted, text, texts
from policy.compiled.words import NOTHING, Compiled, Numbers, allowed_are, one
from policy.rule_types import BackoffLimit, ManagedBy, MaxRestarts, MaxSeconds, RestartStrategies
from policy.rules import failures, management, times

_POLICY = "?spec.?failurePolicy"


_FREE = texts(action.name for action in ACTIONS.values() if action.is_uncounted_restart)


def _restarts(root: Root) -> str:
    return f"{root.name}.{_POLICY}.?maxRestarts.orValue(0)"


def _rules(root: Root) -> str:
    return f"{root.name}.{_POLICY}.?rules.orValue([])"


def _limits(root: Root) -> Cel:
    """What bounds the restarts of a set: a list of maps of a path and the number there."""
    free = f"(a.?action.orValue('') in {_FREE} || a.?then.orValue([]).exists(s, s.?action.orValue('') in {_FREE}))"
    own = f"[{{'path': dyn('{_OF_SET}'), 'n': dyn([0, int({_restarts(root)})].max())}}]"
    path = "'spec.failurePolicy.rules[' + string(i) + '].maxRestarts'"
    of_rules = f"{{'path': dyn({path}), 'n': dyn([0, int(a.maxRestarts)].max())}}"
    return Cel(f"{own} + {_rules(root)}.transformList(i, a, has(a.maxRestarts) && {free}, {of_rules})")


_OF_SET = SPEC.at("failurePolicy", "maxRestarts")


def max_restarts(rule: MaxRestarts, say: Say) -> Compiled:
    limits = NEW.variable("restartLimits")
    amounts = f"{limits}.map(x, int(x.n))"
    largest = Cel(f"string({limits}[{amounts}.indexOf({amounts}.max())].path)")
    listed = f"({limits}.size() > {failures.MOST_PARTS} ? {limits}.slice(0, {failures.MOST_PARTS}) : {limits})"
    parts = Cel(f"{listed}.map(x, string(x.path) + ' has ' + string(x.n)).join('; ')")

    def number(exceeded: Rule, several: str) -> Numbers:
        def found(root: Root) -> Cel:
            own = root.variable("restartLimits")
            return Cel(f"({own}.size() {several} 1 ? {one(f'{own}.map(x, int(x.n)).sum()', 'restarts')} : [])")

        return Numbers(rule, exceeded, found, (largest, largest), parts=parts)

    return Compiled(
        (lambda root: _unlimited(root, say)) if rule.forbid_unlimited_actions else (lambda _: NOTHING),
        (number(failures.RESTARTS, "=="), number(failures.RESTARTS_IN_ALL, ">")),
        (("restartLimits", _limits),),
    )


def _unlimited(root: Root, say: Say) -> Cel:
    """Findings about each place that names an action without any limit."""

    def finding(unlimited: Rule, holder: str, *parts: str | Index) -> Cel:
        counted = Cel(f"string({holder}.action).replace('AndIgnoreMaxRestarts', '')")
        return say.at(
            unlimited, *place("spec.failurePolicy", *parts), action=Cel(f"string({holder}.action)"), counted=counted
        )

    def is_free(holder: str) -> str:
        return f"{holder}.?action.orValue('') in {_FREE}"

    of_rule = finding(failures.UNLIMITED, "a", ".rules", Index("i"), ".action")
    of_step = finding(failures.UNLIMITED, "s", ".rules", Index("i"), ".then", Index("k"), ".action")
    of_nodes = finding(failures.UNLIMITED_OF_NODES, "a", ".nodeFailure.action")
    rules, nodes = _rules(root), f"{root.name}.{_POLICY}.?nodeFailure"
    steps = f"a.then.transformList(k, s, {is_free('s')}, {of_step})"
    return added(
        Cel(f"{rules}.transformList(i, a, {is_free('a')} && !has(a.maxRestarts), {of_rule})"),
        Cel(f"{rules}.transformList(i, a, has(a.then) && !has(a.maxRestarts), {steps}).flatten()"),
        Cel(f"({nodes}.hasValue() ? [{nodes}.value()] : []).filter(a, {is_free('a')}).map(a, {of_nodes})"),
    )


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
