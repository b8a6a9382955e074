"""What both origins of certificates have in common: readiness, and putting a pair into the live context."""

import asyncio
import ssl
from dataclasses import dataclass, field
from typing import Protocol

from certs.tls import install


class CertificateSource(Protocol):
    """Keeps a TLS context supplied. `ready` is set once a pair is served; `problem` says what is wrong now, or ""."""

    ready: asyncio.Event
    problem: str

    async def run(self) -> None:
        """Work until cancelled."""


@dataclass(slots=True)
class Live:
    """The pair that a context serves at the moment."""

    context: ssl.SSLContext
    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)

    def serves(self, certificate: bytes, key: bytes) -> bool:
        return (self.certificate, self.key) == (certificate, key)

    def install(self, certificate: bytes, key: bytes) -> None:
        """Raises `certs.tls.CertificateError` and keeps serving the old pair when the new one is none."""
        install(self.context, certificate, key)
        self.certificate, self.key = certificate, key
