"""Writes an explanation for a terminal."""

from collections.abc import Iterator
from datetime import datetime

from cli.explain.commands import commands_in
from cli.explain.show import lines
from cli.messages import printable
from cli.output import wrap
from diagnose.finding import Level
from diagnose.reasons import Explanation

_COLORS = {Level.FAULT: "\x1b[31m", Level.WAITS: "\x1b[33m", Level.NOTE: "\x1b[36m", Level.FINE: "\x1b[32m"}
_BOLD, _RESET = "\x1b[1m", "\x1b[0m"


def terminal_text(explanation: Explanation, now: datetime, width: int, *, color: bool) -> Iterator[str]:
    """The lines of an explanation, wrapped and colored by level. The commands of a fix follow on lines of their own."""
    for line in lines(explanation, now):
        words, style = printable(line.words), _COLORS.get(line.level) if line.level and color else None
        commands = () if line.level else commands_in(words)
        is_command = commands == (words,)
        wrapped = [f"{line.lead}{words}"] if is_command else wrap(words, width, line.lead, line.below)
        for position, part in enumerate(wrapped):
            begin = len(line.below if position else line.lead)
            yield f"{part[:begin]}{style}{part[begin:]}{_RESET}" if style else part
        for command in commands if not is_command else ():
            yield f"{' ' * len(line.below)}{_BOLD}{command}{_RESET}" if color else f"{' ' * len(line.below)}{command}"
