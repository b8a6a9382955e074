"""A benchmark that gets SIGTERM ends its processes, as with Ctrl-C."""

import contextlib
import signal
import sys
from collections.abc import Iterator
from types import FrameType

EXIT_CODE = 128 + signal.SIGTERM
"""The code that shells report for a process that SIGTERM has ended."""


@contextlib.contextmanager
def unwound_by_sigterm() -> Iterator[None]:
    """Decorates a `main`, which must run in the main thread: SIGTERM raises `SystemExit` in it.

    So every `with` and `finally` ends its processes. That takes some seconds, in which another SIGTERM is ignored.
    """
    before = signal.signal(signal.SIGTERM, _unwind)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _unwind(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, _already_unwinding)
    sys.exit(EXIT_CODE)


def _already_unwinding(_number: int, _frame: FrameType | None) -> None:
    """A process that is started while others end must not inherit that SIGTERM is ignored, so it is handled."""
