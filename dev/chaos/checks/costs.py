"""Checks the costs of faults: requests for a JobSet that cannot continue, and memory after a long run."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from dev.chaos.checks.violation import Violation
from dev.chaos.events import MANAGER, Event

BUSY, GROWN = "too many requests", "memory grown"

WINDOW = 30.0
"""Seconds over which requests are averaged, so that the fast first tries of a new leader do not count much."""

MAX_PER_SECOND = 5.0
GROWTH = 0.10
SHORTEST = 600.0
"""Seconds that a process has to live for its memory to be compared. In a shorter life, caches are still filling."""

Sample = tuple[float, float]
"""Seconds since the process started, and MiB."""


def check_requests(events: Iterable[Event], namespace: str) -> tuple[float, list[Violation]]:
    """The highest rate of the manager's requests in the namespace of a stuck JobSet, in requests a second.

    Dry runs of admission are not counted.
    """
    recent: deque[float] = deque()
    most_requests, most_at = 0, 0.0
    requests = (
        event for event in events if event.namespace == namespace and event.user == MANAGER and not event.dry_run
    )
    for at in sorted(event.started for event in requests):
        recent.append(at)
        while recent[0] < at - WINDOW:
            recent.popleft()
        if len(recent) > most_requests:
            most_requests, most_at = len(recent), at
    rate = most_requests / WINDOW
    text = f"{rate:g} requests a second within {WINDOW:g} s, at most {MAX_PER_SECOND:g} are allowed"
    return rate, [Violation(BUSY, namespace, text, most_at)] if rate >= MAX_PER_SECOND else []


def check_memory(samples: Mapping[str, Sequence[Sample]]) -> tuple[dict[str, list[float]], list[Violation]]:
    """The memory of each process that lived long enough, after a quarter of its life and at its end, and violations.

    Each figure is the median of a tenth of the life.
    """
    figures, violations = {}, []
    for process, series in samples.items():
        if not series or series[-1][0] < SHORTEST:
            continue
        life = series[-1][0]
        quarter, end = (_median(series, life * share) for share in (0.25, 0.95))
        figures[process] = [quarter, end]
        if end > quarter * (1 + GROWTH):
            text = f"{quarter:.0f} MiB after a quarter of {life:.0f} s, {end:.0f} MiB at the end"
            violations.append(Violation(GROWN, process, text))
    return figures, violations


def _median(series: Sequence[Sample], middle: float) -> float:
    width = series[-1][0] / 20
    values = sorted(mib for at, mib in series if abs(at - middle) <= width)
    return values[len(values) // 2]
