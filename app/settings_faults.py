"""Faults of settings, with lines of the file, in the terms of YAML. Pure."""

from collections.abc import Iterator, Sequence
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from kube.model.suggest import did_you_mean


class GateFaultsError(ValueError):
    """Several feature gates are wrong. `found`: name and message of each."""

    def __init__(self, found: Sequence[tuple[str, str]]) -> None:
        super().__init__("; ".join(message for _, message in found))
        self.found = found


def faults(record: type[BaseModel], error: ValidationError, tree: yaml.Node | None = None) -> Iterator[str]:
    """A line for each fault: which key, what is wrong, how to correct it, and the line of the file."""
    for fault in error.errors():
        keys = fault["loc"]
        cause = fault.get("ctx", {}).get("error")
        if isinstance(cause, GateFaultsError):
            for gate, message in cause.found:
                yield f"{'.'.join(map(str, keys))}.{gate}: {message}{line_words(tree, (*keys, gate))}"
            continue
        message = _rephrase(fault["msg"].removeprefix("Value error, "))
        if fault["type"] == "extra_forbidden":
            names = _names(record, keys[:-1])
            message = f"unknown field; {did_you_mean(str(keys[-1]), names, intro='the fields are', most=len(names))}"
        elif fault["type"] == "model_type":
            message = f"must be a mapping with some of {', '.join(_names(record, keys))}"
        elif fault["type"] == "literal_error":
            message = message.removesuffix(" or ''").replace(", ", " or ")
        elif fault["type"] == "tuple_type":
            message = "must be a list"
        yield f"{'.'.join(map(str, keys))}: {message}{line_words(tree, keys)}"


def again(fault: Any) -> Any:
    """A fault of pydantic (`ErrorDetails`), to be raised beside others (`InitErrorDetails`)."""
    return {"type": fault["type"], "loc": fault["loc"], "input": fault["input"], "ctx": fault.get("ctx", {})}


_WORDS = {
    "Input should be": "must be",
    "a valid boolean": "true or false",
    "a valid integer": "a whole number",
    "a valid number": "a number",
    "a valid string": "a text",
    "a valid dictionary": "a mapping",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "greater than": "above",
}
"""Phrases of pydantic, and the same in the terms of YAML."""


def _rephrase(message: str) -> str:
    for phrase, meant in _WORDS.items():
        message = message.replace(phrase, meant)
    return message


def _names(record: type[BaseModel], keys: Sequence[int | str]) -> list[str]:
    """The fields of a section, of the record for an empty path; sorted."""
    part: Any = record
    for name in keys:
        part = next(field.annotation for field in part.model_fields.values() if field.alias == name)
    return sorted(str(field.alias) for field in part.model_fields.values())


def line_words(node: yaml.Node | None, keys: Sequence[int | str]) -> str:
    """` (line 5)`: where the key is, or the innermost one around it that is in the file."""
    line = 0
    for name in keys:
        for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
            if key.value == name:
                line, node = key.start_mark.line + 1, value
                break
        else:
            break
    return f" (line {line})" if line else ""
