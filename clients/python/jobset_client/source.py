"""Positions of values in a text, as offsets, or as lines and columns for messages. Pure."""

import bisect
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

_LINE_END = re.compile(r"\r\n|\r|\n")


class Span(NamedTuple):
    """A range of characters by their offsets. The end is exclusive."""

    start: int
    end: int


@dataclass(slots=True)
class Location:
    """The location of a value, and of its members: a tree with the shape of the value.

    `key` is the span of the member's name; items of lists have none. `block`: whether the value is a mapping or list in
    block style, which has no brackets to underline.
    """

    span: Span
    key: Span | None = None
    block: bool = False
    members: dict[str | int, "Location"] = field(default_factory=dict)

    def nearest(self, parts: Sequence[str | int]) -> tuple["Location", int]:
        """Return the location of the longest prefix of `parts` that exists, and the length of that prefix."""
        location = self
        for depth, part in enumerate(parts):
            member = location.members.get(part)
            if member is None:
                return location, depth
            location = member
        return location, len(parts)

    def marked_span(self, *, at_key: bool) -> Span:
        """The span to underline: the value, or its key if `at_key` is set or the value is not in one piece."""
        if self.key is not None and (at_key or self.block or self.span.start == self.span.end):
            return self.key
        return Span(self.span.start, self.span.start + 1) if self.block or at_key else self.span


@dataclass(frozen=True)
class Source:
    """A text, and its name in messages."""

    name: str
    text: str

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(match.end() for match in _LINE_END.finditer(self.text))]

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of a character, both from 1."""
        line = bisect.bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        """A line by its number, without its end."""
        start = self._line_starts[number - 1]
        end = self._line_starts[number] if number < len(self._line_starts) else len(self.text)
        return self.text[start:end].rstrip("\r\n")
