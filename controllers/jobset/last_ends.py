"""Remembers how the containers of cached pods last failed, for restarts that keep the pods.

When a kubelet restarts all containers of a pod (RestartAllContainers), it replaces their status with exit code 137 and
the reason RestartingAllContainers. This module keeps the status before that. A manager that starts later does not have
that status, so its attempt history has fewer details.
"""

from collections.abc import Iterable, Mapping

from api.pending import RESTARTED_BY_POD
from api.pod import Pod
from controllers.planning.observed import Ended


class LastEnds:
    """The last failure of each cached pod."""

    def __init__(self) -> None:
        self._ends: dict[str, tuple[Ended, int]] = {}
        """By UID of the pod: the failure, and how often the pod had restarted before it."""

    def on_event(self, _kind: object, old: Pod | None, new: Pod | None) -> None:
        """Handle a change of a cached pod."""
        if new is None:
            if old is not None:
                self._ends.pop(old.metadata.uid, None)
            return
        for container in new.status.container_statuses:
            end = container.state.terminated
            if end is not None and end.exit_code and end.reason != RESTARTED_BY_POD:
                self._ends[new.metadata.uid] = Ended(container.name, end.exit_code), new.restarts
                return

    def ends_of(self, pods: Iterable[Pod]) -> Mapping[str, Ended]:
        """The last failure of each of these pods by UID, if its containers have restarted at most once since then."""
        entries = ((pod, *self._ends[pod.metadata.uid]) for pod in pods if pod.metadata.uid in self._ends)
        return {pod.metadata.uid: end for pod, end, restarts in entries if pod.restarts <= restarts + 1}
