"""Builds the JSON value that a manifest stands for, with the place of every part of it, from the pieces a parser finds.

Both parsers, YAML's and JSON's, feed it, so that duplicate keys, merges, aliases and limits mean the same to both.
Aliased parts are shared, never copied, and counted each time: a small text cannot grow beyond the limits. Pure.
"""

from dataclasses import dataclass, field
from typing import Any

from cli.check.places import Place, Span
from cli.check.yaml_scalars import Scalar, ScalarError, json_number
from cli.check.yaml_scalars import key as key_text
from kube.model.field import ErrorType, FieldError, Path, Rule

MAX_DEPTH = 200
"""Mappings and lists inside each other; a JobSet needs about 20."""
MAX_COST = 500_000
"""Values in one document, aliases expanded; 32 characters of text count as one more."""
_TEXT_UNIT = 32
MAX_FAULTS = 100
"""Faults that are kept of one document."""

DUPLICATE_KEY = Rule(
    "duplicate-key",
    ErrorType.DUPLICATE,
    "this key is here already, and only one of its values can count",
    "remove one of them",
    "YAML 1.2 section 3.2.1.3, RFC 8259 section 4",
)
BAD_KEY = Rule("bad-key", ErrorType.INVALID, "{problem}", "quote the key", "JSON: names are texts")
BAD_VALUE = Rule("bad-value", ErrorType.INVALID, "{problem}", "quote the value if text is meant", "RFC 8259 section 6")
BAD_MERGE = Rule(
    "bad-merge",
    ErrorType.INVALID,
    "only a mapping or a list of mappings can be merged",
    "give << an alias of a mapping, or quote it if it is a name",
    "YAML merge keys",
)


class BuildError(Exception):
    """The document cannot be built; the text says why."""

    def __init__(self, span: Span, text: str, fix: str) -> None:
        super().__init__(text)
        self.span = span
        self.fix = fix


@dataclass(frozen=True, slots=True)
class Fault:
    """Something wrong with the text that the rest of it can be read past."""

    span: Span
    error: FieldError


@dataclass(slots=True)
class Built:
    """A value with its place, what it costs when expanded, and how deep it goes."""

    value: Any
    place: Place
    cost: int = 1
    depth: int = 1
    plain_merge: bool = False


@dataclass(slots=True)
class _Frame:
    """A mapping or list that is still open."""

    built: Built
    anchor: str | None
    key: str | None = None
    key_span: Span | None = None
    merging: bool = False
    own: set[str] = field(default_factory=set)


class Builder:
    """Takes one document piece by piece. `root` is there after the last piece."""

    def __init__(self) -> None:
        self.root: Built | None = None
        self.faults: list[Fault] = []
        self._frames: list[_Frame] = []
        self._anchors: dict[str, Built | None] = {}
        self._cost = 0

    def scalar(self, value: Scalar, span: Span, *, anchor: str | None = None, merge: bool = False) -> None:
        """A text, number, boolean or null; `merge`: whether it is an unquoted `<<`."""
        cost = 1 + (len(value) // _TEXT_UNIT if isinstance(value, str) else 0)
        built = Built(value, Place(span), cost, plain_merge=merge)
        self._pay(cost, span)
        self._remember(anchor, built)
        self._add(built)

    def open(self, value: dict[str, Any] | list[Any], span: Span, *, anchor: str | None = None, block: bool) -> None:
        """A mapping or list begins; `value` is empty."""
        self._pay(1, span)
        if len(self._frames) >= MAX_DEPTH:
            raise BuildError(span, f"more than {MAX_DEPTH} mappings and lists inside each other", "flatten it")
        if anchor is not None:
            self._anchors[anchor] = None
        self._frames.append(_Frame(Built(value, Place(span, block=block)), anchor))

    def close(self, end: int) -> None:
        """The mapping or list opened last ends."""
        frame = self._frames.pop()
        place = frame.built.place
        place.span = Span(place.span.start, end)
        self._remember(frame.anchor, frame.built)
        self._add(frame.built)

    def alias(self, name: str, span: Span) -> None:
        """What an anchor named, once more. What is in it keeps its place: that is the text to correct."""
        if name not in self._anchors:
            raise BuildError(span, f"the alias *{name} has no anchor &{name} before it", "define it, or quote the *")
        known = self._anchors[name]
        if known is None:
            raise BuildError(span, f"the anchor &{name} contains itself", "an alias cannot stand in its own anchor")
        self._pay(known.cost, span)
        if len(self._frames) + known.depth > MAX_DEPTH + 1:
            raise BuildError(span, f"more than {MAX_DEPTH} mappings and lists inside each other", "flatten it")
        self._add(Built(known.value, Place(span, members=known.place.members), known.cost, known.depth))

    def _pay(self, cost: int, span: Span) -> None:
        self._cost += cost
        if self._cost > MAX_COST:
            raise BuildError(span, f"the document holds more than {MAX_COST} values", "split it, use fewer aliases")

    def _remember(self, anchor: str | None, built: Built) -> None:
        if anchor is not None:
            self._anchors[anchor] = built

    def _add(self, built: Built) -> None:
        if not self._frames:
            built.value = self._json(built)
            self.root = built
            return
        frame = self._frames[-1]
        parent = frame.built
        parent.cost += built.cost
        parent.depth = max(parent.depth, built.depth + 1)
        if isinstance(parent.value, list):
            parent.place.members[len(parent.value)] = built.place
            parent.value.append(self._json(built, len(parent.value)))
        elif frame.key is None:
            self._take_key(frame, built)
        elif frame.merging:
            self._merge(parent, built)
            frame.key = None
        else:
            built.place.key = frame.key_span
            parent.place.members[frame.key] = built.place
            parent.value[frame.key] = self._json(built, frame.key)
            frame.key = None

    def _json(self, built: Built, *part: str | int) -> Any:
        try:
            return json_number(built.value)
        except ScalarError as error:
            self._fault(built.place.span, BAD_VALUE, self._path(*part), str(built.value), problem=str(error))
            return str(built.value)

    def _take_key(self, frame: _Frame, built: Built) -> None:
        frame.key_span, frame.merging = built.place.span, built.plain_merge
        frame.key = ""
        if isinstance(built.value, dict | list):
            self._fault(built.place.span, BAD_KEY, self._path(), None, problem="a key must be text")
            return
        try:
            frame.key = key_text(built.value)
        except ScalarError as error:
            self._fault(built.place.span, BAD_KEY, self._path(), built.value, problem=str(error))
            return
        if frame.merging:
            return
        if frame.key in frame.own:
            self._fault(built.place.span, DUPLICATE_KEY, self._path(frame.key), frame.key)
        frame.own.add(frame.key)

    def _merge(self, into: Built, built: Built) -> None:
        """Lay the members over those that stand before, as kubectl does; of several mappings the first wins."""
        several = isinstance(built.value, list)
        parts = built.value if several else [built.value]
        places = [built.place.members[i] for i in range(len(parts))] if several else [built.place]
        if not all(isinstance(part, dict) for part in parts):
            self._fault(built.place.span, BAD_MERGE, self._path("<<"), None)
            return
        for part, place in zip(reversed(parts), reversed(places), strict=True):
            into.value.update(part)
            into.place.members.update(place.members)

    def _path(self, *more: str | int) -> Path:
        """The path of a member of the innermost open value."""
        above = self._frames[:-1]
        parts = [len(f.built.value) if isinstance(f.built.value, list) else f.key or "" for f in above]
        return Path((*parts, *more))

    def _fault(self, span: Span, rule: Rule, path: Path, value: Any, **words: str) -> None:
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(Fault(span, rule.at(path, value, **words)))
