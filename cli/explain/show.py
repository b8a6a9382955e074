"""Writes an explanation as text and as JSON. Pure.

The JSON form is an interface: members may be added, and are never renamed.
"""

import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from diagnose.finding import Finding, Level
from diagnose.reasons import Explanation
from diagnose.times import age, clock, seconds_since

_QUOTED = re.compile('"[^"]*"')
"""A text in quotes. In messages about Jobs, the first one in a line is the name of an object."""


class Line(NamedTuple):
    """A statement or a fix, which may be wrapped to several lines.

    - `prefix` is written before its first line, `next_prefix` before each further line.
    - `level`: None for a fix or a note.
    """

    prefix: str
    next_prefix: str
    text: str
    level: Level | None = None


def text_lines(explanation: Explanation, now: datetime) -> Iterator[str]:
    """The lines of an explanation without line ends and without wrapping."""
    for line in lines(explanation, now):
        yield f"{line.prefix}{line.text}"


def lines(explanation: Explanation, now: datetime) -> Iterator[Line]:
    """The lines of an explanation, from top to bottom."""
    root = explanation.root
    yield Line("", "  ", f"{root.message}{_since_text(root.since, now)}", root.level)
    yield from _lines_below(root, "", root.since, now)
    if explanation.new_jobset:
        yield Line("a new JobSet: ", "  ", explanation.new_jobset)
    for note in explanation.unread_notes:
        yield Line("not looked at: ", "  ", note)


def _lines_below(finding: Finding, indent: str, time_above: str, now: datetime) -> Iterator[Line]:
    """The lines below a finding. `time_above`: the time of the line above. An equal time is left out."""
    for position, cause in enumerate(finding.because):
        is_last = position == len(finding.because) - 1
        since = "" if cause.since == time_above else _since_text(cause.since, now)
        child_indent = indent + ("  " if is_last else "│ ")
        wrap_prefix = child_indent + ("│ " if cause.because else "  ")
        yield Line(f"{indent}{'└' if is_last else '├'} ", wrap_prefix, f"{one_line(cause.message)}{since}", cause.level)
        yield from _lines_below(cause, child_indent, cause.since or time_above, now)
        if cause.fix:
            yield Line(f"{child_indent}to fix: ", f"{child_indent}  ", cause.fix)


def one_line(text: str) -> str:
    """A text of several lines, such as a message about Jobs, in one line.

    Of lines that differ only in the name of an object, only the first is kept, with the number of the other lines.
    """
    distinct_lines = dict.fromkeys(" ".join(line.split()) for line in text.splitlines() if line.strip())
    lines_by_pattern: dict[str, list[str]] = {}
    for line in distinct_lines:
        lines_by_pattern.setdefault(_QUOTED.sub("", line, count=1), []).append(line)
    return "; ".join(
        first + (f" (and {len(more)} more alike)" if more else "") for first, *more in lines_by_pattern.values()
    )


def age_of(time: str, now: datetime) -> str:
    """The age of a time, such as `12 min`; empty for an empty text."""
    seconds = seconds_since(time, now)
    return "" if math.isinf(seconds) else age(seconds)


def _since_text(time: str, now: datetime) -> str:
    """A time in brackets, as in ` (since 14:05:03Z, 12 min)`, with the date if it is not today; or empty."""
    duration = age_of(time, now)
    return f" (since {clock(time, now)}, {duration})" if duration else ""


def json_form(explanation: Explanation, now: datetime) -> dict[str, Any]:
    """The explanation as JSON."""
    return {
        "namespace": explanation.namespace,
        "name": explanation.name,
        "state": explanation.state.phrase,
        "time": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        **_finding_json(explanation.root),
        "newJobSet": explanation.new_jobset,
        "notLookedAt": list(explanation.unread_notes),
    }


def _finding_json(finding: Finding) -> dict[str, Any]:
    return {
        "level": finding.level.value,
        "cause": finding.cause,
        "what": finding.message,
        "since": finding.since,
        "wayOut": finding.fix,  # deprecated
        "remedy": finding.fix,
        "because": [_finding_json(cause) for cause in finding.because],
    }
