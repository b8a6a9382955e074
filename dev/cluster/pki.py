"""Makes the keys, certificates and kubeconfigs of a local cluster.

Every component gets its own client certificate, so that RBAC and the audit log distinguish the components.
"""

from __future__ import annotations

import base64
import datetime as dt
import os
import ssl
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from certs.pki import SERVING_LIFETIME, ImpureInputs, certificate_builder, certificates_pem, general_name, key_usage
from dev.cluster.errors import DevclusterError

SERVING_HOSTS = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "127.0.0.1",
    "::1",
    "10.96.0.1",
    "10.200.0.1",
)


_Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True)
class Pair:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes

    def write(self, folder: Path, name: str) -> None:
        """Write `name.crt` and `name.key` (owner-only) into `folder`."""
        write_private(folder / f"{name}.crt", self.certificate)
        write_private(folder / f"{name}.key", self.key)

    @classmethod
    def read(cls, folder: Path, name: str) -> Pair:
        return cls((folder / f"{name}.crt").read_bytes(), (folder / f"{name}.key").read_bytes())


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, even while it is written."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:  # noqa: PTH123 - opens a descriptor
        file.write(content)


def new_authority(name: str) -> Pair:
    """A self-signed certificate authority with common name `name`."""
    # The API server verifies a client certificate by this key for each request, in a third of the time of an EC key.
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = _certificate_builder(subject, subject, key, authority=True)
    return Pair(certificates_pem([builder.sign(key, hashes.SHA256())]), _key_pem(key))


def issue_serving(authority: Pair, name: str) -> Pair:
    """A pair for a server on this machine."""
    return _issue_pair(authority, [x509.NameAttribute(NameOID.COMMON_NAME, name)], SERVING_HOSTS)


def serving_tls(authority: Pair) -> ssl.SSLContext:
    """A TLS context of a server on this machine, with a new certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with tempfile.TemporaryDirectory(prefix="jobset-serving-") as scratch:
        issue_serving(authority, "localhost").write(Path(scratch), "tls")
        context.load_cert_chain(Path(scratch, "tls.crt"), Path(scratch, "tls.key"))
    return context


def issue_client(authority: Pair, user: str, groups: Sequence[str] = ()) -> Pair:
    """A client pair that the API server reads as `user` in `groups` (common name and organizations)."""
    if not 0 < len(user) <= 64:
        raise DevclusterError(
            f"user name {user!r} has {len(user)} characters: a client certificate carries 1 to 64. "
            f"Shorten the name, or use a service account token instead."
        )
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, user))
    return _issue_pair(authority, attributes)


def new_signing_key() -> bytes:
    """A private key (PEM) with which the API server signs service account tokens."""
    return _key_pem(_new_key())


def kubeconfig(cluster: str, server: str, authority: bytes, client: Pair) -> str:
    """A self-contained kubeconfig, whose context and cluster have the name `cluster`."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": cluster, "cluster": {"server": server, "certificate-authority-data": _base64_text(authority)}}
        ],
        "users": [
            {
                "name": cluster,
                "user": {
                    "client-certificate-data": _base64_text(client.certificate),
                    "client-key-data": _base64_text(client.key),
                },
            }
        ],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": cluster}}],
        "current-context": cluster,
    }
    return yaml.safe_dump(document, sort_keys=False)


def _issue_pair(authority: Pair, subject: list[x509.NameAttribute[str]], hosts: Sequence[str] = ()) -> Pair:
    """A pair for a server at these hosts. Without hosts, a pair for a client."""
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    # We made the key ourselves: to prove that its factors are primes takes 40 ms of a processor.
    issuer_key = serialization.load_pem_private_key(authority.key, None, unsafe_skip_rsa_key_validation=True)
    if not isinstance(issuer_key, _Key):
        raise DevclusterError(
            "the key of the cluster's certificate authority is of another kind: run `down` and `up` again"
        )
    key = _new_key()
    usage = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
    issuer_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    builder = (
        _certificate_builder(x509.Name(subject), issuer.subject, key, authority=False)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(issuer_id, critical=False)
    )
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName(list(map(general_name, hosts))), critical=False)
    return Pair(certificates_pem([builder.sign(issuer_key, hashes.SHA256())]), _key_pem(key))


def _certificate_builder(
    subject: x509.Name, issuer: x509.Name, key: _Key, *, authority: bool
) -> x509.CertificateBuilder:
    fresh = ImpureInputs(dt.datetime.now(dt.UTC), _new_key, x509.random_serial_number)
    public = key.public_key()
    return (
        certificate_builder(subject, issuer, public, SERVING_LIFETIME, fresh)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=0 if authority else None), critical=True)
        .add_extension(key_usage(sign_certificates=authority), critical=True)
    )


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _key_pem(key: _Key) -> bytes:
    # The API server reads EC signing keys only in this form, not in PKCS8.
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _base64_text(data: bytes) -> str:
    return base64.b64encode(data).decode()
