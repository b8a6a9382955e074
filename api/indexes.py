"""Sets of Job indexes, and their text as batch/v1 writes `completedIndexes`: `1,3-5,7`. Pure.

A set is kept as intervals, so that it is as large as its text: `0-2147483646` may have been written by anybody.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from itertools import chain, pairwise

_PART = re.compile(r"(?<![^,])([0-9]{1,10})(?:-([0-9]{1,10}))?(?![^,])", re.ASCII)
"""An index or an interval, between commas."""


class Indexes(AbstractSet[int]):
    """Indexes from 0. Work and memory go with the number of intervals, but for iteration."""

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
    def of(cls, indexes: Iterable[int]) -> "Indexes":
        """These, one by one."""
        return cls((index, index + 1) for index in indexes)

    @classmethod
    def _from_iterable(cls, it: Iterable[int]) -> "Indexes":  # type: ignore[override]  # of integers alone
        return cls.of(it)

    def __contains__(self, index: object) -> bool:
        if not isinstance(index, int):
            return False
        place = bisect_right(self._starts, index)
        return place > 0 and index < self._ends[place - 1]

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(map(range, self._starts, self._ends))

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"Indexes({format_indexes(self)!r})"

    @property
    def intervals(self) -> Iterator[tuple[int, int]]:
        """Ascending and apart from each other: the first index and the one after the last."""
        return zip(self._starts, self._ends, strict=True)

    def also(self, indexes: Iterable[int]) -> "Indexes":
        """With these added."""
        new = [index for index in indexes if index not in self]
        return Indexes(chain(self.intervals, ((index, index + 1) for index in new))) if new else self

    def missing(self, limit: int) -> Iterator[int]:
        """Those below `limit` that are not in it, ascending. What is in it costs a step for each interval."""
        edges = chain([0], chain.from_iterable(self.intervals), [limit])
        return (index for start, end in _gaps(edges) for index in range(start, min(end, limit)))


def _gaps(edges: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Of edges where a set ends and begins in turn, the intervals between."""
    return (gap for number, gap in enumerate(pairwise(edges)) if number % 2 == 0)


def parse_indexes(text: str, limit: int) -> Indexes:
    """The indexes below `limit` that the text names. Parts that cannot be read name none."""
    found = (part.groups() for part in _PART.finditer(text))
    return Indexes((int(first), min(int(last or first) + 1, limit)) for first, last in found)


def format_indexes(indexes: Indexes) -> str:
    """The shortest text: from three neighbours on, an interval."""
    return ",".join(_texts(indexes))


def _texts(indexes: Indexes) -> Iterator[str]:
    for start, end in indexes.intervals:
        if end - start > 2:
            yield f"{start}-{end - 1}"
        else:
            yield from map(str, range(start, end))
