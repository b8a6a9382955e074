"""Writes the data that a replica collects, such as counts of decisions: periodically, and when the replica stops."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Protocol

log = logging.getLogger(__name__)


class Writer(Protocol):
    """Collects data that has to be written from time to time."""

    async def write(self) -> None:
        """Write new data. Data that cannot be written is kept for the next call. Expected errors are not raised."""


class PeriodicWriter:
    """Calls `writers` one after another, with pauses of `every` seconds, which are up to a quarter longer by `jitter`.

    `jitter` returns a random number from 0 to 1, so that replicas that start together do not write at the same time.
    """

    def __init__(self, writers: Sequence[Writer], *, every: float, jitter: Callable[[], float]) -> None:
        self._writers = writers
        self._every = every
        self._jitter = jitter
        self._writing = asyncio.Lock()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await asyncio.sleep(self._every * (1 + self._jitter() / 4))
            await self._write()

    async def flush(self, timeout: float) -> None:
        """Write all new data, for at most `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                await self._write()
        except TimeoutError:
            log.warning("what policies have decided was not all written before the stop")

    async def _write(self) -> None:
        async with self._writing:
            for writer in self._writers:
                await writer.write()
