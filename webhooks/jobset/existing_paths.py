"""Moves findings about absent values to paths that exist in the object. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from kube.model.field import GENERATE_NAME_PATH, NAME_PATH, ErrorType, FieldError, Path
from kube.model.meta import JSON


def move_to_existing_paths(findings: Iterable[FieldError], *objects: JSON) -> list[FieldError]:
    """The findings at paths that exist in one of the objects.

    A finding about an absent value becomes `Required value`, which is clearer than `Invalid value: null`. If the parent
    of the value is absent, too, the finding is about the parent. Findings with the API server's own text are not moved.
    """
    return [_move_to_existing_path(error, objects) for error in findings]


def _move_to_existing_path(error: FieldError, objects: Sequence[JSON]) -> FieldError:
    parts = error.path.parts
    depth = max(_existing_depth(obj, parts) for obj in objects)
    if depth == len(parts):
        return error
    if error.path == NAME_PATH and any(_existing_depth(obj, GENERATE_NAME_PATH.parts) == len(parts) for obj in objects):
        return replace(error, path=GENERATE_NAME_PATH)
    if error.verbatim:
        return error
    return replace(error, path=Path(parts[: depth + 1]), type=ErrorType.REQUIRED)


def _existing_depth(obj: Any, parts: tuple[str | int, ...]) -> int:
    """How many parts of a path exist in the object; the value there may be null."""
    for depth, part in enumerate(parts):
        in_object = isinstance(obj, dict) and part in obj
        if not in_object and not (isinstance(obj, list) and isinstance(part, int) and part < len(obj)):
            return depth
        obj = obj[part]
    return len(parts)
