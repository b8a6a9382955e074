"""Functions that write CEL, the language of the API server's admission policies. Pure.

A `Cel` is an expression. Functions that take expressions and texts write a `str` as a literal. A `Root` is the variable
that an expression reads a JobSet from: `object`, or `oldObject` for the JobSet before an update.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Any, Final, TypeVar

import msgspec

from kube.model.field import MAX_SHOWN_VALUE, ErrorType, Rule

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Cel:
    """An expression in CEL."""

    text: str

    def __post_init__(self) -> None:
        format(self.text)  # fails for a `Foreign` text

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Root:
    """The variable with a JobSet. Names of variables that are computed from this JobSet end with `suffix`."""

    name: str
    suffix: str

    def variable(self, name: str) -> Cel:
        """The variable of this name about the JobSet."""
        return Cel(f"variables.{name}{self.suffix}")


NEW: Final = Root("object", "")
OLD: Final = Root("oldObject", "Before")
_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


class Foreign(str):
    """A text that comes from an object of the cluster, such as a policy, so its author is not trusted.

    Formatting a `Foreign` text fails. Only `text`, which quotes its argument, can put it into an expression.
    """

    __slots__ = ()

    def __format__(self, _: str) -> str:
        raise TypeError("a text of an object is not an expression: write it with text()")


def foreign(value: T) -> T:
    """A copy of the value in which every text is `Foreign`."""
    converted: Any = value
    if isinstance(value, str):
        converted = Foreign(value)
    elif isinstance(value, msgspec.Struct):
        fields = {name: foreign(getattr(value, name)) for name in value.__struct_fields__}
        converted = msgspec.structs.replace(value, **fields)
    elif isinstance(value, dict):
        converted = {foreign(key): foreign(item) for key, item in value.items()}
    elif isinstance(value, list | tuple):
        converted = type(value)(map(foreign, value))
    result: T = converted
    return result


def text(value: str) -> Cel:
    """The literal for a text, quoted and escaped."""
    return Cel("'" + "".join(_ESCAPES.get(char, char) for char in value) + "'")


def texts(values: Iterable[str]) -> Cel:
    """The literal for a list of texts."""
    return Cel(f"[{', '.join(str(text(value)) for value in values)}]")


def literal(value: Any) -> Cel:
    """The literal for a JSON value: a text, a boolean, an integer or a map of them."""
    if isinstance(value, dict):
        return Cel("{" + ", ".join(f"{text(key)}: {literal(item)}" for key, item in value.items()) + "}")
    if isinstance(value, bool):
        return Cel("true" if value else "false")
    return text(value) if isinstance(value, str) else Cel(str(int(value)))


NO_TEXTS: Final = Cel("[''].filter(x, false)")
"""An empty list of texts. The literal `[]` has no type."""


def concat_texts(*parts: str | Cel) -> Cel:
    """An expression for the concatenation of texts and of expressions that give texts."""
    merged: list[str | Cel] = []
    for part in parts:
        last = merged[-1] if merged else None
        if isinstance(part, str) and isinstance(last, str):
            merged[-1] = last + part
        elif part != "":
            merged.append(part)
    return Cel(" + ".join(str(text(part) if isinstance(part, str) else part) for part in merged) or "''")


def fill_template(template: str, words: Mapping[str, str | Cel]) -> list[str | Cel]:
    """The parts of a message template (`str.format`), with its placeholders replaced by `words`."""
    parts: list[str | Cel] = []
    for plain_text, name, _, _ in Formatter().parse(template):
        parts += [plain_text, words[name]] if name else [plain_text]
    return parts


def quote_text(value: Cel) -> Cel:
    """An expression for a text in quotes, cut like the values in messages of admission if it is long."""
    return Cel(
        f"strings.quote(size({value}) > {MAX_SHOWN_VALUE} ?"
        f" {value}.substring(0, {MAX_SHOWN_VALUE - 3}) + '...' : {value})"
    )


_TYPES_WITH_VALUE = {ErrorType.INVALID, ErrorType.NOT_SUPPORTED}
"""Types of findings that quote the value."""


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes findings, each about a broken rule of the policy of this name, in CEL.

    A finding is a list of three texts: the key by which findings are compared, the path, and the message.
    """

    policy: str

    def at(
        self,
        rule: Rule,
        path: Cel,
        key: Cel | None = None,
        /,
        quoted: Cel | None = None,
        suffix: Cel | None = None,
        **words: str | Cel,
    ) -> Cel:
        """The finding that a rule is broken at a path, as an expression. `words` fill the templates of the rule.

        - `key`: the path without indices of lists inside a ReplicatedJob; by default `path`.
        - `quoted`: the text of the value, which findings of some types quote.
        - `suffix`: a text that is added to the key, so that findings about different values differ.
        """
        body: list[str | Cel] = [rule.type.text]
        if quoted is not None and rule.type in _TYPES_WITH_VALUE:
            body += [": ", quoted]
        body += [": policy ", self.policy]
        if rule.message:
            body += [": ", *fill_template(rule.message, words)]
        if rule.fix:
            body += ["; ", *fill_template(rule.fix, words)]
        whole_key = path if key is None else key
        if suffix is not None:
            whole_key = concat_texts(whole_key, " ", suffix)
        return Cel(f"[{whole_key}, {path}, {concat_texts(*body)}]")


def list_if(condition: str | Cel, finding: Cel) -> Cel:
    """An expression for a list with one finding if the condition holds, else for an empty list."""
    return Cel(f"({condition} ? [{finding}] : [])")


def concat_lists(*lists: Cel) -> Cel:
    """An expression for the concatenation of lists."""
    return Cel(" + ".join(f"({part})" if " " in part.text else part.text for part in lists) or "[]")


@dataclass(frozen=True, slots=True)
class Index:
    """An expression for the index (an int) of an item of a list. Keys of findings leave the index out."""

    number: str


CelPath = tuple[Cel, Cel]
"""Expressions for a path, and for the key by which findings at this path are compared."""


def cel_path(*parts: str | Cel | Index) -> CelPath:
    """Path and key from the parts of the path."""
    path = [Cel(f"'[' + string({part.number}) + ']'") if isinstance(part, Index) else part for part in parts]
    return concat_texts(*path), concat_texts(*(part for part in parts if not isinstance(part, Index)))


def template_path(number: str, *rest: str | Cel | Index) -> CelPath:
    """A path in the ReplicatedJob with the index `number`, an expression (int)."""
    return cel_path("spec.replicatedJobs[", Cel(f"string({number})"), "]", *rest)


def pod_path(number: str, *rest: str | Cel | Index) -> CelPath:
    """A path in the pod spec of the ReplicatedJob with the index `number`, an expression (int)."""
    return template_path(number, ".template.spec.template.spec", *rest)


def container_path(*parts: str | Cel | Index) -> CelPath:
    """A path in a container: item `x.k` of the field `x.f` in the pod spec of the ReplicatedJob with index `x.j`."""
    return pod_path("x.j", ".", Cel("string(x.f)"), Index("x.k"), *parts)


Expression = Callable[[Root], Cel]
"""Writes the expression that reads the JobSet from the root."""
_VARIABLE = re.compile(r"\bvariables\.([A-Za-z0-9]+)")


def variable_names(expression: Cel | str) -> set[str]:
    """The names of the variables that an expression reads."""
    return set(_VARIABLE.findall(str(expression)))


def key_path(path: str, key: str) -> Cel:
    """An expression for the path of a key of the map at `path`. `key` is an expression."""
    return Cel(f"({text(path)} + ({key}.contains('.') || {key}.contains('/') ? '[' + {key} + ']' : '.' + {key}))")
