"""No admission fails while one replica lives."""

from collections.abc import Iterable, Sequence

from dev.chaos.checks.violation import Violation
from dev.chaos.events import Event

RULE = "admission failed"
MARK = "failed calling webhook"

Window = tuple[float, float]
"""Begin and end in seconds since 1970."""


def failures(events: Iterable[Event]) -> list[Event]:
    """Requests that the API server refused because a webhook did not answer."""
    return [event for event in events if event.code >= 400 and MARK in event.message]


def check(events: Iterable[Event], excused: Sequence[Window]) -> list[Violation]:
    """`excused` are the times in which no replica could have answered, or the API server itself was ending."""
    return [
        Violation(
            RULE, f"{event.namespace}/{event.name}", f"{event.verb} {event.resource}: {event.message}", event.started
        )
        for event in failures(events)
        if not any(begin <= event.started <= end or begin <= event.ended <= end for begin, end in excused)
    ]
