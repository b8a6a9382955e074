"""Which priority the pods of a template will have, as the API server's Priority admission resolves it. Pure."""

from collections.abc import Iterable

from kube.model.meta import JSON, Base, Identity


class PriorityClass(Base, frozen=True, kw_only=True):
    """scheduling.k8s.io/v1 PriorityClass."""

    metadata: Identity
    value: int = 0
    global_default: bool = False


class Priorities:
    """The priority classes of a cluster."""

    def __init__(self, classes: Iterable[PriorityClass]) -> None:
        found = tuple(classes)
        self._values = {item.metadata.name: item.value for item in found}
        self._default = min((item.value for item in found if item.global_default), default=0)

    def priority_of(self, pod_spec: JSON) -> int | None:
        """The priority of a pod with this spec; None when it names a class that does not exist.

        Without a class it is that of the global default with the lowest value, or 0.
        """
        name = pod_spec.get("priorityClassName")
        return self._values.get(name) if name else self._default
