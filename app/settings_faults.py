"""Turns the faults that pydantic finds in the manager's settings into messages in the terms of YAML. Pure."""

from collections.abc import Iterator, Sequence
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from kube.model.suggest import did_you_mean


class GateFaultsError(ValueError):
    """The faults of all wrong feature gates. `faults`: the name of each gate, and what is wrong."""

    def __init__(self, faults: Sequence[tuple[str, str]]) -> None:
        super().__init__("; ".join(message for _, message in faults))
        self.faults = faults


def fault_lines(section: type[BaseModel], error: ValidationError, tree: yaml.Node | None = None) -> Iterator[str]:
    """A text for each fault: its key, what is wrong, and how to correct it; with a `tree` also its line in the file."""
    for fault in error.errors():
        keys, cause = fault["loc"], fault.get("ctx", {}).get("error")
        if isinstance(cause, GateFaultsError):
            for gate, message in cause.faults:
                yield f"{'.'.join(map(str, keys))}.{gate}: {message}{line_words(tree, (*keys, gate))}"
            continue
        message = _rephrase(fault["msg"].removeprefix("Value error, "))
        if fault["type"] == "extra_forbidden":
            names = _field_names(section, keys[:-1])
            message = f"unknown field; {did_you_mean(str(keys[-1]), names, intro='the fields are', most=len(names))}"
        elif fault["type"] == "model_type":
            message = f"must be a mapping with some of {', '.join(_field_names(section, keys))}"
        elif fault["type"] == "literal_error":
            message = message.removesuffix(" or ''").replace(", ", " or ")
        elif fault["type"] == "tuple_type":
            message = "must be a list"
        yield f"{'.'.join(map(str, keys))}: {message}{line_words(tree, keys)}"


def raisable_fault(fault: Any) -> Any:
    """The pydantic `InitErrorDetails`, which can be raised, of a reported fault (pydantic `ErrorDetails`)."""
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
"""Phrases in messages of pydantic, and the phrases that replace them."""


def _rephrase(message: str) -> str:
    for phrase, replacement in _YAML_PHRASES.items():
        message = message.replace(phrase, replacement)
    return message


def _field_names(section: type[BaseModel], keys: Sequence[int | str]) -> list[str]:
    """The sorted names of the fields in the subsection at the path `keys` of a section."""
    subsection: Any = section
    for name in keys:
        subsection = next(field.annotation for field in subsection.model_fields.values() if field.alias == name)
    return sorted(str(field.alias) for field in subsection.model_fields.values())


def line_words(node: yaml.Node | None, keys: Sequence[int | str]) -> str:
    """A text such as ` (line 5)`: the line of the last of these nested keys that is in the file; empty if none is."""
    line = 0
    for name in keys:
        for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
            if key.value == name:
                line, node = key.start_mark.line + 1, value
                break
        else:
            break
    return f" (line {line})" if line else ""
