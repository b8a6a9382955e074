"""Lets new suspended sets begin one after another, since other requests are more urgent than their Jobs.

Sets of a queue are suspended, and are often created by the dozen. If all of them wrote their Jobs, Service and status
at once, these writes would delay the creation of the next sets, and the queue that resumes the first sets. A set that
is resumed before its turn begins at once.
"""

from dataclasses import dataclass

PAUSE = 10.0
"""Time between two sets, as a multiple of the time that writes take. The rest is for urgent requests. With 3, the
creation of sets of a queue took 1.4 times as long as with the Go JobSet; with 10, 0.87 times."""

LONGEST_PAUSE = 1.0
"""At most this many seconds between two sets."""

LONGEST_WAIT = 5.0
"""Longest wait of a set in seconds, however many sets were created before it."""


@dataclass(slots=True)
class Beginnings:
    """The turns of new suspended sets in a process. Times are of the event loop's clock.

    Remembered: when the next set may begin. Without it some sets begin at the same time.
    """

    _free_at: float = 0.0

    def reserve(self, time: float, write_seconds: float) -> float:
        """When one more set may begin. `write_seconds`: how long the writes of a plan take now."""
        begin = min(max(time, self._free_at), time + LONGEST_WAIT)
        self._free_at = begin + min(PAUSE * write_seconds, LONGEST_PAUSE)
        return begin
