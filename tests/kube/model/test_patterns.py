"""Patterns of failure policy rules that are none, each with the reason that a user is given."""

import pytest

from kube.model.patterns import compiled


@pytest.mark.parametrize(
    ("pattern", "why"),
    [("a(", "missing ): a("), (r"\C", r"invalid escape sequence: \C"), ("\ud800", "not valid Unicode")],
)
def test_an_invalid_pattern_is_explained(pattern, why):
    assert compiled(pattern) == why


def test_a_pattern_is_searched_for_anywhere():
    assert compiled("exit code [37]").search("main: exit code 7 again")
