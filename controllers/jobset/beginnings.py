"""Lets new suspended sets begin one after another, since other requests are more urgent than their Jobs.

Sets of a queue are suspended, and are often created by the dozen. If all of them wrote their Jobs, Service and status
at once, these writes would delay the creation of the next sets, and the queue that resumes the first sets. A set that
is resumed before its turn begins at once.
"""

from dataclasses import dataclass

PAUSE = 10.0
"""Time between two sets, as a multiple of the time that the writes of the first set took. The rest is for urgent
requests. With 3, the creation of sets of a queue took 1.4 times as long as with the Go JobSet; with 10, 0.87 times."""

LONGEST_PAUSE = 1.0
"""At most this many seconds between two sets."""

LONGEST_WAIT = 5.0
"""Longest wait of a set in seconds, however many sets were created before it."""


@dataclass(slots=True)
class Beginnings:
    """The turns of new suspended sets in a process. Times are of the event loop's clock.

    Remembered: when the next set may begin, and the time between two sets. Without it some sets begin at the same time.
    """

    _free_at: float = 0.0
    _seconds: float = 0.0

    def reserve(self, time: float) -> float:
        """When one more set may begin."""
        begin = min(max(time, self._free_at), time + LONGEST_WAIT)
        self._free_at = begin + self._seconds
        return begin

    def note_duration(self, seconds: float) -> None:
        """Note how many seconds the writes of a set took."""
        self._seconds = min(PAUSE * seconds, LONGEST_PAUSE)
