"""Requests and limits of containers, which a suspended JobSet may change (KEP-1150).

Pure. With gate MutablePodResourcesForSuspendedJobSets. Claims, and resources of the pod as a whole, are not part of it.
"""

from collections.abc import Iterator

from kube.model.jsontree import dig, set_in
from kube.model.meta import JSON

_POD_SPEC = ("template", "spec", "template", "spec")
_KINDS = ("containers", "initContainers")
_AMOUNTS = ("requests", "limits")


def is_amount(parts: tuple[str | int, ...]) -> bool:
    """Whether this path of a ReplicatedJob is one of the requests and limits of a container."""
    match parts[len(_POD_SPEC) :]:
        case (kind, int(), "resources", amounts, *_):
            return parts[: len(_POD_SPEC)] == _POD_SPEC and kind in _KINDS and amounts in _AMOUNTS
    return False


def with_amounts_of(old: JSON, new: JSON) -> JSON:
    """The ReplicatedJob `new` with the requests and limits of `old`, container by container.

    They are paired by index. Added, removed, renamed or reordered containers still differ: in length, or in a name.
    """
    for kind in _KINDS:
        before, after = (dig(rjob, *_POD_SPEC, kind) for rjob in (old, new))
        if before != after and isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
            new = set_in(new, (*_POD_SPEC, kind), list(_with_amounts(before, after)))
    return new


def _with_amounts(before: list[JSON], after: list[JSON]) -> Iterator[JSON]:
    for old, new in zip(before, after, strict=True):
        kept = new
        for amounts in _AMOUNTS:
            kept = restore(kept, old, ("resources", amounts))
        yield kept


def restore(new: JSON, old: JSON, keys: tuple[str, ...]) -> JSON:
    """`new` with the value of `old` at `keys`."""
    ours, theirs = dig(new, *keys), dig(old, *keys)
    return new if ours == theirs else set_in(new, keys, theirs)
