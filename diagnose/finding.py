"""A finding: one statement that explains a JobSet, the findings that are its causes, and a fix. Pure."""

import enum
from collections.abc import Iterator
from dataclasses import dataclass

WAIT_FOR_PODS = "wait; a pod on a node that is gone for good needs kubectl delete pod NAME --force"
"""The fix if pods have to end first."""


class Level(enum.Enum):
    """The severity of a finding."""

    FINE = "fine"
    NOTE = "note"
    """Information; nothing waits because of it."""
    WAITS = "waits"
    """The JobSet waits for something that is expected to happen."""
    FAULT = "fault"
    """The JobSet does not continue until a user corrects the fault."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One statement about a JobSet, which the findings in `because` explain.

    `cause` names the kind of the finding for programs. `since` is RFC 3339 or empty. `fix` says what to do, without a
    full stop; it may be empty.
    """

    level: Level
    cause: str
    message: str
    because: tuple["Finding", ...] = ()
    fix: str = ""
    since: str = ""

    def walk(self) -> Iterator["Finding"]:
        """The finding and all findings below it."""
        yield self
        for finding in self.because:
            yield from finding.walk()

    @property
    def worst_level(self) -> Level:
        """The worst level of the finding and of all findings below it."""
        return max((finding.level for finding in self.walk()), key=list(Level).index)


def pluralize(number: int, noun: str, singular_verb: str = "", plural_verb: str = "") -> str:
    """The number with its noun, as in `1 Job`, `3 Jobs`; with a verb in both numbers `1 Job is`, `3 Jobs are`."""
    noun, verb = (noun, singular_verb) if number == 1 else (f"{noun}s", plural_verb)
    return f"{number} {noun} {verb}".rstrip()
