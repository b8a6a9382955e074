"""Requires client certificates of a CA in a file (`tls.clientCAFile`), and reads the file again when it changes."""

import asyncio
import logging
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from certs.files import POLL_SECONDS
from certs.source import LiveContext
from certs.tls import CertificateError, install

log = logging.getLogger(__name__)


class CurrentContext(ssl.SSLContext):
    """A context that delegates each new connection to `live.context`.

    An `ssl.SSLContext` cannot stop trusting a CA, so `ClientAuthority` makes a new context for a new CA.
    """

    live: LiveContext

    def __new__(cls, live: LiveContext) -> Self:
        self = super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)
        self.live = live
        return self

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        """Begin a connection."""
        return self.live.context.wrap_bio(*args, **options)


class ClientAuthority:
    """Puts contexts into `live` that require client certificates of the CA in `file`. Servers use `context`.

    `new_context` makes a context that has no certificate and does not require client certificates.
    """

    def __init__(
        self,
        file: Path,
        live: LiveContext,
        new_context: Callable[[], ssl.SSLContext],
        *,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self.context = CurrentContext(live)
        self.problem = ""
        self._file = file
        self._live = live
        self._new_context = new_context
        self._poll_seconds = poll_seconds
        self._loaded: bytes | None = None

    async def run(self) -> None:
        """Read the file again when it changes. While the file cannot be used, the last usable CA stays in use."""
        while True:
            await asyncio.sleep(self._poll_seconds)
            problem = ""
            try:
                self.load()
            except CertificateError as error:
                problem = str(error)
            if problem and problem != self.problem:
                log.warning("%s", problem)
            self.problem = problem

    def load(self) -> None:
        """Use the content of the file. Raises `CertificateError`, and changes nothing, if the content is not a CA."""
        try:
            authorities = self._file.read_bytes()
        except OSError as error:
            raise CertificateError(f"tls.clientCAFile: cannot read {self._file}: {error.strerror}") from None
        if authorities == self._loaded:
            return
        context = self._new_context()
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(cadata=authorities.decode("ascii"))
        except (ValueError, ssl.SSLError):
            raise CertificateError(f"tls.clientCAFile: {self._file} holds no PEM certificates") from None
        install(context, self._live.certificate, self._live.key)
        self._live.context, self._loaded = context, authorities
        log.info("clients of the webhooks have to show a certificate of a CA in %s", self._file)
