"""Makes parts of messages: numbers with nouns, values, and suggestions of names."""

import difflib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

MAX_FAULTS = 50
"""Largest number of faults that one message lists. Further faults are counted."""
_MAX_SHOWN = 200
"""Largest number of characters of a value in a message."""
_MAX_NAMES = 8
"""Largest number of names in a message."""
_MAX_NAME_CHARACTERS = 63
_SIMILAR, _MISSPELT = 0.7, 0.85
"""Ratios of similar characters above which a name is suggested, and above which a word is a misspelling of it."""
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
    """The type of a JSON value with its article: `a string`, `null`."""
    if isinstance(value, float):
        return "an integer" if math.isfinite(value) and value.is_integer() else "a number"
    return _TYPES.get(type(value), "an object")


def as_json(value: Any) -> str:
    """A value as JSON, cut if it is long."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = f"({type_of(value)})"
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 3] + "..."


def nearest(word: str, names: Iterable[str]) -> str:
    """The most similar name, ignoring case; empty if no name is similar."""
    folded = {name.lower()[:_MAX_NAME_CHARACTERS]: name for name in names}
    matches = difflib.get_close_matches(word.lower()[:_MAX_NAME_CHARACTERS], folded, 1, _SIMILAR)
    return folded[matches[0]] if matches else ""


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """`did you mean "train"? there are: "eval", "train"`, or only the names; empty without names."""
    sorted_names = sorted(set(names))
    similar_name = nearest(word, sorted_names)
    guess = f"did you mean {as_json(similar_name)}? " if similar_name else ""
    return f"{guess}there are: {first_names(sorted_names)}" if sorted_names else ""


def is_misspelling(word: str, name: str) -> bool:
    """Whether the word is the name, spelled differently."""
    pair = word.lower()[:_MAX_NAME_CHARACTERS], name.lower()[:_MAX_NAME_CHARACTERS]
    return difflib.SequenceMatcher(None, *pair).ratio() >= _MISSPELT


def first_names(names: Iterable[str]) -> str:
    """The first names, in quotes, and "..." if there are more."""
    all_names = list(names)
    return ", ".join(map(as_json, all_names[:_MAX_NAMES])) + (", ..." if len(all_names) > _MAX_NAMES else "")


def one_line(error: BaseException | str) -> str:
    return " ".join(str(error).split())


def in_lines(heading: str, parts: list[str]) -> str:
    """The head and the parts: one part in the same line, several on lines of their own."""
    return f"{heading}: {parts[0]}" if len(parts) == 1 else "\n- ".join([f"{heading}:", *parts])


def cut_list(parts: Sequence[str]) -> list[str]:
    """The first `MAX_FAULTS` parts, followed by the number of further parts."""
    hidden = len(parts) - MAX_FAULTS
    return [*parts[:MAX_FAULTS], f"and {hidden} more"] if hidden > 0 else list(parts)


def path_text(parts: Iterable[str | int]) -> str:
    """A path, such as `spec.replicatedJobs[0].name`."""
    text = ""
    for part in parts:
        if isinstance(part, int) or "." in part or "/" in part:
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def as_mapping(value: Any) -> Mapping[Any, Any]:
    """The value if it is a mapping, else an empty mapping."""
    return value if isinstance(value, Mapping) else {}
