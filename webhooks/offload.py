"""Runs pure work on a costly review in a thread, so that the event loop can answer other reviews.

`body.py` decides which reviews are costly. Handlers pass their work, which must not use the event loop, to `compute`.
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

MAX_PASSED = 16
"""The most cheaper reviews that may overtake the longest waiting review."""


@dataclass(slots=True, eq=False)
class Turn:
    """A requested turn. `called` becomes True when the turn begins, and False if it never begins."""

    cost: int
    called: asyncio.Future[bool]
    overtaken: int = 0


class Turns:
    """Grants `count` turns at a time, the cheapest first. The longest waiting turn is overtaken only a few times."""

    def __init__(self, count: int = 1) -> None:
        self._count = self._free = count
        self._waiting: list[Turn] = []

    @property
    def is_idle(self) -> bool:
        """Whether no review has a turn or waits for one."""
        return self._free == self._count and not self._waiting

    def ask(self, cost: int) -> Turn:
        """Request a turn, which may begin at once; `leave` ends it."""
        turn = Turn(cost, asyncio.get_running_loop().create_future())
        self._waiting.append(turn)
        self._call_next()
        return turn

    def leave(self, turn: Turn) -> None:
        """End a turn, or cancel a turn that has not begun. A second call does nothing."""
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
            turn = longest if longest.overtaken == MAX_PASSED else min(self._waiting, key=lambda each: each.cost)
            longest.overtaken += turn is not longest
            self._waiting.remove(turn)
            if not turn.called.done():
                self._free -= 1
                turn.called.set_result(True)


@dataclass(slots=True, eq=False)
class Costly:
    """A review whose work runs in a thread, in turns with other reviews."""

    turns: Turns
    cost: int
    work: Work = field(default_factory=lambda: Work(STEPS))
    running: asyncio.Task[Any] | None = None
    """The work that runs in a thread now. It cannot be cancelled; after `work.stop` it ends with its next step."""

    async def compute(self, call: Callable[[], T]) -> T:
        """Run `call` in a thread, and return or raise as it does. The turn ends with the thread, not the caller."""
        turn = self.turns.ask(self.cost)
        try:
            await turn.called
        except asyncio.CancelledError:
            self.turns.leave(turn)
            raise
        self.running = asyncio.create_task(self._run_in_thread(call, turn))
        try:
            return await asyncio.shield(self.running)
        except asyncio.CancelledError:
            self.work.stop()
            self.running.add_done_callback(_discard)
            raise

    async def _run_in_thread(self, call: Callable[[], T], turn: Turn) -> T:
        try:
            with _no_collections():
                return await asyncio.to_thread(call)
        except TooMuchWorkError:
            if self.work.stopped:
                raise asyncio.CancelledError from None  # no caller waits, and the end needs no log line
            raise
        finally:
            self.turns.leave(turn)

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call `callback` as soon as no thread works on the review any more."""
        if self.running is None or self.running.done():
            callback()
        else:
            self.running.add_done_callback(lambda _: callback())


def _discard(task: asyncio.Task[Any]) -> None:
    """Drop the result of a thread without a waiting caller: Python would report a coroutine that is never awaited."""
    if not task.cancelled() and task.exception() is None and inspect.iscoroutine(coroutine := task.result()):
        coroutine.close()


costly: ContextVar[Costly | None] = ContextVar("costly", default=None)
"""The costly review of this task; None if the review is cheap."""


def work() -> Work:
    """The work that the review of this task may still spend."""
    review = costly.get()
    return Work(STEPS) if review is None else review.work


async def compute(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `function`: at once for a cheap review; for a costly review in a thread, when its turn comes."""
    review = costly.get()
    if review is None:
        return function(*args, **kwargs)

    return await review.compute(lambda: function(*args, **kwargs))


_threads = 0
"""Number of running threads; the last thread enables garbage collection again."""


@contextlib.contextmanager
def _no_collections() -> Iterator[None]:
    """Disable garbage collection, which would stop all threads to check a million objects without garbage.

    The block has to be in the event loop.
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
