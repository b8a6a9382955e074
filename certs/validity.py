"""The certificates of a bundle, and the end of their validity, read without the cryptography library (`certs.apart`).

For anything else there is `certs.pki`.
"""

import base64
import contextlib
import re
from datetime import UTC, datetime

_BLOCK = re.compile(b"-----BEGIN CERTIFICATE-----([^-]*)-----END CERTIFICATE-----")
_VERSION = 0xA0
_FORMS = {0x17: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}
"""UTCTime and GeneralizedTime by their tags, in the forms of RFC 5280 (4.1.2.5)."""


def blocks(pem: bytes) -> list[bytes]:
    """The certificates of a bundle, DER, without those that are not valid base64."""
    found = []
    for block in _BLOCK.findall(pem):
        with contextlib.suppress(ValueError):
            found.append(base64.b64decode(block))
    return found


def not_after(pem: bytes) -> datetime:
    """The end of the first certificate's validity; raises ValueError if there is none."""
    found = blocks(pem)
    if not found:
        raise ValueError("there is no PEM certificate")
    try:
        return _not_after(found[0])
    except (IndexError, KeyError) as error:
        raise ValueError("the certificate is not DER") from error


def _not_after(der: bytes) -> datetime:
    """Certificate holds TBSCertificate, and that: [version], serialNumber, signature, issuer, validity, ..."""
    at = _content(der, _content(der, 0)[0])[0]
    for _ in range(4 if der[at] == _VERSION else 3):
        at = _content(der, at)[1]
    first = _content(der, at)[0]
    last = _content(der, first)[1]
    start, stop = _content(der, last)
    return datetime.strptime(der[start:stop].decode("ascii"), _FORMS[der[last]]).replace(tzinfo=UTC)


def _content(der: bytes, at: int) -> tuple[int, int]:
    """Start and end of the content of the value at this offset."""
    length, start = der[at + 1], at + 2
    if length >= 0x80:
        start += length - 0x80
        length = int.from_bytes(der[at + 2 : start], "big")
    return start, start + length
