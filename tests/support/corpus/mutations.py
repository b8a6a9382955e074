"""Wrong JobSets: one value of a good one changed, dropped, repeated, or added where the schema knows or does not know it.

`mutated` draws them for Hypothesis. The values are such as a YAML file holds.
"""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

from manifests.definition import crd

JSON = dict[str, Any]
SCHEMA: JSON = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
VALUES = (
    None, True, False, 0, -1, 3, 80, 1.5, 2.0, 2**31, -(2**31) - 1, 2**63, -(2**63), 10**30, "", "x", "3", "TCP", "1GB",
    "2Gi", "All", "Ready", "name", "2026-01-31T12:00:00Z", "2026-01-31", [], ["x"], [None], [1, 1], [{}, {}], {}, {"a": 1},
    {"a": "x"}, {"a": None}, {"name": "x"}, [{"name": "x"}, {"name": "x"}], [{"name": "x"}, None], [[]],
)  # fmt: skip


_TRAINING: JSON = yaml.load(
    (Path(__file__).parents[2] / "manifests" / "data" / "training.yaml").read_text(), yaml.CSafeLoader
)


def training() -> JSON:
    """A good JobSet that has most of the fields there are."""
    return copy.deepcopy(_TRAINING)


def dig(tree: Any, keys: tuple[str | int, ...]) -> Any:
    for key in keys:
        tree = tree[key]
    return tree


def nodes(tree: Any) -> list[tuple[tuple[str | int, ...], Any]]:
    """Every place in the tree, from the top, and what is there."""
    found: list[tuple[tuple[str | int, ...], Any]] = []

    def visit(path: tuple[str | int, ...], node: Any) -> None:
        found.append((path, node))
        for key, child in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
            visit((*path, key), child)

    visit((), tree)
    return found


def schema_at(path: tuple[str | int, ...]) -> JSON:
    """The schema of a place; empty where the schema has none."""
    node = SCHEMA
    for key in path:
        if isinstance(key, int):
            node = node.get("items", {})
        else:
            node = node.get("properties", {}).get(key) or node.get("additionalProperties") or {}
    return node


@st.composite
def mutated(draw: st.DrawFn, changes: int = 3, good: Callable[[], JSON] = training) -> JSON:
    """The good JobSet with up to `changes` changes under `spec`."""
    tree = good()
    for _ in range(draw(st.integers(1, changes))):
        draw(st.sampled_from((_replace, _drop, _repeat, _add)))(draw, tree)
    return tree


def _pick(draw: st.DrawFn, tree: JSON, kind: type = object) -> tuple[str | int, ...]:
    spots = [("spec", *path) for path, node in nodes(tree["spec"]) if isinstance(node, kind)]
    return draw(st.sampled_from(spots)) if spots else ("spec",)


def _replace(draw: st.DrawFn, tree: JSON) -> None:
    *parent, last = _pick(draw, tree)
    dig(tree, tuple(parent))[last] = copy.deepcopy(draw(st.sampled_from(VALUES)))


def _drop(draw: st.DrawFn, tree: JSON) -> None:
    *parent, last = _pick(draw, tree)
    del dig(tree, tuple(parent))[last]
    tree.setdefault("spec", {})


def _repeat(draw: st.DrawFn, tree: JSON) -> None:
    spot = dig(tree, _pick(draw, tree, list))
    if isinstance(spot, list) and spot:
        spot.append(copy.deepcopy(draw(st.sampled_from(spot))))


def _add(draw: st.DrawFn, tree: JSON) -> None:
    path = _pick(draw, tree, dict)
    spot = dig(tree, path)
    if isinstance(spot, dict):
        name = draw(st.sampled_from([*schema_at(path).get("properties", ()), "another"]))
        spot[name] = copy.deepcopy(draw(st.sampled_from(VALUES)))
