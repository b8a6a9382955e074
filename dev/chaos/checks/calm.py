"""Checks for the times without a fault, hostile clients aside: no replica stops, the lease stays, admission is fast."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dev.chaos.checks.admission import Window
from dev.chaos.checks.leaders import terms
from dev.chaos.checks.violation import Violation
from dev.chaos.events import MANAGER, Event

STOPPED, LOST, SLOW = "replica stopped", "lease lost", "admission slow"

SETTLE = 15.0
"""Seconds after a fault in which it may have consequences: a lease expires after 6, then replicas restart."""

EDGE = 1.0
"""Seconds before a fault that count for it: its start is recorded in tenths of a second, and clocks of a run differ."""

MAX_SECONDS = 1.0
"""For 99 of 100 admissions."""

FEWEST = 100
"""Least number of admissions to judge: with fewer, a single slow one would be more than one in 100."""

REVIEWED = {"create", "update", "patch"}


class Stop(NamedTuple):
    """A replica that ended, or that a kubelet would have ended. `at` is in seconds since 1970."""

    at: float
    name: str
    how: str


def windows(begin: float, end: float, faults: Iterable[Window]) -> list[Window]:
    """The times of a run in which no fault has acted for `SETTLE` seconds. Its begin counts as a fault."""
    found = []
    calm_from = begin + SETTLE
    for first, last in sorted(faults):
        if first - EDGE > calm_from:
            found.append((calm_from, first - EDGE))
        calm_from = max(calm_from, last + SETTLE)
    return [*found, (calm_from, end)] if calm_from < end else found


def check_stops(stops: Iterable[Stop], calm: Sequence[Window]) -> list[Violation]:
    """No replica ends or fails its probes without a reason."""
    return [Violation(STOPPED, stop.name, stop.how, stop.at) for stop in stops if within(calm, stop.at, stop.at)]


def check_lease(events: Iterable[Event], calm: Sequence[Window]) -> list[Violation]:
    """No other replica takes the lease without a reason."""
    return [
        Violation(
            LOST, term.holder, "it took the lease, and nothing had happened to the leader", term.first_write.ended
        )
        for term in terms(events)
        if within(calm, term.first_write.started, term.first_write.ended)
    ]


def check_times(
    events: Iterable[Event], calm: Sequence[Window], allowed: float = MAX_SECONDS
) -> tuple[int, float, list[Violation]]:
    """The number of users' requests to create or change a JobSet, and their 99th percentile in seconds.

    As the API server measured them: from the request to its answer, both webhooks and their dry runs included.
    `allowed`: what 99 of 100 may take, which depends on the machine (`strangers.allowed_seconds`).
    """
    durations = [
        event.ended - event.started
        for event in events
        if event.resource == "jobsets"
        and event.verb in REVIEWED
        and event.user != MANAGER
        and within(calm, event.started, event.ended)
    ]
    most = percentile(durations)
    text = f"one in 100 of {len(durations)} took {most:.2f} s or longer, {allowed:.2g} are allowed"
    slow = len(durations) >= FEWEST and most >= allowed
    return len(durations), round(most, 3), [Violation(SLOW, "JobSets", text)] if slow else []


def percentile(values: Iterable[float]) -> float:
    """The 99th percentile; 0 without values."""
    ordered = sorted(values)
    return ordered[math.ceil(0.99 * len(ordered)) - 1] if ordered else 0.0


def within(windows: Sequence[Window], started: float, ended: float) -> bool:
    """Whether a period lies within one of the windows."""
    return any(begin <= started and ended <= end for begin, end in windows)
