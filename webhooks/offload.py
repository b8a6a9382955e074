"""Pure work on a costly review is done in a thread, so that the event loop goes on answering others.

The router decides what is costly; handlers hand their work to `compute` and need not know. It must not be given work
that touches the event loop.
"""

import asyncio
import contextlib
import gc
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

worker: ContextVar[asyncio.Lock | None] = ContextVar("worker", default=None)
"""The lock under which work on the review of this task is done in a thread; None if it is cheap."""


async def compute(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What `function` returns or raises: at once for a cheap review; in a thread, one at a time, for a costly one."""
    lock = worker.get()
    if lock is None:
        return function(*args, **kwargs)

    def call() -> T:
        with _no_collections():
            return function(*args, **kwargs)

    async with lock:
        return await asyncio.to_thread(call)


@contextlib.contextmanager
def _no_collections() -> Iterator[None]:
    """A collection would stop every thread to look at a million objects, among which there is no garbage."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
