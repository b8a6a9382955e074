"""Messages of commands, without control characters that could move the cursor of a terminal."""

import os
from collections.abc import Iterable
from typing import TextIO


def colorful(stream: TextIO) -> bool:
    """Whether a stream is a terminal that shows colours, and the user wants them."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def printable(text: str) -> str:
    """The text with each character replaced that could move the cursor or change the colours of a terminal."""
    return "".join(char if char.isprintable() or char == "\t" else "\N{REPLACEMENT CHARACTER}" for char in text)


def write_messages(command: str, texts: Iterable[str], err: TextIO) -> None:
    """Write each text in a line that begins with the command."""
    err.writelines(f"jobset {command}: {printable(text)}\n" for text in texts)
