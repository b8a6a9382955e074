"""YAML and JSON documents as kubectl reads them, with the place of every value."""

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authoring.findings import locate
from jobset_client.scalars import plain_value
from kube.model.field import ErrorType, FieldError
from kube.model.field import Path as FieldPath
from tests.support.documents import only, read

SCALARS = {
    "yes": True, "No": False, "on": True, "OFF": False, "y": True, "N": False, "true": True, "True": True,
    "tRUE": "tRUE", "~": None, "null": None, "Null": None, "": None, "1:30": "1:30", "190:20:30.15": "190:20:30.15",
    "2001-01-01": "2001-01-01", "2001-12-14t21:59:43.10-05:00": "2001-12-14t21:59:43.10-05:00", "010": 8, "089": 89,
    "0o17": 15, "0O17": 15, "0x1F": 31, "-0X1f": -31, "0b11": 3, "-0b11": -3, "0b102": "0b102", "0x": "0x",
    "0x_1F": 31, "0_7": 7, "1_000": 1000, "1__0": 10, "_1": "_1", "+5": 5, "-0": 0, "1e3": 1000, "1.e+3": 1000,
    "1e": "1e", "1e400": "1e400", ".5": 0.5, "1.": 1, "+.5": 0.5, "1.50": 1.5, "-0.0": 0,
    "18446744073709551615": 18446744073709551615, "9223372036854775807": 9223372036854775807,
    "<<": "<<", "=": "=", "1.2.3": "1.2.3", "v1": "v1", "- ": [None], "'5'": "5", '"on"': "on", "!!str 5": "5",
    '!!int "5"': 5, "!!float 5": 5, "!!float 1.5": 1.5, "!!bool yes": True, "!foo 5": "5", "! 5": "5",
    "!!binary aGVsbG8=": "hello", "!!timestamp 2001-01-01": "2001-01-01", "!!null ''": None,
}  # fmt: skip
KEYS = {
    "1": "1", "010": "8", "1_0": "10", "1.5": "1.5", "1e3": "1000", "1e6": "1e+06", "12345678.0": "1.2345678e+07",
    "0.00001": "1e-05", "3.14159265": "3.1415927", "1e39": ".inf", ".inf": ".inf", "true": "true", "Off": "false",
    "2001-01-01": "2001-01-01", '"1"': "1", "y": "true", "~x": "~x",
}  # fmt: skip


@pytest.mark.parametrize(("text", "value"), SCALARS.items())
def test_scalars_mean_what_they_mean_to_kubectl(text: str, value: object):
    found = only(f"a: {text}\n" if text != "- " else "a:\n- \n").value
    assert json.dumps(found) == json.dumps({"a": value})


@pytest.mark.parametrize(("text", "name"), KEYS.items())
def test_keys_become_names_as_with_kubectl(text: str, name: str):
    assert only(f"{text}: x\n").value == {name: "x"}


MERGES = """
own-before: {a: 1, <<: {a: 2, b: 3}}
own-after: {<<: {a: 2, b: 3}, a: 1}
several: {<<: [{a: 2}, {a: 3, c: 1}]}
twice: {<<: {a: 1}, <<: {b: 1}}
quoted: {"<<": {a: 1}}
aliased: {x: &x {a: {b: 1}}, x2: {<<: *x, c: 2}, z: *x}
"""
MERGED = {
    "own-before": {"a": 2, "b": 3},
    "own-after": {"a": 1, "b": 3},
    "several": {"a": 2, "c": 1},
    "twice": {"a": 1, "b": 1},
    "quoted": {"<<": {"a": 1}},
    "aliased": {"x": {"a": {"b": 1}}, "x2": {"a": {"b": 1}, "c": 2}, "z": {"a": {"b": 1}}},
}


def test_merges_and_aliases_mean_what_they_mean_to_kubectl():
    document = only(MERGES)
    assert document.value == MERGED
    assert document.faults == []


