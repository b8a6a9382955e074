"""TLS contexts of our servers, and their options (docs/reference/manager.md#tls-options)."""

import os
import ssl
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kube.tls import read_by_record

VERSIONS = {"VersionTLS12": ssl.TLSVersion.TLSv1_2, "VersionTLS13": ssl.TLSVersion.TLSv1_3}

CIPHERS = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
}
"""OpenSSL's names of cipher suites by Go's names."""

_ALIASES = {
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
}
_ALWAYS_ON = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
_OUTDATED = (
    "TLS_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
)
"""Cipher suites that the Go JobSet accepts in its options, but that this program never offers."""


class TLSOptionsError(ValueError):
    """The options are invalid. The text joins all faults by `; `, each in the words of the Go JobSet."""


class CertificateError(ValueError):
    """A certificate and key cannot be served, because they are not PEM or not a pair. The text has no key material."""


def openssl_ciphers(names: Sequence[str]) -> str:
    """The cipher list for OpenSSL from Go's names; "" means OpenSSL's default. TLS 1.3 suites are always on."""
    unknown = [n for n in names if n not in {*CIPHERS, *_ALIASES, *_ALWAYS_ON, *_OUTDATED}]
    if unknown:
        secure = ", ".join([*(name for name in CIPHERS if "ECDHE" in name and "CBC" not in name), *_ALWAYS_ON])
        raise TLSOptionsError(
            "; ".join(
                f"invalid cipher suites: Cipher suite {name} not supported or doesn't exist. Please use the secure"
                f" cipher names: [{secure}]"
                for name in unknown
            )
        )
    offered = [CIPHERS[_ALIASES.get(n, n)] for n in names if _ALIASES.get(n, n) in CIPHERS]
    if not offered and any(n in _OUTDATED for n in names):
        raise TLSOptionsError(
            f"invalid cipher suites: none of {list(names)} is offered by this program; add a secure one"
        )
    return ":".join(offered)


def check_options(min_version: str, cipher_suites: Sequence[str]) -> None:
    """Raises `TLSOptionsError` for options that `server_context` would refuse."""
    faults = []
    if min_version in {"VersionTLS10", "VersionTLS11"}:
        faults.append(f"invalid minVersion: {min_version} is not supported. Please use VersionTLS12 or VersionTLS13")
    elif min_version not in {"", *VERSIONS}:
        faults.append(
            f'invalid minVersion: unknown tls version "{min_version}". Please use VersionTLS12 or VersionTLS13'
        )
    try:
        openssl_ciphers(cipher_suites)
    except TLSOptionsError as error:
        faults.append(str(error))
    if min_version == "VersionTLS13" and cipher_suites:
        faults.append("tls.cipherSuites may not be specified when `minVersion` is 'VersionTLS13'")
    if faults:
        raise TLSOptionsError("; ".join(faults))


def server_context(min_version: str = "", cipher_suites: Sequence[str] = ()) -> ssl.SSLContext:
    """A context for HTTP/1.1 over TLS (1.2 or later). It has no certificate until `install` is called."""
    check_options(min_version, cipher_suites)
    context = read_by_record(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    context.minimum_version = VERSIONS[min_version or "VersionTLS12"]
    ciphers = openssl_ciphers(cipher_suites)
    if ciphers:
        context.set_ciphers(ciphers)
    context.set_alpn_protocols(["http/1.1"])
    return context


def install(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Serve this PEM pair from the next handshake on. Raises `CertificateError`, and changes nothing, if it is invalid.

    The pair is first tried on another context, since a mismatched pair would break the live context.
    """
    with _as_file(certificate) as certificate_file, _as_file(key) as key_file:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate_file, key_file, _no_password)
        except (ssl.SSLError, ValueError) as error:
            reason = getattr(error, "reason", None) or "not readable"
            raise CertificateError(f"the certificate and its key cannot be used: {reason}") from None
        context.load_cert_chain(certificate_file, key_file)


def _no_password() -> str:
    """Refuse an encrypted key, for which OpenSSL would else prompt on the terminal."""
    raise ValueError("the private key is encrypted")


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """A path from which OpenSSL can read `content`, in memory if possible, as the file system may be read-only."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("pem")
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name
