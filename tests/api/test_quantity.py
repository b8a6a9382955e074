"""Quantities are compared by amount."""

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.quantity import canonical, parse_quantity


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", "1000m"),
        (1, "1"),
        ("0.5", "500m"),
        ("1Gi", "1024Mi"),
        ("1k", "1000"),
        ("1e3", "1k"),
        ("1E3", "1k"),
        ("1E", "1e18"),
        (".5", "0.50"),
        ("+2", "2."),
        ("1000000n", "1m"),
        ("-1", "-1000m"),
    ],
)
def test_same_amount(one: object, other: object):
    assert parse_quantity(one) is not None
    assert parse_quantity(one) == parse_quantity(other)


@pytest.mark.parametrize(("one", "other"), [("1", "1m"), ("1Gi", "1G"), ("1M", "1m"), ("1", "-1")])
def test_other_amount(one: str, other: str):
    assert parse_quantity(one) != parse_quantity(other)


@pytest.mark.parametrize(
    "text", ["", "abc", "1 ", "1ki", "1KiB", "e3", ".", "1e", "\u0661", "1e9999999999", None, True, [], "9" * 5000]
)
def test_no_quantity(text: object):
    assert parse_quantity(text) is None


@settings(deadline=None)
@given(st.one_of(st.text(), st.integers(), st.floats(), st.booleans(), st.none()))
def test_never_raises(value: object):
    parse_quantity(value)


@settings(deadline=None)
@given(st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**12), max_value=10**12))
def test_agrees_with_decimal_arithmetic(amount: Decimal):
    assert parse_quantity(f"{amount:f}") == parse_quantity(f"{amount * 1000:f}m")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("0.5", "500m"), ("1500m", "1500m"), ("2000m", "2"), (2, "2"), ("1024Mi", "1Gi"), ("1.5Gi", "1536Mi"),
        ("1.5Ki", "1536"), ("0.5Ki", "512"), ("100000k", "100M"), ("12e6", "12e6"), ("1e3", "1e3"), ("-1", "-1"), ("0Gi", "0"),
        ("many", "many"),
    ],
)  # fmt: skip
def test_amounts_are_shown_as_the_api_server_writes_them(text: object, shown: str):
    assert canonical(text) == shown
