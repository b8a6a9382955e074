"""Runs the parts of a manager in the background of its stages, and stops them in order.

A part is a coroutine, such as a server or the watches. If a part fails, the process ends, since a restart by the
kubelet is better than a manager that lacks a part.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

log = logging.getLogger(__name__)

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Time limits of the phases of a stop, in seconds. The phases follow one another.

    Together with the release of the lease (`kube.leader.RELEASE_TIMEOUT`, 3 s) the phases take 9 s. The kubelet kills
    the pod 20 s after its deletion, and the preStop hook takes the first 5 s of this time.
    """

    shutdown_delay: float = 2.0
    """Time in which readiness fails but servers still accept requests, because clients do not know of the stop yet."""

    drain: float = 3.0
    """Time for running admission requests to end. Running reconciles have `shutdown_delay` and `drain` together."""

    flush: float = 1.0
    """Time for writing the events that are still queued."""


DEFAULT = Timeouts()


class Supervisor:
    """Runs the parts that stages start, and stops each part in the way that its stage chose."""

    def __init__(self, group: asyncio.TaskGroup, resources: contextlib.ExitStack) -> None:
        self._group = group
        self._resources = resources
        self._parts: list[asyncio.Task[None]] = []
        self._stops: list[Callable[[], None]] = []
        self._delayed_stops: list[Callable[[], None]] = []
        self._stoppable_parts: list[asyncio.Task[None]] = []
        self._flushes: list[Callable[[float], Awaitable[None]]] = []
        self._stages_drain = False
        self._stopping = False

    def start(
        self,
        part: Coroutine[Any, Any, None],
        name: str,
        *,
        stop: Callable[[], None] | None = None,
        delayed: bool = False,
    ) -> None:
        """Run a part for as long as the manager runs.

        `stop()` makes the part end by itself. Without `stop`, the part is cancelled. With `delayed`, `stop` is called
        `shutdown_delay` after the stops of other parts.
        """
        task = self._group.create_task(part, name=name)
        self._parts.append(task)
        if stop is not None:
            self._stoppable_parts.append(task)
            self._register(stop, self._delayed_stops if delayed else self._stops)

    def on_stop(self, call: Callable[[], None], *, ends_stages: bool = False) -> None:
        """Register a call for the stop. `ends_stages`: the call makes the stages end, so they are not cancelled."""
        self._stages_drain = self._stages_drain or ends_stages
        self._register(call, self._stops)

    def _register(self, stop: Callable[[], None], stops: list[Callable[[], None]]) -> None:
        """Store the call for the stop; if the stop has begun, call it now."""
        if self._stopping:
            stop()
        else:
            stops.append(stop)

    def on_drained(self, flush: Callable[[float], Awaitable[None]]) -> None:
        """Register `flush` for the stop, when no part that could still add data runs.

        `flush` gets the seconds that it may take.
        """
        self._flushes.append(flush)

    def keep(self, resource: AbstractContextManager[R]) -> R:
        """Hold a resource until every part has ended."""
        return self._resources.enter_context(resource)

    async def stop(self, stages: asyncio.Task[None], timeouts: Timeouts) -> None:
        """Accept no new work, wait for running work, write events, then cancel all other parts.

        The stages hold the lease, and release it when they end.
        """
        log.info("stopping")
        self._stopping = True
        for call in self._stops:
            call()
        if not self._stages_drain:
            stages.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeouts.shutdown_delay + timeouts.drain):
                if self._delayed_stops:
                    await asyncio.sleep(timeouts.shutdown_delay)
                for call in self._delayed_stops:
                    call()
                # Stages that drain may start a part until they end.
                while running := [task for task in (stages, *self._stoppable_parts) if not task.done()]:
                    await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        stages.cancel()
        for flush in self._flushes:
            await flush(timeouts.flush)
        for part in self._parts:
            part.cancel()


async def supervise(
    stages: Callable[[Supervisor], Coroutine[Any, Any, None]], stop: asyncio.Event, *, timeouts: Timeouts = DEFAULT
) -> None:
    """Run the stages, and the parts that they start, until `stop` is set. Raises a group of the errors of parts."""
    with contextlib.ExitStack() as resources:
        async with asyncio.TaskGroup() as group:
            supervisor = Supervisor(group, resources)
            stages_task = group.create_task(stages(supervisor), name="stages")
            stop_task = group.create_task(_wait(stop), name="stop")
            await asyncio.wait({stages_task, stop_task}, return_when=asyncio.FIRST_COMPLETED)
            stop_task.cancel()
            await supervisor.stop(stages_task, timeouts)


async def _wait(stop: asyncio.Event) -> None:
    await stop.wait()
