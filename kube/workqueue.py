"""The work queue between watches and workers. It hands out keys of objects that have to be reconciled.

A key waits at most once, with the highest priority and the earliest time that it was added with. Every fourth key that
is taken is the oldest, whatever its priority: a key behind n older keys is among the next 4(n + 1) that are taken,
however many are added. A key that a worker holds is not handed out again until `done`; if it was added meanwhile, it
runs once more. A queue belongs to one event loop and has no locks.
"""

import asyncio
import heapq
from collections import Counter, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)

LOW_PRIORITY = -100
"""For objects of the first list: after a restart of the manager, objects that change come first."""


class Turn(NamedTuple):
    """When to process a key: after that many seconds, at that priority."""

    delay: float
    priority: int


AT_ONCE = Turn(0.0, 0)
"""For changes that need a decision."""

BATCHED = Turn(0.05, 0)
"""For changes that come in bursts, such as ending pods: one reconcile then sees all of them."""

COUNTED = Turn(BATCHED.delay, -10)
"""For changes that are only counted, such as starting Jobs: changes that need a decision come first."""

OLDEST_EVERY = 4
"""Every fourth key that is taken is the oldest; any other key has the highest priority."""

BASE_DELAY = 0.005
"""Seconds before the first retry of a failing key. They double with each failure."""

MAX_DELAY = 1000.0
"""Seconds after which a failing key is tried again at the latest."""

EARLY_SECONDS = 0.001
"""Seconds by which a key may be handed out early. A timer of uvloop may fire early, since its clock counts
milliseconds. Without this allowance the timer would be set again and again until the millisecond is over."""

MAX_SUPERSEDED = 64
"""Superseded delays are dropped, by a visit of all delays, if the delays exceed twice the keys by this number."""


class QueueMetrics:
    """Hooks for the workqueue_* metrics, with durations in seconds; this base class counts nothing.

    A scrape reads the gauges from the queue.
    """

    def on_add(self) -> None: ...
    def on_take(self, waited: float) -> None: ...
    def on_done(self, worked: float) -> None: ...
    def on_retry(self) -> None: ...


@dataclass(slots=True)
class _WaitingKey:
    """A key that is ready since `ready_since`, or delayed until `ready_at`.

    Each change of the entry gives it a new `token`. Heap entries with an earlier token are superseded.
    """

    priority: int
    ready_at: float
    ready_since: float
    token: int
    is_ready: bool = False


