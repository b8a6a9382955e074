"""The interface of both sources of certificates, and the TLS context into which they load a certificate."""

import asyncio
import ssl
from dataclasses import dataclass, field
from typing import Protocol

from certs.tls import install
from certs.validity import not_after
from kube.resources import Resource


class CertificateSource(Protocol):
    """Keeps the certificate of a TLS context up to date.

    `ready` is set once a certificate is served. `problem` is the current fault, or "".
    """

    ready: asyncio.Event
    problem: str

    async def run(self) -> None:
        """Keep the certificate up to date until cancelled."""

    async def maintain_bundle(self, resource: Resource, name: str) -> None:
        """Make the API server trust the certificate in one more webhook configuration, until cancelled."""


class Observer:
    """Hooks for events of certificates and of our own CA, which do nothing by default.

    `not_after` is Unix time in seconds. `webhooks` is the number of webhooks that a configuration lists, which is 0 for
    a configuration that does not exist.
    """

    def on_load(self, not_after: float) -> None: ...
    def on_failure(self) -> None: ...
    def on_authority(self, not_after: float) -> None: ...
    def on_registration(self, configuration: str, webhooks: int) -> None: ...


@dataclass(slots=True)
class LiveContext:
    """The TLS context of a running server, with the PEM certificate and key that it serves at the moment."""

    context: ssl.SSLContext
    observer: Observer = field(default_factory=Observer)
    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)

    def is_serving(self, certificate: bytes, key: bytes) -> bool:
        return (self.certificate, self.key) == (certificate, key)

    def install(self, certificate: bytes, key: bytes) -> None:
        """Serve a new pair. If it is invalid, raises `certs.tls.CertificateError` and keeps serving the old pair."""
        install(self.context, certificate, key)
        self.certificate, self.key = certificate, key
        self.observer.on_load(not_after(certificate).timestamp())
