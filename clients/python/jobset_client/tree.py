"""Builds the JSON value of a document, and the location of each part, from the events of a parser.

The YAML parser and the JSON parser use the same builder, so that duplicate keys, merges, aliases and limits mean the
same in both. Aliased parts are shared and not copied. They are counted each time, so that a small text cannot exceed
the limits. Pure.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from jobset_client.scalars import Scalar, ScalarError, json_number, key_text
from jobset_client.source import Location, Span

MAX_DEPTH = 200
"""Largest depth of nested mappings and lists. A JobSet needs about 20."""
MAX_COST = 500_000
"""Largest number of values in one document with expanded aliases. Every 32 characters of text count as another
value."""
_CHARACTERS_PER_COST = 32
MAX_FAULTS = 100
"""Largest number of faults that are reported for one document."""
Kind = Literal["syntax", "duplicate-key", "bad-key", "bad-value", "bad-merge"]


class BuildError(Exception):
    """The document cannot be built. The text says why, `fix` what to do."""

    def __init__(self, span: Span, text: str, fix: str) -> None:
        super().__init__(text)
        self.span = span
        self.fix = fix


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault of the text. Reading ends at a fault of kind `syntax`.

    - `first_span`: for a duplicate key, the position of its first occurrence.
    - `has_same_value`: for a duplicate key, whether both values are equal.
    - `hint`: how to correct a syntax fault.
    - `is_template`: whether the line has an expression of a template language that was not rendered.
    """

    span: Span
    kind: Kind
    path: tuple[str | int, ...] = ()
    value: Scalar = None
    problem: str = ""
    hint: str = ""
    first_span: Span | None = None
    is_template: bool = False
    has_same_value: bool = False


@dataclass(slots=True)
class BuiltValue:
    """A value with its location, its cost when expanded, and its depth."""

    value: Any
    location: Location
    cost: int = 1
    depth: int = 1
    is_merge_key: bool = False


@dataclass(slots=True)
class _Frame:
    """A mapping or list that is still open."""

    built: BuiltValue
    anchor: str | None
    key: str | None = None
    key_span: Span | None = None
    is_merge: bool = False
    duplicate_fault: int | None = None
    """The index of the fault about `key`, if the key is a duplicate."""
    key_spans: dict[str, Span] = field(default_factory=dict)


