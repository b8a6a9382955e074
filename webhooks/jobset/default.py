"""Defaults of a JobSet as JSON-patch operations (behaviour section 2). Pure; never raises; must not refuse anything.

Works on the JSON as it came, so that what this program does not know survives. Null is the same as absent. Whatever
has not the shape the schema wants is left alone, for the API server to refuse.

Defaults are set on update as well, because a client-side apply of an unchanged manifest sends the list of
ReplicatedJobs without them. On update a default is set only where the stored object has a value: one that was stored
without it (past this webhook) runs without it, and setting it would change what the object means.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from api.field import SPEC, Path
from api.jsontree import dig
from api.meta import JSON

_POLICIES: tuple[tuple[tuple[str, ...], Any], ...] = (
    (("successPolicy",), {"operator": "All"}),
    (("startupPolicy",), {"startupPolicyOrder": "AnyOrder"}),
    (("network", "enableDNSHostnames"), True),
    (("network", "publishNotReadyAddresses"), True),
)
_SHARE: tuple[tuple[tuple[str, ...], Any], ...] = ((("successPolicy", "operator"), "All"),)
"""Where a share of the targets is enough, the operator can be but one."""
_TEMPLATE: tuple[tuple[tuple[str, ...], Any], ...] = (
    (("template", "spec", "completionMode"), "Indexed"),
    (("template", "spec", "template", "spec", "restartPolicy"), "OnFailure"),
)
_EMPTY_TEXT_IS_ABSENT = frozenset({"restartPolicy", "name"})


@dataclass(slots=True)
class _Draft:
    """An object under defaulting: its present state and the operations that led there. The original stays as it is."""

    object: JSON
    operations: list[JSON] = field(default_factory=list)
    _copies: set[int] = field(default_factory=set)

    def default(self, path: Path, value: Any) -> None:
        """Set `value` where nothing is, making the parents that are missing; do nothing where something is."""
        node: Any = self.object
        for depth, part in enumerate(path.parts):
            if isinstance(node, dict) and isinstance(part, str):
                node = node.get(part)
            elif isinstance(node, list) and isinstance(part, int):
                node = node[part]
            else:
                return
            if node is None or (node == "" and part in _EMPTY_TEXT_IS_ABSENT):
                for missing in reversed(path.parts[depth + 1 :]):
                    value = {missing: value}
                self._add(Path(path.parts[: depth + 1]), value)
                return

    def _add(self, path: Path, value: Any) -> None:
        self.operations.append({"op": "add", "path": path.pointer, "value": value})
        self.object = self._writable(self.object)
        node: Any = self.object
        for part in path.parts[:-1]:
            node[part] = self._writable(node[part])
            node = node[part]
        node[path.parts[-1]] = value

    def _writable(self, node: Any) -> Any:
        """A copy that this draft may change: one for each container, however many defaults are set below it."""
        if id(node) not in self._copies:
            node = node.copy()
            self._copies.add(id(node))
        return node


def with_defaults(new: JSON, old: JSON | None = None) -> tuple[JSON, list[JSON]]:
    """The defaulted object and the operations that make it; `old` is the stored object on update, None on create."""
    draft = _Draft(new)
    for path, value in _wanted(new.get("spec"), None if old is None else old.get("spec") or {}):
        draft.default(path, value)
    return draft.object, draft.operations


def _wanted(spec: Any, old: Any) -> Iterator[tuple[Path, Any]]:
    yield from _where_stored(SPEC, _POLICIES, old)
    if dig(spec, "successPolicy", "minSucceeded") is not None:
        yield from _where_stored(SPEC, _SHARE, old)
    stored = None if old is None else by_name(dig(old, "replicatedJobs"))
    for i, rjob in _objects(dig(spec, "replicatedJobs")):
        if isinstance(rjob.get("template"), dict):
            name = rjob.get("name")
            before = None if stored is None else stored.get(name if isinstance(name, str) else None)
            yield from _where_stored(SPEC.at("replicatedJobs", i), _TEMPLATE, before)
    for i, _ in _objects(dig(spec, "failurePolicy", "rules")):
        yield SPEC.at("failurePolicy", "rules", i, "name"), f"failurePolicyRule{i}"
    for i, _ in _objects(dig(spec, "volumeClaimPolicies")):
        before = None if old is None else dig(old, "volumeClaimPolicies", i)
        retention = ((("retentionPolicy",), {"whenDeleted": "Delete"}),)
        yield from _where_stored(SPEC.at("volumeClaimPolicies", i), retention, before)


def _where_stored(
    base: Path, defaults: tuple[tuple[tuple[str, ...], Any], ...], old: Any
) -> Iterator[tuple[Path, Any]]:
    for keys, value in defaults:
        if old is None or dig(old, *keys) is not None:
            yield base.at(*keys), value


def _objects(items: Any) -> list[tuple[int, JSON]]:
    return [(i, item) for i, item in enumerate(items) if isinstance(item, dict)] if isinstance(items, list) else []


def by_name(items: Any) -> Mapping[Any, JSON]:
    """Objects of a list by their `name`; whatever has no text as a name is left out."""
    return {item["name"]: item for _, item in _objects(items) if isinstance(item.get("name"), str)}
