"""A finding: what is held up, because of which other findings, and how to fix it. Pure."""

import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from diagnose.states import State

NAMED = 5
"""Objects that one sentence names; the rest is counted."""

MOST_FINDINGS = 8
"""Different findings that one cause gives; the Jobs or groups of further ones are counted."""

WAIT_FOR_PODS = "wait; a pod on a node that is gone for good needs kubectl delete pod NAME --force"
"""The fix where pods have to end first."""


class Level(enum.Enum):
    """How bad it is."""

    FINE = "fine"
    NOTE = "note"
    """Worth knowing; holds nothing up."""
    WAITS = "waits"
    """Will go on by itself when something else happens."""
    FAULT = "fault"
    """Blocks until somebody has corrected it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One statement. `cause` names its kind for programs; `since` is RFC 3339 or empty; `fix` has no full stop."""

    level: Level
    cause: str
    message: str
    because: tuple["Finding", ...] = ()
    fix: str = ""
    since: str = ""

    def walk(self) -> Iterator["Finding"]:
        """The finding and all below it."""
        yield self
        for below in self.because:
            yield from below.walk()

    @property
    def worst_level(self) -> Level:
        """The worst level of the finding and all below it."""
        return max((finding.level for finding in self.walk()), key=list(Level).index)


@dataclass(frozen=True, slots=True)
class Answer:
    """A finding and the Jobs that it explains; later causes leave these out. `state` is that of the set.

    `headline` stands behind the state in the first line. `ends`: this is all there is to say about the set. `follows`:
    it is printed after the findings about other Jobs.
    """

    finding: Finding
    jobs: frozenset[str] = frozenset()
    state: State | None = None
    headline: str = ""
    ends: bool = False
    follows: bool = False


@dataclass(frozen=True, slots=True)
class KeyedFinding:
    """The finding of a cause about one Job or one group, by name. Those with the same `key` share the first one.

    `finding`: or a function that gives it, where that takes long.
    """

    name: str
    key: object
    finding: Finding | Callable[[], Finding]


def join_names(names: Sequence[str], most: int = NAMED) -> str:
    """`a, b, c and 4 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def pluralize(number: int, noun: str, singular: str = "", plural: str = "") -> str:
    """`1 Job`, `3 Jobs`; with a verb in both numbers `1 Job is`, `3 Jobs are`."""
    noun, verb = (noun, singular) if number == 1 else (f"{noun}s", plural)
    return f"{number} {noun} {verb}".rstrip()


def merge_findings(findings: Iterable[KeyedFinding], noun: str, title: str = "{}") -> list[tuple[Finding, list[str]]]:
    """One finding for each key, about the first object that has it; the others are listed as "likewise".

    Each comes with the names of the objects that it is about. `title` is a template of what one object is called.
    """
    by_key: dict[object, list[KeyedFinding]] = {}
    for keyed in findings:
        by_key.setdefault(keyed.key, []).append(keyed)
    found: list[tuple[Finding, list[str]]] = []
    for same in list(by_key.values())[:MOST_FINDINGS]:
        given, likewise = same[0].finding, [keyed.name for keyed in same[1:]]
        first = given if isinstance(given, Finding) else given()
        found.append((first, [same[0].name]))
        if likewise:
            who = f"{len(likewise)} more {noun}s ({likewise[0]} … {likewise[-1]})"
            message = f"{title.format(likewise[0]) if len(likewise) == 1 else who}: likewise"
            found.append((Finding(first.level, first.cause, message), likewise))
    uncounted = list(dict.fromkeys(keyed.name for same in list(by_key.values())[MOST_FINDINGS:] for keyed in same))
    if uncounted:
        more = f"{pluralize(len(uncounted), f'more {noun}')} ({join_names(uncounted, 2)})"
        found.append((Finding(Level.WAITS, "more", f"{more}: waiting for reasons of this kind, too"), uncounted))
    return found
