"""Rules of policies about the deadline of a set and about its time to live after its end. Pure."""

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Annotated

from api.jobset import JobSetSpec
from kube.model.field import SPEC, ErrorType, FieldError, Rule
from kube.model.meta import doc
from kube.model.quantity import WHOLE_PATTERN
from policy.cel import Cel, Root, Writer, list_if, text
from policy.fields import DURATION, seconds_of
from policy.judged import JudgedJobSet, Namespace
from policy.limits import CelNumbers, Limit, Number, check_limit, effective_limit, limit_sentence, single_number
from policy.rule import NO_FINDINGS, Compiled, PolicyRule
from policy.sentences import sentence


class MaxSeconds(Limit, frozen=True, kw_only=True):
    """A field in seconds that has to be set, or may not be larger than a limit."""

    max: Annotated[
        int | str | None,
        doc(
            "The limit in seconds, such as 604800, or as a duration, such as 7d.",
            pattern=f"{WHOLE_PATTERN}|{DURATION}",
        ),
    ] = None
    required: Annotated[bool, doc("The field has to be set. Else a set without it passes.")] = False

    @property
    def stated_limit(self) -> int | str | None:
        """The seconds of a duration."""
        return seconds_of(str(self.max)) or self.max

    @property
    def has_other_demands(self) -> bool:
        return self.required


NO_TTL = sentence("ttl", ErrorType.REQUIRED, "", "set after how many seconds a finished set is deleted", "missing")
TTL = limit_sentence("ttl", "write a smaller number")
NO_DEADLINE = sentence("activeDeadline", ErrorType.REQUIRED, "", "set for how many seconds the set may run", "missing")
DEADLINE = limit_sentence("activeDeadline", "write a smaller number")
_LIMIT_PARAGRAPH = """

With `required` the field has to be set. A limit holds only for sets that have the field, so a limit for
every set needs `required`, too.
"""


def _seconds_rule(
    name: str, field: str, missing: Rule, exceeded: Rule, seconds_in: Callable[[JobSetSpec], int | None], summary: str
) -> PolicyRule:
    """The rule `name` about a field of the spec in seconds. `summary`: the first paragraph of its page."""
    path = SPEC.at(field)

    def numbers(rule: MaxSeconds, judged: JudgedJobSet, namespace: Namespace) -> Iterator[Number]:
        """The value of the field and its limit; no number for a set without the field."""
        seconds = seconds_in(judged.js.spec)
        if seconds is not None:
            yield Number("seconds", seconds, effective_limit(rule, namespace), lambda: path)

    def find(rule: MaxSeconds, judged: JudgedJobSet, namespace: Namespace) -> Iterator[FieldError]:
        if rule.required and seconds_in(judged.js.spec) is None:
            yield missing.at(path)
        for number in numbers(rule, judged, namespace):
            yield from check_limit(number, exceeded, number.amount)

    def compile_seconds(rule: MaxSeconds, writer: Writer) -> Compiled:
        path_text = text(str(path))
        missing_finding = writer.at(missing, path_text)

        def value(root: Root) -> str:
            return f"{root.name}.?spec.?{field}"

        def cel_numbers(root: Root) -> Cel:
            seconds = value(root)
            return Cel(f"({seconds}.hasValue() ? {single_number(f'{seconds}.orValue(0)', 'seconds')} : [])")

        def findings(root: Root) -> Cel:
            return list_if(f"!{value(root)}.hasValue()", missing_finding) if rule.required else NO_FINDINGS

        return Compiled(findings, (CelNumbers(rule, exceeded, cel_numbers, path_text),))

    find.__doc__ = summary + _LIMIT_PARAGRAPH
    return PolicyRule(name, (missing, exceeded), find, compile_seconds, numbers=numbers, reads=(str(path),))


TTLRule = Annotated[
    MaxSeconds | None,
    doc("spec.ttlSecondsAfterFinished."),
    _seconds_rule(
        "ttl",
        "ttlSecondsAfterFinished",
        NO_TTL,
        TTL,
        attrgetter("ttl_seconds_after_finished"),
        "A finished set has to be deleted after some time: `spec.ttlSecondsAfterFinished`.",
    ),
]
ActiveDeadlineRule = Annotated[
    MaxSeconds | None,
    doc("spec.activeDeadlineSeconds."),
    _seconds_rule(
        "activeDeadline",
        "activeDeadlineSeconds",
        NO_DEADLINE,
        DEADLINE,
        attrgetter("active_deadline_seconds"),
        "A set may run only for some time: `spec.activeDeadlineSeconds`, which needs the gate"
        " JobSetActiveDeadlineSeconds.",
    ),
]
