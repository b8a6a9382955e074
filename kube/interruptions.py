"""Logs the interruptions of a watch: when it fails, and when it works again.

A single failure is normal, since the API server ends connections: it is logged as information. The second failure in a
row, a missing right and a missing resource are logged at once as warnings, which are repeated every minute.
"""

import logging
from collections.abc import Callable

from kube.errors import Forbidden, KubeError, NotFound

LOG_EVERY = 60.0
"""Seconds between two log lines about failures of the same kind."""

APPLY_ROLES = "kubectl apply --server-side --force-conflicts -k manifests/rbac"
"""A command that restores all roles of the manager."""

CLUSTER_ROLES = f"apply the manager's ClusterRoles again: {APPLY_ROLES}"
"""The default remedy for a missing right."""


class Interruptions:
    """Logs the interruptions of one watch. `clock` gives seconds. `on_end` is called when the watch works again.

    `remedy`: what to do if the right to list or watch is missing.
    """

    def __init__(
        self,
        kind: str,
        log: logging.Logger,
        clock: Callable[[], float],
        *,
        remedy: str,
        selector: str = "",
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        self._kind = kind
        self._name = f"{kind} with {selector}" if selector else kind
        self._remedy = remedy
        self._on_end = on_end
        self._log = log
        self._clock = clock
        self._failing_since = 0.0
        self._failures = 0
        self._ends_on_open = False
        self._last_warned: type[KubeError] | None = None
        self._warn_again_at = 0.0

    def on_failure(self, error: KubeError) -> None:
        """Count a failure of the watch. Log it, unless the last warning is less than a minute old and of this class."""
        now = self._clock()
        if not self._failures:
            self._failing_since = now
        self._failures += 1
        reason = self._reason(error)
        self._ends_on_open = bool(reason)
        if self._failures == 1 and not reason:
            self._log.info("the watch of %s is interrupted: %s", self._name, error)
        elif type(error) is not self._last_warned or now >= self._warn_again_at:
            self._log.warning(
                "the watch of %s fails, for %.0f s now (tries: %d): %s%s",
                self._name,
                now - self._failing_since,
                self._failures,
                reason,
                error,
            )
            self._last_warned, self._warn_again_at = type(error), now + LOG_EVERY

    def _reason(self, error: KubeError) -> str:
        if isinstance(error, Forbidden):
            return f"the right to list and watch {self._kind} is missing, {self._remedy}: "
        if isinstance(error, NotFound):
            return f"the cluster does not serve {self._kind}: "
        return ""

    def on_list(self) -> None:
        """A page of a list was read: opening the watch now ends the interruption."""
        self._ends_on_open = True

    def on_open(self) -> None:
        """The watch was opened, which ends the interruption after a refusal or a list.

        After a broken connection it does not: the new connection may break before it delivers an event.
        """
        if self._ends_on_open:
            self.end()

    def end(self) -> None:
        """End the interruption, if there is one: the watch has delivered an event."""
        if self._last_warned:
            seconds = self._clock() - self._failing_since
            self._log.info("the watch of %s works again after %.0f s", self._name, seconds)
        if self._failures:
            self._on_end()
        self._failures, self._ends_on_open, self._last_warned = 0, False, None
