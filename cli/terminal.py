"""The standard streams of commands.

`main` replaces standard output and standard error by `EscapingStream`, so that no command writes control characters. An
escaped text has the same meaning in JSON, and in YAML as `cli.output` writes it.
"""

import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, Final, TextIO

from app.control_characters import CONTROL, CONTROLS, escape

_CONTROL_OR_OUR_COLOR: Final = re.compile(rf"\x1b\[(?:[01]|(?:1;)?3[1-6])m|[{CONTROLS}]")
"""Control characters, which `escape` replaces, and the codes for bold and six colors, which it keeps."""
_CONTROL_OR_STYLE: Final = re.compile(rf"\x1b\[[0-9;:]*m|[{CONTROLS}]")
"""Control characters, which `escape` replaces, and all codes for colors and styles, which it keeps."""
_RESET: Final = "\x1b[0m"


class EscapingStream:
    """A text stream that escapes control characters and writes to `inner`. At a terminal, our own colors stay."""

    def __init__(self, inner: TextIO) -> None:
        self.inner = inner
        self._pattern = _CONTROL_OR_OUR_COLOR if inner.isatty() else CONTROL

    def write(self, text: str) -> int:
        """Write the escaped text. Returns the length of `text`, as each text stream does."""
        self.inner.write(escape(text, self._pattern))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write the escaped lines."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@contextmanager
def escaped_streams() -> Iterator[None]:
    """Escape everything that is written to standard output and error, including a traceback that ends the process."""
    sys.excepthook = _write_traceback
    with redirect_stdout(EscapingStream(sys.stdout)), redirect_stderr(EscapingStream(sys.stderr)):
        yield


def raw_stream(stream: TextIO) -> TextIO:
    """The stream without escaping, for output that is escaped already."""
    return stream.inner if isinstance(stream, EscapingStream) else stream


def program_line_writer(out: TextIO) -> Callable[[str, str], object]:
    """A function that writes a prefix and a line of a program's output.

    Unless `out` is a terminal, the line is written as it is. At a terminal, the line keeps its colours, which are reset
    at its end. Only the part after its last carriage return is shown.
    """
    stream = raw_stream(out)
    if not stream.isatty():
        return lambda prefix, line: stream.write(f"{prefix} {line}\n")
    return lambda prefix, line: stream.write(f"{escape(prefix)} {_coloured_line(line)}\n")


def _coloured_line(line: str) -> str:
    shown_part = escape(line.rstrip("\r").rpartition("\r")[2], _CONTROL_OR_STYLE)
    return shown_part + _RESET if "\x1b" in shown_part else shown_part


def _write_traceback(*error: Any) -> None:
    sys.stderr.write(escape("".join(traceback.format_exception(*error))))
