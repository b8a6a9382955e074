"""Clients have to show a certificate of the CA in a file: over real TLS, and while the file changes."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from app.health import webhook_check
from certs.clients import ClientAuthority
from certs.source import LiveContext
from certs.tls import CertificateError, server_context
from httpserver.asgi import Message, Receive, Send, respond
from tests.support.beside import beside
from tests.support.tls import DAY, NOW, context_with, material, serving, trusting, until

PAIR, OTHER_PAIR = material(), material()
GET = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"


async def app(_scope: Message, _receive: Receive, send: Send) -> None:
    await respond(send, 200, "hello")


class Authority:
    """A CA for certificates of clients."""

    def __init__(self, name: str) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        ca = x509.BasicConstraints(ca=True, path_length=0)
        self.certificate = self._sign(self.name, self.key, ca)

    def _sign(self, name: x509.Name, key: ec.EllipticCurvePrivateKey, what: x509.ExtensionType) -> bytes:
        builder = x509.CertificateBuilder(
            self.name, name, key.public_key(), x509.random_serial_number(), NOW - DAY, NOW + timedelta(days=9)
        )
        signed = builder.add_extension(what, critical=False).sign(self.key, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.PEM)

    def client(self, folder: Path, usage: x509.ObjectIdentifier = ExtendedKeyUsageOID.CLIENT_AUTH) -> Path:
        """A PEM file with a certificate and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
        pem = self._sign(name, key, x509.ExtendedKeyUsage([usage]))
        form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        file = folder / f"{x509.random_serial_number()}.pem"
        file.write_bytes(pem + key.private_bytes(serialization.Encoding.PEM, *form))
        return file


TRUSTED, STRANGE = Authority("one"), Authority("another")


@contextlib.asynccontextmanager
async def demanding(file: Path) -> AsyncIterator[tuple[ClientAuthority, LiveContext, int]]:
    """A server that follows the file; with its port."""
    live = LiveContext(context_with(PAIR), certificate=PAIR.certificate, key=PAIR.key)
    clients = ClientAuthority(file, live, server_context, poll_seconds=0.01)
    clients.load()
    async with serving(app, clients.context) as server, beside(clients.run()):
        yield clients, live, server.port


async def answered(port: int, certificate: Path | None, authorities: bytes = PAIR.authorities) -> bool:
    """Whether a client gets an answer: with TLS 1.3 it hears of a refusal only when it reads."""
    context = trusting(authorities)
    if certificate is not None:
        context.load_cert_chain(certificate)
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    except (ssl.SSLError, ConnectionError):
        return False
    try:
        writer.write(GET)
        return (await asyncio.wait_for(reader.read(), 10)).startswith(b"HTTP/1.1 200")
    except (ssl.SSLError, ConnectionError):
        return False
    finally:
        writer.transport.abort()


def write(file: Path, content: bytes | None) -> None:
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "ca.crt"
    file.write_bytes(TRUSTED.certificate)
    return file


async def test_only_clients_with_a_certificate_of_the_ca_are_answered(file: Path, tmp_path: Path):
    async with demanding(file) as (_, _, port):
        assert await answered(port, TRUSTED.client(tmp_path))
        assert not await answered(port, None)
        assert not await answered(port, STRANGE.client(tmp_path))
        assert not await answered(port, TRUSTED.client(tmp_path, ExtendedKeyUsageOID.SERVER_AUTH))


async def test_another_ca_in_the_file_takes_the_place_of_the_one_before(file: Path, tmp_path: Path):
    old, new = TRUSTED.client(tmp_path), STRANGE.client(tmp_path)
    async with demanding(file) as (_, live, port):
        before = live.context
        write(file, TRUSTED.certificate + STRANGE.certificate)
        await until(lambda: live.context is not before)
        assert [await answered(port, each) for each in (old, new)] == [True, True]
        before = live.context
        write(file, STRANGE.certificate)
        await until(lambda: live.context is not before)
        assert [await answered(port, each) for each in (old, new)] == [False, True]


@pytest.mark.parametrize("content", [b"", b"no PEM", b"\xff", None])
async def test_a_file_that_cannot_be_used_changes_nothing_and_is_named(
    file: Path, tmp_path: Path, content: bytes | None
):
    async with demanding(file) as (clients, _, port):
        write(file, content)
        await until(lambda: "tls.clientCAFile" in clients.problem)
        assert await answered(port, TRUSTED.client(tmp_path))
        assert not await answered(port, None)
        write(file, TRUSTED.certificate)
        await until(lambda: not clients.problem)
    write(file, content)
    with pytest.raises(CertificateError, match=r"tls\.clientCAFile"):
        ClientAuthority(file, LiveContext(context_with(PAIR)), server_context).load()


async def test_the_serving_pair_still_changes_under_it(file: Path, tmp_path: Path):
    async with demanding(file) as (_, live, port):
        live.install(OTHER_PAIR.certificate, OTHER_PAIR.key)
        assert await answered(port, TRUSTED.client(tmp_path), OTHER_PAIR.authorities)
        assert not await answered(port, None, OTHER_PAIR.authorities)
        before = live.context
        write(file, STRANGE.certificate)
        await until(lambda: live.context is not before)
        assert await answered(port, STRANGE.client(tmp_path), OTHER_PAIR.authorities)


async def test_the_readiness_probe_needs_no_certificate(file: Path, caplog: pytest.LogCaptureFixture):
    async with demanding(file) as (_, _, port):
        assert await webhook_check(("127.0.0.1", port))() is None
    assert "Traceback" not in caplog.text
