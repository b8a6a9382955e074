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
        text, style = printable(line.text), _COLORS.get(line.level) if line.level and color else None
        commands = () if line.level else commands_in(text)
        is_command = commands == (text,)
        wrapped = [f"{line.prefix}{text}"] if is_command else wrap(text, width, line.prefix, line.next_prefix)
        for position, line_text in enumerate(wrapped):
            prefix_length = len(line.next_prefix if position else line.prefix)
            yield f"{line_text[:prefix_length]}{style}{line_text[prefix_length:]}{_RESET}" if style else line_text
        for command in commands if not is_command else ():
            yield " " * len(line.next_prefix) + (f"{_BOLD}{command}{_RESET}" if color else command)
