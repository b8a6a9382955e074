"""Texts that are no good YAML or JSON: each fault is explained at its place, and none exhausts memory or time."""

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authoring.findings import locate
from jobset_client import tree
from tests.support.documents import only, read


def broken(text: str) -> tuple[int, int, str]:
    """Line, column and message of the one fault that ends a text."""
    document = read(text)[-1]
    assert document.broken
    (fault,) = document.faults
    return *document.source.position(fault.span.start), str(fault.error)


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("a: 1\nb: [1, 2\nc: 3\n", 3, 2, ["',' or ']'", "close the bracket"]),
        ("a: b: c\n", 1, 5, ["mapping values are not allowed", "quote a value that contains ': '"]),
        ("a:\n\tb: 1\n", 2, 1, ["cannot start any token", "indent with spaces"]),
        ("a: x\n\tb: 1\n", 2, 1, ["tab character", "indent with spaces"]),
        ("a: @x\n", 1, 4, ["cannot start any token", "quote a value that starts with"]),
        ('a: "x\n', 1, 4, ["unexpected end of stream", "close the quote"]),
        ("a:\n  b: 1\n c: 2\n", 3, 2, ["did not find expected key", "indentation"]),
        ('a: "\\d"\n', 1, 5, ["escape", "backslash"]),
        ("a: *x\n", 1, 4, ["the alias *x has no anchor &x before it"]),
        ("a: &x [*x]\n", 1, 8, ["the anchor &x contains itself"]),
        ("a: !!int x\n", 1, 10, ["'x' is no !!int"]),
        ("a: !!binary '@'\n", 1, 13, ["not base64"]),
        ("a: b\x07\n", 1, 5, ["control characters are not allowed"]),
        ("{{- if .Values.x }}\na: 1\n{{- end }}\n", 1, 2, ["{{ }} is a template", "helm template"]),
        ("a: 1\n{{- range .x }}\n", 2, 1, ["{{ }} is a template"]),
        ('{"a": 1 "b": 2}', 1, 9, ["expected , or }", "put a comma"]),
        ('{"a": ', 1, 7, ["cannot be read"]),
    ],
)
def test_what_cannot_be_read_is_explained_at_its_place(text: str, line: int, column: int, words: list[str]):
    *at, message = broken(text)
    assert at == [line, column], message
    for word in words:
        assert word in message


def test_documents_before_one_that_cannot_be_read_are_there():
    first, last = read("a: 1\n---\nb: [\n---\nc: 1\n")
    assert (first.value, first.broken, last.broken, last.number) == ({"a": 1}, False, True, 2)


@pytest.mark.parametrize(
    ("text", "path", "line", "words"),
    [
        ("a:\n  b: 1\n  c: 2\n  b: 3\n", "a.b", 4, ['Duplicate value: "b"', "remove one"]),
        ('{"a": [{"b": 1, "b": 2}]}', "a[0].b", 1, ['Duplicate value: "b"']),
        ("1: a\n'1': b\n", "1", 2, ["Duplicate"]),
        ("a: .nan\n", "a", 1, ["JSON has no such number", "quote"]),
        ("a: [-.inf]\n", "a[0]", 1, ["JSON has no such number"]),
        ("a: {~: 1}\n", "a", 1, ["must not be null"]),
        ("a:\n  [b]: 1\n", "a", 2, ["a key must be text"]),
        ("a:\n  18446744073709551615: 1\n", "a", 2, ["quote this number"]),
        ("a: {<<: 5}\n", "a[<<]", 1, ["can be merged"]),
        ("a: {{ .Values.name }}\n", "a", 1, ["a key must be text", "{{ }} is a template"]),
    ],
)
def test_faults_that_can_be_read_past(text: str, path: str, line: int, words: list[str]):
    document = only(text)
    fault = document.faults[0]
    assert not document.broken
    assert document.source.position(fault.span.start)[0] == line
    assert str(fault.error.path).replace(".<<", "[<<]") == path
    for word in words:
        assert word in str(fault.error)


def test_faults_of_one_text_are_bounded():
    assert len(only("a: 1\n" * 1000).faults) == tree.MAX_FAULTS


BOMB = "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 30))
MERGE_BOMB = "a0: &a0 {k: v}\n" + "".join(
    f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}]}}\n" for i in range(1, 20)
)
LONG_TEXT_BOMB = f"a: &a {'x' * 1_000_000}\nb: [{', '.join(['*a'] * 100_000)}]\n"
DEEP_ALIASES = "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i} {{x: *a{i - 1}}}\n" for i in range(1, 1000))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (BOMB, "more than 500000 values"),
        (MERGE_BOMB, "more than 500000 values"),
        ("a: &a {<<: *a}\n", "the anchor &a contains itself"),
        (LONG_TEXT_BOMB, "more than 500000 values"),
        (DEEP_ALIASES, "more than 200 mappings and lists"),
        ("[" * 100_000, "more than 200 mappings and lists"),
        ('{"a":' * 100_000, "more than 200 mappings and lists"),
        ("- " * 5_000, "more than 200 mappings and lists"),
        ("? " * 5_000, "more than 200 mappings and lists"),
        ("a: " + "x" * 16_500_000, "more than 500000 values"),
    ],
    ids=[
        "bomb",
        "merge keys",
        "a cycle of merge keys",
        "long texts",
        "deep aliases",
        "brackets",
        "JSON",
        "dashes",
        "question marks",
        "one text",
    ],
)
def test_texts_made_to_exhaust_memory_or_stack_are_refused(text: str, words: str):
    assert words in broken(text)[2]


def test_an_alias_bomb_takes_little_memory():
    tracemalloc.start()
    try:
        broken(BOMB)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * 2**20


FRAGMENTS = st.sampled_from(
    ["a", ": ", ":", "- ", "\n", "  ", "{", "}", "[", "]", ",", "&a ", "*a", "<<", "!!int ", "!x ", '"', "'", "|", ">",
     "---\n", "...\n", "%YAML 1.2\n", "#", "\t", "\r\n", "? ", "~", "0x", "1e5", ".inf", "\\", "\\ud800", "null", "{{",
     "\ufeff", "\x00", "\u2028", "\x85", "@", "`", "%"]
)  # fmt: skip


@given(st.one_of(st.text(), st.lists(FRAGMENTS).map("".join)))
def test_no_text_makes_the_reader_raise(text: str):
    for document in read(text):
        json.dumps(document.value, allow_nan=False)
        for fault in document.faults:
            locate(document, fault.error, fault.span)
            assert str(fault.error)
