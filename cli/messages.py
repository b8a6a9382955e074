"""Functions for the messages of commands, which are free of control characters for terminals."""

import os
from collections.abc import Iterable
from typing import TextIO


def has_color(stream: TextIO) -> bool:
    """Whether a stream is a terminal with colors, and the user has not turned colors off."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def printable(text: str) -> str:
    """The text, in which characters that could move the cursor or change colors of a terminal are replaced."""
    return "".join(char if char.isprintable() or char == "\t" else "\N{REPLACEMENT CHARACTER}" for char in text)


def write_messages(command: str, texts: Iterable[str], err: TextIO) -> None:
    """Write each text in a line that begins with the name of the command."""
    err.writelines(f"jobset {command}: {printable(text)}\n" for text in texts)
