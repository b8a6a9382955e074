"""Compares templates in raw JSON by their meaning for Kubernetes.

See docs/reference/validation.md#when-two-templates-are-equal.

Null, absent, an empty list and an empty map are the same; quantities are compared by amount. Zero is the same as
absent, unless the Go type of the field is a pointer (`POINTERS`, from batch/v1, core/v1 and meta/v1 of Kubernetes
1.37). A key that is a pointer in one type and a value in another counts as a value: zero means unset for all such keys.
Timestamps are compared as text: no field of these templates is one.
"""

from collections.abc import Iterator
from typing import Any

from kube.model.meta import JSON
from kube.model.quantity import parse_quantity

POINTERS = frozenset(
    {
        "activeDeadlineSeconds", "allowPrivilegeEscalation", "apiGroup", "automountServiceAccountToken",
        "backoffLimit", "backoffLimitPerIndex", "cachingMode", "completionMode", "completions", "defaultMode",
        "defaultUser", "disruptionMode", "enableDNSHostnames", "enableServiceLinks", "expirationSeconds",
        "fsGroup", "fsGroupChangePolicy", "gmsaCredentialSpec", "gmsaCredentialSpecName", "hostProcess",
        "hostUsers", "hostnameOverride", "initiatorName", "localhostProfile", "managedBy", "manualSelector",
        "maxExpirationSeconds", "maxFailedIndexes", "minDomains", "mode", "mountPropagation",
        "nodeAffinityPolicy", "nodeTaintsPolicy", "optional", "parallelism", "podGroupName",
        "podReplacementPolicy", "preemptionPolicy", "priority", "privileged", "procMount",
        "publishNotReadyAddresses", "readOnlyRootFilesystem", "recursiveReadOnly", "resourceClaimName",
        "resourceClaimTemplateName", "runAsGroup", "runAsNonRoot", "runAsUser", "runAsUserName",
        "runtimeClassName", "schedulingConstraints", "schedulingPolicy", "seLinuxChangePolicy", "service",
        "setHostnameAsFQDN", "shareProcessNamespace", "sizeLimit", "stopSignal", "storageClassName",
        "succeededCount", "succeededIndexes", "supplementalGroupsPolicy", "suspend",
        "terminationGracePeriodSeconds", "tolerationSeconds", "ttlSecondsAfterFinished",
        "volumeAttributesClassName", "volumeMode",
    }
)  # fmt: skip
"""Scalar fields for which zero differs from absent."""

_STRUCTS = frozenset({"metadata", "spec", "template", "podAffinityTerm", "preference", "resources"})
"""Fields whose Go type is a struct: empty is the same as absent. For all other objects presence has a meaning."""

QUANTITY_MAPS = frozenset({"limits", "requests", "overhead"})
_TEXT_MAPS = frozenset(
    {"labels", "annotations", "nodeSelector", "matchLabels", "options", "userAnnotations", "volumeAttributes"}
)
QUANTITIES = frozenset({"sizeLimit", "divisor"})


def semantically_equal(value: Any, other: Any) -> bool:
    """Whether two JSON values of the same field mean the same."""
    return bool(value == other) or bool(_canonical("", value) == _canonical("", other))


def differences(value: Any, other: Any) -> Iterator[tuple[str | int, ...]]:
    """The deepest relative paths at which two JSON values of the same field differ in meaning.

    Lists of different length differ as a whole.
    """
    yield from _differences("", value, other, ())


def _differences(key: str, value: Any, other: Any, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    if value == other or _canonical(key, value) == _canonical(key, other):
        return
    if key in _STRUCTS or key in _TEXT_MAPS or key in QUANTITY_MAPS:
        value, other = value or {}, other or {}
    if isinstance(value, dict) and isinstance(other, dict):
        members = [name for name in sorted({*value, *other}) if isinstance(name, str)]
        paths = [inner for name in members for inner in _member_differences(key, name, value, other, path)]
        # A null in a map of texts makes the whole map differ.
        yield from paths or [path]
    elif isinstance(value, list) and isinstance(other, list) and len(value) == len(other):
        for i, (item, other_item) in enumerate(zip(value, other, strict=True)):
            yield from _differences("", item, other_item, (*path, i))
    else:
        yield path


def _member_differences(
    key: str, name: str, value: JSON, other: JSON, path: tuple[str | int, ...]
) -> Iterator[tuple[str | int, ...]]:
    if key in _TEXT_MAPS or key in QUANTITY_MAPS:
        is_same = value.get(name) == other.get(name) or (
            key in QUANTITY_MAPS and _amount(value.get(name)) == _amount(other.get(name))
        )
        if not is_same:
            yield (*path, name)
        return
    if all(_is_absent(name, _canonical(name, each.get(name))) for each in (value, other)):
        return
    yield from _differences(name, value.get(name), other.get(name), (*path, name))


def _canonical(key: str, value: Any) -> Any:
    """A value that is equal for all values of the field `key` that mean the same. Zeros are left to `_is_absent`."""
    if isinstance(value, dict):
        return _canonical_object(key, value)
    if isinstance(value, list):
        return [_canonical("", item) for item in value] or None
    if key in QUANTITIES:
        return _amount(value)
    return value


def _canonical_object(key: str, value: dict[str, Any]) -> Any:
    if key in _TEXT_MAPS:
        return value or None
    if key in QUANTITY_MAPS:
        return {name: _amount(amount) for name, amount in value.items()} or None
    members = ((name, _canonical(name, member)) for name, member in value.items())
    present = {name: member for name, member in members if not _is_absent(name, member)}
    return present if present or key not in _STRUCTS else None


def _is_absent(key: str, member: Any) -> bool:
    if member is None:
        return True
    return key not in POINTERS and not isinstance(member, dict | list) and not member


def _amount(value: Any) -> Any:
    amount = parse_quantity(value)
    return value if amount is None else amount
