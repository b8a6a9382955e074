"""Reads the certificates of a bundle, and the end of their validity, without the cryptography library.

Loading the library takes 15 MiB (`certs.child_process`). `certs.pki` reads all other parts of certificates.
"""

import base64
import contextlib
import re
from datetime import UTC, datetime

_PEM_BLOCK = re.compile(b"-----BEGIN CERTIFICATE-----([^-]*)-----END CERTIFICATE-----")
_VERSION_TAG = 0xA0
"""The tag of the optional field `version` of a TBSCertificate."""
_TIME_FORMATS = {0x17: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}
"""UTCTime and GeneralizedTime by their tags, in the forms of RFC 5280 (4.1.2.5)."""


def der_certificates(pem: bytes) -> list[bytes]:
    """The certificates of a bundle as DER, without certificates that are not valid base64."""
    certificates = []
    for block in _PEM_BLOCK.findall(pem):
        with contextlib.suppress(ValueError):
            certificates.append(base64.b64decode(block))
    return certificates


def not_after(pem: bytes) -> datetime:
    """The end of the first certificate's validity. Raises ValueError without a valid certificate."""
    certificates = der_certificates(pem)
    if not certificates:
        raise ValueError("there is no PEM certificate")
    try:
        return _not_after(certificates[0])
    except (IndexError, KeyError) as error:
        raise ValueError("the certificate is not DER") from error


def _not_after(der: bytes) -> datetime:
    """The end of validity in a DER certificate.

    A Certificate begins with a TBSCertificate, whose fields are [version], serialNumber, signature, issuer, validity,
    ...
    """
    offset = _content_range(der, _content_range(der, 0)[0])[0]
    for _ in range(4 if der[offset] == _VERSION_TAG else 3):
        offset = _content_range(der, offset)[1]
    validity_start = _content_range(der, offset)[0]
    end_offset = _content_range(der, validity_start)[1]
    start, stop = _content_range(der, end_offset)
    return datetime.strptime(der[start:stop].decode("ascii"), _TIME_FORMATS[der[end_offset]]).replace(tzinfo=UTC)


def _content_range(der: bytes, offset: int) -> tuple[int, int]:
    """The start and end offset of the content of the value at `offset`."""
    length, start = der[offset + 1], offset + 2
    if length >= 0x80:
        start += length - 0x80
        length = int.from_bytes(der[offset + 2 : start], "big")
    return start, start + length
