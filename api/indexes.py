"""Sets of Job indexes as text, written as batch/v1 writes `completedIndexes`: `1,3-5,7`. Pure."""

from collections.abc import Iterable, Iterator

_LONGEST = 10
"""Digits of an index; the text may have been written by anybody."""


def parse_indexes(text: str, limit: int) -> frozenset[int]:
    """The indexes below `limit` that the text names. Parts that cannot be read name none."""
    return frozenset(index for part in text.split(",") for index in _interval(part, limit))


def _interval(part: str, limit: int) -> range:
    first, _, last = part.partition("-")
    if not _is_index(first):
        return range(0)
    end = int(last) if _is_index(last) else int(first)
    return range(int(first), min(end + 1, limit))


def _is_index(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _LONGEST


def format_indexes(indexes: Iterable[int]) -> str:
    """The shortest text: from three neighbours on, an interval."""
    return ",".join(_texts(sorted(indexes)))


def _texts(ordered: list[int]) -> Iterator[str]:
    start = 0
    for position in range(1, len(ordered) + 1):
        if position < len(ordered) and ordered[position] == ordered[position - 1] + 1:
            continue
        first, last = ordered[start], ordered[position - 1]
        if last - first > 1:
            yield f"{first}-{last}"
        else:
            yield from map(str, ordered[start:position])
        start = position
