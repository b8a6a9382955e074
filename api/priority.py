"""Finds the priority of the pods of a template, as the API server's Priority admission does. Pure."""

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
        all_classes = tuple(classes)
        self._values = {item.metadata.name: item.value for item in all_classes}
        self._default_value = min((item.value for item in all_classes if item.global_default), default=0)

    def priority_of(self, pod_spec: JSON) -> int | None:
        """The priority of a pod with this spec; None if the spec names a class that does not exist.

        A pod without a class has the priority of the global default class with the lowest value, or 0.
        """
        name = pod_spec.get("priorityClassName")
        return self._values.get(name) if name else self._default_value
