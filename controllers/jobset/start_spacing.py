"""Spaces out the first plans for new suspended sets, since other requests are more urgent than their Jobs.

Sets that wait for a queue such as Kueue are created suspended, often by the dozen. If the Jobs, Services and statuses
of all these sets were written at once, these writes would delay the creation of further sets, and the queue that
resumes the first sets. A set that is resumed before its time gets its first plan at once.
"""

from dataclasses import dataclass

PAUSE = 10.0
"""Time between two sets, as a multiple of the time that writes take, which leaves time for urgent requests. With 3, the
creation of sets of a queue took 1.4 times as long as with the Go JobSet; with 10, 0.87 times."""

LONGEST_PAUSE = 1.0
"""At most this many seconds between two sets."""

LONGEST_WAIT = 5.0
"""Longest wait of a set in seconds, however many sets were created before it."""


@dataclass(slots=True)
class StartSpacing:
    """Gives each new suspended set the time of its first plan. Times are of the event loop's clock.

    Remembered: the next free time. Without it some sets get the same time.
    """

    _next_free_time: float = 0.0

    def reserve(self, time: float, write_seconds: float) -> float:
        """The time of the first plan for one more set. `write_seconds`: how long the writes of a plan take now."""
        plan_time = min(max(time, self._next_free_time), time + LONGEST_WAIT)
        self._next_free_time = plan_time + min(PAUSE * write_seconds, LONGEST_PAUSE)
        return plan_time
