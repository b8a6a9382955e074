"""Reads the documents of a manifest: YAML as kubectl reads it, and JSON.

The client and the commands read manifests with this module. It does not raise, whatever the text is: an unreadable
document has only faults, and is the last document. It needs only PyYAML.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from jobset_client.scalars import LONGEST_NUMBER, ScalarError, plain_value, tagged_value
from jobset_client.source import Location, Source, Span
from jobset_client.tree import Builder, BuildError, Fault

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The loader of libyaml if PyYAML has it, as it is ten times as fast."""
MAX_TEXT = 16 << 20
"""At most this many characters or bytes of a text, which callers check. The API server accepts at most 3 MiB."""
_JSON_SCALAR = re.compile(
    r'"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*"'
    r"|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?"
    r"|true|false|null"
)
_JSON_WORDS = {"true": True, "false": False, "null": None}
_JSON_SPACE = re.compile(r"[ \t\r\n]*")
_JSON_START = re.compile(rf"{_JSON_SPACE.pattern}[{{\[]")
_PROPERTIES = re.compile(r"(?:[&!]\S*[ \t]+)*")
"""Anchor and tag, which the parser includes in the start of a value."""
_TAB_HINT = "indent with spaces: YAML does not allow tabs there"

_HINTS = (
    ("mapping values are not allowed", "quote a value that contains ': ', or check the indentation"),
    ("did not find expected key", "check the indentation against the lines above, and that quotes are closed"),
    ("did not find expected '-' indicator", "check the indentation against the lines above"),
    ("did not find expected ',' or", "put a comma before it, or close the bracket"),
    ("could not find expected ':'", "write `key: value`, with a space after the colon"),
    ("cannot start any token", "quote a value that starts with one of @ ` %"),
    ("unexpected end of stream", "close the quote"),
    ("unknown escape", "double the backslash, or use single quotes"),
    ("did not find expected <document start>", "put `---` between documents"),
    ("expected '<document start>'", "put `---` between documents"),
    ("control characters", "remove the character"),
    ("expected , or", "put a comma before it, or close the bracket"),
    ("expected key", "write the key in double quotes"),
    ("expected value", "write a value: text in double quotes, a number, true, false, null, { or ["),
)


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a text. `number` counts from 1. A `broken` document could not be read, and its fault says why."""

    source: Source
    number: int
    value: Any
    location: Location
    faults: list[Fault] = field(default_factory=list)
    broken: bool = False


class _JsonError(Exception):
    """The text is not JSON from this offset on. `expected` describes the text that may follow."""

    def __init__(self, offset: int, expected: str) -> None:
        super().__init__(expected)
        self.offset = offset
        self.expected = expected


def documents(source: Source) -> Iterator[Document]:
    """Yield the documents that are not empty, in order."""
    number = offset = 0
    while _JSON_START.match(source.text, offset):
        builder = Builder()
        try:
            offset = _feed_json(source.text, offset, builder)
        except BuildError as error:
            yield _broken_document(source, number + 1, error.span, str(error), error.fix)
            return
        except _JsonError as error:
            yield from _yaml_or_json_error(source, offset, number, error)
            return
        number += 1
        yield _document(source, number, builder)
    yield from _yaml_documents(source, offset, number)


def _yaml_or_json_error(source: Source, offset: int, number: int, error: _JsonError) -> Iterator[Document]:
    """Read almost-JSON (comments, trailing commas) as YAML, as kubectl does. If YAML fails, report the JSON error."""
    for document in _yaml_documents(source, offset, number):
        error_offset = len(source.text) - len(source.text[error.offset :].lstrip())
        if (
            document.broken
            and document.number == number + 1
            and source.text[error_offset : error_offset + 1] not in {"#", "]", "}"}
        ):
            problem = f"expected {error.expected}"
            yield _broken_document(
                source,
                document.number,
                Span(error_offset, error_offset + 1),
                problem,
                _hint(problem, source, error_offset),
            )
        else:
            yield document


def _document(source: Source, number: int, builder: Builder) -> Document:
    root = builder.root
    if root is None:
        return Document(source, number, None, Location(Span(0, 0)))
    faults = [replace(fault, is_template=_is_template(source, fault.span)) for fault in builder.faults]
    return Document(source, number, root.value, root.location, faults)


def _broken_document(source: Source, number: int, span: Span, problem: str, hint: str) -> Document:
    is_template = _is_template(source, span)
    fault = Fault(span=span, kind="syntax", problem=problem, hint=hint, is_template=is_template)
    return Document(source, number, None, Location(span), [fault], broken=True)


def _is_template(source: Source, span: Span) -> bool:
    return "{{" in source.line(source.position(span.start)[0])


def _yaml_documents(source: Source, base_offset: int, number: int) -> Iterator[Document]:
    text = source.text[base_offset:]
    builder = Builder()
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            if isinstance(event, yaml.DocumentStartEvent):
                builder = Builder()
                number += 1
            elif isinstance(event, yaml.DocumentEndEvent):
                if builder.root is not None and builder.root.value is not None:
                    yield _document(source, number, builder)
            else:
                _feed_event(builder, event, text, base_offset)
    except BuildError as error:
        yield _broken_document(source, number, error.span, str(error), error.fix)
    except yaml.MarkedYAMLError as error:
        span, problem = _parser_error(error, text, base_offset)
        yield _broken_document(source, max(number, 1), span, problem, _hint(problem, source, span.start))
    except yaml.reader.ReaderError as error:
        span = _reader_span(error, text, base_offset)
        yield _broken_document(
            source, max(number, 1), span, str(error.reason), _hint(str(error.reason), source, span.start)
        )


def _feed_event(builder: Builder, event: Any, text: str, base_offset: int) -> None:
    start, end = event.start_mark.index, event.end_mark.index
    if isinstance(event, yaml.NodeEvent) and not isinstance(event, yaml.AliasEvent):
        start = min(end, _PROPERTIES.match(text, start).end())  # type: ignore[union-attr]  # matches anything
    span = Span(base_offset + start, base_offset + end)
    if isinstance(event, yaml.CollectionEndEvent):
        builder.close(span.end)
    elif isinstance(event, yaml.AliasEvent):
        builder.alias(event.anchor or "", span)
    elif isinstance(event, yaml.ScalarEvent):
        unquoted = event.implicit[0] and event.style in {None, ""}
        builder.scalar(
            _event_value(event, span), span, anchor=event.anchor, is_merge_key=unquoted and event.value == "<<"
        )
    elif isinstance(event, yaml.CollectionStartEvent):
        empty: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
        builder.open(empty, span, anchor=event.anchor, block=not event.flow_style)


def _event_value(event: Any, span: Span) -> Any:
    if event.tag is None:
        return plain_value(event.value) if event.implicit[0] else event.value
    try:
        return tagged_value(event.value, event.tag)
    except ScalarError as error:
        raise BuildError(span, str(error), "correct the value or its tag") from error


def _parser_error(error: Any, text: str, base_offset: int) -> tuple[Span, str]:
    mark = error.problem_mark or error.context_mark
    if error.context_mark and (error.context == "while scanning a simple key" or mark.index >= len(text.rstrip())):
        mark = error.context_mark  # the parser notices the problem only much later
    offset = base_offset + (mark.index if mark else 0)
    context = f" {error.context}" if error.context else ""
    return Span(offset, offset + 1), f"{error.problem or 'not YAML'}{context}"


def _reader_span(error: Any, text: str, base_offset: int) -> Span:
    """The first position of the invalid character, since the C reader counts bytes and the other reader characters."""
    character = error.character if isinstance(error.character, str) else chr(error.character)
    index = text.find(character)
    return Span(base_offset + max(index, 0), base_offset + max(index, 0) + 1)


def _hint(problem: str, source: Source, offset: int) -> str:
    line, column = source.position(min(offset, len(source.text)))
    if "\t" in source.line(line)[: column + 1] and ("token" in problem or "tab character" in problem):
        return _TAB_HINT
    return next((hint for words, hint in _HINTS if words in problem), "compare it with a manifest that works")


def _feed_json(text: str, offset: int, builder: Builder, expected: str = "value") -> int:
    """Feed one JSON value to the builder. Returns the offset after the value.

    `expected` describes the text that may follow, for the error. The function calls itself for inner values. The
    builder refuses nesting long before the stack overflows.
    """
    start = _skip_space(text, offset)
    if text[start : start + 1] not in {"{", "["}:
        return _feed_json_scalar(text, start, builder, expected)
    is_object = text[start] == "{"
    closing, item = ("}", "key") if is_object else ("]", "value")
    builder.open({} if is_object else [], Span(start, start + 1), block=False)
    end, expected = _skip_space(text, start + 1), f"{item} or {closing}"
    is_open = not text.startswith(closing, end)
    while is_open:
        if is_object:
            end, expected = _feed_json_key(text, end, builder, expected), "value"
        end = _skip_space(text, _feed_json(text, end, builder, expected))
        is_open = not text.startswith(closing, end)
        if is_open:
            end, expected = _skip_mark(text, end, ",", f", or {closing}"), item
    builder.close(end + 1)
    return end + 1


def _feed_json_key(text: str, start: int, builder: Builder, expected: str) -> int:
    """Feed the name of a member to the builder. Returns the offset after its colon."""
    if not text.startswith('"', start):
        raise _JsonError(start, expected)
    return _skip_mark(text, _feed_json_scalar(text, start, builder, expected), ":", ":")


def _skip_space(text: str, offset: int) -> int:
    return _JSON_SPACE.match(text, offset).end()  # type: ignore[union-attr]  # matches anything


def _skip_mark(text: str, offset: int, mark: str, expected: str) -> int:
    """The offset of the text after `mark`, which has to be next."""
    start = _skip_space(text, offset)
    if not text.startswith(mark, start):
        raise _JsonError(start, expected)
    return _skip_space(text, start + 1)


def _feed_json_scalar(text: str, start: int, builder: Builder, expected: str) -> int:
    scalar = _JSON_SCALAR.match(text, start)
    if scalar is None:
        raise _JsonError(start, expected)
    builder.scalar(_scalar_value(scalar[0], start), Span(*scalar.span()))
    return scalar.end()


def _scalar_value(token: str, start: int) -> Any:
    if token[0] == '"':
        try:
            text: str = json.loads(token)
        except ValueError as error:
            raise _JsonError(start, "text without unknown escapes") from error
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if token in _JSON_WORDS:
        return _JSON_WORDS[token]
    is_integer = token.lstrip("-").isdigit() and len(token) < LONGEST_NUMBER
    return int(token) if is_integer and -(2**63) <= int(token) < 2**64 else float(token)
