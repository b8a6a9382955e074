"""Objects as templates of a Helm chart: plain values, and in between what Helm has to decide.

A mapping or list may hold `Raw`, `Insert` and `If` where a value, a key or an item would be.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

_PLAIN = re.compile(r"[A-Za-z/][\w./-]*(?: [\w./-]+)*")
_NOT_TEXT = re.compile(r"(?i)y|n|yes|no|on|off|true|false|null|nan|inf")
_STEP = 2

Template = dict[Any, Any]
"""A mapping with `If` or `Insert` among its keys."""


@dataclass(frozen=True, slots=True)
class Raw:
    """A value on one line, written as it is: `{{ .Values.controller.replicas }}`."""

    text: str


@dataclass(frozen=True, slots=True)
class Insert:
    """Lines that an expression gives, such as `toYaml .Values.controller.env`.

    As a value it is the mapping or list below the key; as a key (with value None) or an item, more of the same.
    """

    expression: str


@dataclass(frozen=True, slots=True)
class If:
    """As a key: the mapping that is its value is there only if the condition holds. As an item: `items` are."""

    condition: str
    items: tuple[Any, ...] = ()


def _scalar(value: Any) -> str:
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, str):
        if "{{" in value:
            raise ValueError(f"Helm would take {value!r} for a template")
        return value if _PLAIN.fullmatch(value) and not _NOT_TEXT.fullmatch(value) else json.dumps(value)
    return json.dumps(value)


def _inserted(expression: str, indent: int) -> str:
    return f"{{{{- {expression} | nindent {indent} }}}}"


def _guarded(condition: str, lines: list[str], indent: int) -> list[str]:
    space = " " * indent
    return [f"{space}{{{{- if {condition} }}}}", *lines, f"{space}{{{{- end }}}}"]


def _entry(key: Any, value: Any, indent: int) -> list[str]:
    space = " " * indent
    match key, value:
        case If(condition), dict():
            return _guarded(condition, _mapping(value, indent), indent)
        case Insert(expression), None:
            return [space + _inserted(expression, indent)]
        case str(), Insert(expression):
            return [f"{space}{_scalar(key)}:", f"{space}{' ' * _STEP}{_inserted(expression, indent + _STEP)}"]
        case str(), dict() | list() if value:
            return [f"{space}{_scalar(key)}:", *_lines(value, indent + (_STEP if isinstance(value, dict) else 0))]
        case _:
            return [f"{space}{_scalar(key)}: {_scalar(value)}"]


def _mapping(node: dict[Any, Any], indent: int) -> list[str]:
    return [line for key, value in node.items() for line in _entry(key, value, indent)]


def _item(item: Any, indent: int) -> list[str]:
    match item:
        case If(condition, items):
            return _guarded(condition, [line for each in items for line in _item(each, indent)], indent)
        case Insert(expression):
            return [" " * indent + _inserted(expression, indent)]
        case dict() | list() if item:
            first, *rest = _lines(item, indent + _STEP)
            if first.lstrip().startswith("{{-"):
                raise ValueError("an item of a list must begin with a plain key")
            return [f"{' ' * indent}- {first.lstrip()}", *rest]
        case _:
            return [f"{' ' * indent}- {_scalar(item)}"]


def _lines(node: dict[Any, Any] | list[Any], indent: int) -> list[str]:
    if isinstance(node, dict):
        return _mapping(node, indent)
    return [line for item in node for line in _item(item, indent)]


def render(objects: list[Any]) -> str:
    """The documents of one template file. An object may stand in an `If`, which has one or several."""
    lines: list[str] = []
    for each in objects:
        if isinstance(each, If):
            lines += _guarded(each.condition, render(list(each.items)).splitlines(), 0)
        else:
            lines += ["---", *_mapping(each, 0)]
    return "\n".join(lines) + "\n"
