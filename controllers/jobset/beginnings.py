"""New suspended sets begin one after the other: nothing waits for their Jobs, and much else for the API server.

Where a queue suspends them, they come by the dozen. If all begin at once, with the Jobs, the Service and the status of
each, then whoever creates the next set waits, and so does the queue that is to resume the first ones. A set that is
resumed before its turn begins at once.
"""

from dataclasses import dataclass

PAUSE = 10.0
"""Time between two sets, as a multiple of what the writes of the first took: the rest is for what cannot wait. Creation
beside a queue, over that with the Go JobSet: 1.4 at 3, 0.87 at 10, when a fifth of the Jobs exist by then."""

LONGEST = 1.0
"""Seconds between two sets at most."""

LATEST = 5.0
"""Seconds that a set waits at most, however many somebody else has created before it."""


@dataclass(slots=True)
class Beginnings:
    """One for a process. Times: event loop's clock.

    Remembered: when the next set may begin, and the time between two. Without it some begin at the same time.
    """

    _free_at: float = 0.0
    _seconds: float = 0.0

    def place(self, time: float) -> float:
        """When one more set may begin."""
        begin = min(max(time, self._free_at), time + LATEST)
        self._free_at = begin + self._seconds
        return begin

    def took(self, seconds: float) -> None:
        """The writes of a set that has begun took that long."""
        self._seconds = min(PAUSE * seconds, LONGEST)
