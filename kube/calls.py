"""Counts the requests that one piece of work sends, whoever sends them on its behalf.

The counter travels in the context, so that the tasks of a TaskGroup count for the work that started them, and callers
do not have to pass it.
"""

import contextvars
from collections.abc import Iterator
from contextlib import contextmanager


class Calls:
    """Requests that were sent so far, repeated ones included; watches and requests of other work are not counted."""

    __slots__ = ("sent",)

    def __init__(self) -> None:
        self.sent = 0


_running: contextvars.ContextVar[Calls | None] = contextvars.ContextVar("kube_calls", default=None)


@contextmanager
def counting() -> Iterator[Calls]:
    """Count the requests sent inside, by tasks started inside too. Inside another `counting` only the inner counts."""
    calls = Calls()
    token = _running.set(calls)
    try:
        yield calls
    finally:
        _running.reset(token)


def count_request() -> None:
    """Count a request that is about to be sent. Outside `counting` it does nothing."""
    calls = _running.get()
    if calls is not None:
        calls.sent += 1
