"""Limits in policies: their records, and comparisons of numbers of a JobSet with limits, in Python and CEL. Pure."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, NamedTuple

from kube.model.field import ErrorType, FieldError, Path, Rule, render_value
from kube.model.meta import Base, doc
from kube.model.quantity import COUNTED_PATTERN, PATTERN, WHOLE_PATTERN, with_unit
from kube.model.requests import LONGEST_AMOUNT, Amount, amount_of
from policy.cel import NO_TEXTS, Cel, Expression, Writer, concat_texts, text
from policy.judged import Namespace
from policy.sentences import invalid, sentence, source

NO_LIMIT = invalid("no-limit", ErrorType.REQUIRED, "", "write max, fromNamespaceLabel or fromNamespaceAnnotation")
AMOUNT = invalid("amount", ErrorType.INVALID, "{what}", 'write an amount such as 8, "500m" or "1Ti"')
COUNT = invalid("count", ErrorType.INVALID, "{what}", "write a whole number such as 8")
_WHOLE = re.compile(WHOLE_PATTERN, re.ASCII)


class Limit(Base, frozen=True, kw_only=True):
    """A limit on a count or amount. A limit in a label or annotation of the namespace wins over `max`.

    `form`: the valid form of the text of the limit, in words. `invalid_limit`: the message about another form.
    """

    form: ClassVar[str] = "a whole number"
    invalid_limit: ClassVar[Rule] = COUNT
    max: Annotated[int | str | None, doc("The limit, a whole number such as 8.", pattern=WHOLE_PATTERN)] = None
    from_namespace_label: Annotated[
        str, doc("Key of a label of the namespace that has the limit, so that each tenant has its own.", maxLength=317)
    ] = ""
    from_namespace_annotation: Annotated[
        str, doc("The same by an annotation. The label wins if both are there.", maxLength=317)
    ] = ""

    @property
    def stated_limit(self) -> int | str | None:
        """The limit in the policy: `max`, or the number that it stands for, such as the seconds of a duration."""
        return self.max

    @property
    def has_other_demands(self) -> bool:
        """Whether the rule has other fields that demand something, so that the limit may be absent."""
        return False

    def read(self, text: int | str) -> Amount | None:
        """The amount that the text of a limit means; None if the text is negative or does not have the form."""
        return None if isinstance(text, str) and not _WHOLE.fullmatch(text) else amount_of(text)

    def faults(self, path: Path) -> Iterator[FieldError]:
        """Errors of the author of the policy: an invalid limit, or a missing limit."""
        if self.max is not None:
            if str(self.max).startswith("-"):
                yield self.invalid_limit.at(path.at("max"), self.max, what="a limit is not negative")
            elif self.stated_limit is None or self.read(self.stated_limit) is None:
                complaint = f"{render_value(self.max)} is not {self.form}"
                yield self.invalid_limit.at(path.at("max"), self.max, what=complaint)
        elif not (self.from_namespace_label or self.from_namespace_annotation or self.has_other_demands):
            yield NO_LIMIT.at(path)


class ResourceLimit(Limit, frozen=True, kw_only=True):
    """The most that the pods of one set may request of a resource."""

    form: ClassVar[str] = "an amount"
    invalid_limit: ClassVar[Rule] = AMOUNT
    name: Annotated[str, doc("Name of the resource, such as cpu, memory or nvidia.com/gpu.", maxLength=317)]
    max: Annotated[
        int | str | None, doc("The limit, as a number or a Kubernetes quantity such as 500m or 1Ti.", pattern=PATTERN)
    ] = None

    def read(self, text: int | str) -> Amount | None:
        return amount_of(text)


class LimitInForce(NamedTuple):
    """A limit that is in force.

    - `amount`: None if there is no limit, or if the limit is unreadable.
    - `text`: the text of the limit.
    - `source`: where the text is written in the namespace; empty for a limit in the policy.
    - `form`: the valid form of a text in the namespace, such as "a whole number".
    """

    amount: Amount | None
    text: str = ""
    source: str = ""
    form: str = ""

    @property
    def is_unreadable(self) -> bool:
        """Whether a text in the namespace is not a valid limit."""
        return self.source != "" and self.amount is None


NO_BOUND = LimitInForce(None)
_LARGE_AMOUNT = 10**6
"""From this amount on, an amount may have a unit of another kind (Gi or G) than its limit. Such amounts are bytes."""


def effective_limit(limit: Limit, namespace: Namespace) -> LimitInForce:
    """The limit in this namespace, by its label, else by its annotation, else by the policy."""
    sources: tuple[tuple[str, str, Mapping[str, str]], ...] = (
        ("label", limit.from_namespace_label, namespace.labels),
        ("annotation", limit.from_namespace_annotation, namespace.annotations),
    )
    for kind, key, values in sources:
        if key and (text := values.get(key)) is not None:
            return LimitInForce(limit.read(text), text, f"{kind} {key} of the namespace", limit.form)
    stated = limit.stated_limit
    return NO_BOUND if stated is None else LimitInForce(amount_of(stated), str(stated))


class Number(NamedTuple):
    """A number of a JobSet, such as the sum of its requests for memory, and its limit.

    - `find_path`: computes the path of the finding about the number.
    - `parts`: computes the summands of the number, a text for each ReplicatedJob.
    - `replicated_job`: the name of the ReplicatedJob that has the number; empty for a number of the whole set.
    """

    name: str
    amount: Amount
    limit: LimitInForce
    find_path: Callable[[], Path]
    parts: Callable[[], list[str]] = list
    replicated_job: str = ""

    @property
    def exceeds_limit(self) -> bool:
        return self.limit.amount is not None and self.amount > self.limit.amount

    @property
    def amount_text(self) -> str:
        """The amount as text, in a unit like that of the limit."""
        return as_text(self.amount, self.limit.text)


def as_text(amount: Amount, limit: str) -> str:
    """An amount as a person writes it: a plain number if the limit is a plain number, else with a unit.

    The unit is of the same kind as in `limit` (Gi or G). A large amount has a unit of the other kind if its text is
    then shorter, such as 130Gi instead of 139586437120 for a limit of 100G.
    """
    if limit.isdecimal() and isinstance(amount, int):
        return str(amount)
    same_kind = with_unit(amount, limit)
    other_kind = with_unit(amount, "" if limit.endswith("i") else "Mi") if amount >= _LARGE_AMOUNT else same_kind
    return min(same_kind, other_kind, key=len)


def limit_sentence(name: str, fix: str) -> Rule:
    """The message about a number that exceeds its limit, for the rule `name` of policies."""
    return sentence(name, ErrorType.FORBIDDEN, "{amount} {what}, and at most {limit} allowed{source}", fix, "exceeded")


BAD_LIMIT = Rule(
    "policy-limit-unreadable",
    ErrorType.FORBIDDEN,
    'the limit of {what} is "{text}" by {source}, which is not {form}',
    "ask the administrator of the namespace to correct it",
    source("README"),
)


@dataclass(frozen=True, slots=True)
class LimitError(FieldError):
    """The finding about a number that exceeds its limit, or has a limit that cannot be read."""

    number: Number | None = None


def check_limit(number: Number, exceeded: Rule, value: Any = None) -> Iterator[FieldError]:
    """The finding that a number exceeds its limit, or that its limit cannot be read. `value`: quoted in the finding."""
    limit = number.limit
    if limit.is_unreadable:
        words = {"what": number.name, "text": limit.text, "source": limit.source, "form": limit.form}
        error = BAD_LIMIT.at(number.find_path(), **words)
    elif number.exceeds_limit:
        source = f" by {limit.source}" if limit.source else ""
        words = {"amount": number.amount_text, "what": number.name, "limit": limit.text, "source": source}
        error = exceeded.at(number.find_path(), value, **words, parts=lambda: "; ".join(number.parts()))
    else:
        return
    yield LimitError(error.path, error.type, error.value, error.detail, error.hint, error.rule, number=number)


LARGEST_NUMBER: Final = 2 * 10**18
"""A number of this size exceeds every limit. Sums and products in CEL are cut to it, so that they never overflow."""
_PLAIN_AMOUNT = Cel("string(n.amount)")
_NO_WORDS = Cel("''")


@dataclass(frozen=True, slots=True)
class CelNumbers:
    """Numbers of a JobSet that have the same limit, as expressions in CEL.

    - `numbers`: a list of maps, each with `amount` (an int), `what` (the name of the number), and `of` (the name of the
      ReplicatedJob, empty for the whole set).
    - `path`: the path of the finding about the item `n` of the list.
    - `unit`: the suffix of the amount as a quantity.
    - `amount_text`: the text of `n.amount`. `parts`: a text with the summands of the amount.
    """

    limit: Limit
    exceeded: Rule
    numbers: Expression
    path: Cel
    unit: str = ""
    amount_text: Cel = _PLAIN_AMOUNT
    parts: Cel = _NO_WORDS


def single_number(amount: str, name: str) -> Cel:
    """A CEL list with one number of the whole JobSet, in the form of `CelNumbers.numbers`."""
    return Cel(f"[{{'amount': dyn({amount}), 'what': dyn({text(name)}), 'of': dyn('')}}]")


def cel_limit(limit: Limit) -> Cel:
    """A CEL list of the text of the limit in force and its source. The list is empty if there is no limit."""
    expression = str(NO_TEXTS) if limit.stated_limit is None else f"[{text(str(limit.stated_limit))}, '']"
    sources = (("annotation", limit.from_namespace_annotation), ("label", limit.from_namespace_label))
    for kind, key in sources:
        if key:
            value = f"namespaceObject.metadata.?{kind}s[?{text(key)}]"
            source_cel = f"[{value}.orValue(''), {text(f'{kind} {key!s} of the namespace')}]"
            expression = f"({value}.hasValue() ? {source_cel} : {expression})"
    return Cel(expression)


def is_amount(value: str) -> str:
    """A CEL condition: the CEL text `value` is an amount that `kube.model.requests.amount_of` can read."""
    return f"size({value}) <= {LONGEST_AMOUNT} && {value}.matches({text(COUNTED_PATTERN)})"


def cel_sum(numbers: str) -> str:
    """A CEL expression: the sum of a list of ints that are not negative, capped at `LARGEST_NUMBER`."""
    return f"[{numbers}].map(s, s.map(n, double(n)).sum() < double({LARGEST_NUMBER}) ? s.sum() : {LARGEST_NUMBER})[0]"


_NO_AMOUNT = f"!({is_amount('l[0]')})"
_NO_WHOLE_NUMBER = f"!l[0].matches('{WHOLE_PATTERN}')"


def exceeded_limits(numbers: CelNumbers, now: Cel, before: Cel, writer: Writer) -> Cel:
    """A CEL list of the findings about numbers over their limit, or with an unreadable limit.

    `now` and `before`: the CEL lists of the numbers in the new and in the old JobSet; `before` is empty on creation.
    A number gives no finding if it is not larger than in the old JobSet. In the CEL, `l` is the text and the source of
    the limit, `n` the number at the position `q` of `now`, and `b` a number in `before`.
    """
    limit, path = numbers.limit, numbers.path
    source = Cel("(l[1] == '' ? '' : ' by ' + l[1])")
    exceeded_finding = writer.at(
        numbers.exceeded,
        path,
        quoted=numbers.amount_text,
        amount=numbers.amount_text,
        what=Cel("n.what"),
        limit=Cel("l[0]"),
        source=source,
        parts=numbers.parts,
    )
    unreadable_finding = writer.at(
        BAD_LIMIT, path, what=Cel("n.what"), text=Cel("l[0]"), source=Cel("l[1]"), form=limit.form
    )
    amount = concat_texts(Cel("string(n.amount)"), numbers.unit)
    is_invalid = _NO_AMOUNT if isinstance(limit, ResourceLimit) else _NO_WHOLE_NUMBER
    unreadable = f"(l[1] != '' && ({is_invalid}))"
    exceeds = f"({unreadable} || n.amount >= {LARGEST_NUMBER} || quantity({amount}).isGreaterThan(quantity(l[0])))"
    was_as_large = "b.of == n.of && b.what == n.what && b.amount >= n.amount"
    was_as_large_at_position = f"(q < {before}.size() && [{before}[q]].exists(b, {was_as_large}))"
    is_worse = f"!({was_as_large_at_position} || {before}.exists(b, {was_as_large}))"
    return Cel(
        f"[{cel_limit(limit)}].filter(l, l.size() > 0).map(l, {now}.transformList(q, n, {exceeds} && {is_worse},"
        f" {unreadable} ? {unreadable_finding} : {exceeded_finding})).flatten()"
    )
