"""Where in a text a value stands: offsets while reading, lines and columns for people. Pure; parses nothing."""

import bisect
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

_LINE_END = re.compile(r"\r\n|\r|\n")


class Span(NamedTuple):
    """Offsets in characters, the end exclusive."""

    start: int
    end: int


@dataclass(slots=True)
class Place:
    """Where a value stands, and the places of what it holds: a tree of the same shape as the value's.

    `key` is the member's name before the value; items of lists have none. `block`: whether the value is a mapping or
    list written by indentation, which has no brackets to point at.
    """

    span: Span
    key: Span | None = None
    block: bool = False
    members: dict[str | int, "Place"] = field(default_factory=dict)

    def nearest(self, parts: Sequence[str | int]) -> tuple["Place", int]:
        """The place of the longest beginning of `parts` that there is, and its length."""
        place = self
        for depth, part in enumerate(parts):
            found = place.members.get(part)
            if found is None:
                return place, depth
            place = found
        return place, len(parts)

    def pointed(self, *, at_key: bool) -> Span:
        """What a caret goes under: the value; or its key, where that is asked for or the value is not in one piece."""
        if self.key is not None and (at_key or self.block or self.span.start == self.span.end):
            return self.key
        return Span(self.span.start, self.span.start + 1) if self.block or at_key else self.span


@dataclass(frozen=True)
class Source:
    """A text and what it is called in messages."""

    name: str
    text: str

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(found.end() for found in _LINE_END.finditer(self.text))]

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of a character, both from 1."""
        line = bisect.bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def line(self, number: int) -> str:
        """A line by its number, without its end."""
        start = self._starts[number - 1]
        end = self._starts[number] if number < len(self._starts) else len(self.text)
        return self.text[start:end].rstrip("\r\n")
