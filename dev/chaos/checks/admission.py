"""Checks that no admission fails while a replica can answer."""

from collections.abc import Iterable, Sequence

from dev.chaos.checks.violation import Violation
from dev.chaos.events import Event

RULE = "admission failed"
FAILURE_TEXT = "failed calling webhook"

Window = tuple[float, float]
"""Begin and end in seconds since 1970."""


def admission_failures(events: Iterable[Event]) -> list[Event]:
    """The requests that the API server refused because a webhook did not answer."""
    return [event for event in events if event.code >= 400 and FAILURE_TEXT in event.message]


def check(events: Iterable[Event], excused_windows: Sequence[Window]) -> list[Violation]:
    """A violation for each failed admission.

    `excused_windows` are the times in which no replica could have answered, or the API server itself was ending.
    """
    return [
        Violation(
            RULE, f"{event.namespace}/{event.name}", f"{event.verb} {event.resource}: {event.message}", event.started
        )
        for event in admission_failures(events)
        if not any(begin <= event.started <= end or begin <= event.ended <= end for begin, end in excused_windows)
    ]
