"""Parses and writes Kubernetes resource quantities as the API server does.

A text that is not a quantity is no error in this module: the schema of the CRD refuses it. Work and memory are linear
in the length of the text, however many digits it has.
"""

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

_NUMBER = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
PATTERN = rf"^(\+|-)?{_NUMBER}(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?{_NUMBER}))?$"
"""The form of a quantity, for the schemas of CRDs."""
WHOLE_PATTERN = "^[0-9]{1,18}$"
"""The form of a whole number that is written as a text, for the schemas of CRDs."""
COUNTED_PATTERN = rf"^[+]?{_NUMBER}([KMGTPE]i|[numkMGTPE]|[eE][+-]?0*[0-9]{{1,3}})?$"
"""The form of an amount that policies count: not below 0, and without an exponent that is expensive to evaluate."""

_FORM = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?)([0-9]+))?")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_NEVER_ALONE = {"Pi", "Ei"}
"""Units that need a number. The API server reads any other unit without a number as 0."""
_DECIMAL_UNITS = {suffix: Fraction(10) ** power for suffix, power in {**_DECIMAL, "": 0}.items()}
_BINARY_UNITS = {suffix: Fraction(1 << bits) for suffix, bits in {**_BINARY, "": 0}.items()}
_EXPONENTS = {f"e{power}" if power else "": Fraction(10) ** power for power in range(-9, 19, 3)}
_EXPONENT = re.compile(r"[eE][+-]?\d")

_MAX_BINARY: Final = (1 << 63) - 1
"""The largest amount with a binary unit, to which larger ones are cut. Amounts with other units may be larger."""
_NANO: Final = -9
"""The power of ten of the smallest amount: every amount is rounded up to a multiple of it."""
_MAX_POWER: Final = 1_000
"""Amounts of this power of ten or more are not evaluated: no use needs them."""
_DIGITS: Final = _MAX_POWER - _NANO + max(_BINARY.values()) + 1
"""How many leading digits an amount depends on. Of further digits it only matters whether all are zero."""


def parse_quantity(value: Any) -> Fraction | None:
    """Exact amount of `500m`, `1Gi`, `1e3`, `0.5`, 2; None if the value is not a quantity, or too large to use."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if isinstance(value, int):
        return Fraction(value) if abs(value) < 10**_MAX_POWER else None
    match = _FORM.fullmatch(value.strip(" ") if isinstance(value, str) else repr(value))
    if match is None or not match[0]:
        return None
    sign, whole, fraction, suffix, exponent_sign, exponent = match.groups("")
    power = _wrapped_exponent(exponent_sign, exponent) if exponent else _DECIMAL.get(suffix, 0)
    if power is None or (not (whole or fraction) and (power < _NANO or suffix in _NEVER_ALONE)):
        return None
    amount = _rounded_amount((whole + fraction).lstrip("0"), power - len(fraction), _BINARY.get(suffix, 0))
    if amount is not None and suffix in _BINARY:
        amount = min(amount, Fraction(_MAX_BINARY))
    return -amount if amount is not None and sign == "-" else amount


def _wrapped_exponent(sign: str, digits: str) -> int | None:
    """The exponent as the API server reads it: the lowest 32 bits of a number, which must have at most 64 bits."""
    digits = digits.lstrip("0") or "0"
    exponent = int(sign + digits) if len(digits) < 20 else 1 << 63
    return (exponent + (1 << 31)) % (1 << 32) - (1 << 31) if -(1 << 63) <= exponent < 1 << 63 else None


def _rounded_amount(digits: str, power: int, bits: int) -> Fraction | None:
    """`digits` * 10**`power` * 2**`bits`, rounded up to billionths; None if this is too large to use."""
    if not digits:
        return Fraction()
    if len(digits) + power > _MAX_POWER:
        return None
    if len(digits) + power + bits < _NANO:
        return Fraction(1, 10**-_NANO)
    if len(digits) > _DIGITS:
        power += len(digits) - _DIGITS - 1
        digits = digits[:_DIGITS] + ("1" if digits[_DIGITS:].strip("0") else "0")
    number, shift = int(digits) << bits, power - _NANO
    nanos = number * 10**shift if shift >= 0 else -(-number // 10**-shift)
    return Fraction(nanos, 10**-_NANO)


def is_native(resource: str) -> bool:
    """Whether this is a resource of Kubernetes itself. All other resources are devices, in whole numbers."""
    return "/" not in resource or "kubernetes.io/" in resource


def canonical(value: Any) -> str:
    """The amount as the API server writes it: `0.5` is `500m`, `1024Mi` is `1Gi`; other texts are unchanged."""
    amount, text = parse_quantity(value), str(value)
    if amount is None:
        return text
    if text.endswith("i") and abs(amount) >= _BINARY_UNITS["Ki"] and amount.denominator == 1:
        return _with_suffix(amount, _BINARY_UNITS)
    return _with_suffix(amount, _EXPONENTS if _EXPONENT.search(text) else _DECIMAL_UNITS)


def with_unit(amount: Fraction | int, like: str) -> str:
    """The amount as the API server writes it, with a binary unit if the quantity `like` has one."""
    return _with_suffix(Fraction(amount), _BINARY_UNITS if like.endswith("i") else _DECIMAL_UNITS)


def _with_suffix(amount: Fraction, units: Mapping[str, Fraction]) -> str:
    """The amount in the largest unit in which it is a whole number, else in the smallest unit, rounded up."""
    if not amount:
        return "0"
    exact_units = ((unit, suffix) for suffix, unit in units.items() if (amount / unit).denominator == 1)
    unit, suffix = max(exact_units, default=min((unit, suffix) for suffix, unit in units.items()))
    return f"{-(-amount // unit)}{suffix}"
