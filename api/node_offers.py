"""Amounts of resources that nodes offer, and suggestions for mistyped names of devices. Pure."""

from collections.abc import Iterable
from typing import Any

from kube.model.quantity import with_unit
from kube.model.requests import Amount, Amounts, amounts
from kube.model.suggest import nearest

_STANDARD_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})
_HUGE_PAGES = "hugepages-"


def offers_of(allocatable: Any) -> Amounts:
    """The amounts above 0 in a node's `status.allocatable`. A device plugin that has stopped leaves a 0."""
    return {name: amount for name, amount in amounts(allocatable).items() if amount > 0}


def devices(offered: Iterable[str]) -> list[str]:
    """The resources of device plugins among the `offered` resources of nodes, sorted."""
    return sorted(name for name in offered if name not in _STANDARD_RESOURCES and not name.startswith(_HUGE_PAGES))


def device_meant(unknown_resource: str, offered: Iterable[str]) -> str:
    """The device whose name is closest to `unknown_resource`, which no node offers; empty if none is close."""
    return nearest(unknown_resource, devices(offered))


def format_number(amount: Amount, resource: str) -> str:
    """The amount of a resource without its name, such as `16`, `500m` or `2Ti`."""
    return format_amount(amount, resource).partition(" ")[0]


def format_amount(amount: Amount, resource: str) -> str:
    """The amount and name of a resource, such as `16 nvidia.com/gpu`, `500m cpu` or `2Ti memory`."""
    is_binary = resource in {"memory", "ephemeral-storage"} or resource.startswith(_HUGE_PAGES)
    return f"{with_unit(amount, 'Gi' if is_binary and not amount % 1024 else '')} {resource}"
