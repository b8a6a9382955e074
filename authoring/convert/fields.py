"""Removes fields from a copy of an object that is converted, so that the unused fields are known at the end. Pure."""

import json
from collections.abc import Iterator
from typing import Any

from jobset_client.words import as_json, type_of
from kube.model.jsontree import dig, items
from kube.model.meta import JSON

_METADATA = {"name": str, "generateName": str, "namespace": str, "labels": dict, "annotations": dict}
_NOUNS = {dict: "an object", list: "an array", str: "a string", int: "an integer", bool: "a boolean"}


class ConvertError(Exception):
    """An object cannot be converted. The text says where and why."""


class Fields:
    """A copy of an object. `notes`: lines for the user about fields whose meaning differs in a JobSet."""

    def __init__(self, obj: JSON) -> None:
        """Copy the object. Each use of a YAML alias gets a copy of its own. Raises `ConvertError` without a name."""
        self._tree: JSON = json.loads(json.dumps(obj))
        self.notes: list[str] = []
        self.metadata = {key: self.take(f"metadata.{key}", wanted) for key, wanted in _METADATA.items()}
        self.name: str = self.metadata["name"] or ""
        if not (self.name or self.metadata["generateName"]):
            raise ConvertError("metadata.name: Required value")

    def take(self, path: str, wanted: type = object, default: Any = None) -> Any:
        """Remove and return the value at a path, or return `default`. Raises `ConvertError` for another type."""
        *parents, key = path.split(".")
        holder = dig(self._tree, *parents)
        value = holder.pop(key, None) if isinstance(holder, dict) else None
        if value is None:
            return default
        if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
            raise ConvertError(
                f"{path}: Invalid value: {as_json(value)}: must be {_NOUNS[wanted]}, is {type_of(value)}"
            )
        return value

    def move(self, path: str, wanted: type, into: JSON, key: str) -> None:
        """Move the value at a path, if there is one, into another object."""
        value = self.take(path, wanted)
        if value is not None:
            into[key] = value

    def remaining(self) -> Iterator[tuple[str, Any]]:
        """The path and the value of each field that was not removed."""
        yield from _leaves("", self._tree)


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(f"{path}.{key}".removeprefix("."), inner)
    elif value is not None:
        yield path, value


def containers(template: JSON, path: str = "") -> list[JSON]:
    """The containers of a pod template.

    Raises `ConvertError` if there are no containers, or if containers, volumes or variables are not lists of objects.
    """
    pod_containers = items(template, "spec", "containers")
    if not pod_containers or not all(isinstance(container, dict) for container in pod_containers):
        raise ConvertError(f"{path}.spec.containers: must be an array of at least one container")
    lists = [("spec.volumes", template["spec"].get("volumes"))]
    lists += [
        (f"spec.containers: {key}", container.get(key))
        for container in pod_containers
        for key in ("env", "volumeMounts")
    ]
    for name, value in lists:
        if value is not None and not (isinstance(value, list) and all(isinstance(entry, dict) for entry in value)):
            raise ConvertError(f"{path}.{name}: must be an array of objects")
    return pod_containers
