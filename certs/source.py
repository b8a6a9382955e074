"""Shared by both sources of certificates: readiness, and loading a pair into the live context."""

import asyncio
import ssl
from dataclasses import dataclass, field
from typing import Protocol

from certs.tls import install
from certs.validity import not_after
from kube.resources import Resource


class CertificateSource(Protocol):
    """Keeps a TLS context supplied. `ready` is set once a pair is served; `problem`: the current fault, or ""."""

    ready: asyncio.Event
    problem: str

    async def run(self) -> None:
        """Work until cancelled."""

    async def look_after(self, resource: Resource, name: str) -> None:
        """Make the API server trust the certificate in one more webhook configuration, until cancelled."""


class Observer:
    """Hooks for events of certificates and of our own CA, which do nothing here. `not_after` is Unix time in seconds.

    `on_registration`: how many webhooks a configuration lists; 0 also if it does not exist.
    """

    def on_load(self, not_after: float) -> None: ...
    def on_failure(self) -> None: ...
    def on_authority(self, not_after: float) -> None: ...
    def on_registration(self, configuration: str, webhooks: int) -> None: ...


@dataclass(slots=True)
class Live:
    """The pair that a context serves at the moment."""

    context: ssl.SSLContext
    observer: Observer = field(default_factory=Observer)
    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)

    def serves(self, certificate: bytes, key: bytes) -> bool:
        return (self.certificate, self.key) == (certificate, key)

    def install(self, certificate: bytes, key: bytes) -> None:
        """Raises `certs.tls.CertificateError` and keeps serving the old pair if the new one is invalid."""
        install(self.context, certificate, key)
        self.certificate, self.key = certificate, key
        self.observer.on_load(not_after(certificate).timestamp())
