"""Keys and certificates of a local cluster: two authorities (cluster, etcd), serving pairs, client pairs, kubeconfigs.

Every component gets its own client certificate, so that RBAC and the audit log distinguish them.
"""

from __future__ import annotations

import base64
import datetime as dt
import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from dev.cluster.errors import DevclusterError

LIFETIME = dt.timedelta(days=365)
SERVING_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
SERVING_ADDRESSES = ("127.0.0.1", "::1", "10.96.0.1", "10.200.0.1")


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
    """Write a file that only its owner can read, from its first byte on."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:  # noqa: PTH123 - opens a descriptor
        file.write(content)


def new_authority(name: str) -> Pair:
    """A self-signed certificate authority with common name `name`."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        _builder(subject, subject, key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(authority=True), critical=True)
    )
    return Pair(_pem(builder.sign(key, hashes.SHA256())), _key_pem(key))


def issue_serving(authority: Pair, name: str) -> Pair:
    """A pair for a server on this machine, usable as a client too (etcd dials itself)."""
    addresses = [x509.IPAddress(ipaddress.ip_address(text)) for text in SERVING_ADDRESSES]
    names = [x509.DNSName(text) for text in SERVING_NAMES]
    return _issue(authority, [x509.NameAttribute(NameOID.COMMON_NAME, name)], [*names, *addresses])


def issue_client(authority: Pair, user: str, groups: Sequence[str] = ()) -> Pair:
    """A client pair that the API server reads as `user` in `groups` (common name and organizations)."""
    if not 0 < len(user) <= 64:
        raise DevclusterError(
            f"user name {user!r} has {len(user)} characters: a client certificate carries 1 to 64. "
            f"Shorten the name, or use a service account token instead."
        )
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, user))
    return _issue(authority, attributes, [])


def new_signing_key() -> bytes:
    """A private key (PEM) with which the API server signs service account tokens."""
    return _key_pem(ec.generate_private_key(ec.SECP256R1()))


def kubeconfig(cluster: str, server: str, authority: bytes, client: Pair) -> str:
    """A self-contained kubeconfig: context and cluster are `cluster`, nothing refers to other files."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": {"server": server, "certificate-authority-data": _text(authority)}}],
        "users": [
            {
                "name": cluster,
                "user": {
                    "client-certificate-data": _text(client.certificate),
                    "client-key-data": _text(client.key),
                },
            }
        ],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": cluster}}],
        "current-context": cluster,
    }
    return yaml.safe_dump(document, sort_keys=False)


def _issue(authority: Pair, subject: list[x509.NameAttribute[str]], names: list[x509.GeneralName]) -> Pair:
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    issuer_key = serialization.load_pem_private_key(authority.key, None)
    if not isinstance(issuer_key, ec.EllipticCurvePrivateKey):
        raise DevclusterError("the cluster's certificate authority key is not an EC key: run `down` and `up` again")
    key = ec.generate_private_key(ec.SECP256R1())
    usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if names:
        usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
    builder = (
        _builder(x509.Name(subject), issuer.subject, key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return Pair(_pem(builder.sign(issuer_key, hashes.SHA256())), _key_pem(key))


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    # An hour of grace: clocks of containers and their host may differ.
    start = dt.datetime.now(dt.UTC) - dt.timedelta(hours=1)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _key_usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    # The API server reads EC signing keys in this form only, not in PKCS8.
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