@pytest.mark.integration
def test_kubectl_agrees_with_these_tables(binaries: Path):
    lines = [f"  s{i}: {text}" for i, text in enumerate(SCALARS) if text != "- "]
    lines += [f"  k{i}: {{{text}: x}}" for i, text in enumerate(KEYS)] + ["  merges:"]
    lines += [f"    {line}" for line in MERGES.strip().splitlines()]
    text = "apiVersion: e.com/v1\nkind: F\nmetadata: {name: x, labels: {a: b}}\nspec:\n" + "\n".join(lines) + "\n"
    command = [binaries / "kubectl", "label", "--local", "-f", "-", "-o", "json", "a=b"]
    answer = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 (our own kubectl)
    assert answer.returncode == 0, answer.stderr
    theirs, ours = json.loads(answer.stdout), only(text)
    assert ours.faults == []
    # Go writes integers beyond 2**53 as the nearest float when kubectl prints them.
    assert json.loads(json.dumps(theirs), parse_int=float) == json.loads(json.dumps(ours.value), parse_int=float)


JSON_TEXT = '{"a":\t{"b": [1, -2.5e1, true, null, "x\\ud83d\\ude00\\u00e4\\/\\ud800"]},\n\t"c": {}, "d": []}'


def test_json_is_read_as_json():
    document = only(JSON_TEXT)
    assert document.value == {"a": {"b": [1, -25, True, None, "x😀ä/�"]}, "c": {}, "d": []}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('{"a": 1}{"a": 2}\n[3]\n', [{"a": 1}, {"a": 2}, [3]]),
        ('{"a": 1}\n---\n{"a": 2}\n', [{"a": 1}, {"a": 2}]),
        ('{"a": 1}\n---\na: 2\n', [{"a": 1}, {"a": 2}]),
        ('{\n\t"a": 1, # a comment, a tab and a comma too many\n}\n', [{"a": 1}]),
        ("a: 1\n---\n---\n# nothing\n---\nb: 2\n...\n---\n", [{"a": 1}, {"b": 2}]),
        ("\n\n", []),
        ("", []),
        ("%YAML 1.1\n---\na: 1\n", [{"a": 1}]),
        ("a: 1\r\nb:\r\n- 2\r\n", [{"a": 1, "b": [2]}]),
        ("just text", ["just text"]),
    ],
)
def test_streams_of_documents(text: str, values: list[object]):
    assert [document.value for document in read(text)] == values
    assert not any(document.broken for document in read(text))


def test_documents_are_numbered_as_they_stand_in_the_file():
    assert [d.number for d in read("a: 1\n---\n---\nb: 2\n")] == [1, 3]


