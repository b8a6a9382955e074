"""Coroutines that run beside a block of a test."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any


@contextlib.asynccontextmanager
async def beside(*runs: Coroutine[Any, Any, Any]) -> AsyncIterator[None]:
    """Run them for the length of the block, at whose end they are cancelled. None may end by itself."""
    tasks = [asyncio.create_task(run) for run in runs]
    try:
        yield
        ended = [task for task in tasks if task.done()]
        assert not ended, ended
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
