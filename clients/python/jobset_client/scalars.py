"""Reads YAML scalars as kubectl does, so that checks see the values that kubectl sends. Pure.

kubectl reads YAML 1.1 with exceptions: `yes`, `on` and `y` are booleans, `0o17` is a number, while dates and `1:30`
stay text. This module was compared with kubectl 1.37.
"""

import base64
import binascii
import math
import re
import struct

Scalar = str | int | float | bool | None

_TAGS = "tag:yaml.org,2002:"
_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
LONGEST_NUMBER = 400
"""Largest number of characters of a number. A longer run of digits stays text, so that reading it takes no time."""
_MAX_EXACT_FLOAT = 2**53


class ScalarError(ValueError):
    """The scalar has no JSON value, or does not fit its tag. The text is the end of a sentence."""


def plain_value(text: str) -> Scalar:
    """The value of an unquoted scalar without a tag."""
    if text in _WORDS:
        return _WORDS[text]
    number = None
    if text[0] in "+-.0123456789" and len(text) <= LONGEST_NUMBER:
        number = _number(text if text[0] == "." else text.replace("_", ""))
    return text if number is None else number


def tagged_value(text: str, tag: str) -> Scalar:
    """The value of a scalar with an explicit tag. A tag that is not one of YAML means text."""
    type_name = tag.removeprefix(_TAGS)
    if type_name == tag or type_name in {"str", "timestamp"}:
        return text
    if type_name == "binary":
        return _binary(text)
    value = plain_value(text)
    value_type = "null" if value is None else type(value).__name__
    if value_type == type_name or (value_type, type_name) == ("int", "float"):
        return value
    if type_name in {"bool", "int", "float", "null"}:
        raise ScalarError(f"{text!r} is no !!{type_name}")
    return text


def key_text(value: Scalar) -> str:
    """The member name for a key."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        raise ScalarError("a key must not be null: quote it, or give it a name")
    if isinstance(value, int):
        if value >= 2**63:
            raise ScalarError("a key must be text: quote this number")
        return str(value)
    return _go_float(value)


def json_number(value: Scalar) -> Scalar:
    """The value in JSON. Whole floats become integers. Raises `ScalarError` for infinity and NaN."""
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        raise ScalarError("JSON has no such number: quote it if text is meant")
    return int(value) if value.is_integer() and abs(value) <= _MAX_EXACT_FLOAT else value


def _number(text: str) -> int | float | None:
    integer = _INTEGER.fullmatch(text)
    if integer:
        sign, *digits = integer.groups()
        base, body = next((base, part) for base, part in zip((16, 2, 8, 10), digits, strict=True) if part is not None)
        value = int(sign + body, base)
        if -(2**63) <= value < 2**63 or (not sign and value < 2**64):
            return value
    if _FLOAT.fullmatch(text):
        number = float(text)
        return number if math.isfinite(number) else None
    return None


def _binary(text: str) -> str:
    try:
        return base64.b64decode("".join(text.split()), validate=True).decode(errors="replace")
    except (binascii.Error, ValueError) as error:
        raise ScalarError("this is not base64, which !!binary stands for") from error


def _go_float(value: float) -> str:
    """The text of a float rounded to 32 bits, as Go writes it: the fewest digits that distinguish it from others."""
    try:
        as_float32 = _round_to_float32(value)
    except OverflowError:
        as_float32 = math.copysign(math.inf, value)
    if not math.isfinite(as_float32):
        return ".nan" if math.isnan(as_float32) else ".inf" if as_float32 > 0 else "-.inf"
    decimals, text = next(
        (n, text) for n in range(10) if _round_to_float32(float(text := f"{as_float32:.{n}e}")) == as_float32
    )
    exponent = int(text.partition("e")[2])
    return f"{float(text):.{max(decimals - exponent, 0)}f}" if -5 < exponent < 6 else text


def _round_to_float32(value: float) -> float:
    rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    return rounded
