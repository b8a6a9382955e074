"""Rules of policies about fields in seconds: how long a set may run, and how long it stays when it has ended. Pure."""

from collections.abc import Iterator

from kube.model.field import SPEC, ErrorType, FieldError
from policy.judged import Judged, Namespace, Number, bound
from policy.rule_types import MaxSeconds
from policy.rules.words import PolicyRule, declared, held, limited

_TTL = SPEC.at("ttlSecondsAfterFinished")
_DEADLINE = SPEC.at("activeDeadlineSeconds")

NO_TTL = declared("ttl", ErrorType.REQUIRED, "", "set after how many seconds a finished set is deleted", "missing")
TTL = limited("ttl", "write a smaller number")
NO_DEADLINE = declared("activeDeadline", ErrorType.REQUIRED, "", "set for how many seconds the set may run", "missing")
DEADLINE = limited("activeDeadline", "write a smaller number")


def ttls(rule: MaxSeconds, judged: Judged, namespace: Namespace) -> Iterator[Number]:
    """The seconds, where the set has them."""
    seconds = judged.js.spec.ttl_seconds_after_finished
    if seconds is not None:
        yield Number("seconds", seconds, bound(rule, namespace), lambda: _TTL)


def ttl(rule: MaxSeconds, judged: Judged, namespace: Namespace) -> Iterator[FieldError]:
    """A finished set has to be deleted after some time: `spec.ttlSecondsAfterFinished`.

    With `required` the field has to be set. A limit holds for sets that have the field; together they demand both.
    """
    if rule.required and judged.js.spec.ttl_seconds_after_finished is None:
        yield NO_TTL.at(_TTL)
    for number in ttls(rule, judged, namespace):
        yield from held(number, TTL, number.amount)


def deadlines(rule: MaxSeconds, judged: Judged, namespace: Namespace) -> Iterator[Number]:
    """The seconds, where the set has them."""
    seconds = judged.js.spec.active_deadline_seconds
    if seconds is not None:
        yield Number("seconds", seconds, bound(rule, namespace), lambda: _DEADLINE)


def active_deadline(rule: MaxSeconds, judged: Judged, namespace: Namespace) -> Iterator[FieldError]:
    """A set may run only for some time: `spec.activeDeadlineSeconds`, which needs the gate JobSetActiveDeadlineSeconds.

    With `required` the field has to be set. A limit holds for sets that have the field; together they demand both.
    """
    if rule.required and judged.js.spec.active_deadline_seconds is None:
        yield NO_DEADLINE.at(_DEADLINE)
    for number in deadlines(rule, judged, namespace):
        yield from held(number, DEADLINE, number.amount)


RULES = (
    PolicyRule("ttl", (NO_TTL, TTL), ttl, ttls, reads=(str(_TTL),)),
    PolicyRule("activeDeadline", (NO_DEADLINE, DEADLINE), active_deadline, deadlines, reads=(str(_DEADLINE),)),
)
