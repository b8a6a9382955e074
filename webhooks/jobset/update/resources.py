"""Requests and limits of containers, which a suspended JobSet may change (KEP-1150).

Pure. The feature gate is MutablePodResourcesForSuspendedJobSets. Claims, and resources of the pod as a whole, may not
change.
"""

from collections.abc import Iterator

from kube.model.jsontree import dig, set_in
from kube.model.meta import JSON

_POD_SPEC = ("template", "spec", "template", "spec")
_CONTAINER_LISTS = ("containers", "initContainers")
_AMOUNT_FIELDS = ("requests", "limits")


def is_amount(parts: tuple[str | int, ...]) -> bool:
    """Whether this path, below a ReplicatedJob, is in the requests or limits of a container."""
    match parts[len(_POD_SPEC) :]:
        case (list_name, int(), "resources", amounts, *_):
            return parts[: len(_POD_SPEC)] == _POD_SPEC and list_name in _CONTAINER_LISTS and amounts in _AMOUNT_FIELDS
    return False


def with_amounts_of(old: JSON, new: JSON) -> JSON:
    """The ReplicatedJob `new` with the requests and limits of `old`, container by container.

    Containers are paired by index. Added, removed, renamed or reordered containers still differ in number or name.
    """
    for list_name in _CONTAINER_LISTS:
        old_list, new_list = (dig(rjob, *_POD_SPEC, list_name) for rjob in (old, new))
        are_lists = isinstance(old_list, list) and isinstance(new_list, list)
        if old_list != new_list and are_lists and len(old_list) == len(new_list):
            new = set_in(new, (*_POD_SPEC, list_name), list(_with_amounts(old_list, new_list)))
    return new


def _with_amounts(old_containers: list[JSON], new_containers: list[JSON]) -> Iterator[JSON]:
    for old, new in zip(old_containers, new_containers, strict=True):
        container = new
        for amounts in _AMOUNT_FIELDS:
            container = with_value_of(container, old, ("resources", amounts))
        yield container


def with_value_of(new: JSON, old: JSON, keys: tuple[str, ...]) -> JSON:
    """`new` with the value of `old` at `keys`."""
    value = dig(old, *keys)
    return new if dig(new, *keys) == value else set_in(new, keys, value)
