"""Sets of Job indexes, and their text as batch/v1 writes `completedIndexes`: `1,3-5,7`. Pure.

A set is kept as intervals, so that it is as large as its text: `0-2147483646` may have been written by any client.

Text of more than `LONG` bytes is a bitmap instead if that is shorter: `bits:` and base64, in which bit i of byte b
(the lowest bit is 0) stands for index 8b + i. Thus every second of 100,000 Jobs takes 16 KiB, not 288.
"""

import binascii
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from itertools import chain, pairwise

_PART = re.compile(r"(?<![^,])([0-9]{1,10})(?:-([0-9]{1,10}))?(?![^,])", re.ASCII)
"""An index or an interval, between commas."""

LONG = 4096
"""Bytes of text that people may still want to read."""

LONG_TOGETHER = 32_768
"""Bytes of all such texts of one JobSet: where it has more than eight ReplicatedJobs, each has an equal part of it."""

_BITS = "bits:"
_MAX_BITS = 1 << 21
"""Bits that are read: a longer bitmap, which names Jobs that no set may have, would take more memory than its text."""


class Indexes(AbstractSet[int]):
    """Indexes from 0.

    Work and memory grow with the number of intervals, except for iteration, which visits each index.
    """

    __slots__ = ("_ends", "_size", "_starts")

    def __init__(self, intervals: Iterable[tuple[int, int]] = ()) -> None:
        """`intervals`: the first index of each and the one after its last, in any order, overlapping or empty."""
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
        """Ascending, with gaps between them: the first index of each and the one after its last."""
        return zip(self._starts, self._ends, strict=True)

    def also(self, indexes: Iterable[int]) -> "Indexes":
        """The union with these indexes."""
        new = [index for index in indexes if index not in self]
        return Indexes(chain(self.intervals, ((index, index + 1) for index in new))) if new else self

    def missing(self, limit: int) -> Iterator[int]:
        """The indexes below `limit` that are not in this set, ascending.

        Takes one step for each interval and each result.
        """
        edges = chain([0], chain.from_iterable(self.intervals), [limit])
        return (index for start, end in _gaps(edges) for index in range(start, min(end, limit)))


def _gaps(edges: Iterable[int]) -> Iterator[tuple[int, int]]:
    """The intervals between pairs of edges: where one interval ends and where the next begins."""
    return (gap for number, gap in enumerate(pairwise(edges)) if number % 2 == 0)


_NONE = Indexes()


def longest_text(texts: int) -> int:
    """Bytes above which each of that many texts is written as a bitmap, if that is shorter."""
    return min(LONG, LONG_TOGETHER // max(texts, 1))


def parse_indexes(text: str, limit: int) -> Indexes:
    """The indexes below `limit` that the text names. Parts that cannot be read name none."""
    if not text:
        return _NONE
    if text.startswith(_BITS):
        return Indexes(_intervals(_bitmap(text), limit))
    found = (part.groups() for part in _PART.finditer(text))
    return Indexes((int(first), min(int(last or first) + 1, limit)) for first, last in found)


def format_indexes(indexes: Indexes, long: int = LONG) -> str:
    """The shortest text: intervals for three or more neighbours; a bitmap if it would be longer than `long` bytes."""
    text = ",".join(_texts(indexes))
    if len(text) <= long:
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
    """The bits that are set; adjacent ones make one interval."""
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
