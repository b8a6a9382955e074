"""Quantities are read as a real API server reads them, and compared by amount."""

import json
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kube.model.quantity import canonical, parse_quantity
from tests.support.corpus.quantities import cases, recorded

UNITS_END = 10**21
"""From here on the API server has no unit, and writes `1000E` as `1`."""


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


def in_thousandths(amount: Fraction) -> Fraction:
    """Rounded away from 0, as the API server does in a pod."""
    thousandths = -(-abs(amount) * 1000 // 1)
    return Fraction(thousandths if amount > 0 else -thousandths, 1000)


def test_amounts_are_those_of_an_api_server():
    """tests/integration/test_quantities.py asks again."""
    assert list(recorded()) == list(cases())
    unread, others = set(), {}
    for case, answer in recorded().items():
        ours, theirs = parse_quantity(json.loads(case)), parse_quantity(answer.amount)
        if (ours is None) is not (answer.amount is None):
            unread.add(case)
        elif ours is not None and (ours < UNITS_END or "e" in str(answer.amount)) and in_thousandths(ours) != theirs:
            others[case] = (ours, answer.amount)
    assert others == {}
    assert unread == {"null", '"1e1200"'}


def test_amounts_are_written_as_an_api_server_does():
    for case, answer in recorded().items():
        value = json.loads(case)
        amount = parse_quantity(value)
        if isinstance(value, str) and amount is not None and 0 <= amount < UNITS_END and not amount * 1000 % 1:
            assert canonical(value) == answer.amount, case


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("0" * 5_000_000 + "8", 8),
        ("1." + "0" * 5_000_000, 1),
        ("0." + "0" * 5_000_000 + "1Ki", Fraction(1, 10**9)),
        ("1." + "9" * 5_000_000, 2),
        ("1" + "0" * 5_000_000 + "e-5000000", 1),
        ("1e" + "0" * 5_000_000 + "3", 1000),
        ("9" * 5_000_000, None),
        ("1e" + "9" * 5_000_000, None),
        ("1e2147483647", None),
        ("1e-2147483647", Fraction(1, 10**9)),
        (" " * 5_000_000 + "x", None),
        (10**5000, None),
    ],
    ids=range(12),
)
def test_texts_of_any_length_are_read(text: object, amount: object):
    assert parse_quantity(text) == amount


@pytest.mark.parametrize("value", [None, True, [], {}, float("nan"), float("inf"), "\u0661"])
def test_no_quantity(value: object):
    assert parse_quantity(value) is None


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
