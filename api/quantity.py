"""Kubernetes resource quantities: whether two of them are the same amount, and how the API server writes one.

A text that is no quantity is no error here: the API server's schema refuses it elsewhere.
"""

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

_NUMBER = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
PATTERN = rf"^(\+|-)?{_NUMBER}(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?{_NUMBER}))?$"
"""The form of a quantity, for the schemas of CRDs."""
WHOLE_PATTERN = "^[0-9]{1,18}$"
"""The form of a whole number that is written as a text, for the same."""

_FORM = re.compile(
    r"([+-]?)(\d{1,64}(?:\.\d{0,64})?|\.\d{1,64})(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?\d{1,3}))?", re.ASCII
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_UNITS = {suffix: Fraction(10) ** power for suffix, power in {**_DECIMAL, "": 0}.items()}
_BINARY_UNITS = {suffix: Fraction(1 << bits) for suffix, bits in {**_BINARY, "": 0}.items()}
_EXPONENTS = {f"e{power}" if power else "": Fraction(10) ** power for power in range(-9, 19, 3)}
_EXPONENT = re.compile(r"[eE][+-]?\d")


def parse_quantity(value: Any) -> Fraction | None:
    """Exact amount of `500m`, `1Gi`, `1e3`, `0.5`, 2; None when it is no quantity (or one beyond any use)."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    match = _FORM.fullmatch(str(value))
    if match is None:
        return None
    sign, digits, suffix, exponent = match.groups()
    amount = Fraction(digits) * (-1 if sign == "-" else 1)
    if exponent is not None:
        return amount * Fraction(f"1e{exponent}")
    if suffix in _BINARY:
        return amount * (1 << _BINARY[suffix])
    return amount * Fraction(f"1e{_DECIMAL.get(suffix, 0)}")


def is_native(resource: str) -> bool:
    """Whether Kubernetes itself gives out this resource; all others are devices, of which there are whole ones only."""
    return "/" not in resource or "kubernetes.io/" in resource


def canonical(value: Any) -> str:
    """The amount as the API server writes it: `0.5` is `500m`, `1024Mi` is `1Gi`; what is none stays as it is."""
    amount, text = parse_quantity(value), str(value)
    if amount is None:
        return text
    if text.endswith("i") and abs(amount) >= _BINARY_UNITS["Ki"] and amount.denominator == 1:
        return _with_suffix(amount, _BINARY_UNITS)
    exponent = _EXPONENT.search(text) is not None
    return _with_suffix(amount, _EXPONENTS if exponent else _DECIMAL_UNITS)


def with_unit(amount: Fraction | int, like: str) -> str:
    """The amount as the API server writes it, with the binary units where `like` has one."""
    return _with_suffix(Fraction(amount), _BINARY_UNITS if like.endswith("i") else _DECIMAL_UNITS)


def _with_suffix(amount: Fraction, units: Mapping[str, Fraction]) -> str:
    """The amount as a whole number of the largest unit that allows it, else of the smallest, rounded up."""
    if not amount:
        return "0"
    whole = ((unit, suffix) for suffix, unit in units.items() if (amount / unit).denominator == 1)
    unit, suffix = max(whole, default=min((unit, suffix) for suffix, unit in units.items()))
    return f"{-(-amount // unit)}{suffix}"
