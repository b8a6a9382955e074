"""Sets of indexes as text, as batch/v1 writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.indexes import format_indexes, parse_indexes


@pytest.mark.parametrize(
    ("indexes", "text"), [((), ""), ((4,), "4"), ((3, 4), "3,4"), ((3, 4, 5), "3-5"), ((7, 1, 5, 3, 4), "1,3-5,7")]
)
def test_three_neighbours_are_an_interval(indexes, text):
    assert format_indexes(indexes) == text


@given(st.sets(st.integers(0, 200)))
def test_what_is_written_is_read(indexes):
    assert parse_indexes(format_indexes(indexes), 201) == indexes


@pytest.mark.parametrize("text", ["", "x", "-3", "1-x-2,,", "0x1", "1 ", "٣", "9" * 5000])
def test_what_cannot_be_read_names_at_most_what_can(text):
    assert parse_indexes(text, 10) <= {1}


def test_a_flood_is_bounded_by_the_number_of_jobs():
    assert parse_indexes("2-9999999999", 5) == {2, 3, 4}
    assert parse_indexes("7", 5) == frozenset()
