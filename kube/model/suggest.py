"""Finds the names that a mistyped name resembles. Pure."""

from collections.abc import Iterable
from itertools import islice

from kube.model.field import quote, shorten

MAX_CANDIDATES = 100
"""The most names that are compared, so that an answer is quick for any input."""
CLOSE = 0.7
"""Similarity at which a name is suggested."""
_MAX_LISTED = 8
_MAX_NAME = 63


def did_you_mean(word: str, names: Iterable[str], *, intro: str = "there are", most: int = _MAX_LISTED) -> str:
    """A text such as `did you mean "workers"? there are: "driver", "workers"`.

    The question is left out if no name is close, and the list if the close name is the only name. The text is empty if
    there are no names. The list has the first `most` names.
    """
    candidates = list(dict.fromkeys(name for name in islice(names, MAX_CANDIDATES) if name))
    if not candidates:
        return ""
    close_name = nearest(word, candidates)
    if close_name and len(candidates) == 1:
        return f"did you mean {quote(close_name)}?"
    name_list = ", ".join(quote(shorten(name, _MAX_NAME)) for name in candidates[:most])
    ellipsis = ", ..." if len(candidates) > most else ""
    guess = f"did you mean {quote(close_name)}? " if close_name else ""
    return f"{guess}{intro}: {name_list}{ellipsis}"


def nearest(word: str, names: Iterable[str]) -> str:
    """The most similar name, in upper or lower case; empty if no name is close."""
    comparison, best_likeness, best_name = Comparison(word), CLOSE, ""
    for name in islice(names, MAX_CANDIDATES):
        likeness = comparison.likeness(name)
        if likeness > best_likeness or (likeness == best_likeness and not best_name):
            best_likeness, best_name = likeness, name
    return best_name


class Comparison:
    """Compares names with one word, by their first 63 characters, ignoring case.

    The cost of a comparison depends only on the length of the names. The cost of difflib explodes for names such as
    `aaaaaaab`.
    """

    def __init__(self, word: str) -> None:
        self._word = _fold(word)
        self._positions: dict[str, int] = {}
        for i, char in enumerate(self._word):
            self._positions[char] = self._positions.get(char, 0) | 1 << i

    def likeness(self, name: str) -> float:
        """Similarity from 0 to 1: the share of common characters in the same order; 0 if it cannot reach `CLOSE`."""
        name = _fold(name)
        length = len(self._word) + len(name)
        if 2 * min(len(self._word), len(name)) < CLOSE * length:
            return 0.0
        return 2 * self._common(name) / length if length else 1.0

    def _common(self, name: str) -> int:
        """Length of the longest common subsequence, by adding numbers with one bit for each character (Hyyro, 2004)."""
        row = everywhere = (1 << len(self._word)) - 1
        for char in name:
            matched = row & self._positions.get(char, 0)
            row = (row + matched | row - matched) & everywhere
        return len(self._word) - row.bit_count()


def _fold(name: str) -> str:
    return name[:_MAX_NAME].lower()[:_MAX_NAME]
