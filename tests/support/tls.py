"""Certificates for tests, a server that serves them, and a client that looks at what is served."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from certs.material import Material, Renewal
from certs.pki import ImpureInputs, renew
from certs.tls import install, server_context
from httpserver.address import bind
from httpserver.server import Server

NOW = datetime.now(UTC).replace(microsecond=0)
HOSTS = ("hook.ns.svc", "localhost", "127.0.0.1")


def fresh(now: datetime = NOW) -> ImpureInputs:
    return ImpureInputs(now, lambda: ec.generate_private_key(ec.SECP256R1()), x509.random_serial_number)


def material(now: datetime = NOW, hosts: tuple[str, ...] = HOSTS) -> Material:
    """A CA and a serving certificate made at `now`."""
    return renew(Material(), Renewal.ALL, hosts, fresh(now))


@contextlib.asynccontextmanager
async def serving(app: Any, context: ssl.SSLContext, **options: Any) -> AsyncIterator[Server]:
    """A server on a free port of this machine, stopped in good order at the end."""
    listener = bind(("127.0.0.1", 0), "webhooks")
    server = Server(app, listener, context, **options)
    async with asyncio.TaskGroup() as group:
        group.create_task(server.run())
        await server.started.wait()
        try:
            yield server
        finally:
            server.stop()


def context_with(pair: Material) -> ssl.SSLContext:
    context = server_context()
    install(context, pair.certificate, pair.key)
    return context


def trusting(authorities: bytes, *, any_time: bool = False) -> ssl.SSLContext:
    """A client's context that trusts this bundle and nothing else, checks the name and, unless `any_time`, the dates."""
    context = ssl.create_default_context(cadata=authorities.decode())
    # Python 3.13 turns this on; test authorities are held to it as well.
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    if any_time:
        context.verify_flags |= ssl.VerifyFlags(0x200000)  # X509_V_FLAG_NO_CHECK_TIME
    return context


async def served_serial(port: int, authorities: bytes, host: str = "127.0.0.1", *, any_time: bool = False) -> int:
    """Serial number of the certificate that a full, verified handshake shows. Raises ssl.SSLError if it fails."""
    trust = trusting(authorities, any_time=any_time)
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust, server_hostname=host)
    try:
        der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()
    return x509.load_der_x509_certificate(der).serial_number


def serial(pem: bytes) -> int:
    return x509.load_pem_x509_certificates(pem)[0].serial_number


async def until(condition: Callable[[], bool], seconds: float = 10) -> None:
    """Wait for a condition that other tasks bring about."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 -- the things waited for set no event
            await asyncio.sleep(0.005)


DAY = timedelta(days=1)
