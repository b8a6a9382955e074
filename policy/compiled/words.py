"""What compiled rules have in common: their form, allowed values in words, numbers held to limits. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from kube.model.field import Rule, quote
from kube.model.quantity import COUNTED_PATTERN, WHOLE_PATTERN
from kube.model.requests import LONGEST
from policy.compiled.cel import Cel, Place, Root, Say, Shared, joined, text
from policy.judged import form_of
from policy.rule_types import Limit, ResourceLimit
from policy.rules.words import BAD_LIMIT

NOTHING = Cel("[]")
MOST: Final = 2 * 10**18
"""A number that is as large exceeds every limit; sums and products stop there, and never overflow."""
_AMOUNT = Cel("string(n.amount)")
_NO_WORDS = Cel("''")


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers of a JobSet that have one limit.

    `listed`: of a JobSet, a list of maps with `amount` (an int), `what` it is, and `of`, the name of the ReplicatedJob
    or nothing; a finding about the item `n` has these as words, and stands at `at`. `unit`: the suffix of the amount as
    a quantity. `shown`: the amount `n.amount` in words. `parts`: what it is made of, in words.
    """

    limit: Limit
    exceeded: Rule
    listed: Callable[[Root], Cel]
    at: Place
    unit: str = ""
    shown: Cel = _AMOUNT
    parts: Cel = _NO_WORDS


@dataclass(frozen=True, slots=True)
class Compiled:
    """One rule of a policy: findings of a JobSet, and numbers of it that have limits.

    `variables`: what both read and other rules do not, by name, in order.
    """

    found: Shared = lambda _: NOTHING
    numbers: tuple[Numbers, ...] = ()
    variables: tuple[tuple[str, Shared], ...] = ()


def allowed_are(names: Sequence[str]) -> str:
    """The values that are allowed, in words."""
    return f"allowed are: {', '.join(map(quote, names))}"


def one(amount: str, what: str) -> Cel:
    """A list with one number of the whole JobSet."""
    return Cel(f"[{{'amount': dyn({amount}), 'what': dyn({text(what)}), 'of': dyn('')}}]")


def limit_of(limit: Limit) -> Cel:
    """The limit in force as a list of its text and where it stands; an empty one where there is none."""
    expression = "[''].filter(x, false)" if limit.max is None else f"[{text(str(limit.max))}, '']"
    places = (("annotation", limit.from_namespace_annotation), ("label", limit.from_namespace_label))
    for kind, key in places:
        if key:
            value = f"namespaceObject.metadata.?{kind}s[?{text(key)}]"
            there = f"[{value}.orValue(''), {text(f'{kind} {key!s} of the namespace')}]"
            expression = f"({value}.hasValue() ? {there} : {expression})"
    return Cel(expression)


def is_amount(value: str) -> str:
    """Whether a text is an amount that `kube.model.requests.amount_of` can read."""
    return f"size({value}) <= {LONGEST} && {value}.matches({text(COUNTED_PATTERN)})"


def total(numbers: str) -> str:
    """The sum of a list of ints, none of them negative."""
    return f"[{numbers}].map(s, s.map(n, double(n)).sum() < double({MOST}) ? s.sum() : {MOST})[0]"


_NO_AMOUNT = f"!({is_amount('l[0]')})"
_NO_WHOLE_NUMBER = f"!l[0].matches('{WHOLE_PATTERN}')"


def over_limits(numbers: Numbers, now: Cel, before: Cel, say: Say) -> Cel:
    """Findings about these numbers, where `now` and `before` are the lists of them; `before` is empty on creation."""
    limit, (path, _) = numbers.limit, numbers.at
    source = Cel("(l[1] == '' ? '' : ' by ' + l[1])")
    too_much = say.at(
        numbers.exceeded,
        path,
        shown=numbers.shown,
        amount=numbers.shown,
        what=Cel("n.what"),
        limit=Cel("l[0]"),
        source=source,
        parts=numbers.parts,
    )
    bad = say.at(BAD_LIMIT, path, what=Cel("n.what"), text=Cel("l[0]"), source=Cel("l[1]"), form=form_of(limit))
    amount = joined(Cel("string(n.amount)"), numbers.unit)
    no_limit = _NO_AMOUNT if isinstance(limit, ResourceLimit) else _NO_WHOLE_NUMBER
    unreadable = f"(l[1] != '' && ({no_limit}))"
    exceeds = f"({unreadable} || n.amount >= {MOST} || quantity({amount}).isGreaterThan(quantity(l[0])))"
    no_worse = "b.of == n.of && b.what == n.what && b.amount >= n.amount"
    at_place = f"(q < {before}.size() && [{before}[q]].exists(b, {no_worse}))"
    worse = f"!({at_place} || {before}.exists(b, {no_worse}))"
    return Cel(
        f"[{limit_of(limit)}].filter(l, l.size() > 0).map(l, {now}.transformList(q, n, {exceeds} && {worse},"
        f" {unreadable} ? {bad} : {too_much})).flatten()"
    )
