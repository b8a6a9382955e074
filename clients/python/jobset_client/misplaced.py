"""Find the object that a misplaced field belongs to."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel

_Location = tuple[str, ...]
"""The path of an object: the API's names, and `*` for the items of a list."""
_EXCLUDED_MEMBERS = frozenset({"metadata", "status"})
"""Members whose fields are not proposed, since many objects have metadata, and users do not write status."""
_TEMPLATE_FIELDS: Mapping[_Location, str] = {
    ("spec",): "parallelism completions completionMode backoffLimit backoffLimitPerIndex podFailurePolicy"
    " podReplacementPolicy",
    ("spec", "template", "spec"): "containers initContainers restartPolicy nodeSelector tolerations affinity volumes"
    " serviceAccountName priorityClassName schedulerName imagePullSecrets",
}
"""Fields of a Job's template that are often misplaced. The template has no model in this package."""


def path_of_nearest_object(model: type[BaseModel], path: Sequence[str | int]) -> str:
    """The path of the nearest object that has the last part of `path` as a field; empty if no object has it."""
    current = tuple("*" if isinstance(part, int) else part for part in path[:-1])
    candidates = [location for location in _locations(model).get(str(path[-1]), ()) if location != current]
    if not candidates:
        return ""
    location = min(candidates, key=lambda location: _distance(current, location))
    text = ""
    for index, part in enumerate(location):
        if part == "*":
            text += f"[{path[index] if index < _common_length(current, location) else '*'}]"
        else:
            text += f".{part}" if text else part
    return text or "the top level"


@cache
def _locations(model: type[BaseModel]) -> Mapping[str, tuple[_Location, ...]]:
    locations: dict[str, tuple[_Location, ...]] = {}
    for location, name in _walk_fields(model, ()):
        locations[name] = (*locations.get(name, ()), location)
    return locations


def _walk_fields(model: type[BaseModel], location: _Location) -> Iterator[tuple[_Location, str]]:
    for attribute, field in model.model_fields.items():
        name = field.serialization_alias or attribute
        yield location, name
        if not location and name in _EXCLUDED_MEMBERS:
            continue
        if name == "template":
            yield from (
                ((*location, name, *inside), member)
                for inside, members in _TEMPLATE_FIELDS.items()
                for member in members.split()
            )
        for inner, steps in _inner_models(field.annotation):
            yield from _walk_fields(inner, (*location, name, *steps))


def _inner_models(annotation: Any) -> Iterator[tuple[type[BaseModel], _Location]]:
    """The models inside a field of this type, and the path from the field to them."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, ()
    elif get_origin(annotation) in {list, Union, UnionType}:
        steps = ("*",) if get_origin(annotation) is list else ()
        for inner in get_args(annotation):
            yield from ((model, (*steps, *inner_steps)) for model, inner_steps in _inner_models(inner))


def _common_length(current: _Location, other: _Location) -> int:
    """Length of the common prefix of two locations."""
    pairs = zip(current, other, strict=False)
    return next((i for i, (part, other_part) in enumerate(pairs) if part != other_part), min(len(current), len(other)))


def _distance(current: _Location, other: _Location) -> tuple[int, int]:
    """The number of steps from one location to the other, and how many of them go up. Fewer steps up are nearer."""
    common = _common_length(current, other)
    steps_up = len(current) - common
    return steps_up + len(other) - common, steps_up