PLACES = [
    # what, text, path, the line and column of the mark, the text it covers
    ("scalar", "a:\n  b: word # c\n", ("a", "b"), (2, 6), "word"),
    ("quoted", "a:\n  b: 'wo rd'\n", ("a", "b"), (2, 6), "'wo rd'"),
    ("item", "a:\n- x\n- yy\n", ("a", 1), (3, 3), "yy"),
    ("missing member: its parent's key", "a:\n  b:\n    c: 1\n", ("a", "b", "x"), (2, 3), "b"),
    ("missing member of an item: its start", "a:\n- b: 1\n  c: 2\n", ("a", 0, "x"), (2, 3), "b"),
    ("missing at the top: the start", "a: 1\n", ("x", "y"), (1, 1), "a"),
    ("block mapping: its key", "a:\n  bb:\n    c: 1\n", ("a", "bb"), (2, 3), "bb"),
    ("block list: its key", "aa:\n- 1\n", ("aa",), (1, 1), "aa"),
    ("flow mapping: itself", "a: {b: {c: 1}}\n", ("a", "b"), (1, 8), "{c: 1}"),
    ("inside flow style", "a: {b: [x, {c: yy}]}\n", ("a", "b", 1, "c"), (1, 16), "yy"),
    ("flow style over lines", "a: {b: 1,\n  c: 2}\n", ("a",), (1, 4), "{b: 1,"),
    ("nothing after the colon: the key", "a:\n  b:\n", ("a", "b"), (2, 3), "b"),
    ("block scalar: its mark", "a:\n  b: |\n    x\n    y\n", ("a", "b"), (2, 6), "|"),
    ("folded over lines", "a: one\n  two\n", ("a",), (1, 4), "one"),
    ("alias: itself", "x: &n 5\na: *n\n", ("a",), (2, 4), "*n"),
    ("within an alias: the text behind it", "x: &n\n  b: 5\na: *n\n", ("a", "b"), (2, 6), "5"),
    ("merged: the text behind it", "x: &n {b: 5}\na: {<<: *n}\n", ("a", "b"), (1, 11), "5"),
    ("anchored", "x: &n 5\n", ("x",), (1, 7), "5"),
    ("tagged", "x: !!str 5\n", ("x",), (1, 10), "5"),
    ("second document", "a: 1\n---\na:\n  b: 2\n", ("a", "b"), (4, 6), "2"),
    ("CRLF", "a:\r\n  b: word\r\n", ("a", "b"), (2, 6), "word"),
    ("old Mac", "a:\r  b: word\r", ("a", "b"), (2, 6), "word"),
    ("after wide characters", "a: [\u4e16\u754c, word]\n", ("a", 1), (1, 9), "word"),
    ("after an odd line end", "a: 'x\u2028y'\nb: word\n", ("b",), (2, 4), "word"),
    ("JSON", '{"a": {"b": "word"}}', ("a", "b"), (1, 13), '"word"'),
    ("JSON over lines, tabs", '{\n\t"a": {\n\t\t"b": 12\n\t}\n}', ("a", "b"), (3, 8), "12"),
    ("JSON, missing", '{"a": {"b": 12}}', ("a", "c"), (1, 2), '"a"'),
    ("JSON, mapping", '{"a": {"b": 12}}', ("a",), (1, 7), '{"b": 12}'),
    ("second JSON document", '{"a": 1}\n{"a": 2}', ("a",), (2, 7), "2"),
    ("YAML after JSON", '{"a": 1}\n---\na: 22\n', ("a",), (3, 4), "22"),
    ("a key that is a number", "a: {1: x, 010: yy}\n", ("a", "8"), (1, 16), "yy"),
]


@pytest.mark.parametrize(("text", "path", "at", "marked"), [case[1:] for case in PLACES], ids=[c[0] for c in PLACES])
def test_places(text: str, path: tuple[str | int, ...], at: tuple[int, int], marked: str):
    document = read(text)[-1]
    found = locate(document, FieldError(FieldPath(path), ErrorType.INVALID))
    assert ((found.line, found.column), found.line_text[found.column - 1 : found.end_column - 1]) == (at, marked)


def test_the_last_of_two_values_counts_as_with_kubectl():
    assert only("a: 1\na: 2\n").value == {"a": 2}


def test_numbers_of_many_digits_are_read_in_no_time():
    assert plain_value("9" * 100_000) == "9" * 100_000
    assert only('{"a": 1' + "0" * 300 + "}").value == {"a": 1e300}


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@pytest.mark.no_cover
@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), JSON_VALUES, min_size=1), st.booleans())
def test_json_of_any_value_is_read_back(value: object, ascii_only: bool):
    document = only(json.dumps(value, ensure_ascii=ascii_only, indent="\t"))
    assert document.value == value
    assert document.faults == []


def test_a_tree_of_places_has_the_shape_of_the_value():
    def check(value: object, place: object) -> None:
        members = dict(enumerate(value)) if isinstance(value, list) else value if isinstance(value, dict) else {}
        assert set(place.members) == set(members)
        for key, member in members.items():
            check(member, place.members[key])

    document = only(MERGES)
    check(document.value, document.location)