class WorkQueue(Generic[K]):
    """A work queue of one event loop. `clock`: monotonic seconds; by default the clock of the loop.

    Remembered: failures of a key in a row, for the pause before its next try, until it succeeds or is dropped. Without
    the right count the next try comes at once, or up to 1,000 s late.
    """

    def __init__(self, *, metrics: QueueMetrics | None = None, clock: Callable[[], float] | None = None) -> None:
        self._metrics = metrics or QueueMetrics()
        self._now = clock or (lambda: asyncio.get_running_loop().time())
        self._waiting: dict[K, _WaitingKey] = {}
        self._ready: dict[int, list[tuple[int, K]]] = {}
        """By priority, a heap of (token, key): tokens have the order of addition. Superseded entries are skipped."""
        self._taken_count = 0
        self._delayed: list[tuple[float, int, K]] = []
        """A heap of (time, token, key)."""
        self._working: dict[K, float] = {}
        """The keys that workers hold, each with the time since when."""
        self._failures: Counter[K] = Counter()
        self._getters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._last_token = 0
        self._closed = False

    def __len__(self) -> int:
        """Keys that wait, delayed ones included."""
        return len(self._waiting)

    def depth(self) -> dict[int, int]:
        """Keys ready to be taken, by priority (workqueue_depth)."""
        return dict(Counter(entry.priority for entry in self._waiting.values() if entry.is_ready))

    def unfinished_seconds(self) -> float:
        """Sum of the seconds for which workers have held their keys so far."""
        now = self._now()
        return sum(now - started for started in self._working.values())

    def longest_running_seconds(self) -> float:
        """The longest time in seconds for which a worker has held its key so far."""
        return max((self._now() - started for started in self._working.values()), default=0.0)

    def add(self, key: K, priority: int = 0) -> None:
        """Add a key to process now."""
        self._add(key, 0.0, priority)

    def add_after(self, key: K, seconds: float, priority: int = 0) -> None:
        """Add a key to process in `seconds`, or earlier if it already waits for an earlier time."""
        self._add(key, max(0.0, seconds), priority)

    def add_rate_limited(self, key: K, *, at_least: float = 0.0) -> None:
        """Add a key whose processing failed, to process after its back-off, but not before `at_least` seconds.

        The delay is `MAX_DELAY` at most.
        """
        delay = BASE_DELAY * 2 ** min(self._failures[key], 30)
        self._failures[key] += 1
        self._metrics.on_retry()
        self._add(key, min(MAX_DELAY, max(delay, at_least)), 0)

    def forget(self, key: K) -> None:
        """Reset the back-off of a key."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """Failures of the key since it was last forgotten."""
        return self._failures.get(key, 0)

    async def get(self) -> K | None:
        """The next key to work on, or None once the queue is shut down. Every key must be given to `done`."""
        while not self._closed:
            if (key := self._take()) is not None:
                return key
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                if getter.done() and not getter.cancelled():
                    self._wake_getter()
                raise
            finally:
                if getter in self._getters:
                    self._getters.remove(getter)
        return None

    def done(self, key: K) -> None:
        """Note that work on a key has ended. If the key was added meanwhile and is due, it can be taken again."""
        self._metrics.on_done(self._now() - self._working.pop(key))
        entry = self._waiting.get(key)
        if entry is not None and entry.is_ready:
            self._push_ready(key, entry)

    def shutdown(self) -> None:
        """Hand out no more keys. Waiting keys are dropped, since the next process lists all objects."""
        self._closed = True
        self._waiting.clear()
        self._ready.clear()
        self._delayed.clear()
        if self._timer is not None:
            self._timer.cancel()
        while self._getters:
            self._wake_getter()

    def _add(self, key: K, delay: float, priority: int) -> None:
        if self._closed:
            return
        now = self._now()
        entry = self._waiting.get(key)
        if entry is None:
            entry = self._waiting[key] = _WaitingKey(priority, now + delay, now, 0)
            self._metrics.on_add()
        elif priority <= entry.priority and (entry.is_ready or now + delay >= entry.ready_at):
            return
        else:
            entry.priority = max(entry.priority, priority)
            entry.ready_at = min(entry.ready_at, now + delay)
        self._last_token += 1
        entry.token = self._last_token
        if entry.is_ready or entry.ready_at <= now:
            self._make_ready(key, entry, now)
        else:
            heapq.heappush(self._delayed, (entry.ready_at, entry.token, key))
            self._drop_superseded()
            self._set_timer()

    def _make_ready(self, key: K, entry: _WaitingKey, now: float) -> None:
        if not entry.is_ready:
            entry.is_ready, entry.ready_since = True, now
        if key not in self._working:
            self._push_ready(key, entry)

    def _push_ready(self, key: K, entry: _WaitingKey) -> None:
        heapq.heappush(self._ready.setdefault(entry.priority, []), (entry.token, key))
        self._wake_getter()

    def _wake_getter(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _take(self) -> K | None:
        first_tokens = {priority: heap[0][0] for priority, heap in self._ready.items() if self._has_entry(heap)}
        if not first_tokens:
            return None
        self._taken_count += 1
        takes_oldest = self._taken_count % OLDEST_EVERY == 0
        priority = min(first_tokens, key=first_tokens.__getitem__) if takes_oldest else max(first_tokens)
        _, key = heapq.heappop(self._ready[priority])
        entry = self._waiting.pop(key)
        now = self._now()
        self._working[key] = now
        self._metrics.on_take(now - entry.ready_since)
        return key

    def _has_entry(self, heap: list[tuple[int, K]]) -> bool:
        """Whether a heap has an entry, after superseded entries were dropped from its top."""
        while heap and ((entry := self._waiting.get(heap[0][1])) is None or entry.token != heap[0][0]):
            heapq.heappop(heap)
        return bool(heap)

    def _set_timer(self) -> None:
        """Keep one timer, for the earliest delayed key."""
        while self._delayed and not self._is_current(self._delayed[0]):
            heapq.heappop(self._delayed)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._delayed:
            wait = max(0.0, self._delayed[0][0] - self._now())
            self._timer = asyncio.get_running_loop().call_later(wait, self._release_due_keys)

    def _drop_superseded(self) -> None:
        """Drop superseded delays: a key that is due in a week and is added every second would leave 600,000."""
        if len(self._delayed) > 2 * len(self._waiting) + MAX_SUPERSEDED:
            self._delayed = [item for item in self._delayed if self._is_current(item)]
            heapq.heapify(self._delayed)

    def _is_current(self, item: tuple[float, int, K]) -> bool:
        entry = self._waiting.get(item[2])
        return entry is not None and entry.token == item[1] and not entry.is_ready

    def _release_due_keys(self) -> None:
        now = self._now()
        self._timer = None
        while self._delayed and (self._delayed[0][0] <= now + EARLY_SECONDS or not self._is_current(self._delayed[0])):
            item = heapq.heappop(self._delayed)
            if self._is_current(item):
                self._make_ready(item[2], self._waiting[item[2]], now)
        self._set_timer()
