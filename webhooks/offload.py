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

from webhooks.work import MAX_STEPS, TooMuchWorkError, Work

P = ParamSpec("P")
T = TypeVar("T")

MAX_OVERTAKING = 16
"""The most times that cheaper reviews may overtake the longest waiting review."""


@dataclass(slots=True, eq=False)
class Turn:
    """A requested turn. `begun` becomes True when the turn begins, and False if it never begins."""

    cost: int
    begun: asyncio.Future[bool]
    overtaken_count: int = 0


class Turns:
    """Grants `max_turns` turns at a time, cheap turns first. The longest waiting turn is overtaken only a few times."""

    def __init__(self, max_turns: int = 1) -> None:
        self._max_turns = self._free_turns = max_turns
        self._waiting: list[Turn] = []

    @property
    def is_idle(self) -> bool:
        """Whether no review has a turn or waits for one."""
        return self._free_turns == self._max_turns and not self._waiting

    def request_turn(self, cost: int) -> Turn:
        """Request a turn, which may begin at once; `end_turn` ends it."""
        turn = Turn(cost, asyncio.get_running_loop().create_future())
        self._waiting.append(turn)
        self._begin_next_turn()
        return turn

    def end_turn(self, turn: Turn) -> None:
        """End a turn, or cancel a turn that has not begun. A second call does nothing."""
        if turn in self._waiting:
            self._waiting.remove(turn)
        elif turn.begun.done() and not turn.begun.cancelled() and turn.begun.result():
            turn.begun = asyncio.get_running_loop().create_future()
            self._free_turns += 1
            self._begin_next_turn()
        if not turn.begun.done():
            turn.begun.set_result(False)

    def _begin_next_turn(self) -> None:
        while self._free_turns and self._waiting:
            longest_waiting = self._waiting[0]
            turn = (
                longest_waiting
                if longest_waiting.overtaken_count == MAX_OVERTAKING
                else min(self._waiting, key=lambda each: each.cost)
            )
            longest_waiting.overtaken_count += turn is not longest_waiting
            self._waiting.remove(turn)
            if not turn.begun.done():
                self._free_turns -= 1
                turn.begun.set_result(True)


@dataclass(slots=True, eq=False)
class CostlyReview:
    """A review whose work runs in a thread, in turns with other reviews."""

    turns: Turns
    cost: int
    work: Work = field(default_factory=lambda: Work(MAX_STEPS))
    running_task: asyncio.Task[Any] | None = None
    """The work that runs in a thread now. It cannot be cancelled; after `work.stop` it ends with its next step."""

    async def compute(self, call: Callable[[], T]) -> T:
        """Run `call` in a thread, and return or raise as it does. The turn ends with the thread, not the caller."""
        turn = self.turns.request_turn(self.cost)
        try:
            await turn.begun
        except asyncio.CancelledError:
            self.turns.end_turn(turn)
            raise
        self.running_task = asyncio.create_task(self._run_in_thread(call, turn))
        try:
            return await asyncio.shield(self.running_task)
        except asyncio.CancelledError:
            self.work.stop()
            self.running_task.add_done_callback(_discard)
            raise

    async def _run_in_thread(self, call: Callable[[], T], turn: Turn) -> T:
        try:
            with _garbage_collection_disabled():
                return await asyncio.to_thread(call)
        except TooMuchWorkError:
            if self.work.is_stopped:
                raise asyncio.CancelledError from None  # no caller waits, and the end needs no log line
            raise
        finally:
            self.turns.end_turn(turn)

    def call_when_idle(self, callback: Callable[[], None]) -> None:
        """Call `callback` as soon as no thread works on the review any more."""
        if self.running_task is None or self.running_task.done():
            callback()
        else:
            self.running_task.add_done_callback(lambda _: callback())


def _discard(task: asyncio.Task[Any]) -> None:
    """Drop the result of a thread without a waiting caller: Python would report a coroutine that is never awaited."""
    if not task.cancelled() and task.exception() is None and inspect.iscoroutine(coroutine := task.result()):
        coroutine.close()


costly_review: ContextVar[CostlyReview | None] = ContextVar("costly", default=None)
"""The costly review of this task; None if the review is cheap."""


def work() -> Work:
    """The work that the review of this task may still spend."""
    review = costly_review.get()
    return Work(MAX_STEPS) if review is None else review.work


async def compute(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `function`: at once for a cheap review; for a costly review in a thread, when its turn comes."""
    review = costly_review.get()
    if review is None:
        return function(*args, **kwargs)

    return await review.compute(lambda: function(*args, **kwargs))


_thread_count = 0
"""The number of running threads. The last thread enables garbage collection again."""


@contextlib.contextmanager
def _garbage_collection_disabled() -> Iterator[None]:
    """Disable garbage collection in the block, which must run in the event loop.

    A collection would stop all threads to check a million objects without garbage.
    """
    global _thread_count  # noqa: PLW0603 -- collections are the process's, too
    _thread_count += 1
    gc.disable()
    try:
        yield
    finally:
        _thread_count -= 1
        if not _thread_count:
            gc.enable()
