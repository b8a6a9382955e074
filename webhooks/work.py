"""How much work one review may take, in steps. Pure.

Steps are counted, and not seconds, so that the same JobSet gets the same answer on a busy machine, and decisions read
no clock. A step is about a tenth of a microsecond. Code that processes a user's data spends steps for each part of the
data, before or while it processes the part.
"""

import math

MAX_STEPS = 30_000_000
"""Steps of one review: twice what any JobSet that etcd can store needs."""
STEPS_PER_PATH = 60
"""Steps for reading or changing the value at one path."""
TOO_MUCH_WORK = (
    f"the object takes more than {MAX_STEPS} steps to check, and was not checked to its end: it has too many items; put"
    " fewer into its lists, or make several objects of it"
)
"""The message for the author of the object."""


class TooMuchWorkError(BaseException):
    """The steps are spent, or the client has disconnected.

    Not an `Exception`: a review must not pass because a handler catches it.
    """


class Work:
    """The steps that a review may still take. Without `steps` they are unlimited."""

    def __init__(self, steps: float = math.inf) -> None:
        self.steps_left = steps
        self.is_stopped = False

    def spend(self, steps: int = 1) -> None:
        """Take that many steps. Raises `TooMuchWorkError` if there are not enough left, or the work was stopped."""
        self.steps_left -= steps
        if self.steps_left < 0 or self.is_stopped:
            raise TooMuchWorkError

    def stop(self) -> None:
        """Make the next step fail. Any thread may call this."""
        self.is_stopped = True
