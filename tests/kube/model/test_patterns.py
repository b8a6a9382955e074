"""Patterns of failure policy rules that are none, each with the reason that a user is given."""

import pytest

from kube.model.patterns import compile_pattern


@pytest.mark.parametrize(
    ("pattern", "why"),
    [("a(", "missing ): a("), (r"\C", r"invalid escape sequence: \C"), ("\ud800", "not valid Unicode")],
)
def test_an_invalid_pattern_is_explained(pattern, why):
    assert compile_pattern(pattern) == why


def test_a_pattern_is_searched_for_anywhere():
    assert compile_pattern("exit code [37]").search("main: exit code 7 again")
