"""Patterns of failure policy rules that are none, each with the reason that a user is given."""

import pytest

from kube.model.patterns import compile_pattern


@pytest.mark.parametrize(
    ("pattern", "why"),
    [("a(", "missing ): a("), (r"\C", r"invalid escape sequence: \C"), ("\ud800", "not valid Unicode")],
)
def test_an_invalid_pattern_is_explained(pattern, why):
    assert compile_pattern(pattern) == why