class Builder:
    """Builds one document event by event. `root` is set after the last event."""

    def __init__(self) -> None:
        self.root: BuiltValue | None = None
        self.faults: list[Fault] = []
        self._frames: list[_Frame] = []
        self._anchors: dict[str, BuiltValue | None] = {}
        self._cost = 0

    def scalar(self, value: Scalar, span: Span, *, anchor: str | None = None, is_merge_key: bool = False) -> None:
        """Add a text, number, boolean or null. `is_merge_key`: whether it is an unquoted `<<`."""
        cost = 1 + (len(value) // _CHARACTERS_PER_COST if isinstance(value, str) else 0)
        built = BuiltValue(value, Location(span), cost, is_merge_key=is_merge_key)
        self._add_cost(cost, span)
        self._store_anchor(anchor, built)
        self._add(built)

    def open(self, value: dict[str, Any] | list[Any], span: Span, *, anchor: str | None = None, block: bool) -> None:
        """Begin a mapping or list. `value` is an empty dict or list."""
        self._add_cost(1, span)
        if len(self._frames) >= MAX_DEPTH:
            raise BuildError(span, f"more than {MAX_DEPTH} mappings and lists inside each other", "flatten it")
        if anchor is not None:
            self._anchors[anchor] = None
        self._frames.append(_Frame(BuiltValue(value, Location(span, block=block)), anchor))

    def close(self, end: int) -> None:
        """End the mapping or list that was opened last."""
        frame = self._frames.pop()
        location = frame.built.location
        location.span = Span(location.span.start, end)
        self._store_anchor(frame.anchor, frame.built)
        self._add(frame.built)

    def alias(self, name: str, span: Span) -> None:
        """Add the value of an anchor. Its members keep their locations, since the text has to be corrected there."""
        if name not in self._anchors:
            raise BuildError(span, f"the alias *{name} has no anchor &{name} before it", "define it, or quote the *")
        anchored = self._anchors[name]
        if anchored is None:
            raise BuildError(span, f"the anchor &{name} contains itself", "an alias cannot stand in its own anchor")
        self._add_cost(anchored.cost, span)
        if len(self._frames) + anchored.depth > MAX_DEPTH + 1:
            raise BuildError(span, f"more than {MAX_DEPTH} mappings and lists inside each other", "flatten it")
        location = Location(span, members=anchored.location.members)
        self._add(BuiltValue(anchored.value, location, anchored.cost, anchored.depth))

    def _add_cost(self, cost: int, span: Span) -> None:
        self._cost += cost
        if self._cost > MAX_COST:
            raise BuildError(span, f"the document holds more than {MAX_COST} values", "split it, use fewer aliases")

    def _store_anchor(self, anchor: str | None, built: BuiltValue) -> None:
        if anchor is not None:
            self._anchors[anchor] = built

    def _add(self, built: BuiltValue) -> None:
        if not self._frames:
            built.value = self._json(built)
            self.root = built
            return
        frame = self._frames[-1]
        parent = frame.built
        parent.cost += built.cost
        parent.depth = max(parent.depth, built.depth + 1)
        if isinstance(parent.value, list):
            parent.location.members[len(parent.value)] = built.location
            parent.value.append(self._json(built, len(parent.value)))
        elif frame.key is None:
            self._set_key(frame, built)
        elif frame.is_merge:
            self._merge(parent, built)
            frame.key = None
        else:
            built.location.key = frame.key_span
            parent.location.members[frame.key] = built.location
            value = self._json(built, frame.key)
            if frame.duplicate_fault is not None:
                self._record_same_value(frame.duplicate_fault, parent.value.get(frame.key), value)
                frame.duplicate_fault = None
            parent.value[frame.key] = value
            frame.key = None

    def _record_same_value(self, fault: int, earlier_value: Any, value: Any) -> None:
        """Record in the fault with this index, about a duplicate key, whether both values are equal."""
        if fault < len(self.faults) and type(earlier_value) is type(value) and earlier_value == value:
            self.faults[fault] = replace(self.faults[fault], has_same_value=True)

    def _json(self, built: BuiltValue, *part: str | int) -> Any:
        try:
            return json_number(built.value)
        except ScalarError as error:
            self._fault("bad-value", built.location.span, self._path(*part), str(built.value), str(error))
            return str(built.value)

    def _set_key(self, frame: _Frame, built: BuiltValue) -> None:
        frame.key_span, frame.is_merge = built.location.span, built.is_merge_key
        frame.key = ""
        if isinstance(built.value, dict | list):
            self._fault("bad-key", built.location.span, self._path(), problem="a key must be text")
            return
        try:
            frame.key = key_text(built.value)
        except ScalarError as error:
            self._fault("bad-key", built.location.span, self._path(), built.value, str(error))
            return
        if frame.is_merge:
            return
        if first := frame.key_spans.get(frame.key):
            frame.duplicate_fault = len(self.faults)
            self._fault("duplicate-key", built.location.span, self._path(frame.key), frame.key, first_span=first)
        frame.key_spans[frame.key] = built.location.span

    def _merge(self, target: BuiltValue, built: BuiltValue) -> None:
        """Add members, which replace earlier members, as in kubectl. Of several mappings, the first has precedence."""
        is_list = isinstance(built.value, list)
        mappings = built.value if is_list else [built.value]
        locations = [built.location.members[i] for i in range(len(mappings))] if is_list else [built.location]
        if not all(isinstance(part, dict) for part in mappings):
            problem = "only a mapping or a list of mappings can be merged: quote << if it is a name"
            self._fault("bad-merge", built.location.span, self._path("<<"), problem=problem)
            return
        for part, location in zip(reversed(mappings), reversed(locations), strict=True):
            target.value.update(part)
            target.location.members.update(location.members)

    def _path(self, *last_part: str | int) -> tuple[str | int, ...]:
        """The path of a member of the innermost open value."""
        parents = self._frames[:-1]
        return (*(len(f.built.value) if isinstance(f.built.value, list) else f.key or "" for f in parents), *last_part)

    def _fault(
        self,
        kind: Kind,
        span: Span,
        path: tuple[str | int, ...],
        value: Scalar = None,
        problem: str = "",
        first_span: Span | None = None,
    ) -> None:
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(
                Fault(span=span, kind=kind, path=path, value=value, problem=problem, first_span=first_span)
            )
