"""Errors about fields, and their text in the form of the API server.

See docs/reference/validation.md#how-faults-are-written.

Clients match on these texts, so they are rendered exactly as the Kubernetes field-error library renders them. The rules
decide what is wrong with a field; this module renders the errors, and limits their length and number.
"""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from string import Formatter
from typing import Any, TypeVar

import msgspec

from kube.model.meta import JSON

T = TypeVar("T")
Parts = tuple[str | int, ...]
"""Names of members and indices of list items."""


class Path(msgspec.Struct, frozen=True, gc=False):
    """Path of a value in an object: names of members and indices of list items, from the root.

    It is a Struct, since every check of every review creates paths, and a dataclass would cost four times as much.
    """

    parts: Parts = ()

    def at(self, *more: str | int) -> "Path":
        """The path extended by `more`."""
        return Path(self.parts + more)

    def each(self, items: Sequence[T]) -> Iterable[tuple["Path", T]]:
        """The items of the list at this path, each with its own path."""
        if not items:  # most lists of a JobSet
            return ()
        parts = self.parts
        return ((Path((*parts, i)), item) for i, item in enumerate(items))

    def overlaps(self, other: "Path") -> bool:
        """Whether one of the two paths equals or contains the other."""
        return all(map(operator.eq, self.parts, other.parts))

    def __str__(self) -> str:
        """The text, such as `spec.replicatedJobs[0].name` and `metadata.annotations[example.com/key]`."""
        text = ""
        for part in self.parts:
            if isinstance(part, int) or "." in part or "/" in part:
                text += f"[{part}]"
            else:
                text += f".{part}" if text else part
        return text

    @property
    def pointer(self) -> str:
        """The same path as an RFC 6901 JSON pointer."""
        texts = list(map(str, self.parts))
        plain = "/".join(["", *texts])
        if "~" not in plain and plain.count("/") == len(texts):
            return plain
        return "".join("/" + text.replace("~", "~0").replace("/", "~1") for text in texts)

    @property
    def order(self) -> tuple[tuple[bool, int, str], ...]:
        """Sort key: a path sorts before the paths below it, members sort by name, items by index."""
        return tuple((False, part, "") if isinstance(part, int) else (True, 0, part) for part in self.parts)


SPEC = Path(("spec",))
NAME_PATH, GENERATE_NAME_PATH = Path(("metadata", "name")), Path(("metadata", "generateName"))
MAX_SHOWN_VALUE = 200
"""At most this many characters of an offending value are shown."""
MAX_SHOWN_WORD = 300
"""At most this many characters of a user's text are shown inside a message."""
MAX_NAMES = 5
"""At most this many names are listed in one sentence, followed by the number of further names."""
MAX_SHOWN_ERRORS = 50
"""At most this many errors are listed in one answer, followed by the number of further errors."""


class ErrorType(Enum):
    """Kind of a field error. The value of a member is the `reason` of a cause in a Status."""

    INVALID = "FieldValueInvalid"
    REQUIRED = "FieldValueRequired"
    DUPLICATE = "FieldValueDuplicate"
    NOT_FOUND = "FieldValueNotFound"
    NOT_SUPPORTED = "FieldValueNotSupported"
    TOO_MANY = "FieldValueTooMany"
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
    ErrorType.NOT_FOUND: "Not found",
    ErrorType.NOT_SUPPORTED: "Unsupported value",
    ErrorType.TOO_MANY: "Too many",
    ErrorType.FORBIDDEN: "Forbidden",
    ErrorType.TOO_LONG: "Too long",
    ErrorType.TYPE_INVALID: "Invalid value",
    ErrorType.INTERNAL: "Internal error",
}
_WITHOUT_VALUE = {ErrorType.REQUIRED, ErrorType.FORBIDDEN, ErrorType.TOO_LONG, ErrorType.INTERNAL}


class Severity(Enum):
    """Whether a finding keeps the object out."""

    ERROR = "error"
    WARNING = "warning"


class Layer(Enum):
    """The component that finds a fault in a cluster without our mutating webhook."""

    SCHEMA = "schema"
    """The API server, by the CRD. It then does not call the validating webhook, whose findings are missing."""
    WEBHOOK = "webhook"
    """The validating webhook, from the object alone."""
    CLUSTER = "cluster"
    """The validating webhook, with answers of the API server."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that must hold, with the message for answers. `message` and `fix` are `str.format` templates.

    - `id` is stable: machine-readable output and docs/errors.md use it.
    - `message` is the sentence of the Go JobSet, if the Go JobSet has the same rule.
    - `fix` says how to correct the object.
    - `source` names the reference page, KEP or API that the rule comes from.
    - `gates` is a template, too: the value of --feature-gates with which the object would not break the rule; empty if
      no feature gate decides.
    """

    id: str
    type: ErrorType
    message: str
    fix: str
    source: str
    layer: Layer = Layer.WEBHOOK
    severity: Severity = Severity.ERROR
    gates: str = ""

    def at(self, path: Path, value: Any = None, /, **words: Any) -> "FieldError":
        """The finding that `value` at `path` breaks this rule; `words` fill the templates.

        A word of the fix that is expensive to compute can be a function, which is called when the finding is rendered.
        """
        has_functions = any(map(callable, words.values()))
        detail = self.message.format(**_with_short_texts(words))
        fix = partial(self._fix, words) if has_functions else self._fix(words)
        return FieldError(path, self.type, value, detail, fix, self, words=words)

    def _fix(self, words: Mapping[str, Any]) -> str:
        return self.fix.format(
            **_with_short_texts({key: word() if callable(word) else word for key, word in words.items()})
        )


