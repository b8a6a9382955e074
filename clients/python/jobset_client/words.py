"""Words that messages share: numbers with nouns, values as they are shown, and names that may have been meant."""

import difflib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

MOST = 50
"""Faults that one message names; the rest is counted."""
_MOST_SHOWN = 200
"""Characters of a value that a message shows."""
_MOST_NAMES = 8
"""Names that a message lists."""
_MOST_IN_A_NAME = 63
_CLOSE, _SURE = 0.7, 0.85
"""Likeness from which a name is suggested, and from which it is taken for certain."""
_TYPES = {
    type(None): "null",
    bool: "a boolean",
    int: "an integer",
    str: "a string",
    list: "an array",
    tuple: "an array",
}


def count_noun(number: int, noun: str) -> str:
    """`1 Job`, `3 Jobs`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def type_of(value: Any) -> str:
    """Its type as the API has it: `a string`, `null`."""
    if isinstance(value, float):
        return "an integer" if math.isfinite(value) and value.is_integer() else "a number"
    return _TYPES.get(type(value), "an object")


def as_json(value: Any) -> str:
    """A value as JSON, cut where it is long."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = f"({type_of(value)})"
    return text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 3] + "..."


def nearest(word: str, names: Iterable[str]) -> str:
    """The most similar name, whatever its case; empty where none is close."""
    folded = {name.lower()[:_MOST_IN_A_NAME]: name for name in names}
    found = difflib.get_close_matches(word.lower()[:_MOST_IN_A_NAME], folded, 1, _CLOSE)
    return folded[found[0]] if found else ""


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """`did you mean "train"? there are: "eval", "train"`, or only the names; empty where there are none."""
    known = sorted(set(names))
    close = nearest(word, known)
    guess = f"did you mean {as_json(close)}? " if close else ""
    return f"{guess}there are: {some(known)}" if known else ""


def is_surely(word: str, name: str) -> bool:
    """Whether the word is the name, spelled differently."""
    pair = word.lower()[:_MOST_IN_A_NAME], name.lower()[:_MOST_IN_A_NAME]
    return difflib.SequenceMatcher(None, *pair).ratio() >= _SURE


def some(names: Iterable[str]) -> str:
    """The names in quotes, as many as a message has room for."""
    every = list(names)
    return ", ".join(map(as_json, every[:_MOST_NAMES])) + (", ..." if len(every) > _MOST_NAMES else "")


def one_line(error: BaseException | str) -> str:
    return " ".join(str(error).split())


def in_lines(head: str, parts: list[str]) -> str:
    """The head and one part in one line; several parts each on a line of its own."""
    return f"{head}: {parts[0]}" if len(parts) == 1 else "\n- ".join([f"{head}:", *parts])


def cut_list(parts: Sequence[str]) -> list[str]:
    """As many as one message names, and how many more there are."""
    left = len(parts) - MOST
    return [*parts[:MOST], f"and {left} more"] if left > 0 else list(parts)


def place(parts: Iterable[str | int]) -> str:
    """A path, such as `spec.replicatedJobs[0].name`."""
    text = ""
    for part in parts:
        if isinstance(part, int) or "." in part or "/" in part:
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def mapping(value: Any) -> Mapping[Any, Any]:
    """The value where it is one with members, else one without."""
    return value if isinstance(value, Mapping) else {}
