"""Finds the path of a fault by which the API server cannot decode a child Job. Pure.

The API server answers 400 with Go types, a path without indices, and only the first fault. This module finds the
indices by looking the path up in the sent object. The caller finds the next fault by a request without the bad value.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kube.model.field import Parts
from kube.model.jsontree import dig
from kube.model.meta import JSON
from kube.model.quantity import parse_quantity
from kube.model.semantic import QUANTITIES, QUANTITY_MAPS

_DECODE_ERROR = re.compile(r'(\w+) in version "[^"]*" cannot be handled as a \1: (?P<why>.*)', re.DOTALL)
_UNMARSHAL = re.compile(
    r"json: cannot unmarshal (?P<kind>\w+)(?: (?P<literal>\S+))?"
    r" into Go struct field \w+\.(?P<path>\S+) of type (?P<type>.+)"
)
_JSON_TYPES: dict[type, str] = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "bool",
    int: "number",
    float: "number",
}


@dataclass(frozen=True, slots=True)
class DecodeProblem:
    """Why the API server cannot decode a body: the expected Go type, and the paths, if they are known."""

    reason: str
    go_type: str = ""
    paths: tuple[Parts, ...] = ()


def decode_problem(body: JSON, message: str) -> DecodeProblem | None:
    """The problem with `body` in the message of a 400; None if the message is not about decoding."""
    match = _DECODE_ERROR.fullmatch(message)
    if match is None:
        return None
    reason = match["why"]
    if "quantities" in reason or "quantity" in reason:
        return DecodeProblem(reason, "resource.Quantity", tuple(_bad_quantities(body, ())))
    if (wrong_type := _UNMARSHAL.fullmatch(reason)) is None:
        return DecodeProblem(reason)
    # The path of a member of an embedded struct has the capitalized name of the struct, which JSON has not.
    names = [name for name in wrong_type["path"].split(".") if not name[:1].isupper()]
    path = _find_path(body, names, wrong_type["kind"], wrong_type["literal"])
    return DecodeProblem(reason, wrong_type["type"], () if path is None else (path,))


def _find_path(body: JSON, names: list[str], kind: str, literal: str | None) -> Parts | None:
    """The path of a value of the JSON type `kind`, at the path `names` or one level below; None if there is none.

    A value that equals `literal` comes first.
    """
    paths = list(_indexed_paths(body, names, ()))
    member_paths = [(*parts, key) for parts in paths for key in _keys(dig(body, *parts))]
    candidates, member_candidates = (
        [parts for parts in group if _JSON_TYPES.get(type(dig(body, *parts))) == kind]
        for group in (paths, member_paths)
    )
    candidates = candidates or member_candidates
    exact_matches = (parts for parts in candidates if str(dig(body, *parts)) == literal)
    return next(exact_matches, candidates[0] if candidates else None)


def _indexed_paths(node: Any, names: list[str], parts: Parts) -> Iterator[Parts]:
    """Every path, with indices of list items, that the path `names` without indices may mean."""
    if not names:
        yield parts
    elif isinstance(node, list):
        for i, item in enumerate(node):
            yield from _indexed_paths(item, names, (*parts, i))
    elif isinstance(node, dict) and names[0] in node:
        yield from _indexed_paths(node[names[0]], names[1:], (*parts, names[0]))


def _keys(node: Any) -> list[str | int]:
    if isinstance(node, dict):
        return list(node)
    return list(range(len(node))) if isinstance(node, list) else []


def _bad_quantities(node: Any, parts: Parts) -> Iterator[Parts]:
    for key in _keys(node):
        member_parts = (*parts, key)
        member = node[key]
        if key in QUANTITIES and parse_quantity(member) is None:
            yield member_parts
        elif key in QUANTITY_MAPS and isinstance(member, dict):
            yield from ((*member_parts, name) for name, amount in member.items() if parse_quantity(amount) is None)
        else:
            yield from _bad_quantities(member, member_parts)
