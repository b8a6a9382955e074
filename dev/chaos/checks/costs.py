"""Checks the rate of requests for a JobSet that cannot continue, and the growth of memory in a long run."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from dev.chaos.checks.violation import Violation
from dev.chaos.events import MANAGER, Event

BUSY, GROWN = "too many requests", "memory grown"

WINDOW_SECONDS = 30.0
"""Seconds over which requests are averaged, so that the fast first tries of a new leader do not count much."""

MAX_PER_SECOND = 5.0
MAX_GROWTH = 0.10
MIN_LIFE_SECONDS = 600.0
"""Seconds that a process has to live for its memory to be compared. In a shorter life, caches are still filling."""

Sample = tuple[float, float]
"""Seconds since the process started, and MiB."""


def check_requests(events: Iterable[Event], namespace: str) -> tuple[float, list[Violation]]:
    """The highest rate of the manager's requests in the namespace of a stuck JobSet (a second), and violations.

    Dry runs of admission are not counted.
    """
    recent: deque[float] = deque()
    most_requests, most_at = 0, 0.0
    requests = (
        event for event in events if event.namespace == namespace and event.user == MANAGER and not event.dry_run
    )
    for at in sorted(event.started for event in requests):
        recent.append(at)
        while recent[0] < at - WINDOW_SECONDS:
            recent.popleft()
        if len(recent) > most_requests:
            most_requests, most_at = len(recent), at
    rate = most_requests / WINDOW_SECONDS
    text = f"{rate:g} requests a second within {WINDOW_SECONDS:g} s, fewer than {MAX_PER_SECOND:g} are allowed"
    return rate, [Violation(BUSY, namespace, text, most_at)] if rate >= MAX_PER_SECOND else []


def check_memory(samples: Mapping[str, Sequence[Sample]]) -> tuple[dict[str, list[float]], list[Violation]]:
    """The memory of each process that lived long enough, after a quarter of its life and at its end, and violations.

    Each figure is the median of a tenth of the life.
    """
    figures, violations = {}, []
    for process, process_samples in samples.items():
        life_seconds = process_samples[-1][0] if process_samples else 0.0
        if life_seconds < MIN_LIFE_SECONDS:
            continue
        early_mib, late_mib = (_median_mib(process_samples, life_seconds * share) for share in (0.25, 0.95))
        figures[process] = [early_mib, late_mib]
        if late_mib > early_mib * (1 + MAX_GROWTH):
            text = f"{early_mib:.0f} MiB after a quarter of {life_seconds:.0f} s, {late_mib:.0f} MiB at the end"
            violations.append(Violation(GROWN, process, text))
    return figures, violations


def _median_mib(samples: Sequence[Sample], middle: float) -> float:
    """The median memory in the tenth of the life around `middle` (seconds since the start)."""
    width = samples[-1][0] / 20
    values = sorted(mib for at, mib in samples if abs(at - middle) <= width)
    return values[len(values) // 2]
