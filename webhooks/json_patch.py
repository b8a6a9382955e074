"""Collects changes of an object as JSON-patch operations (RFC 6902). Pure; the original object does not change.

Null is the same as absent: setting a null or absent member adds it, and its missing parents.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kube.model.field import Path
from kube.model.jsontree import dig
from kube.model.meta import JSON
from webhooks.work import STEPS_PER_PATH, Work


@dataclass(slots=True)
class PatchDraft:
    """The changed object, and the operations that have changed it so far. Reading a path spends work."""

    object: JSON
    work: Work = field(default_factory=Work)
    operations: list[JSON] = field(default_factory=list)
    _copies: dict[int, Any] = field(default_factory=dict)

    def set_default(self, path: Path, value: Any, *, empty_is_absent: bool = False) -> None:
        """Set `value` if the path is absent. Do nothing if it has a value, or if a parent is no object or list.

        `empty_is_absent`: an empty text at the end of the path counts as absent.
        """
        if depth := self._absent_depth(path, empty_is_absent=empty_is_absent):
            self._add_operation(path, depth, value)

    def set_value(self, path: Path, value: Any) -> None:
        """Set `value`, whether or not the path has a value. Existing parents must be objects or lists."""
        if dig(self.object, *path.parts) != value:
            self._add_operation(path, self._absent_depth(path) or len(path.parts), value)

    def remove(self, path: Path) -> None:
        """Remove a member of an object. It must be present; it may be null."""
        self.work.spend(STEPS_PER_PATH)
        self.operations.append({"op": "remove", "path": path.pointer})
        del self._writable_at(path.parts[:-1])[path.parts[-1]]

    def append(self, path: Path, item: JSON) -> None:
        """Add `item` to the end of a list, unless the list has it already; create the list if it is absent."""
        items = dig(self.object, *path.parts)
        if items is None:
            self.set_value(path, [item])
        elif item not in items:
            self.operations.append({"op": "add", "path": f"{path.pointer}/-", "value": item})
            self._writable_at(path.parts).append(item)

    def _absent_depth(self, path: Path, *, empty_is_absent: bool = False) -> int:
        """The length of the shortest prefix of the path whose value is absent; 0 if every prefix has a value.

        0 also if a parent is no object or list.
        """
        self.work.spend(STEPS_PER_PATH)
        node: Any = self.object
        for depth, part in enumerate(path.parts, start=1):
            if isinstance(node, dict):
                node = node.get(part)
            elif isinstance(node, list) and isinstance(part, int):
                node = node[part]
            else:
                return 0
            if node is None:
                return depth
        return len(path.parts) if empty_is_absent and node == "" else 0

    def _add_operation(self, path: Path, depth: int, value: Any) -> None:
        for absent_part in reversed(path.parts[depth:]):
            value = {absent_part: value}
        parent = Path(path.parts[:depth])
        # In a list, "add" would insert.
        op = "replace" if isinstance(parent.parts[-1], int) else "add"
        self.operations.append({"op": op, "path": parent.pointer, "value": value})
        self._writable_at(parent.parts[:-1])[parent.parts[-1]] = value

    def _writable_at(self, parts: Sequence[str | int]) -> Any:
        """The object or list at `parts`, as a copy that may be changed."""
        node: Any = self._writable(self.object)
        self.object = node
        for part in parts:
            inner = self._writable(node[part])
            node[part] = inner
            node = inner
        return node

    def _writable(self, node: Any) -> Any:
        """The copy of an object or list that this draft may change. Each object and list is copied once."""
        if id(node) not in self._copies:
            node = node.copy()
            self._copies[id(node)] = node  # a reference, so that no other object gets this id
        return node
