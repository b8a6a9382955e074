"""The requests of a pod, counted as kube-scheduler counts them. Pure except for a cache of amounts.

Sources: KEP-753 (sidecars), KEP-688 (overhead), KEP-2837 (resources of the pod), and the API server's defaults, by
which a missing request equals the limit.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from operator import add
from typing import Any, Final, NamedTuple

from kube.model.meta import JSON
from kube.model.quantity import COUNTED_PATTERN, parse_quantity, with_unit

Amount = int | Fraction
Amounts = dict[str, Amount]
"""Amounts by name of the resource."""

LONGEST_AMOUNT: Final = 256
"""The most characters of an amount that is parsed."""
_LARGEST: Final = 10**15
LARGEST_AMOUNT: Final = with_unit(_LARGEST, "")
"""The largest amount of a resource that a container may request: more than any node has."""
_COUNTED = re.compile(COUNTED_PATTERN)
DEVICE_CLASS: Final = "deviceclass.resource.kubernetes.io/"
"""A resource name with this prefix, before the name of a DeviceClass, requests devices of that class."""
_POD_RESOURCES = {"cpu", "memory"}
"""Resources, besides huge pages, that a pod may request as a whole."""


@lru_cache(maxsize=1024)
def _parse(text: str) -> Amount | None:
    amount = parse_quantity(text) if _COUNTED.fullmatch(text) else None
    return None if amount is None else _as_int_if_whole(amount)


def _as_int_if_whole(amount: Fraction) -> Amount:
    """The amount, as an int if it is whole, since ints are added and compared much faster."""
    return amount.numerator if amount.denominator == 1 else amount


def amount_of(value: Any) -> Amount | None:
    """The amount of a quantity; None if it is negative, a text longer than `LONGEST_AMOUNT`, or not a quantity."""
    if type(value) is int:
        return value if value >= 0 else None
    text = str(value) if isinstance(value, str | float) else ""
    return _parse(text) if len(text) <= LONGEST_AMOUNT else None


def countable_amount(resource: str, value: Any) -> Amount | None:
    """The amount of a resource in a pod, rounded up as by kube-scheduler: cpu to thousandths, any other to integers.

    None if `amount_of` cannot read the value, or if a pod could never get as much.
    """
    amount = amount_of(value)
    if amount is None or amount > _LARGEST:
        return None
    if isinstance(amount, int):
        return amount
    return _as_int_if_whole(Fraction(-(-amount * 1000 // 1), 1000)) if resource == "cpu" else -(-amount // 1)


def amounts(quantities: Any) -> Amounts:
    """The amounts of a map of resources, without those that `countable_amount` cannot read."""
    pairs = quantities.items() if isinstance(quantities, Mapping) else ()
    return {name: amount for name, value in pairs if (amount := countable_amount(name, value)) is not None}


def is_pod_resource(resource: str) -> bool:
    """Whether a pod may request that resource as a whole."""
    return resource in _POD_RESOURCES or resource.startswith("hugepages-")


def is_device_class(resource: str) -> bool:
    """Whether kube-scheduler makes a claim for the devices that a pod requests by this name."""
    return resource.startswith(DEVICE_CLASS)


def is_sidecar(container: JSON) -> bool:
    """Whether an init container keeps running beside the containers."""
    return container.get("restartPolicy") == "Always"


def own_requests(holder: JSON) -> Amounts:
    """The requests of a container, or of a pod as a whole."""
    return amounts({name: value for name, (_, value) in _written_requests(holder).items()})


def _written_requests(holder: JSON) -> dict[str, tuple[str, Any]]:
    """The requests as written, each with the map that has it: `requests`, or `limits` if a request is absent."""
    resources: JSON = holder.get("resources") or {}
    return {
        name: (kind, value)
        for kind in ("limits", "requests")
        for name, value in (resources.get(kind) or {}).items()
        if value is not None
    }


def pod_requests(spec: JSON) -> Amounts:
    """The requests of a pod of this spec."""
    total = _container_requests(spec)
    if spec.get("resources"):
        total |= _pod_level_requests(spec, total)
    return _combine(add, total, amounts(spec.get("overhead")))


def _container_requests(spec: JSON) -> Amounts:
    """The sum over containers and sidecars, or over an init container and earlier sidecars, whichever is larger."""
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        requests = own_requests(container)
        if is_sidecar(container):
            sidecars = requests = _combine(add, sidecars, requests)
        else:
            requests = _combine(add, requests, sidecars)
        peak = _combine(max, peak, requests)
    total = sidecars
    for container in spec.get("containers") or ():
        total = _combine(add, total, own_requests(container))
    return _combine(max, total, peak)


def _pod_level_requests(spec: JSON, container_total: Amounts) -> Amounts:
    """The requests of the pod as a whole, which replace the total of its containers for these resources."""
    resources: JSON = spec["resources"]
    stated, limits = amounts(resources.get("requests")), amounts(resources.get("limits"))
    defaults = {
        name: amount for name, amount in limits.items() if not (name in _POD_RESOURCES and name in container_total)
    }
    return {name: amount for name, amount in {**defaults, **stated}.items() if is_pod_resource(name)}


def _combine(operator: Callable[[Amount, Amount], Amount], total: Amounts, other: Amounts) -> Amounts:
    """The sum or maximum of the amounts of each resource; an absent amount counts as 0."""
    if not total or not other:
        return total or other
    return total | {name: operator(amount, total.get(name, 0)) for name, amount in other.items()}


def sum_requests(requests: Iterable[tuple[Amounts, int]]) -> Amounts:
    """The sum of the requests of pods. An item has the requests of one pod, and the number of such pods."""
    total: Amounts = {}
    for amounts_of_pod, number in requests:
        for name, amount in amounts_of_pod.items():
            total[name] = total.get(name, 0) + amount * number
    return total


def exceeding_resources(needs: Amounts, limits: Amounts) -> list[str]:
    """Resources whose need exceeds their limit, in the order of `needs`. Without a limit, any need fits."""
    return [name for name, amount in needs.items() if amount > limits.get(name, amount)]


class PodClaims(NamedTuple):
    """The claims for devices of a pod: the number that is `created` for each pod, and names of `existing` claims."""

    created: int
    existing: frozenset[str]


def pod_claims(spec: JSON) -> PodClaims:
    """The claims for devices of a pod.

    For all resources that stand for a DeviceClass, kube-scheduler creates one claim for the pod.
    """
    claims = [claim.get("resourceClaimName") or "" for claim in spec.get("resourceClaims") or ()]
    containers = (holder for path, holder in resource_holders(spec) if path)
    has_class = any(is_device_class(name) for container in containers for name in _written_requests(container))
    return PodClaims(claims.count("") + has_class, frozenset(filter(None, claims)))


def stated_amounts(spec: JSON) -> Iterator[tuple[tuple[str | int, ...], str, Any]]:
    """The summands of a pod's requests: for each amount its path below the spec, its resource, and the amount."""
    for path, holder in resource_holders(spec):
        for name, (kind, value) in _written_requests(holder).items():
            if path or is_pod_resource(name):
                yield (*path, "resources", kind, name), name, value
    for name, value in (spec.get("overhead") or {}).items():
        yield ("overhead", name), name, value


def resource_holders(spec: JSON) -> Iterator[tuple[tuple[str | int, ...], JSON]]:
    """Objects with resources, each with its path below the spec: containers, init containers, the pod as a whole."""
    for field in ("containers", "initContainers"):
        for i, container in enumerate(spec.get(field) or ()):
            yield (field, i), container
    if spec.get("resources"):
        yield (), spec
