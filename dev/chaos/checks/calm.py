"""Checks that in calm times no replica stops, the leader keeps the Lease, and admission is fast.

A time is calm if no fault acts, except strangers (hostile clients and the neighbour).
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dev.chaos.checks.admission import Window
from dev.chaos.checks.leaders import terms
from dev.chaos.checks.violation import Violation
from dev.chaos.events import MANAGER, Event

STOPPED, LOST, SLOW = "replica stopped", "lease lost", "admission slow"

SETTLE_SECONDS = 15.0
"""Seconds after a fault in which it may have consequences. A lease expires after 6 s, and then replicas restart."""

EDGE_SECONDS = 1.0
"""Seconds before a fault that are not calm, since its start is recorded in tenths of a second, and clocks differ."""

MAX_SECONDS = 1.0
"""Time limit for 99 of 100 admissions."""

MIN_SAMPLES = 100
"""Least number of admissions to judge. With fewer, a single slow admission would be more than one in 100."""

REVIEWED = {"create", "update", "patch"}


class Stop(NamedTuple):
    """The end of a replica, or a time at which a kubelet would have ended it. `at` is in seconds since 1970."""

    at: float
    name: str
    how: str


def calm_windows(begin: float, end: float, faults: Iterable[Window]) -> list[Window]:
    """The times of a run in which no fault has acted for `SETTLE_SECONDS`. The begin of the run counts as a fault."""
    calm = []
    calm_from = begin + SETTLE_SECONDS
    for fault_begin, fault_end in sorted(faults):
        if fault_begin - EDGE_SECONDS > calm_from:
            calm.append((calm_from, fault_begin - EDGE_SECONDS))
        calm_from = max(calm_from, fault_end + SETTLE_SECONDS)
    return [*calm, (calm_from, end)] if calm_from < end else calm


def check_stops(stops: Iterable[Stop], calm: Sequence[Window]) -> list[Violation]:
    """A violation for each replica that ends, or fails its probes, in a calm time."""
    return [Violation(STOPPED, stop.name, stop.how, stop.at) for stop in stops if is_within(calm, stop.at, stop.at)]


def check_lease(events: Iterable[Event], calm: Sequence[Window]) -> list[Violation]:
    """A violation for each time that another replica takes the lease in a calm time."""
    return [
        Violation(
            LOST, term.holder, "it took the lease, and nothing had happened to the leader", term.first_write.ended
        )
        for term in terms(events)
        if is_within(calm, term.first_write.started, term.first_write.ended)
    ]


def check_times(
    events: Iterable[Event], calm: Sequence[Window], limit_seconds: float = MAX_SECONDS
) -> tuple[int, float, list[Violation]]:
    """The number of users' requests to create or change a JobSet, the 99th percentile of their durations, violations.

    A duration lasts from the request to the API server's answer, both webhooks and their dry runs included.
    `limit_seconds`: the limit of the percentile, which depends on the machine (`strangers.allowed_seconds`).
    """
    durations = [
        event.ended - event.started
        for event in events
        if event.resource == "jobsets"
        and event.verb in REVIEWED
        and event.user != MANAGER
        and is_within(calm, event.started, event.ended)
    ]
    p99 = percentile(durations)
    text = f"one in 100 of {len(durations)} took {p99:.2f} s or longer, {limit_seconds:.2g} are allowed"
    is_slow = len(durations) >= MIN_SAMPLES and p99 >= limit_seconds
    return len(durations), round(p99, 3), [Violation(SLOW, "JobSets", text)] if is_slow else []


def percentile(values: Iterable[float]) -> float:
    """The 99th percentile; 0 without values."""
    ordered = sorted(values)
    return ordered[math.ceil(0.99 * len(ordered)) - 1] if ordered else 0.0


def is_within(windows: Sequence[Window], started: float, ended: float) -> bool:
    """Whether a period lies within one of the windows."""
    return any(begin <= started and ended <= end for begin, end in windows)
