"""Pieces of CEL, the language of the API server's admission policies. Pure.

An expression is a `Cel`; a plain text is a literal. A `Root` is the JobSet of expressions: `object`, or `oldObject` for
the JobSet before an update.
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
    """An expression."""

    text: str

    def __post_init__(self) -> None:
        format(self.text)  # fails for a `Foreign` text

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Root:
    """A JobSet in expressions, and the suffix of the variables that are derived from it."""

    name: str
    suffix: str

    def variable(self, name: str) -> Cel:
        return Cel(f"variables.{name}{self.suffix}")


NEW: Final = Root("object", "")
OLD: Final = Root("oldObject", "Before")
_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


class Foreign(str):
    """A text that comes from an object, such as a policy.

    Formatting it fails, so only `text`, which quotes it, can put it into an expression.
    """

    __slots__ = ()

    def __format__(self, _: str) -> str:
        raise TypeError("a text of an object is not an expression: write it with text()")


def foreign(value: T) -> T:
    """A copy of the value in which every text is `Foreign`, in all fields."""
    converted: Any = value
    if isinstance(value, str):
        converted = Foreign(value)
    elif isinstance(value, msgspec.Struct):
        fields = {name: foreign(getattr(value, name)) for name in value.__struct_fields__}
        converted = msgspec.structs.replace(value, **fields)
    elif isinstance(value, dict):
        converted = {foreign(key): foreign(each) for key, each in value.items()}
    elif isinstance(value, list | tuple):
        converted = type(value)(map(foreign, value))
    result: T = converted
    return result


def text(value: str) -> Cel:
    """A text as a literal."""
    return Cel("'" + "".join(_ESCAPES.get(char, char) for char in value) + "'")


def texts(values: Iterable[str]) -> Cel:
    """A list of texts as a literal."""
    return Cel(f"[{', '.join(str(text(value)) for value in values)}]")


def literal(value: Any) -> Cel:
    """JSON as a literal."""
    if isinstance(value, dict):
        return Cel("{" + ", ".join(f"{text(key)}: {literal(each)}" for key, each in value.items()) + "}")
    if isinstance(value, bool):
        return Cel("true" if value else "false")
    return text(value) if isinstance(value, str) else Cel(str(int(value)))


NO_TEXTS: Final = Cel("[''].filter(x, false)")
"""An empty list of texts: `[]` alone has no type."""


def concat_texts(*parts: str | Cel) -> Cel:
    """A text made of literals and expressions."""
    merged: list[str | Cel] = []
    for part in parts:
        last = merged[-1] if merged else None
        if isinstance(part, str) and isinstance(last, str):
            merged[-1] = last + part
        elif part != "":
            merged.append(part)
    return Cel(" + ".join(str(text(part) if isinstance(part, str) else part) for part in merged) or "''")


def fill_template(template: str, words: Mapping[str, str | Cel]) -> list[str | Cel]:
    """The template of a message, with its placeholders replaced."""
    parts: list[str | Cel] = []
    for literal, name, _, _ in Formatter().parse(template):
        parts += [literal, words[name]] if name else [literal]
    return parts


def quote_text(value: Cel) -> Cel:
    """A text in quotes, cut if it is long, like values in messages."""
    return Cel(
        f"strings.quote(size({value}) > {MAX_SHOWN_VALUE} ?"
        f" {value}.substring(0, {MAX_SHOWN_VALUE - 3}) + '...' : {value})"
    )


TYPES_WITH_VALUE = {ErrorType.INVALID, ErrorType.NOT_SUPPORTED}
"""Kinds of findings of policies that show the value."""


@dataclass(frozen=True, slots=True)
class Say:
    """Writes findings in the name of a policy. A finding is a list: key for comparison, path, text."""

    policy: str

    def at(
        self,
        rule: Rule,
        path: Cel,
        key: Cel | None = None,
        /,
        shown: Cel | None = None,
        apart: Cel | None = None,
        **words: str | Cel,
    ) -> Cel:
        """The finding that a rule is broken at a path. `key`: the path without indices of lists of a template.

        `shown`: the value, for kinds of findings that quote it. `apart`: a hidden text that distinguishes findings.
        """
        body: list[str | Cel] = [rule.type.text]
        if shown is not None and rule.type in TYPES_WITH_VALUE:
            body += [": ", shown]
        body += [": policy ", self.policy]
        if rule.message:
            body += [": ", *fill_template(rule.message, words)]
        if rule.fix:
            body += ["; ", *fill_template(rule.fix, words)]
        compared = path if key is None else key
        return Cel(
            f"[{compared if apart is None else concat_texts(compared, ' ', apart)}, {path}, {concat_texts(*body)}]"
        )


def list_if(condition: str | Cel, found: Cel) -> Cel:
    """A list with one finding if the condition holds, else an empty one."""
    return Cel(f"({condition} ? [{found}] : [])")


def concat_lists(*lists: Cel) -> Cel:
    """The concatenation of these lists."""
    return Cel(" + ".join(f"({each})" if " " in each.text else each.text for each in lists) or "[]")


@dataclass(frozen=True, slots=True)
class Index:
    """The index (int) of an item of a list in a template. Findings are compared without it."""

    number: str


CelPath = tuple[Cel, Cel]
"""A path, and the key by which findings there are compared."""


def cel_path(*parts: str | Cel | Index) -> CelPath:
    """The path of these parts, with its key."""
    path = [Cel(f"'[' + string({part.number}) + ']'") if isinstance(part, Index) else part for part in parts]
    return concat_texts(*path), concat_texts(*(part for part in parts if not isinstance(part, Index)))


def template_path(number: str, *rest: str | Cel | Index) -> CelPath:
    """A path in the ReplicatedJob of that index (int)."""
    return cel_path("spec.replicatedJobs[", Cel(f"string({number})"), "]", *rest)


def pod_path(number: str, *rest: str | Cel | Index) -> CelPath:
    """A path in the spec of its pods."""
    return template_path(number, ".template.spec.template.spec", *rest)


def container_path(*parts: str | Cel | Index) -> CelPath:
    """A path in the container `x`, an item of the variable `containers`."""
    return pod_path("x.j", ".", Cel("string(x.f)"), Index("x.k"), *parts)


Expression = Callable[[Root], Cel]
_VARIABLE = re.compile(r"\bvariables\.([A-Za-z0-9]+)")


def names_in(expression: Cel | str) -> set[str]:
    """Names of the variables that an expression reads."""
    return set(_VARIABLE.findall(str(expression)))


def below(path: str, key: str) -> Cel:
    """The path of a key of the map at `path`; `key` is an expression."""
    return Cel(f"({text(path)} + ({key}.contains('.') || {key}.contains('/') ? '[' + {key} + ']' : '.' + {key}))")
