"""How an explanation is written for people and for programs. Pure.

The JSON form is an interface: members are added, never renamed.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from diagnose.finding import Finding, Level
from diagnose.reasons import Explanation
from diagnose.times import age, clock, seconds_since

_QUOTED = re.compile('"[^"]*"')
"""The first match in a line is the name of the object."""


class Line(NamedTuple):
    """A statement or a fix.

    `lead` is written before its first line, `below` before the others; `level` None: a fix or a note.
    """

    lead: str
    below: str
    words: str
    level: Level | None = None


def text(explanation: Explanation, now: datetime) -> Iterator[str]:
    """Lines without their ends, as long as they are."""
    for line in lines(explanation, now):
        yield f"{line.lead}{line.words}"


def lines(explanation: Explanation, now: datetime) -> Iterator[Line]:
    """The lines of an explanation, from top to bottom."""
    root = explanation.root
    yield Line("", "  ", f"{root.message}{_since(root.since, now)}", root.level)
    yield from _below(root, "", root.since, now)
    if explanation.new_jobset:
        yield Line("a new JobSet: ", "  ", explanation.new_jobset)
    for note in explanation.unseen:
        yield Line("not looked at: ", "  ", note)


def _below(finding: Finding, indent: str, shown: str, now: datetime) -> Iterator[Line]:
    """The lines below a finding; a time that is printed above is not repeated."""
    for number, under in enumerate(finding.because):
        last = number == len(finding.because) - 1
        since = "" if under.since == shown else _since(under.since, now)
        deeper = indent + ("  " if last else "│ ")
        hang = deeper + ("│ " if under.because else "  ")
        yield Line(f"{indent}{'└' if last else '├'} ", hang, f"{one_line(under.message)}{since}", under.level)
        yield from _below(under, deeper, under.since or shown, now)
        if under.fix:
            yield Line(f"{deeper}to fix: ", f"{deeper}  ", under.fix)


def one_line(words: str) -> str:
    """Text of several lines, such as messages about Jobs, in one: each different line once, with its number."""
    lines = dict.fromkeys(" ".join(line.split()) for line in words.splitlines() if line.strip())
    alike: dict[str, list[str]] = {}
    for line in lines:
        alike.setdefault(_QUOTED.sub("", line, count=1), []).append(line)
    return "; ".join(first + (f" (and {len(more)} more alike)" if more else "") for first, *more in alike.values())


def age_of(moment: str, now: datetime) -> str:
    """`12 min`; empty without a time."""
    seconds = seconds_since(moment, now)
    return "" if seconds is None else age(seconds)


def _since(moment: str, now: datetime) -> str:
    """` (since 14:05:03Z, 12 min)`, with the date if it was another day."""
    seconds = seconds_since(moment, now)
    if seconds is None:
        return ""
    return f" (since {clock(moment, now)}, {age(seconds)})"


def json_form(explanation: Explanation, now: datetime) -> dict[str, Any]:
    """For programs."""
    return {
        "namespace": explanation.namespace,
        "name": explanation.name,
        "state": explanation.state.phrase,
        "time": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        **_json(explanation.root),
        "newJobSet": explanation.new_jobset,
        "notLookedAt": list(explanation.unseen),
    }


def _json(finding: Finding) -> dict[str, Any]:
    return {
        "level": finding.level.value,
        "cause": finding.cause,
        "what": finding.message,
        "since": finding.since,
        "wayOut": finding.fix,  # deprecated
        "remedy": finding.fix,
        "because": [_json(under) for under in finding.because],
    }