def _with_short_texts(words: Mapping[str, Any]) -> dict[str, Any]:
    return {key: shorten(word, MAX_SHOWN_WORD) if isinstance(word, str) else word for key, word in words.items()}


def with_placeholders(template: str, mark: Callable[[str], str] = "<{}>".format) -> str:
    """The text of a template for documents, in which `mark` renders the name of each word instead of the word."""
    parts = Formatter().parse(template)
    return "".join(text + ("" if name is None else mark(name)) for text, name, _, _ in parts)


@dataclass(frozen=True, slots=True)
class FieldError:
    """One finding: path, type, the offending JSON value, the rule's message, and the fix or a function that returns it.

    The text does not show a value that is a list or an object. `verbatim` replaces type, value and detail
    if another program has written them as one text. `words` fill the templates of the rule.
    """

    path: Path
    type: ErrorType
    value: Any = None
    detail: str = ""
    hint: str | Callable[[], str] = ""
    rule: Rule | None = None
    verbatim: str = ""
    words: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def fix(self) -> str:
        """What to do about the finding; computed at each access."""
        return self.hint if isinstance(self.hint, str) else self.hint()

    @property
    def gates(self) -> str:
        """The value of --feature-gates with which the rule would be kept; empty if no feature gate decides."""
        return "" if self.rule is None else self.rule.gates.format(**self.words)

    @property
    def is_warning(self) -> bool:
        """Whether the object may be stored in spite of the finding."""
        return self.rule is not None and self.rule.severity is Severity.WARNING

    @property
    def layer(self) -> Layer:
        return Layer.WEBHOOK if self.rule is None else self.rule.layer

    @property
    def complaint(self) -> str:
        """The text of the finding without its path and its fix."""
        if self.verbatim:
            return self.verbatim
        text = self.type.text
        if self.type not in _WITHOUT_VALUE and not isinstance(self.value, list | dict):
            text += f": {render_value(self.value)}"
        return f"{text}: {self.detail}" if self.detail else text

    @property
    def body(self) -> str:
        """The text of the finding without its path."""
        complaint, fix = self.complaint, self.fix
        separator = ": " if complaint == self.type.text else "; "
        return f"{complaint}{separator}{fix}" if fix else complaint

    @property
    def reader_text(self) -> str:
        """The text for a person. The text of a warning leaves out the type and the value."""
        text = f"{self.detail}; {self.fix}".removesuffix("; ") if self.is_warning else self.body
        return f"{self.path}: {text}" if self.path.parts else text

    def __str__(self) -> str:
        return f"{self.path}: {self.body}"


def shorten(text: str, limit: int) -> str:
    """The text, cut with an ellipsis if it is longer than `limit` characters."""
    return text if len(text) <= limit else text[: limit - 3] + "..."


def join_names(names: Sequence[str], limit: int = MAX_NAMES) -> str:
    """At most `limit` of the names, such as `a, b, c and 4 more`."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return f"{', '.join(names[:limit])}{more}"


def render_value(value: Any) -> str:
    """A value as text for a message, cut when long: a string in Go's quotes, any other value as JSON."""
    if isinstance(value, str):
        return quote(shorten(value, MAX_SHOWN_VALUE))
    try:
        text = msgspec.json.encode(value).decode()
    except (ValueError, RecursionError):  # lone surrogates, numbers of thousands of digits, very deep nesting
        text = repr(type(value).__name__)
    return shorten(text, MAX_SHOWN_VALUE)


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
    """The text in double quotes, escaped as by `%q` of Go."""
    return '"' + "".join(_ESCAPES.get(char) or _quote_char(char) for char in text) + '"'


def _quote_char(char: str) -> str:
    code = ord(char)
    if char.isprintable():
        return char
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def by_path(errors: Iterable[FieldError]) -> list[FieldError]:
    """The errors sorted by path. Errors at the same path keep their order."""
    return sorted(errors, key=lambda error: error.path.order)


def aggregate(texts: Iterable[str]) -> str:
    """The texts as one, without duplicates: a single text as it is, several texts in brackets."""
    unique = list(dict.fromkeys(texts))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"


def invalid_status(errors: Sequence[FieldError], *, group: str, kind: str, name: str) -> JSON:
    """A metav1.Status (422, Invalid) for the named object, with causes for the first MAX_SHOWN_ERRORS errors."""
    causes = [
        {"reason": error.type.value, "message": error.body, "field": str(error.path)}
        for error in errors[:MAX_SHOWN_ERRORS]
    ]
    texts = [f"{cause['field']}: {cause['message']}" for cause in causes]
    if len(errors) > MAX_SHOWN_ERRORS:
        texts.append(f"and {len(errors) - MAX_SHOWN_ERRORS} more")
        causes.append({"reason": ErrorType.TOO_MANY.value, "message": texts[-1], "field": "spec"})
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"{kind}.{group} {quote(name)} is invalid: {aggregate(texts)}",
        "reason": "Invalid",
        "details": {"name": name, "group": group, "kind": kind, "causes": causes},
        "code": 422,
    }
