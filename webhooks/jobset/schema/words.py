"""Values that the CRD's schema refuses: the rules, and fixes for common mistakes.

`walk.py` finds the values. A rule has the message of the API server if this message helps, so that the API server and
the webhook give the same answers.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from api.keys import NAMESPACE_NAME
from kube.model.field import MAX_SHOWN_WORD, ErrorType, FieldError, Layer, Path, Rule, quote, render_value
from kube.model.meta import JSON, MAX_INT32
from kube.model.quantity import WHOLE_PATTERN, is_native
from kube.model.suggest import nearest
from kube.model.validation import dns1123_label
from webhooks.jobset.command_lines import list_items

_SOURCE = "CRD schema"


def _rule(name: str, kind: ErrorType, message: str, fix: str) -> Rule:
    return Rule(f"schema-{name}", kind, message, fix, _SOURCE, Layer.SCHEMA)


TYPE = _rule("type", ErrorType.TYPE_INVALID, "must be of type {wanted}, is {found}", "write {how}")
REQUIRED = _rule("required", ErrorType.REQUIRED, "", 'add "{member}": {wanted}')
ENUM = _rule("enum", ErrorType.NOT_SUPPORTED, "supported values: {values}", "{choice}")
MINIMUM = _rule(
    "minimum", ErrorType.INVALID, "should be greater than or equal to {minimum}", "write {minimum} or a larger number"
)
MAXIMUM = _rule(
    "maximum", ErrorType.INVALID, "should be less than or equal to {maximum}", "write {maximum} or a smaller number"
)
RANGE = _rule("range", ErrorType.INVALID, "does not fit into {format}", "write a number from {low} to {high}")
MAX_ITEMS = _rule(
    "max-items",
    ErrorType.TOO_MANY,
    "must have at most {limit} items",
    "remove {surplus} of them; those after the first {limit} were not looked at",
)
MAX_LENGTH = _rule("max-length", ErrorType.TOO_LONG, "may not be more than {limit} characters", "shorten it{example}")
MIN_LENGTH = _rule(
    "min-length", ErrorType.INVALID, "should be at least {limit} characters long", "lengthen it{example}"
)
PATTERN = _rule("pattern", ErrorType.INVALID, "should match '{pattern}'", "use only what the pattern allows{example}")
QUANTITY = _rule(
    "quantity",
    ErrorType.INVALID,
    "is not a quantity",
    'write a number with an optional unit, such as "500m", "2", "1.5Gi" or "100M"{guess}',
)
WHOLE = _rule("whole-number", ErrorType.INVALID, "is not a whole number", "write a whole number such as 8")
SECONDS = _rule("seconds", ErrorType.INVALID, "is not a number of seconds", "write {seconds} for {duration}")
DATE_TIME = _rule("date-time", ErrorType.INVALID, "is not a time", 'write it like "2026-01-31T12:00:00Z"')
DUPLICATE_KEY = _rule("duplicate-key", ErrorType.DUPLICATE, "item {first} has it too", "give every item its own {key}")
DUPLICATE_ITEM = _rule("duplicate-item", ErrorType.DUPLICATE, "item {first} is the same", "remove one of them")

INT_OR_STRING = "x-kubernetes-int-or-string"
_JSON_TYPES = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    str: "string",
    list: "array",
    dict: "object",
}
_TYPE_WITH_ARTICLE = {
    "null": "null",
    "boolean": "a boolean",
    "integer": "an integer",
    "number": "a number",
    "string": "a string",
    "array": "an array",
    "object": "an object",
}
_WORDS_BY_TYPE = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}
_TRUE_WORDS, _FALSE_WORDS = {"true", "yes", "on", "y", "1"}, {"false", "no", "off", "n", "0"}
_MAX_QUANTITY_LENGTH = 30
_MAX_SHOWN_ITEMS = 5
_PLAIN_TEXT = re.compile(r"[A-Za-z][A-Za-z0-9./-]{1,60}", re.ASCII)
"""A text that needs no quotes in YAML, unless it is a word such as `on`."""
_IN_SECONDS = "in seconds"
"""Words that the description of every field for a time in seconds has."""
_DURATION = re.compile(r"([0-9]{1,9})\s*([smhdw])", re.ASCII)
_SECONDS_BY_UNIT = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_OCTAL = re.compile("0[0-7]{3,4}", re.ASCII)
_WHOLE_NUMBER = re.compile(r"\s*[+-]?[0-9]{1,18}\s*", re.ASCII)


def type_name(value: Any) -> str:
    """The JSON type of a value; a number without a fraction is an integer."""
    if isinstance(value, float):
        return "integer" if math.isfinite(value) and value.is_integer() else "number"
    return _JSON_TYPES.get(type(value), "object")


def wrong_type_fault(path: Path, value: Any, node: JSON) -> FieldError:
    expected = "integer or string" if INT_OR_STRING in node else node["type"]
    fix = _devices_fix(value, path) or _file_mode_fix(value, path) or _fix(value, node, str(path).rpartition(".")[2])
    return TYPE.at(path, value, wanted=expected, found=_TYPE_WITH_ARTICLE[type_name(value)], how=fix)


def _devices_fix(value: Any, path: Path) -> str:
    """The fix for a fraction of a device; empty for any other value."""
    is_of_devices = path.parts[-2:-1] in (("requests",), ("limits",)) and not is_native(str(path.parts[-1]))
    if not is_of_devices or not isinstance(value, float) or not 0 < value < MAX_INT32:
        return ""
    return f"{math.ceil(value)}: devices are whole numbers"


def _example_text(node: JSON) -> str:
    """The example in the schema, as the end of a message; empty if the schema has none."""
    return f", as in {quote(node['example'])}" if "example" in node else ""


def too_long_fault(path: Path, node: JSON) -> FieldError:
    return MAX_LENGTH.at(path, limit=node["maxLength"], example=_example_text(node))


def too_short_fault(path: Path, value: str, node: JSON) -> FieldError:
    return MIN_LENGTH.at(
        path, value, limit=node["minLength"], example=_example_text(node) or ", or leave the field out"
    )


def _fix(value: Any, node: JSON, field: str) -> str:
    """The text after "write" in the fix for a value of a wrong type. All functions `_*_fix` return such texts."""
    if value is None:
        return "a value here, or remove the empty item"
    if "example" in node:
        return _WORDS_BY_TYPE[node["type"]] + _example_text(node)
    if INT_OR_STRING in node:
        return _number_or_text_fix(value, node)
    if node["type"] == "array":
        return _list_fix(value, node, field)
    if node["type"] == "object" and (fix := _selector_fix(value, node, field) or _member_fix(value, node)):
        return fix
    is_in_seconds = node["type"] == "integer" and "seconds" in field.lower()
    return _seconds_fix(value) if is_in_seconds else _FIX_BY_TYPE[node["type"]](value)


def _file_mode_fix(value: Any, path: Path) -> str:
    """The fix for a file mode that was written in octal; empty for any other value."""
    is_mode = path.parts[-1:] in {("mode",), ("defaultMode",)} and isinstance(value, str)
    return f"{int(value, 8)} without quotes, which is {value} octal" if is_mode and _OCTAL.fullmatch(value) else ""


def _selector_fix(value: Any, node: JSON, field: str) -> str:
    """The fix for names of namespaces in the place of a label selector; empty for any other field or value."""
    if not {"matchLabels", "matchExpressions"} <= node.get("properties", {}).keys() or "namespace" not in field.lower():
        return ""
    names = value if isinstance(value, list) else [value]
    if value is True or names == ["*"]:
        return "{} for all namespaces"
    if not 0 < len(names) <= _MAX_SHOWN_ITEMS or any(
        not isinstance(name, str) or dns1123_label(name) for name in names
    ):
        return ""
    if len(names) == 1:
        return f"{{matchLabels: {{{NAMESPACE_NAME}: {_as_yaml(names[0])}}}}}"
    values = ", ".join(map(_as_yaml, names))
    return f"{{matchExpressions: [{{key: {NAMESPACE_NAME}, operator: In, values: [{values}]}}]}}"


def _member_fix(value: Any, node: JSON) -> str:
    """The fix for a value in the place of an object: the object with this value as a member, or an empty object.

    The fix is "" if neither object is likely.
    """
    members = node.get("properties", {})
    if value is True and members.get("required", {}).get("type") != "boolean":
        return "{}: its fields are optional" if _is_optional(node) else ""
    fits: Callable[[str], bool] = {
        "array": lambda name: _takes_list(members[name], value),
        "integer": lambda name: members[name].get("type") == "integer" or INT_OR_STRING in members[name],
        "string": lambda name: node.get("required") == [name] and value in members[name].get("enum", [value]),
        "boolean": lambda name: name == "required",
    }.get(type_name(value), lambda _: False)
    fitting = [name for name in members if fits(name)]
    return f"it as an object: {{{fitting[0]}: {_as_yaml(value)}}}" if len(fitting) == 1 else ""


def _takes_list(node: JSON, value: Sequence[Any]) -> bool:
    kind = node.get("items", {}).get("type")
    return node.get("type") == "array" and all(type_name(item) == kind for item in value)


def _is_optional(node: JSON) -> bool:
    """Whether an object of the schema may be empty: no field is required, and all are booleans or texts."""
    kinds = [member.get("items", member).get("type") for member in node.get("properties", {}).values()]
    return bool(kinds) and "required" not in node and all(kind in {"boolean", "string"} for kind in kinds)


def _as_yaml(value: Any) -> str:
    """A scalar, or a short list of texts, in YAML; an ellipsis for any other value."""
    if isinstance(value, str):
        return (
            value
            if _PLAIN_TEXT.fullmatch(value) and value.lower() not in {*_TRUE_WORDS, *_FALSE_WORDS, "null"}
            else quote(value)
        )
    if not isinstance(value, list):
        return _scalar_text(value)
    is_short = 0 < len(value) <= _MAX_SHOWN_ITEMS
    is_plain = is_short and all(isinstance(item, str) and _PLAIN_TEXT.fullmatch(item) for item in value)
    return f"[{', '.join(value) if is_plain else '...'}]"


def _number_or_text_fix(value: Any, node: JSON) -> str:
    """The fix for a value that is neither a whole number nor a text.

    A fraction is a quantity if the field is one, else it was meant as a percentage.
    """
    if node.get("pattern") == WHOLE_PATTERN:
        return "a whole number such as 8"
    if isinstance(value, float) and "pattern" in node:
        return _text_fix(value)
    share = f': "{max(round(100 * value), 1)}%"' if isinstance(value, float) and 0 < value < 1 else ""
    return f"a whole number or a text{share}"


def _integer_fix(value: Any) -> str:
    if isinstance(value, str) and _WHOLE_NUMBER.fullmatch(value):
        return f"{int(value)} without quotes"
    return _WORDS_BY_TYPE["integer"]


def _seconds_fix(value: Any) -> str:
    seconds = _seconds(value)
    return _integer_fix(value) if seconds is None else f"{seconds} for {value}"


def _seconds(value: Any) -> int | None:
    """The seconds of a time such as 7d; None for any other value."""
    match = (
        _DURATION.fullmatch(value.strip()) if isinstance(value, str) and len(value) <= _MAX_QUANTITY_LENGTH else None
    )
    return int(match[1]) * _SECONDS_BY_UNIT[match[2]] if match else None


def _boolean_fix(value: Any) -> str:
    text = _scalar_text(value).lower()
    for word, texts in (("true", _TRUE_WORDS), ("false", _FALSE_WORDS)):
        if text in texts:
            return f"{word} without quotes" if text == word else word
    return "true or false, without quotes"


def _text_fix(value: Any) -> str:
    if isinstance(value, list | dict):
        return _WORDS_BY_TYPE["string"]
    # YAML reads 0777 as 511 and yes as true: only the user's file has the original text.
    return f'it in quotes, as it stands in your file (it was read as "{_scalar_text(value)}")'


def _scalar_text(value: Any) -> str:
    """A scalar in YAML; an ellipsis for any other value."""
    if isinstance(value, str):
        return value
    try:
        return "..." if isinstance(value, list | dict) else render_value(value)
    except ValueError:  # more digits than Python converts
        return "..."


def _list_fix(value: Any, node: JSON, field: str) -> str:
    items = node.get("items", {})
    key = next(iter(node.get("x-kubernetes-list-map-keys", ())), "")
    if isinstance(value, dict):
        if key and key not in value:
            return f'it as a list: every item starts with "- {key}: "'
        return 'it as a list: put "- " before its first field'
    if items.get("type") == "object":
        return f'it as a list of objects: every item starts with "- {key}: "' if key else "it as a list of objects"
    if not isinstance(value, str):
        return f"it as a list: [{_scalar_text(value)}]"
    try:
        return f"it as a list: [{_quoted_list(list_items(field, value))}]"
    except ValueError:
        return 'it as a list of texts: every item starts with "- "'


def _object_fix(value: Any) -> str:
    if isinstance(value, list):
        return 'its fields directly under it, without "- "'
    return "its fields on lines of their own under it, indented"


_FIX_BY_TYPE: Mapping[str, Callable[[Any], str]] = {
    "integer": _integer_fix,
    "number": _integer_fix,
    "boolean": _boolean_fix,
    "string": _text_fix,
    "object": _object_fix,
}


def missing_member_fault(path: Path, node: JSON) -> FieldError:
    """The error about the missing member at `path`, whose schema is `node`."""
    if values := node.get("enum"):
        expected = f"one of {_quoted_list(values)}"
    else:
        expected = _WORDS_BY_TYPE["string" if INT_OR_STRING in node else node["type"]]
    return REQUIRED.at(path, member=path.parts[-1], wanted=expected + _example_text(node))


def enum_fault(path: Path, value: str, values: Sequence[str]) -> FieldError:
    return ENUM.at(path, value, values=_short_list(values), choice=partial(_choice_fix, value, values))


def _choice_fix(value: str, values: Sequence[str]) -> str:
    likely_value = nearest(value, values)
    return f"did you mean {quote(likely_value)}?" if likely_value else "choose one of them"


def _short_list(values: Sequence[str]) -> str:
    """As many values as fit into a message, and the number of further values."""
    text = _quoted_list(values)
    if len(text) <= MAX_SHOWN_WORD:
        return text
    cut_text = text[: MAX_SHOWN_WORD - len(", and 999 more")].rpartition(", ")[0]
    return f"{cut_text}, and {len(values) - cut_text.count(', ') - 1} more"


def _quoted_list(values: Sequence[str]) -> str:
    return ", ".join(quote(value) for value in values)


_QUANTITY = re.compile(r"([0-9.]+)\s*([a-z]+)", re.ASCII | re.IGNORECASE)
_UNIT_BY_SPELLING = {"cpu": "", "cpus": "", "core": "", "cores": "", "kb": "k", "kib": "Ki", "ki": "Ki"} | {
    f"{letter}{end}".lower(): letter + end.removesuffix("B") for letter in "MGTPE" for end in ("", "B", "i", "iB")
}


def wrong_text_fault(path: Path, value: str, node: JSON) -> FieldError:
    """The error about a text that the node's pattern or format does not allow."""
    if INT_OR_STRING in node:
        if _IN_SECONDS in node.get("description", ""):
            seconds = _seconds(value)
            example, duration = (3600, "1h") if seconds is None else (seconds, value)
            return SECONDS.at(path, value, seconds=example, duration=duration)
        if node["pattern"] == WHOLE_PATTERN:
            return WHOLE.at(path, value)
        likely = next((text for text in _likely_quantities(value) if re.search(node["pattern"], text)), "")
        return QUANTITY.at(path, value, guess=f"; did you mean {quote(likely)}?" if likely else "")
    if node.get("format") == "date-time":
        return DATE_TIME.at(path, value)
    return PATTERN.at(path, value, pattern=node["pattern"], example=_example_text(node))


def _likely_quantities(text: str) -> Iterator[str]:
    match = _QUANTITY.fullmatch(text.strip()) if len(text) <= _MAX_QUANTITY_LENGTH else None
    if match:
        number, unit = match.groups()
        yield number + unit
        if unit.lower() in _UNIT_BY_SPELLING:
            yield number + _UNIT_BY_SPELLING[unit.lower()]


def duplicate_fault(path: Path, first: int, keys: Mapping[str, Any]) -> FieldError:
    """The error about an item with the same `keys` as the item with index `first`. `path`: of the item's first key."""
    names = " and ".join(quote(name) for name in keys)
    key_text = names if len(keys) == 1 else f"combination of {names}"
    return DUPLICATE_KEY.at(path, next(iter(keys.values())), first=first, key=key_text)
