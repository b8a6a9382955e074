"""New suspended sets begin one after the other: their Jobs are not urgent, other requests are.

Sets of a queue are suspended, and are often created by the dozen. If all begin at once, with the Jobs, the Service and
the status of each, then the creation of the next set is delayed, and so is the queue that resumes the first ones. A set
that is resumed before its turn begins at once.
"""

from dataclasses import dataclass

PAUSE = 10.0
"""Time between two sets, as a multiple of the time that the writes of the first took: the rest is for urgent requests.
Creation beside a queue, over that with the Go JobSet: 1.4 at 3, 0.87 at 10, when a fifth of the Jobs exist by then."""

LONGEST_PAUSE = 1.0
"""Seconds between two sets at most."""

LONGEST_WAIT = 5.0
"""Longest wait of a set in seconds, however many others were created before it."""


@dataclass(slots=True)
class Beginnings:
    """The turns of new suspended sets in a process. Times: event loop's clock.

    Remembered: when the next set may begin, and the time between two. Without it some begin at the same time.
    """

    _free_at: float = 0.0
    _seconds: float = 0.0

    def reserve(self, time: float) -> float:
        """When one more set may begin."""
        begin = min(max(time, self._free_at), time + LONGEST_WAIT)
        self._free_at = begin + self._seconds
        return begin

    def took(self, seconds: float) -> None:
        """Note how many seconds the writes of a set took."""
        self._seconds = min(PAUSE * seconds, LONGEST_PAUSE)
