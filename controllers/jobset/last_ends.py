"""How the containers of cached pods last failed.

When a kubelet restarts all containers of a pod (RestartAllContainers), it replaces their status by exit code 137 and
RestartingAllContainers. The status before is kept here. A manager that starts later does not have it; then the history
has fewer details.
"""

from collections.abc import Iterable, Mapping

from api.pending import RESTARTED_BY_POD
from api.pod import Pod
from controllers.planning.observed import Ended


class LastEnds:
    """The last failure of each cached pod, so at most one for each."""

    def __init__(self) -> None:
        self._ends: dict[str, tuple[Ended, int]] = {}

    def on_event(self, _kind: object, old: Pod | None, new: Pod | None) -> None:
        """A `kube.informer.Handler`."""
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
        """By UID of the pods: how the run before the present one ended, or the present one."""
        if not self._ends:
            return {}
        found = ((pod, self._ends.get(pod.metadata.uid)) for pod in pods)
        return {pod.metadata.uid: seen[0] for pod, seen in found if seen is not None and pod.restarts <= seen[1] + 1}
