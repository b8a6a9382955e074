"""What `jobset render` writes is read alike by every reader of YAML."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from authoring.documents import documents
from cli.check.render import to_yaml
from jobset_client.source import Source

ODD = ["y", "n", "yes", "on", "~", "null", "", "1e3", "0o17", "010", "1_000", "0x1f", ".5", ".inf", "1:30", "<<", "=",
       "2001-01-01", "- a", "a: b", "#x", " a ", "a\nb\n", "a\n", "\n", "a\n  b", " a\nb", "a\tb", "\t", "a \nb", "é\u2028x",
       "\x07", "\ufeff", "%x", "@", "`", "{{ x }}", "*a", "&a", "!x", "|", "'", '"', "x" * 500 + " y", "\U0001f600"]  # fmt: skip


@pytest.mark.parametrize("text", ODD)
def test_texts_that_look_like_other_types_stay_texts_for_every_reader(text: str):
    body = {"apiVersion": "v1", "kind": "X", "metadata": {text: "k"}, "spec": {"a": text, "b": [text]}}
    written = to_yaml(body)
    (document,) = documents(Source("x", written))
    assert (document.value, document.faults) == (body, [])
    assert yaml.safe_load(written) == body


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_what_is_written_is_what_kubectl_reads(value: object):
    body = {"apiVersion": "v1", "kind": "X", "spec": value}
    (document,) = documents(Source("x", to_yaml(body)))
    assert (document.value, document.faults) == (body, [])


def test_scripts_are_written_as_they_are_read():
    assert "|\n" in to_yaml({"apiVersion": "v1", "kind": "X", "spec": {"script": "set -e\nrun\n"}})
