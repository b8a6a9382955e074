"""What the log says about a watch that fails: how it begins, at most once a minute that it goes on, and its end.

A watch that fails once is normal: the API server has ended the connection. A right that is missing is not.
"""

import logging
from collections.abc import Callable

from kube.errors import Forbidden, KubeError

LOG_EVERY = 60.0
"""Seconds between two lines about failures of the same kind."""


class Interruptions:
    """Those of one watch. `clock` gives seconds."""

    def __init__(self, what: str, log: logging.Logger, clock: Callable[[], float]) -> None:
        self._what = what
        self._log = log
        self._clock = clock
        self._since = 0.0
        self._failures = 0
        self._warned: type[KubeError] | None = None
        self._again_at = 0.0

    def failed(self, error: KubeError) -> None:
        """Another failure, without anything that was read in between."""
        now = self._clock()
        if not self._failures:
            self._since = now
        self._failures += 1
        missing = isinstance(error, Forbidden)
        if self._failures == 1 and not missing:
            self._log.info("the watch of %s is interrupted: %s", self._what, error)
        elif type(error) is not self._warned or now >= self._again_at:
            right = f"the right to list and watch {self._what} is missing, apply the manager's ClusterRoles again: "
            self._log.warning(
                "the watch of %s fails, for %.0f s now (tries: %d): %s%s",
                self._what,
                now - self._since,
                self._failures,
                right if missing else "",
                error,
            )
            self._warned, self._again_at = type(error), now + LOG_EVERY

    def over(self) -> None:
        """Something was read."""
        if self._warned:
            seconds = self._clock() - self._since
            self._log.info("the watch of %s works again after %.0f s", self._what, seconds)
        self._failures, self._warned = 0, None
