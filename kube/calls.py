"""Counts the requests that one piece of work sends, with those of the tasks that it starts.

A context variable holds the counter: a new task inherits it, and callers do not have to pass it.
"""

import contextvars
from collections.abc import Iterator
from contextlib import contextmanager


class Calls:
    """The number of requests sent so far, retries included, watches excluded."""

    __slots__ = ("sent",)

    def __init__(self) -> None:
        self.sent = 0


_current_calls: contextvars.ContextVar[Calls | None] = contextvars.ContextVar("kube_calls", default=None)


@contextmanager
def counting() -> Iterator[Calls]:
    """Count the requests sent in the block and by tasks started in it. Of nested blocks only the innermost counts."""
    calls = Calls()
    token = _current_calls.set(calls)
    try:
        yield calls
    finally:
        _current_calls.reset(token)


def count_request() -> None:
    """Count a request that is about to be sent. Outside a `counting` block, do nothing."""
    calls = _current_calls.get()
    if calls is not None:
        calls.sent += 1
