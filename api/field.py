"""Errors that point at a field, and the API server's way of writing them down (behaviour section 3.1).

Clients match on these texts, so they are rendered exactly as the Kubernetes field-error library renders them. What is
wrong with a field is decided elsewhere; this file only says it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgspec

from api.meta import JSON


@dataclass(frozen=True, slots=True)
class Path:
    """Place of a value in an object: names of members and indices of list items, from the root."""

    parts: tuple[str | int, ...] = ()

    def at(self, *more: str | int) -> "Path":
        """The place reached from here through `more`."""
        return Path((*self.parts, *more))

    def __str__(self) -> str:
        """Text as in `spec.replicatedJobs[0].name`."""
        text = ""
        for part in self.parts:
            text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
        return text

    @property
    def pointer(self) -> str:
        """The same place as an RFC 6901 JSON pointer."""
        return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in self.parts)


SPEC = Path(("spec",))


class ErrorType(Enum):
    """Kind of a field error: the member's value is the reason of a Status cause."""

    INVALID = "FieldValueInvalid"
    REQUIRED = "FieldValueRequired"
    DUPLICATE = "FieldValueDuplicate"
    FORBIDDEN = "FieldValueForbidden"
    TOO_LONG = "FieldValueTooLong"
    TYPE_INVALID = "FieldValueTypeInvalid"
    INTERNAL = "InternalError"

    @property
    def text(self) -> str:
        """Words for a person."""
        return _TEXTS[self]


_TEXTS = {
    ErrorType.INVALID: "Invalid value",
    ErrorType.REQUIRED: "Required value",
    ErrorType.DUPLICATE: "Duplicate value",
    ErrorType.FORBIDDEN: "Forbidden",
    ErrorType.TOO_LONG: "Too long",
    ErrorType.TYPE_INVALID: "Invalid value",
    ErrorType.INTERNAL: "Internal error",
}
_WITHOUT_VALUE = {ErrorType.REQUIRED, ErrorType.FORBIDDEN, ErrorType.TOO_LONG, ErrorType.INTERNAL}


@dataclass(frozen=True, slots=True)
class FieldError:
    """One fault: where, of what kind, the offending JSON value, and the rule in words (may be empty)."""

    path: Path
    type: ErrorType
    value: Any = None
    detail: str = ""

    @property
    def body(self) -> str:
        """Text without the path."""
        text = self.type.text
        if self.type not in _WITHOUT_VALUE:
            text += f": {render_value(self.value)}"
        return f"{text}: {self.detail}" if self.detail else text

    def __str__(self) -> str:
        return f"{self.path}: {self.body}"


def invalid(path: Path, value: Any, detail: str) -> FieldError:
    return FieldError(path, ErrorType.INVALID, value, detail)


def required(path: Path, detail: str = "") -> FieldError:
    return FieldError(path, ErrorType.REQUIRED, None, detail)


def duplicate(path: Path, value: Any, detail: str) -> FieldError:
    return FieldError(path, ErrorType.DUPLICATE, value, detail)


def forbidden(path: Path, detail: str) -> FieldError:
    return FieldError(path, ErrorType.FORBIDDEN, None, detail)


def too_long(path: Path, limit: int) -> FieldError:
    """A text of more than `limit` bytes."""
    return FieldError(path, ErrorType.TOO_LONG, None, f"may not be more than {limit} bytes")


def render_value(value: Any) -> str:
    """A value as it stands in a message: texts quoted as Go quotes them, everything else as JSON."""
    return quote(value) if isinstance(value, str) else msgspec.json.encode(value).decode()


_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}


def quote(text: str) -> str:
    """Double-quoted, as Go's `%q`."""
    return '"' + "".join(_ESCAPES.get(char) or _quote_char(char) for char in text) + '"'


def _quote_char(char: str) -> str:
    code = ord(char)
    if char.isprintable():
        return char
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def aggregate(errors: Iterable[FieldError]) -> str:
    """One text for all: a single one stands alone, several stand in brackets in the order found, each text once."""
    texts = list(dict.fromkeys(str(error) for error in errors))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def invalid_status(errors: Sequence[FieldError], *, group: str, kind: str, name: str) -> JSON:
    """metav1.Status 422 Invalid for the named object, with one cause per error."""
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"{kind}.{group} {quote(name)} is invalid: {aggregate(errors)}",
        "reason": "Invalid",
        "details": {
            "name": name,
            "group": group,
            "kind": kind,
            "causes": [
                {"reason": error.type.value, "message": error.body, "field": str(error.path)} for error in errors
            ],
        },
        "code": 422,
    }
