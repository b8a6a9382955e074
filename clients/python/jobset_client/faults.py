"""Describes the faults of an object like the commands: the path of the field, the reason, and what to write."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pydantic import ValidationError

from jobset_client.words import as_json, first_names, is_misspelling, nearest, path_text, type_of

_MEANT = "did you mean"
_EXPECTED = {
    "string": ("string", "a text"),
    "int": ("integer", "a whole number"),
    "bool": ("boolean", "true or false, without quotes"),
    "list": ("array", "a list"),
    "dict": ("object", "an object"),
    "model": ("object", "an object"),
}
"""The type that the API expects, and what to write, by the first word of pydantic's type of the error."""
Path = tuple[str | int, ...]


FindObjectPath = Callable[[Path], str]
"""A function that returns the path of the object that the last part of a path belongs to; empty if unknown."""


class UnknownFieldError(ValueError):
    """The field `name` does not exist. `likely_name`: the field that was likely meant, or empty."""

    def __init__(self, name: str, likely_name: str, text: str) -> None:
        super().__init__(text)
        self.name, self.likely_name = name, likely_name

    def message_at(self, path: Path, find_object_path: FindObjectPath | None) -> str:
        """The message for this path. It says where the field belongs, unless it is a misspelt field of this object."""
        if find_object_path is None or is_misspelling(self.name, self.likely_name):
            return str(self)
        object_path = find_object_path(path)
        return f"unknown field {as_json(self.name)}; it belongs to {object_path}" if object_path else str(self)


def unknown_field_fault(name: Any, value: Any, attributes: Iterable[str], names: Iterable[str]) -> Any:
    """The fault of an unknown field (`InitErrorDetails` of pydantic)."""
    text = name if isinstance(name, str) else as_json(name)
    likely_name = nearest(text, [*names, *attributes])
    listed_names = attributes if "_" in text else names
    guess = (
        f"{_MEANT} {as_json(likely_name)}?"
        if likely_name
        else f"the fields here are: {first_names(sorted(listed_names))}"
    )
    error = UnknownFieldError(text, likely_name, f"unknown field {as_json(text)}; {guess}")
    return {"type": "value_error", "loc": (text,), "input": value, "ctx": {"error": error}}


def as_init_details(fault: Any) -> Any:
    """A fault that pydantic has reported (`ErrorDetails`), in the form that can be raised (`InitErrorDetails`)."""
    return {"type": fault["type"], "loc": fault["loc"], "input": fault["input"], "ctx": fault.get("ctx", {})}


def fault_texts(
    error: ValidationError, line: Callable[[Path], int] | None = None, find_object_path: FindObjectPath | None = None
) -> Iterator[str]:
    """Yield a text for each fault, in the order of the lines if they are known."""
    words_by_path: dict[Path, str] = {}
    for details in error.errors():
        path, words = _path_and_words(details, find_object_path)
        words_by_path.setdefault(path, words)
    if line is None:
        yield from (_with_path(path, words) for path, words in words_by_path.items())
        return
    for path, words in sorted(words_by_path.items(), key=lambda item: line(item[0])):
        yield f"line {line(path)}: {_with_path(path, words)}"


def is_from_newer_version(error: ValidationError, find_object_path: FindObjectPath | None = None) -> bool:
    """Whether an unknown field resembles no known field, so that it may be a field of a newer version."""
    unknown_fields = ((details["loc"], _unknown_field(details)) for details in error.errors())
    return any(
        fault and not fault.likely_name and not (find_object_path and find_object_path(path))
        for path, fault in unknown_fields
    )


def _unknown_field(fault: Any) -> UnknownFieldError | None:
    """The error about an unknown field; None for another fault."""
    error = fault.get("ctx", {}).get("error")
    return error if isinstance(error, UnknownFieldError) else None


def _with_path(path: Path, words: str) -> str:
    return f"{path_text(path)}: {words}" if path else words


def _path_and_words(error: Any, find_object_path: FindObjectPath | None) -> tuple[Path, str]:
    path, kind, value = error["loc"], error["type"], error["input"]
    if fault := _unknown_field(error):
        return path, fault.message_at(path, find_object_path)
    if kind == "missing":
        return path, f"Required value: add {as_json(path[-1])}"
    expected, advice = _EXPECTED.get(kind.partition("_")[0], ("", ""))
    if not expected:
        return path, error["msg"].replace("Input should be", "must be")
    if path and path[-1] in {"int", "str"}:  # one of the alternatives of a field that takes both
        path, expected, advice = path[:-1], "integer or string", "a whole number or a text"
    if path and path[-1] == "[key]":
        return path[:-1], f"the key must be of type {expected}; write {_advice(expected, advice, path[-2])}"
    actual = type_of(value)
    if expected in actual:  # of the right type, but a value that cannot be stored
        return path, f"Invalid value: {as_json(value)}: {error['msg'].replace('Input should be', 'must be')}"
    advice = _advice(expected, advice, value)
    return path, f"Invalid value: {as_json(value)}: must be of type {expected}, is {actual}; write {advice}"


def _advice(expected: str, advice: str, value: Any) -> str:
    if expected == "string" and isinstance(value, bool | int | float):
        return f"it in quotes: {as_json(as_json(value))}"
    return advice
