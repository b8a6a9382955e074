"""Writes findings in the form of compilers: position, message, the line of the file, a mark below the position."""

import unicodedata
from collections.abc import Container, Iterator, Sequence
from typing import TextIO

from authoring.findings import NOTE_RULES, Finding, Report
from cli.messages import printable, write_messages
from webhooks.jobset.ignored_rules import can_be_ignored

_LINE_WIDTH = 160
"""At most this many characters of a line are written, around the position."""
_COLORS = {"error": "\x1b[1;31m", "warning": "\x1b[1;33m", "note": "\x1b[1;36m"}
_BOLD, _RESET, _GREEN = "\x1b[1m", "\x1b[0m", "\x1b[1;32m"


def write_text(findings: Sequence[Finding], out: TextIO, *, color: bool, with_names: Container[str] = ()) -> None:
    """Write the findings. `with_names`: files whose findings name their JobSet, as they have several JobSets."""
    for finding in findings:
        location = f"{printable(finding.file)}:{finding.line}:{finding.column}:"
        severity = f"{finding.severity}:"
        if color:
            location, severity = f"{_BOLD}{location}{_RESET}", f"{_COLORS[finding.severity]}{severity}{_RESET}"
        subject = f"{finding.kind} {finding.jobset}: " if finding.file in with_names and finding.jobset else ""
        rule = f" [{finding.rule}]" if can_be_ignored(finding.error) and finding.rule not in NOTE_RULES else ""
        out.write(f"{location} {severity} {printable(subject + finding.reader_text)}{rule}\n")
        out.writelines(f"{line}\n" for line in _excerpt(finding, color=color))


def write_faults(command: str, report: Report, err: TextIO, *, color: bool = False) -> int:
    """Write faults and problems. Returns the exit code: 2 if there are problems, 1 if there are only faults, else 0."""
    write_text(report.findings, err, color=color, with_names=report.files_with_several)
    write_messages(command, report.problems, err)
    return 2 if report.problems else 1 if report.errors else 0


def _excerpt(finding: Finding, *, color: bool) -> Iterator[str]:
    """The line of a finding and the mark below the position. Of a long line, the part around the position."""
    position = finding.column - 1
    start = 0 if len(finding.line_text) <= _LINE_WIDTH else max(0, position - _LINE_WIDTH // 2)
    excerpt = finding.line_text[start : start + _LINE_WIDTH]
    if not excerpt.strip():
        return
    before = printable(excerpt[: position - start])
    marked = printable(excerpt[position - start : finding.end_column - 1 - start])
    lead = "".join("\t" if char == "\t" else " " * _width(char) for char in before)
    mark = "^" + "~" * (sum(map(_width, marked)) - 1)
    yield f"  {printable(excerpt)}"
    yield f"  {lead}{_GREEN}{mark}{_RESET}" if color else f"  {lead}{mark}"


def _width(char: str) -> int:
    """The number of columns of a character on a terminal."""
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1
