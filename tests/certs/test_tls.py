"""TLS options, and a live context that no bad pair can break."""

import asyncio
import ssl

import pytest

from certs.tls import CertificateError, TLSOptionsError, check_options, install, server_context
from tests.support.tls import context_with, material, serial, served_serial, serving, trusting

PAIR, OTHER = material(), material()


async def app(scope: object, receive: object, send: object) -> None:
    raise AssertionError("no request is sent")


@pytest.mark.parametrize(
    ("version", "suites", "text"),
    [
        (
            "VersionTLS10",
            (),
            "invalid minVersion: VersionTLS10 is not supported. Please use VersionTLS12 or VersionTLS13",
        ),
        ("TLS1.2", (), 'invalid minVersion: unknown tls version "TLS1.2". Please use VersionTLS12 or VersionTLS13'),
        (
            "",
            ("NOPE",),
            "invalid cipher suites: Cipher suite NOPE not supported or doesn't exist. Please use the secure cipher names: [",
        ),
        (
            "VersionTLS13",
            ("TLS_AES_128_GCM_SHA256",),
            "tls.cipherSuites may not be specified when `minVersion` is 'VersionTLS13'",
        ),
        ("VersionTLS11", ("NOPE",), "; invalid cipher suites: Cipher suite NOPE"),
        ("", ("TLS_RSA_WITH_RC4_128_SHA",), "is offered by this program"),
    ],
)
def test_options_that_cannot_be_honoured(version: str, suites: tuple[str, ...], text: str):
    with pytest.raises(TLSOptionsError) as refused:
        check_options(version, suites)
    assert text in str(refused.value)


def test_the_refusal_lists_the_secure_cipher_suites():
    with pytest.raises(TLSOptionsError) as refused:
        check_options("", ["NOPE"])
    suites = str(refused.value).partition("[")[2].rstrip("]").split(", ")
    ciphers = ("AES_128_GCM_SHA256", "AES_256_GCM_SHA384", "CHACHA20_POLY1305_SHA256")
    authenticated = [f"TLS_ECDHE_{key}_WITH_{cipher}" for key in ("ECDSA", "RSA") for cipher in ciphers]
    assert suites == [*authenticated, *(f"TLS_{cipher}" for cipher in ciphers)]


def test_versions_and_ciphers_are_set():
    assert server_context().minimum_version is ssl.TLSVersion.TLSv1_2
    assert server_context("VersionTLS13").minimum_version is ssl.TLSVersion.TLSv1_3
    context = server_context(cipher_suites=["TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", "TLS_AES_128_GCM_SHA256"])
    older = [cipher["name"] for cipher in context.get_ciphers() if cipher["protocol"] != "TLSv1.3"]
    assert older == ["ECDHE-ECDSA-CHACHA20-POLY1305"]


async def test_a_client_below_the_minimum_version_is_refused():
    context = server_context("VersionTLS13")
    install(context, PAIR.certificate, PAIR.key)
    async with serving(app, context) as server:
        old = trusting(PAIR.authorities)
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection("127.0.0.1", server.port, ssl=old)
        assert await served_serial(server.port, PAIR.authorities) == serial(PAIR.certificate)


async def test_a_new_pair_is_served_from_the_next_handshake_on():
    context = context_with(PAIR)
    async with serving(app, context) as server:
        assert await served_serial(server.port, PAIR.authorities) == serial(PAIR.certificate)
        install(context, OTHER.certificate, OTHER.key)
        assert await served_serial(server.port, OTHER.authorities) == serial(OTHER.certificate)


@pytest.mark.parametrize(
    ("certificate", "key"),
    [
        (PAIR.certificate, OTHER.key),
        (OTHER.certificate, PAIR.key),
        (b"", b""),
        (OTHER.certificate, b""),
        (OTHER.certificate[:100], OTHER.key),
        (b"-----BEGIN CERTIFICATE-----", OTHER.key),
    ],
    ids=["another-key", "another-certificate", "empty", "no-key", "half-a-certificate", "no-certificate"],
)
async def test_an_invalid_pair_is_refused_and_the_live_one_is_kept(certificate: bytes, key: bytes):
    context = context_with(PAIR)
    async with serving(app, context) as server:
        with pytest.raises(CertificateError) as refused:
            install(context, certificate, key)
        assert "PRIVATE" not in str(refused.value)
        assert await served_serial(server.port, PAIR.authorities) == serial(PAIR.certificate)
