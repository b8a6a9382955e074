"""Rules of policies about the deadline of a set and about its time to live after its end. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from kube.model.field import SPEC, ErrorType, FieldError, Path, Rule
from kube.model.meta import doc
from kube.model.quantity import WHOLE_PATTERN
from policy.cel import Cel, Root, Say, cel_path, list_if
from policy.durations import DURATION, seconds_of
from policy.judged import JudgedJobSet, Namespace
from policy.limits import CelNumbers, Limit, Number, check_limit, effective_limit, limit_sentence, single_number
from policy.rule import NOTHING, Compiled, Find, PolicyRule
from policy.sentences import sentence

_SECONDS_OR_DURATION = f"{WHOLE_PATTERN}|{DURATION}"


class MaxSeconds(Limit, frozen=True, kw_only=True):
    """A field in seconds that has to be set, or may not be larger than a limit."""

    max: Annotated[
        int | str | None,
        doc("The limit in seconds, such as 604800, or as a duration, such as 7d.", pattern=_SECONDS_OR_DURATION),
    ] = None
    required: Annotated[bool, doc("The field has to be set. Else a set without it passes.")] = False

    @property
    def stated_limit(self) -> int | str | None:
        """The seconds of a duration."""
        return seconds_of(str(self.max)) or self.max

    @property
    def demands_more(self) -> bool:
        return self.required


@dataclass(frozen=True, slots=True)
class _Seconds:
    """A field in seconds, its name in the record of the spec, and the messages if it is absent or too large."""

    path: Path
    attribute: str
    missing: Rule
    exceeded: Rule

    def value(self, judged: JudgedJobSet) -> int | None:
        seconds: int | None = getattr(judged.js.spec, self.attribute)
        return seconds

    def numbers(self, rule: MaxSeconds, judged: JudgedJobSet, namespace: Namespace) -> Iterator[Number]:
        """The value of the field and its limit; no number for a set without the field."""
        seconds = self.value(judged)
        if seconds is not None:
            yield Number("seconds", seconds, effective_limit(rule, namespace), lambda: self.path)

    def find(self, rule: MaxSeconds, judged: JudgedJobSet, namespace: Namespace) -> Iterator[FieldError]:
        if rule.required and self.value(judged) is None:
            yield self.missing.at(self.path)
        for number in self.numbers(rule, judged, namespace):
            yield from check_limit(number, self.exceeded, number.amount)

    def compile(self, rule: MaxSeconds, say: Say) -> Compiled:
        at = cel_path(str(self.path))

        def value(root: Root) -> str:
            return f"{root.name}.?spec.?{self.path.parts[-1]}"

        def numbers(root: Root) -> Cel:
            seconds = value(root)
            return Cel(f"({seconds}.hasValue() ? {single_number(f'{seconds}.orValue(0)', 'seconds')} : [])")

        def findings(root: Root) -> Cel:
            return list_if(f"!{value(root)}.hasValue()", say.at(self.missing, at[0])) if rule.required else NOTHING

        return Compiled(findings, (CelNumbers(rule, self.exceeded, numbers, at),))


_TTL = _Seconds(
    SPEC.at("ttlSecondsAfterFinished"),
    "ttl_seconds_after_finished",
    sentence("ttl", ErrorType.REQUIRED, "", "set after how many seconds a finished set is deleted", "missing"),
    limit_sentence("ttl", "write a smaller number"),
)
_DEADLINE = _Seconds(
    SPEC.at("activeDeadlineSeconds"),
    "active_deadline_seconds",
    sentence("activeDeadline", ErrorType.REQUIRED, "", "set for how many seconds the set may run", "missing"),
    limit_sentence("activeDeadline", "write a smaller number"),
)


def find_ttl(rule: MaxSeconds, judged: JudgedJobSet, namespace: Namespace) -> Iterator[FieldError]:
    """A finished set has to be deleted after some time: `spec.ttlSecondsAfterFinished`.

    With `required` the field has to be set. A limit holds only for sets that have the field, so a limit for
    every set needs `required`, too.
    """
    return _TTL.find(rule, judged, namespace)


def find_active_deadline(rule: MaxSeconds, judged: JudgedJobSet, namespace: Namespace) -> Iterator[FieldError]:
    """A set may run only for some time: `spec.activeDeadlineSeconds`, which needs the gate JobSetActiveDeadlineSeconds.

    With `required` the field has to be set. A limit holds only for sets that have the field, so a limit for
    every set needs `required`, too.
    """
    return _DEADLINE.find(rule, judged, namespace)


def _rule(name: str, field: _Seconds, find: Find) -> PolicyRule:
    says = (field.missing, field.exceeded)
    return PolicyRule(name, says, find, field.compile, numbers=field.numbers, reads=(str(field.path),))


TTLRule = Annotated[MaxSeconds | None, doc("spec.ttlSecondsAfterFinished."), _rule("ttl", _TTL, find_ttl)]
ActiveDeadlineRule = Annotated[
    MaxSeconds | None, doc("spec.activeDeadlineSeconds."), _rule("activeDeadline", _DEADLINE, find_active_deadline)
]
