"""Turns errors of pydantic into faults of settings: in the terms of YAML, with the line of the file. Pure."""

from collections.abc import Iterator, Sequence
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from kube.model.suggest import did_you_mean


class GateFaultsError(ValueError):
    """Several feature gates are wrong. `faults`: name and message of each."""

    def __init__(self, faults: Sequence[tuple[str, str]]) -> None:
        super().__init__("; ".join(message for _, message in faults))
        self.faults = faults


def fault_lines(record: type[BaseModel], error: ValidationError, tree: yaml.Node | None = None) -> Iterator[str]:
    """A line for each fault, with its key, what is wrong, how to correct it, and its line in the file."""
    for fault in error.errors():
        keys = fault["loc"]
        cause = fault.get("ctx", {}).get("error")
        if isinstance(cause, GateFaultsError):
            for gate, message in cause.faults:
                yield f"{'.'.join(map(str, keys))}.{gate}: {message}{line_words(tree, (*keys, gate))}"
            continue
        message = _rephrase(fault["msg"].removeprefix("Value error, "))
        if fault["type"] == "extra_forbidden":
            names = _field_names(record, keys[:-1])
            message = f"unknown field; {did_you_mean(str(keys[-1]), names, intro='the fields are', most=len(names))}"
        elif fault["type"] == "model_type":
            message = f"must be a mapping with some of {', '.join(_field_names(record, keys))}"
        elif fault["type"] == "literal_error":
            message = message.removesuffix(" or ''").replace(", ", " or ")
        elif fault["type"] == "tuple_type":
            message = "must be a list"
        yield f"{'.'.join(map(str, keys))}: {message}{line_words(tree, keys)}"


def initial_fault(fault: Any) -> Any:
    """Convert a fault that pydantic has reported (`ErrorDetails`) into one that can be raised (`InitErrorDetails`)."""
    return {"type": fault["type"], "loc": fault["loc"], "input": fault["input"], "ctx": fault.get("ctx", {})}


_YAML_PHRASES = {
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
"""Phrases of pydantic, and what replaces each of them."""


def _rephrase(message: str) -> str:
    for phrase, replacement in _YAML_PHRASES.items():
        message = message.replace(phrase, replacement)
    return message


def _field_names(record: type[BaseModel], keys: Sequence[int | str]) -> list[str]:
    """The sorted fields of the section at the path `keys` below `record`."""
    section: Any = record
    for name in keys:
        section = next(field.annotation for field in section.model_fields.values() if field.alias == name)
    return sorted(str(field.alias) for field in section.model_fields.values())


def line_words(node: yaml.Node | None, keys: Sequence[int | str]) -> str:
    """Words such as ` (line 5)` for the line of the key, or of its innermost parent in the file; "" without a line."""
    line = 0
    for name in keys:
        for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
            if key.value == name:
                line, node = key.start_mark.line + 1, value
                break
        else:
            break
    return f" (line {line})" if line else ""
