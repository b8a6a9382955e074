"""Kubernetes resource quantities, as far as telling whether two of them are the same amount.

A text that is no quantity is no error here: the API server's schema refuses it elsewhere.
"""

import re
from fractions import Fraction
from typing import Any

_FORM = re.compile(
    r"([+-]?)(\d{1,64}(?:\.\d{0,64})?|\.\d{1,64})(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?\d{1,3}))?", re.ASCII
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


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
