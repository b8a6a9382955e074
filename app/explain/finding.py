"""A finding: what is held up, because of which other findings, and how to fix it. Pure."""

import enum
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

NAMED = 5
"""Objects that one sentence names; the rest is counted."""

MOST_GROUPS = 8
"""Different findings about Jobs that one cause gives; the Jobs of further ones are counted."""


class Level(enum.Enum):
    """How bad it is."""

    FINE = "fine"
    NOTE = "note"
    """Worth knowing; holds nothing up."""
    WAITS = "waits"
    """Will go on by itself when something else happens."""
    FAULT = "fault"
    """Somebody has to do something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One statement. `cause` names its kind for programs; `since` is RFC 3339 or empty; `fix` has no full stop."""

    level: Level
    cause: str
    what: str
    because: tuple["Finding", ...] = ()
    fix: str = ""
    since: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """A finding and the Jobs that it explains, so that later causes need not. `state` is the set's, in a word or two.

    `ends`: this is all there is to say about the set.
    """

    finding: Finding
    jobs: frozenset[str] = frozenset()
    state: str = ""
    ends: bool = False


@dataclass(frozen=True, slots=True)
class JobFinding:
    """What a cause says about one Job. Jobs with the same `key` share one finding."""

    job: str
    key: object
    describe: Callable[[], Finding]


def listed(names: Sequence[str], most: int = NAMED) -> str:
    """`a, b, c and 4 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def counted(number: int, noun: str) -> str:
    """`1 Job`, `3 Jobs`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def grouped(findings: Iterable[JobFinding]) -> list[Found]:
    """One finding for each key, about its first Job; the other Jobs are listed as "likewise"."""
    groups: dict[object, list[JobFinding]] = {}
    for one in findings:
        groups.setdefault(one.key, []).append(one)
    found = []
    for same in list(groups.values())[:MOST_GROUPS]:
        first, others = same[0].describe(), [one.job for one in same[1:]]
        found.append(Found(first, frozenset({same[0].job})))
        if others:
            found.append(Found(_likewise(first, others), frozenset(others)))
    rest = [one.job for same in list(groups.values())[MOST_GROUPS:] for one in same]
    if rest:
        what = f"{counted(len(rest), 'more Job')} ({listed(rest, 2)}): waiting for reasons of this kind, too"
        found.append(Found(Finding(level=Level.WAITS, cause="more", what=what), frozenset(rest)))
    return found


def _likewise(first: Finding, jobs: list[str]) -> Finding:
    what = f"Job {jobs[0]}: likewise"
    if len(jobs) > 1:
        what = f"{len(jobs)} more Jobs ({jobs[0]} … {jobs[-1]}): likewise"
    return Finding(level=first.level, cause=first.cause, what=what)


def seconds_since(moment: str, now: datetime) -> float | None:
    """Seconds from an RFC 3339 moment until now; None for a text that is none."""
    try:
        return (now - datetime.fromisoformat(moment)).total_seconds()
    except (ValueError, TypeError):
        return None
