"""Data types for the content of the Secret of certificates and decisions about it, without the cryptography library.

See docs/reference/manager.md#certificates.
"""

import base64
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from kube.model.meta import JSON

KeyAlgorithm = Literal["ECDSA", "RSA"]

_FIELD_BY_KEY = {"ca.crt": "authorities", "ca.key": "authority_key", "tls.crt": "certificate", "tls.key": "key"}


@dataclass(frozen=True, slots=True)
class Material:
    """Contents of the Secret, as PEM. `authorities` holds the CA of `authority_key` first, then older CAs."""

    authorities: bytes = b""
    authority_key: bytes = field(default=b"", repr=False)
    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)


class Renewal(Enum):
    """The parts that have to be renewed."""

    NOTHING = "nothing"
    BUNDLE = "CA bundle"
    SERVING = "serving certificate"
    ALL = "CA and serving certificate"


@dataclass(frozen=True, slots=True)
class Decision:
    """The parts to renew, and the reason in words for the log."""

    renewal: Renewal
    reason: str = ""


def material_of(secret: JSON) -> Material:
    """Contents of the Secret. A value that is not valid base64 counts as absent."""
    data = secret.get("data") or {}
    fields = {}
    for key, field_name in _FIELD_BY_KEY.items():
        try:
            fields[field_name] = base64.b64decode(data.get(key) or "", validate=True)
        except ValueError:
            fields[field_name] = b""
    return Material(**fields)


def secret_data(material: Material) -> dict[str, str]:
    """`data` of the Secret with these contents."""
    return {key: base64.b64encode(getattr(material, field_name)).decode() for key, field_name in _FIELD_BY_KEY.items()}
