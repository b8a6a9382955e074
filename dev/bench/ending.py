"""Makes a benchmark that gets SIGTERM end its processes, as with Ctrl-C."""

import contextlib
import signal
import sys
from collections.abc import Iterator
from types import FrameType

EXIT_CODE = 128 + signal.SIGTERM
"""The code that shells report for a process that SIGTERM has ended."""


@contextlib.contextmanager
def unwound_by_sigterm() -> Iterator[None]:
    """Make SIGTERM raise `SystemExit` in the decorated `main`, which must run in the main thread.

    So every `with` and `finally` ends its processes. This takes some seconds, in which another SIGTERM is ignored.
    """
    handler_before = signal.signal(signal.SIGTERM, _unwind)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler_before)


def _unwind(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, _ignore_sigterm)
    sys.exit(EXIT_CODE)


def _ignore_sigterm(_number: int, _frame: FrameType | None) -> None:
    """Do nothing. SIG_IGN is not used instead, since a process that is started now would inherit it."""
