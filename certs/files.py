"""Serves the certificate in `tls.crt` and `tls.key` of a folder (`webhook.certDir`), also after the files change.

Files are polled, since a mounted Secret changes by renaming a link to a parent folder, which a file watch may miss.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from certs.handshake import refusal
from certs.source import LiveContext
from certs.tls import CertificateError
from certs.validity import not_after
from kube.clock import now, rfc3339
from kube.resources import Resource

log = logging.getLogger(__name__)

POLL_SECONDS = 2.0
"""Seconds between two checks of the folder."""

FIRST_PAIR_TIMEOUT = 60.0
"""Seconds that the files may take to appear."""


class MissingFilesError(CertificateError):
    """The folder has no usable certificate and key. The text is one line with the folder, the fault and the fix."""


class FileCertificates:
    """A `certs.source.CertificateSource` that reads a folder.

    A certificate that the API server refuses is reported, but served, since there is no better certificate. `hosts`:
    names by which the API server may call; empty if they are unknown.
    """

    def __init__(
        self,
        folder: Path,
        live: LiveContext,
        *,
        hosts: Sequence[str] = (),
        poll_seconds: float = POLL_SECONDS,
        first_pair_timeout: float | None = FIRST_PAIR_TIMEOUT,
        clock: Callable[[], datetime] = now,
    ) -> None:
        self.ready = asyncio.Event()
        self.problem = ""
        self._folder = folder
        self._live = live
        self._hosts = hosts
        self._clock = clock
        self._host_fault = ""
        self._poll_seconds = poll_seconds
        self._first_pair_timeout = first_pair_timeout

    async def run(self) -> None:
        """Serve the files as they change. Raises `MissingFilesError` if none are usable in `first_pair_timeout` s."""
        try:
            async with asyncio.timeout(self._first_pair_timeout) as deadline:
                await self._follow_files(deadline)
        except TimeoutError:
            raise MissingFilesError(
                f"no webhook certificate after {self._first_pair_timeout:g} s: {self.problem}. Put tls.crt and tls.key"
                " there, set webhook.certDir to where they are, or set internalCertManagement.enable to true"
            ) from None

    async def maintain_bundle(self, resource: Resource, name: str) -> None:
        """Do nothing, since the owner of the files makes the API server trust the certificate."""

    async def _follow_files(self, deadline: asyncio.Timeout) -> None:
        while True:
            if self._load_changes():
                deadline.reschedule(None)
            await asyncio.sleep(self._poll_seconds)

    def _load_changes(self) -> bool:
        """Use the content of the files. Returns whether a certificate has been served by now."""
        problem = ""
        try:
            certificate, key = ((self._folder / name).read_bytes() for name in ("tls.crt", "tls.key"))
            if not self._live.is_serving(certificate, key):
                self._live.install(certificate, key)
                self._host_fault = _unnamed_hosts_fault(certificate, key, self._hosts)
                log.info("serving the certificate in %s", self._folder)
                self.ready.set()
        except OSError as error:
            problem = f"cannot read {error.filename}: {error.strerror}"
        except CertificateError as error:
            problem = f"tls.crt and tls.key in {self._folder}: {error}"
        if problem:
            self._live.observer.on_failure()
        problem = problem or self._refusal()
        if problem and problem != self.problem:
            log.warning("%s", problem)
        self.problem = problem
        return self.ready.is_set()

    def _refusal(self) -> str:
        """The reasons why the API server refuses the served certificate; "" if no reason is known."""
        faults = [self._host_fault] if self._host_fault else []
        if self._live.certificate and (end := not_after(self._live.certificate)) <= self._clock():
            faults.insert(0, f"has expired at {rfc3339(end)}")
        return f"the API server refuses the certificate in {self._folder}: it {', and '.join(faults)}" if faults else ""


def _unnamed_hosts_fault(certificate: bytes, key: bytes, hosts: Sequence[str]) -> str:
    """A clause for a message if the certificate names none of the hosts, else "". Does not check the issuer."""
    refusals = [refusal(certificate, key, certificate, host, strict=False) for host in hosts]
    if refusals and all("mismatch" in reason for reason in refusals):
        return f"does not name {' or '.join(hosts)}"
    return ""
