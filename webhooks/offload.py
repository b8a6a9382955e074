"""Pure work on a costly review is done in a thread, so that the event loop goes on answering others.

`body.py` decides what is costly; handlers hand their work to `compute` and need not know. It must not be given work
that touches the event loop.
"""

import asyncio
import contextlib
import gc
import inspect
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

from webhooks.work import STEPS, TooMuchWorkError, Work

P = ParamSpec("P")
T = TypeVar("T")

MOST_PASSED = 16
"""Cheaper ones that may pass the one that has waited longest."""


@dataclass(slots=True, eq=False)
class Turn:
    """A turn that was asked for. `called` becomes True when it has come, False if it never will."""

    cost: int
    called: asyncio.Future[bool]
    passed: int = 0


class Turns:
    """Calls `count` at a time, the cheapest first. The one that has waited longest is passed a few times only."""

    def __init__(self, count: int = 1) -> None:
        self._count = self._free = count
        self._waiting: list[Turn] = []

    @property
    def is_idle(self) -> bool:
        """Whether no review has a turn or waits for one."""
        return self._free == self._count and not self._waiting

    def ask(self, cost: int) -> Turn:
        """A turn for later, or for now; `leave` ends it."""
        turn = Turn(cost, asyncio.get_running_loop().create_future())
        self._waiting.append(turn)
        self._call_next()
        return turn

    def leave(self, turn: Turn) -> None:
        """Give a turn back, or up. A second time does nothing."""
        if turn in self._waiting:
            self._waiting.remove(turn)
        elif turn.called.done() and not turn.called.cancelled() and turn.called.result():
            turn.called = asyncio.get_running_loop().create_future()
            self._free += 1
            self._call_next()
        if not turn.called.done():
            turn.called.set_result(False)

    def _call_next(self) -> None:
        while self._free and self._waiting:
            longest = self._waiting[0]
            turn = longest if longest.passed == MOST_PASSED else min(self._waiting, key=lambda each: each.cost)
            longest.passed += turn is not longest
            self._waiting.remove(turn)
            if not turn.called.done():
                self._free -= 1
                turn.called.set_result(True)


@dataclass(slots=True, eq=False)
class Costly:
    """A review whose work is done in a thread, in turns with others."""

    turns: Turns
    cost: int
    work: Work = field(default_factory=lambda: Work(STEPS))
    running: asyncio.Task[Any] | None = None
    """The work that a thread does now. It cannot be cancelled: it ends by itself with its next step after
    `work.stop`."""

    async def compute(self, call: Callable[[], T]) -> T:
        """What `call` returns or raises. The turn ends with the thread, not with who waits for it."""
        turn = self.turns.ask(self.cost)
        try:
            await turn.called
        except asyncio.CancelledError:
            self.turns.leave(turn)
            raise
        self.running = asyncio.create_task(self._in_thread(call, turn))
        try:
            return await asyncio.shield(self.running)
        except asyncio.CancelledError:
            self.work.stop()
            self.running.add_done_callback(_discard)
            raise

    async def _in_thread(self, call: Callable[[], T], turn: Turn) -> T:
        try:
            with _no_collections():
                return await asyncio.to_thread(call)
        except TooMuchWorkError:
            if self.work.stopped:
                raise asyncio.CancelledError from None  # nobody waits for it, and nothing is to be logged
            raise
        finally:
            self.turns.leave(turn)

    def when_idle(self, then: Callable[[], None]) -> None:
        """Call `then` as soon as no thread works on the review any more."""
        if self.running is None or self.running.done():
            then()
        else:
            self.running.add_done_callback(lambda _: then())


def _discard(done: asyncio.Task[Any]) -> None:
    """Drop the result of a thread that nobody waits for: Python would report a coroutine that is never awaited."""
    if not done.cancelled() and done.exception() is None and inspect.iscoroutine(made := done.result()):
        made.close()


costly: ContextVar[Costly | None] = ContextVar("costly", default=None)
"""How work on the review of this task is done in a thread; None if it is cheap."""


def work() -> Work:
    """The work that the review of this task may still spend."""
    present = costly.get()
    return Work(STEPS) if present is None else present.work


async def compute(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What `function` returns or raises: at once for a cheap review; in a thread, in its turn, for a costly one."""
    present = costly.get()
    if present is None:
        return function(*args, **kwargs)

    return await present.compute(lambda: function(*args, **kwargs))


_threads = 0
"""How many threads work, so that the last one turns collections on again."""


@contextlib.contextmanager
def _no_collections() -> Iterator[None]:
    """A collection would stop every thread to look at a million objects, among which there is no garbage.

    Only the event loop calls this.
    """
    global _threads  # noqa: PLW0603 -- collections are the process's, too
    _threads += 1
    gc.disable()
    try:
        yield
    finally:
        _threads -= 1
        if not _threads:
            gc.enable()
