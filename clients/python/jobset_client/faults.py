"""Faults of an object, as the command line writes them: the path of each field, the reason, and what to write."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pydantic import ValidationError

from jobset_client.words import as_json, first_names, is_surely, nearest, path_text, type_of

_MEANT = "did you mean"
_WANTED = {
    "string": ("string", "a text"),
    "int": ("integer", "a whole number"),
    "bool": ("boolean", "true or false, without quotes"),
    "list": ("array", "a list"),
    "dict": ("object", "an object"),
    "model": ("object", "an object"),
}
"""By the first word of pydantic's types of errors: the type that the API wants, and what to write."""
Path = tuple[str | int, ...]


Belongs = Callable[[Path], str]
"""The path where the last part of a path belongs; empty if unknown."""


class UnknownFieldError(ValueError):
    """The field does not exist. `name`: as written; `close`: the field that was likely meant."""

    def __init__(self, name: str, close: str, text: str) -> None:
        super().__init__(text)
        self.name, self.close = name, close

    def at(self, path: Path, belongs: Belongs | None) -> str:
        """The message for this path: where the field belongs, unless it is a misspelt field of this object."""
        if belongs is None or is_surely(self.name, self.close):
            return str(self)
        home = belongs(path)
        return f"unknown field {as_json(self.name)}; it belongs to {home}" if home else str(self)


def unknown(name: Any, value: Any, attributes: Iterable[str], names: Iterable[str]) -> Any:
    """The fault of an unknown field (`InitErrorDetails` of pydantic)."""
    text = name if isinstance(name, str) else as_json(name)
    close = nearest(text, [*names, *attributes])
    listed = attributes if "_" in text else names
    guess = f"{_MEANT} {as_json(close)}?" if close else f"the fields here are: {first_names(sorted(listed))}"
    error = UnknownFieldError(text, close, f"unknown field {as_json(text)}; {guess}")
    return {"type": "value_error", "loc": (text,), "input": value, "ctx": {"error": error}}


def as_init_details(fault: Any) -> Any:
    """A fault that pydantic has reported (`ErrorDetails`), in the form that can be raised (`InitErrorDetails`)."""
    return {"type": fault["type"], "loc": fault["loc"], "input": fault["input"], "ctx": fault.get("ctx", {})}


def in_words(
    error: ValidationError, line: Callable[[Path], int] | None = None, belongs: Belongs | None = None
) -> Iterator[str]:
    """Each fault once; in the order of the lines, if they are known."""
    found: dict[Path, str] = {}
    for details in error.errors():
        path, words = _words(details, belongs)
        found.setdefault(path, words)
    if line is None:
        yield from (_at(path, words) for path, words in found.items())
        return
    for path, words in sorted(found.items(), key=lambda item: line(item[0])):
        yield f"line {line(path)}: {_at(path, words)}"


def is_new(error: ValidationError, belongs: Belongs | None = None) -> bool:
    """Whether an unknown field resembles no known one: a newer version may have it."""
    unknown_ones = ((details["loc"], _unknown(details)) for details in error.errors())
    return any(fault and not fault.close and not (belongs and belongs(path)) for path, fault in unknown_ones)


def _unknown(fault: Any) -> UnknownFieldError | None:
    """The fault as one about an unknown field; None for others."""
    error = fault.get("ctx", {}).get("error")
    return error if isinstance(error, UnknownFieldError) else None


def _at(path: Path, words: str) -> str:
    return f"{path_text(path)}: {words}" if path else words


def _words(error: Any, belongs: Belongs | None) -> tuple[Path, str]:
    path, kind, value = error["loc"], error["type"], error["input"]
    if fault := _unknown(error):
        return path, fault.at(path, belongs)
    if kind == "missing":
        return path, f"Required value: add {as_json(path[-1])}"
    wanted, how = _WANTED.get(kind.partition("_")[0], ("", ""))
    if not wanted:
        return path, error["msg"].replace("Input should be", "must be")
    if path and path[-1] in {"int", "str"}:  # one of the alternatives of a field that takes both
        path, wanted, how = path[:-1], "integer or string", "a whole number or a text"
    if path and path[-1] == "[key]":
        return path[:-1], f"the key must be of type {wanted}; write {_how(wanted, how, path[-2])}"
    found = type_of(value)
    if wanted in found:  # of the right type, but a value that cannot be stored
        return path, f"Invalid value: {as_json(value)}: {error['msg'].replace('Input should be', 'must be')}"
    return (
        path,
        f"Invalid value: {as_json(value)}: must be of type {wanted}, is {found}; write {_how(wanted, how, value)}",
    )


def _how(wanted: str, how: str, value: Any) -> str:
    if wanted == "string" and isinstance(value, bool | int | float):
        return f"it in quotes: {as_json(as_json(value))}"
    return how
