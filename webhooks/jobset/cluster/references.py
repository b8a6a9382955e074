"""The ConfigMaps, Secrets and device claims that a pod needs to start, and the paths of their names. Pure."""

from collections.abc import Iterator
from typing import Any

from kube.model.field import Parts
from kube.model.jsontree import dig, items
from kube.resources import CONFIG_MAPS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, SECRETS, Resource

_VOLUME_FIELDS = ((CONFIG_MAPS, "configMap", "name"), (SECRETS, "secret", "secretName"))
_PROJECTION_FIELDS = ((CONFIG_MAPS, "configMap", "name"), (SECRETS, "secret", "name"))
_VARIABLE_FIELDS = ((CONFIG_MAPS, "configMapKeyRef", "name"), (SECRETS, "secretKeyRef", "name"))
_ENV_FROM_FIELDS = ((CONFIG_MAPS, "configMapRef", "name"), (SECRETS, "secretRef", "name"))
"""For each place of a reference: the resource, the field of the reference, and the member with the name."""
_DEVICE_CLAIM_FIELDS = ((RESOURCE_CLAIMS, "resourceClaimName"), (RESOURCE_CLAIM_TEMPLATES, "resourceClaimTemplateName"))


def references(pod: Any) -> Iterator[tuple[Resource, Any, Parts]]:
    """The references in the spec of a pod that are not optional: kind, name and path of the name."""
    for path, volume in _items(pod, "volumes"):
        yield from _references_in(volume, _VOLUME_FIELDS, path)
        for source_path, source in _items(dig(volume, "projected"), "sources"):
            yield from _references_in(source, _PROJECTION_FIELDS, (*path, "projected", *source_path))
    for path, claim in _items(pod, "resourceClaims"):
        for resource, member in _DEVICE_CLAIM_FIELDS:
            yield resource, dig(claim, member), (*path, member)
    for group in ("initContainers", "containers"):
        for path, container in _items(pod, group):
            for item_path, variable in _items(container, "env"):
                yield from _references_in(
                    dig(variable, "valueFrom"), _VARIABLE_FIELDS, (*path, *item_path, "valueFrom")
                )
            for item_path, source in _items(container, "envFrom"):
                yield from _references_in(source, _ENV_FROM_FIELDS, (*path, *item_path))


def _items(holder: Any, field: str) -> Iterator[tuple[Parts, Any]]:
    for i, item in enumerate(items(holder, field)):
        yield (field, i), item


def _references_in(
    holder: Any, fields: tuple[tuple[Resource, str, str], ...], path: Parts
) -> Iterator[tuple[Resource, Any, Parts]]:
    for resource, field, member in fields:
        if dig(holder, field, "optional") is not True:
            yield resource, dig(holder, field, member), (*path, field, member)
