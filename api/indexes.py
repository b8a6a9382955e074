"""Sets of indexes of Jobs, and their text form in the status of a JobSet, such as `1,3-5,7`. Pure.

The text form is that of `completedIndexes` in batch/v1. A set is stored as intervals, so it needs no more memory than
its text. This is important, since any client may have written a text such as `0-2147483646`.

A text of more than `MAX_TEXT_BYTES` is written as a bitmap if the bitmap is shorter: `bits:`, and base64 of bytes in
which bit i of byte b (the lowest bit is 0) stands for index 8b + i. So every second index of 100,000 Jobs takes 16 KiB
instead of 288 KiB.
"""

import binascii
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from itertools import chain, pairwise

_INDEX_OR_INTERVAL = re.compile(r"(?<![^,])([0-9]{1,10})(?:-([0-9]{1,10}))?(?![^,])", re.ASCII)
"""An index or an interval, with a comma or nothing before and after it."""

MAX_TEXT_BYTES = 4096
"""A text of at most this many bytes is never written as a bitmap, so that people can read it."""

MAX_BYTES_OF_TEXTS = 32_768
"""Bytes of all texts of one JobSet, which has a text for each ReplicatedJob. With more than eight, each gets less."""

_BITS = "bits:"
_MAX_BITS = 1 << 21
"""A bitmap of more bits is ignored. It has indexes of Jobs that no JobSet can have."""


class Indexes(AbstractSet[int]):
    """A set of indexes, which begin at 0.

    Work and memory grow with the number of intervals, except for iteration, which visits each index.
    """

    __slots__ = ("_ends", "_size", "_starts")

    def __init__(self, intervals: Iterable[tuple[int, int]] = ()) -> None:
        """`intervals`: pairs of a first index and the index after the last, in any order; may overlap or be empty."""
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in sorted(intervals):
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            elif start < end:
                self._starts.append(start)
                self._ends.append(end)
        self._size = sum(self._ends) - sum(self._starts)

    @classmethod
    def from_iterable(cls, indexes: Iterable[int]) -> "Indexes":
        return cls((index, index + 1) for index in indexes)

    @classmethod
    def _from_iterable(cls, it: Iterable[int]) -> "Indexes":  # type: ignore[override]  # of integers alone
        return cls.from_iterable(it)

    def __contains__(self, index: object) -> bool:
        if not isinstance(index, int):
            return False
        position = bisect_right(self._starts, index)
        return position > 0 and index < self._ends[position - 1]

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(map(range, self._starts, self._ends))

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"Indexes({format_indexes(self)!r})"

    @property
    def intervals(self) -> Iterator[tuple[int, int]]:
        """Pairs of a first index and the index after the last, ascending, with gaps between the intervals."""
        return zip(self._starts, self._ends, strict=True)

    def union(self, indexes: Iterable[int]) -> "Indexes":
        """The union with these indexes."""
        new_indexes = [index for index in indexes if index not in self]
        return Indexes(chain(self.intervals, ((i, i + 1) for i in new_indexes))) if new_indexes else self

    def missing(self, limit: int) -> Iterator[int]:
        """The indexes below `limit` that are not in this set, ascending.

        The work grows with the number of intervals and of results.
        """
        edges = chain([0], chain.from_iterable(self.intervals), [limit])
        return (index for start, end in _gaps(edges) for index in range(start, min(end, limit)))


def _gaps(edges: Iterable[int]) -> Iterator[tuple[int, int]]:
    """The gaps between intervals. `edges`: the end of an interval and the start of the next, in turn."""
    return (gap for position, gap in enumerate(pairwise(edges)) if position % 2 == 0)


_NONE = Indexes()


def max_text_bytes(text_count: int) -> int:
    """The most bytes of one text in a JobSet with so many texts. A longer text becomes a bitmap if that is shorter."""
    return min(MAX_TEXT_BYTES, MAX_BYTES_OF_TEXTS // max(text_count, 1))


def parse_indexes(text: str, limit: int) -> Indexes:
    """The indexes below `limit` that the text names. Parts that cannot be parsed are ignored."""
    if not text:
        return _NONE
    if text.startswith(_BITS):
        return Indexes(_intervals(_bitmap(text), limit))
    pairs = (part.groups() for part in _INDEX_OR_INTERVAL.finditer(text))
    return Indexes((int(first), min(int(last or first) + 1, limit)) for first, last in pairs)


def format_indexes(indexes: Indexes, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """The text of these indexes, with intervals for three or more neighbors.

    A text of more than `max_bytes` bytes becomes a bitmap, if the bitmap is shorter.
    """
    text = ",".join(_texts(indexes))
    if len(text) <= max_bytes:
        return text
    last = max(end for _, end in indexes.intervals)
    if last > _MAX_BITS or last / 6 + len(_BITS) + 4 > len(text):
        return text
    bits = bytearray(-(-last // 8))
    for index in indexes:
        bits[index >> 3] |= 1 << (index & 7)
    return _BITS + binascii.b2a_base64(bits, newline=False).decode("ascii")


def _bitmap(text: str) -> bytes:
    if len(text) > _MAX_BITS // 6 + len(_BITS) + 4:
        return b""
    try:
        return binascii.a2b_base64(text[len(_BITS) :], strict_mode=True)
    except ValueError:
        return b""


def _intervals(bitmap: bytes, limit: int) -> Iterator[tuple[int, int]]:
    """The intervals of bits that are set and stand for indexes below `limit`."""
    limit = max(limit, 0)
    digits = bin(int.from_bytes(bitmap[: limit // 8 + 1], "little"))[:1:-1]
    for run in re.finditer("1+", digits[:limit]):
        yield run.span()


def _texts(indexes: Indexes) -> Iterator[str]:
    for start, end in indexes.intervals:
        if end - start > 2:
            yield f"{start}-{end - 1}"
        else:
            yield from map(str, range(start, end))
