"""Reads the documents of a manifest, with faults of their text, such as syntax errors and duplicate keys."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from jobset_client import documents as texts
from jobset_client import tree
from jobset_client.source import Location, Source, Span
from kube.model.field import ErrorType, FieldError, Path, Rule, Severity

TEMPLATE_HINT = (
    "{{ }} is a template (Helm, Argo): render it first, such as `helm template CHART | jobset validate -f -`"
)
SYNTAX = Rule("syntax", ErrorType.INVALID, "{problem}", "{hint}", "YAML 1.1, RFC 8259")
DUPLICATE_KEY = Rule(
    "duplicate-key",
    ErrorType.DUPLICATE,
    "this key is here already, and only one of its values can count",
    "remove one of them",
    "YAML 1.2 section 3.2.1.3, RFC 8259 section 4",
)
REPEATED_KEY = Rule(
    "repeated-key",
    ErrorType.DUPLICATE,
    "this key is here already, with the same value",
    "remove one of them",
    "YAML 1.2 section 3.2.1.3, RFC 8259 section 4",
    severity=Severity.WARNING,
)
KEYS_TWICE = (DUPLICATE_KEY, REPEATED_KEY)
_RULES = {
    rule.id: rule
    for rule in (
        DUPLICATE_KEY,
        Rule("bad-key", ErrorType.INVALID, "{problem}", "quote the key", "JSON: names are texts"),
        Rule("bad-value", ErrorType.INVALID, "{problem}", "quote the value if text is meant", "RFC 8259 section 6"),
        Rule(
            "bad-merge",
            ErrorType.INVALID,
            "only a mapping or a list of mappings can be merged",
            "give << an alias of a mapping, or quote it if it is a name",
            "YAML merge keys",
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of the text, and the span of the text to mark."""

    span: Span
    error: FieldError


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a text.

    - `number`: its number in the text, from 1.
    - `broken`: whether the document could not be parsed; its faults say why.
    - `item`: the index of the object in a document that is a List, else None.
    """

    source: Source
    number: int
    value: Any
    location: Location
    faults: list[Fault] = field(default_factory=list)
    broken: bool = False
    item: int | None = None


def documents(source: Source) -> Iterator[Document]:
    """The documents of a text in their order, without empty documents."""
    for parsed in texts.documents(source):
        faults = [Fault(fault.span, _error(fault)) for fault in parsed.faults]
        yield Document(source, parsed.number, parsed.value, parsed.location, faults, parsed.broken)


def _error(fault: tree.Fault) -> FieldError:
    if fault.kind == "syntax":
        problem, verbatim = fault.problem, f"cannot be read: {fault.problem}"
        error = FieldError(Path(), SYNTAX.type, None, problem, fault.hint, SYNTAX, verbatim=verbatim)
    else:
        rule = REPEATED_KEY if fault.has_same_value else _RULES[fault.kind]
        error = rule.at(Path(fault.path), fault.value, problem=fault.problem)
    return replace(error, hint=TEMPLATE_HINT) if fault.is_template else error
