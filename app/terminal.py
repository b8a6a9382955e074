"""Escapes text from outside that could move the cursor of a terminal, hide text, or reverse its direction.

`main` puts `Terminal` in the place of both standard streams, so this holds for every command, whoever wrote the text.
Escaped text has the same meaning in JSON, and in YAML as `cli.output` writes it.
"""

import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, Final, TextIO

CONTROLS: Final = r"\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069"
"""C0 without tab and line feed, DEL, C1, the separators of Unicode, and characters that change the direction of text.
"""
CONTROL: Final = re.compile(f"[{CONTROLS}]")
_CONTROL_OR_OUR_COLOR: Final = re.compile(rf"\x1b\[(?:[01]|(?:1;)?3[1-6])m|[{CONTROLS}]")
"""The codes that our own output has: bold and six colours. None of them hides text."""
_CONTROL_OR_STYLE: Final = re.compile(rf"\x1b\[[0-9;:]*m|[{CONTROLS}]")
_RESET: Final = "\x1b[0m"


def escape(text: str, keep: re.Pattern[str] = CONTROL) -> str:
    r"""The text with each control character as `\u001b`; longer matches of `keep` stay."""
    return keep.sub(lambda found: found[0] if len(found[0]) > 1 else f"\\u{ord(found[0]):04x}", text)


class Terminal:
    """A text stream that escapes what is written to `inner`. At a terminal our own colours stay."""

    def __init__(self, inner: TextIO) -> None:
        self.inner = inner
        self._keep = _CONTROL_OR_OUR_COLOR if inner.isatty() else CONTROL

    def write(self, text: str) -> int:
        """As a text stream."""
        self.inner.write(escape(text, self._keep))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """As a text stream."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@contextmanager
def escaped_streams() -> Iterator[None]:
    """Escape what is written to standard output and error; also a traceback that ends the process."""
    sys.excepthook = _write_traceback
    with redirect_stdout(Terminal(sys.stdout)), redirect_stderr(Terminal(sys.stderr)):
        yield


def raw_stream(stream: TextIO) -> TextIO:
    """The stream below this one, for output that is escaped already."""
    return stream.inner if isinstance(stream, Terminal) else stream


def lines_of_programs(out: TextIO) -> Callable[[str, str], None]:
    """A function that writes a prefix and a line of a program's output.

    Unless `stream` is a terminal, the line is written as it is. At a terminal it keeps its colours, which are reset at
    its end, and of the parts between carriage returns only the last is shown.
    """
    to = raw_stream(out)
    if not to.isatty():
        return lambda prefix, line: _write(to, f"{prefix} {line}\n")
    return lambda prefix, line: _write(to, f"{escape(prefix)} {_coloured_line(line)}\n")


def _coloured_line(line: str) -> str:
    last = escape(line.rstrip("\r").rpartition("\r")[2], _CONTROL_OR_STYLE)
    return last + _RESET if "\x1b" in last else last


def _write(to: TextIO, text: str) -> None:
    to.write(text)


def _write_traceback(*error: Any) -> None:
    sys.stderr.write(escape("".join(traceback.format_exception(*error))))
