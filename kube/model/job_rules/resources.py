"""The rules about amounts of resources: of a container, of a pod, of the overhead of a pod. Pure."""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from kube.model.field import FieldError, Path
from kube.model.job_rules.checks import (
    Check,
    duplicate,
    entries,
    forbidden,
    invalid,
    missing,
    not_found,
    not_supported,
    pod_containers,
)
from kube.model.job_rules.forms import label_key as label_key_complaints
from kube.model.jsontree import dig
from kube.model.quantity import canonical, is_native, parse_quantity

_CONTAINER_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
_STANDARD = _CONTAINER_RESOURCES | {
    "requests.cpu", "requests.memory", "requests.ephemeral-storage", "limits.cpu", "limits.memory",
    "limits.ephemeral-storage", "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps",
    "persistentvolumeclaims", "storage", "requests.storage", "services.nodeports", "services.loadbalancers",
}  # fmt: skip
_HUGE_PAGES = "hugepages-"


def amounts(name_errors: Callable[[Path, str], Iterable[FieldError]]) -> Check:
    """A check that requests and limits are valid. `name_errors` checks the name of a resource."""

    def check(path: Path, value: Any) -> Iterator[FieldError]:
        limits, requests = (_readable_amounts(value.get(key)) for key in ("limits", "requests"))
        for key, amounts_by_name in (("limits", limits), ("requests", requests)):
            for name, amount in amounts_by_name.items():
                yield from name_errors(path.at(key, name), name)
                yield from _check_amount(path.at(key, name), name, amount)
        for name, amount in requests.items():
            yield from _check_request(path, name, amount, limits.get(name))
        names = limits.keys() | requests.keys()
        if not names & {"cpu", "memory"} and any(name.startswith(_HUGE_PAGES) for name in names):
            yield forbidden(path, "HugePages require cpu or memory")

    return check


def _readable_amounts(value: Any) -> dict[str, Any]:
    pairs = value.items() if isinstance(value, dict) else ()
    return {name: amount for name, amount in pairs if parse_quantity(amount) is not None}


def _check_amount(path: Path, name: str, amount: Any) -> Iterator[FieldError]:
    value = parse_quantity(amount) or 0
    if value < 0:
        yield invalid(path, canonical(amount), "must be greater than or equal to 0")
    if _is_extended(name) and value % 1:
        yield invalid(path, canonical(amount), "must be an integer")
    page = parse_quantity(name.removeprefix(_HUGE_PAGES)) if name.startswith(_HUGE_PAGES) else None
    if page is not None and page > 0 and value % page:
        yield invalid(path, canonical(amount), f"{canonical(amount)} is not positive integer multiple of {name}")


def _check_request(path: Path, name: str, amount: Any, limit: Any) -> Iterator[FieldError]:
    """Check a request against its limit. Only for a resource that can be overcommitted may the request be smaller."""
    can_overcommit = is_native(name) and not name.startswith(_HUGE_PAGES)
    if limit is None:
        if not can_overcommit:
            yield missing(path.at("limits"), "Limit must be set for non overcommitable resources")
        return
    requested, allowed = parse_quantity(amount) or 0, parse_quantity(limit) or 0
    if requested != allowed and not can_overcommit:
        detail = f"must be equal to {name} limit of {canonical(limit)}"
        yield invalid(path.at("requests"), canonical(amount), detail)
    elif requested > allowed:
        detail = f"must be less than or equal to {name} limit of {canonical(limit)}"
        yield invalid(path.at("requests"), canonical(amount), detail)


def _is_extended(name: str) -> bool:
    return not is_native(name) and not name.startswith("requests.") and not label_key_complaints(f"requests.{name}")


def _check_resource_name(path: Path, name: str) -> Iterator[FieldError]:
    complaints = label_key_complaints(name)
    yield from (invalid(path, name, complaint) for complaint in complaints)
    if not complaints and "/" not in name and name not in _STANDARD and not name.startswith(_HUGE_PAGES):
        yield invalid(path, name, "must be a standard resource type or fully qualified")


def check_container_resource_name(path: Path, name: str) -> Iterator[FieldError]:
    yield from _check_resource_name(path, name)
    if "/" not in name:
        if name not in _CONTAINER_RESOURCES and not name.startswith(_HUGE_PAGES):
            yield invalid(path, name, "must be a standard resource for containers")
    elif not is_native(name) and not _is_extended(name):
        yield invalid(path, name, "doesn't follow extended resource name standard")


def _check_pod_resource_name(path: Path, name: str) -> Iterator[FieldError]:
    errors = list(_check_resource_name(path, name))
    yield from errors
    if not errors and name not in {"cpu", "memory"} and not name.startswith(_HUGE_PAGES):
        yield not_supported(path, name, ("cpu", "hugepages-", "memory"))


container_resources = amounts(check_container_resource_name)
pod_resources = amounts(_check_pod_resource_name)


def overhead(path: Path, value: Any) -> Iterator[FieldError]:
    """Check the overhead: the resources that a pod needs in addition to the requests of its containers."""
    for name, amount in _readable_amounts(value).items():
        yield from check_container_resource_name(path.at(name), name)
        yield from _check_amount(path.at(name), name, amount)


def claims(path: Path, pod: Any) -> Iterator[FieldError]:
    """Check that the pod has every device claim that a container names."""
    pod_claims = {item.get("name") or "" for _, item in entries(pod.get("resourceClaims"))} - {""}
    detail = f": {', '.join(sorted(pod_claims))}" if pod_claims else " which is empty"
    for container_path, container in pod_containers(path, pod):
        claims_path = container_path.at("resources", "claims")
        yield from _claims(claims_path, dig(container, "resources", "claims"), pod_claims, detail)


def _claims(path: Path, value: Any, pod_claims: Collection[str], detail: str) -> Iterator[FieldError]:
    seen: set[tuple[str, str]] = set()
    for i, claim in entries(value):
        name, request = str(claim.get("name") or ""), str(claim.get("request") or "")
        if not name:
            yield missing(path.at(i))
            continue
        if (name, request) in seen:
            yield duplicate(path.at(i), f"{name}/{request}" if request else name)
        seen.add((name, request))
        if name not in pod_claims:
            yield not_found(path.at(i), name, f"must be one of the names in pod.spec.resourceClaims{detail}")
