"""What the rules of policies have in common: how they are declared, and how a number is held to a limit. Pure."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from kube.model.field import ErrorType, FieldError, Path, Rule
from kube.model.suggest import did_you_mean
from policy.judged import Judged, Namespace, Number

Find = Callable[[Any, Judged, Namespace], Iterator[FieldError]]
Numbers = Callable[[Any, Judged, Namespace], Iterator[Number]]


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """One rule: its name in a policy, what it says, what finds violations, and the numbers that it compares, if any.

    `reads`: the fields that it judges, as paths of the schema: `[]` is each item of a list, `{}` each member of a map.
    A test looks that every field of a JobSet is read by a rule, or exempted with a reason.
    """

    name: str
    says: tuple[Rule, ...]
    find: Find
    numbers: Numbers | None = None
    reads: tuple[str, ...] = ()


_JOB = "spec.replicatedJobs[].template.spec."


def of_jobs(*fields: str) -> tuple[str, ...]:
    """Fields of the spec of Jobs, as a rule declares them."""
    return tuple(_JOB + field for field in fields)


def of_pods(*fields: str) -> tuple[str, ...]:
    """The same, of the spec of pods."""
    return of_jobs(*(f"template.spec.{field}" for field in fields))


def of_containers(*fields: str) -> tuple[str, ...]:
    """The same, of containers and init containers."""
    return of_pods(*(f"{kind}[].{field}" for field in fields for kind in ("containers", "initContainers")))


def source(page: str) -> str:
    """The page of a rule."""
    return f"docs/policy/{page}.md"


def kebab(name: str) -> str:
    """`maxTotals` as it stands in ids and names of pages: `max-totals`."""
    text = "".join(f"-{char.lower()}" if char.isupper() else char for char in name)
    return text.replace("d-n-s", "dns")


def declared(name: str, kind: ErrorType, message: str, fix: str, suffix: str = "") -> Rule:
    """A sentence of the rule `name`."""
    page = kebab(name)
    return Rule(f"policy-{page}{suffix and '-'}{suffix}", kind, message, fix, source(page))


def limited(name: str, fix: str) -> Rule:
    """What is said about a number that exceeds its limit."""
    return declared(name, ErrorType.FORBIDDEN, "{amount} {what}, and at most {limit} allowed{source}", fix, "exceeded")


BAD_LIMIT = Rule(
    "policy-limit-unreadable",
    ErrorType.FORBIDDEN,
    'the limit of {what} is "{text}" by {source}, which is no {form}',
    "ask the administrator of the namespace to correct it",
    source("README"),
)


@dataclass(frozen=True, slots=True)
class LimitError(FieldError):
    """The finding about a number that exceeds its limit, or has a limit that cannot be read."""

    number: Number | None = None


def _about(number: Number, error: FieldError) -> LimitError:
    return LimitError(error.path, error.type, error.value, error.detail, error.hint, error.rule, number=number)


def held(number: Number, exceeded: Rule, value: Any = None) -> Iterator[FieldError]:
    """The finding that a number exceeds its limit, or that the namespace has a limit that cannot be read."""
    limit = number.limit
    if limit.unreadable:
        bad = BAD_LIMIT.at(number.where(), what=number.what, text=limit.text, source=limit.source, form=limit.form)
        yield _about(number, bad)
    elif number.exceeds:
        by = f" by {limit.source}" if limit.source else ""
        words = {"amount": number.shown, "what": number.what, "limit": limit.text, "source": by}
        found = exceeded.at(number.where(), value, **words, parts=lambda: "; ".join(number.parts()))
        yield _about(number, found)


def by_numbers(numbers: Numbers, exceeded: Rule) -> Find:
    """A rule that is nothing but limits."""

    def find(rule: Any, judged: Judged, namespace: Namespace) -> Iterator[FieldError]:
        for number in numbers(rule, judged, namespace):
            yield from held(number, exceeded)

    find.__doc__ = numbers.__doc__
    return find


def one_of(rule: Rule, path: Path, value: str, allowed: tuple[str, ...] | None) -> Iterator[FieldError]:
    """The finding that a value is none of those that are allowed (None: all are)."""
    if allowed is not None and value not in allowed:
        yield rule.at(path, value, value=value, allowed=lambda: did_you_mean(value, allowed, what="allowed are"))
