"""Sets of indexes: as text, as batch/v1 writes them, and as sets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.indexes import MAX_BYTES_OF_TEXTS, MAX_TEXT_BYTES, Indexes, format_indexes, max_text_bytes, parse_indexes
from kube.model.meta import MAX_INT32
from tests.support.work import memory, steps

SETS = st.sets(st.integers(0, 200))


@pytest.mark.parametrize(
    ("indexes", "text"), [((), ""), ((4,), "4"), ((3, 4), "3,4"), ((3, 4, 5), "3-5"), ((7, 1, 5, 3, 4), "1,3-5,7")]
)
def test_three_neighbours_are_an_interval(indexes, text):
    assert format_indexes(Indexes.from_iterable(indexes)) == text


@given(SETS)
def test_what_is_written_is_read(indexes):
    assert parse_indexes(format_indexes(Indexes.from_iterable(indexes)), 201) == indexes


@given(SETS, SETS, st.integers(0, 200))
def test_it_is_the_set_of_its_indexes(indexes, more, limit):
    found = Indexes.from_iterable(indexes)
    assert [*found] == sorted(indexes)
    assert len(found) == len(indexes)
    assert {index for index in range(-2, 203) if index in found} == indexes
    assert found.union(more) == indexes | more
    assert [*found.missing(limit)] == [index for index in range(limit) if index not in indexes]


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60))))
def test_intervals_may_overlap_and_be_empty(intervals):
    text = ",".join(f"{first}-{last}" for first, last in intervals)
    assert parse_indexes(text, 50) == {i for first, last in intervals for i in range(first, min(last + 1, 50))}


@pytest.mark.parametrize("text", ["", "x", "-3", "1-x-2,,", "0x1", "1 ", "٣", "9" * 5000, "1-12345678901", "1,,2x"])
def test_what_cannot_be_read_names_at_most_what_can(text):
    assert parse_indexes(text, 10) <= {1}


def test_a_flood_is_bounded_by_the_number_of_jobs():
    assert parse_indexes("2-9999999999", 5) == {2, 3, 4}
    assert parse_indexes("7", 5) == frozenset()


def test_an_interval_costs_the_same_however_long_it_is():
    def used(last: int) -> tuple[int, bool]:
        indexes = parse_indexes(f"0-{last}", MAX_INT32)
        return next(indexes.union([0, 1]).missing(MAX_INT32)), last - 1 in indexes

    assert steps(lambda: used(MAX_INT32 - 2)) == steps(lambda: used(9))
    assert memory(lambda: used(MAX_INT32 - 2)) < memory(lambda: used(9)) + 1000
    assert used(MAX_INT32 - 2) == (MAX_INT32 - 1, True)


def test_what_is_named_again_is_kept_once():
    text = "0-99999,"
    assert memory(lambda: parse_indexes(text * 2000, 100_000)) < 2000 * 250
    assert steps(lambda: parse_indexes(text * 2000, 100_000)) < 2000 * 10


@given(st.sets(st.integers(0, 30_000), max_size=50), st.integers(1, 7), st.integers(0, 25_000))
def test_long_text_is_a_bitmap_and_means_the_same(more, step, limit):
    indexes = Indexes.from_iterable(range(0, 20_000, step)).union(more)
    text = format_indexes(indexes)
    assert text.startswith("bits:") == (step > 1)
    assert len(text) < MAX_TEXT_BYTES + 1_100
    assert parse_indexes(text, 30_001) == indexes
    assert parse_indexes(text, limit) == {index for index in indexes if index < limit}


def test_the_worst_case_of_100000_jobs_stays_small():
    assert len(format_indexes(Indexes.from_iterable(range(0, 100_000, 2)))) < 17_000


def test_many_texts_share_what_people_may_want_to_read():
    assert max_text_bytes(0) == max_text_bytes(8) == MAX_TEXT_BYTES
    assert all(max_text_bytes(texts) * texts <= MAX_BYTES_OF_TEXTS for texts in (9, 97, 1000, 100_000))
    indexes = Indexes.from_iterable(range(0, 1024, 2))
    assert format_indexes(indexes).startswith("0,2,4,")
    text = format_indexes(indexes, max_text_bytes(97))
    assert text.startswith("bits:")
    assert parse_indexes(text, 1024) == indexes


def test_a_few_indexes_far_apart_are_text():
    """A bitmap of them would be much longer, or too long to be read."""
    far = Indexes.from_iterable(range(0, MAX_INT32, 1_000_003))
    assert format_indexes(far).startswith("0,1000003,")


@pytest.mark.parametrize(
    "text", ["bits:", "bits:x", "bits:?", "bits:AQ", "bits: AQ==", "bits:٣", "bits:" + "/" * 400_000]
)
def test_a_bitmap_that_cannot_be_read_names_nothing(text):
    assert parse_indexes(text, MAX_INT32) == frozenset()


def test_a_flood_of_bits_is_bounded_by_the_number_of_jobs():
    def read(length: int) -> Indexes:
        return parse_indexes("bits:" + "VVVV" * length, 1000)

    assert memory(lambda: read(80_000)) < memory(lambda: read(1000)) + 80_000 * 4 * 6
    assert steps(lambda: read(80_000)) == steps(lambda: read(1000))
