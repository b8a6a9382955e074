"""Pure work on a large review is done in a thread, so that the event loop goes on answering small ones.

The router decides what is large; handlers hand their work to `compute` and need not know. It must not be given work
that touches the event loop.
"""

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

is_large: ContextVar[bool] = ContextVar("is_large", default=False)
"""Whether the review of this task is a large one."""


async def compute(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What `function` returns or raises: at once for a small review, in a thread for a large one."""
    if is_large.get():
        return await asyncio.to_thread(function, *args, **kwargs)
    return function(*args, **kwargs)
