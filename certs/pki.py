"""Creates and reads a CA and a serving certificate signed by it. `certs.decision` decides when.

See docs/reference/manager.md#certificates.

Pure: times, serial numbers and private keys are arguments. Certificates of the Go JobSet are read and kept while they
are valid.
"""

import ipaddress
import re
import ssl
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.utils import CryptographyDeprecationWarning
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from certs.material import Material, Renewal
from certs.validity import blocks

AUTHORITY_NAME = "jobset-ca"
ORGANIZATION = "jobset"
BACKDATED = timedelta(hours=1)
AUTHORITY_LIFETIME = timedelta(days=3650)
SERVING_LIFETIME = timedelta(days=365)
RENEW_BEFORE = timedelta(days=90)

CURVES = ("secp256r1", "secp384r1", "secp521r1")
RSA_BITS = range(2048, 8192 + 1)
"""Sizes of keys that both ends accept: the API server (Go) accepts no larger ones, OpenSSL no smaller ones."""

MAX_AUTHORITIES = 8
"""CAs in a bundle, the newest. Outdated replicas may still serve certificates of an older one."""

MAX_KEPT_HOSTS = 32
_LABEL = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_DNS_NAME = re.compile(rf"(\*\.)?{_LABEL}(\.{_LABEL})*", re.IGNORECASE)

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Fresh:
    """Inputs of a new certificate: time, keys, serial numbers."""

    now: datetime
    new_key: Callable[[], PrivateKey]
    new_serial: Callable[[], int]


def renew(material: Material, renewal: Renewal, hosts: Collection[str], fresh: Fresh, served: bytes = b"") -> Material:
    """New material; usable names and CAs of the old one are kept.

    The names, so that two programs that share the Secret with different hosts do not undo each other's work; the CAs,
    so that their certificates stay trusted. `served` is the bundle with the CA of the served certificate: it is kept,
    too, since the Secret may have lost it.
    """
    if renewal is Renewal.NOTHING:
        return material
    if renewal is Renewal.BUNDLE:
        return replace(material, authorities=_with_served(material.authorities, served, fresh.now))
    wanted = list(dict.fromkeys([*hosts, *_kept_hosts(material.certificate)]))
    if renewal is Renewal.ALL:
        key = fresh.new_key()
        authority = _authority(key, fresh)
        # In list order, not by their dates: the clock of the replica that created one may be ahead.
        old_authorities = _kept_authorities([*certificates(material.authorities), *certificates(served)], fresh.now)
        newest = certificates_pem(list(dict.fromkeys([authority, *old_authorities]))[:MAX_AUTHORITIES])
        authorities = _with_served(newest, served, fresh.now)
        authority_key = key_pem(key)
    else:
        authority = certificates(material.authorities)[0]
        authorities = _with_served(material.authorities, served, fresh.now)
        authority_key = material.authority_key
    key = fresh.new_key()
    leaf = _leaf(key, wanted, (authority, read_key(authority_key)), fresh)
    return Material(authorities, authority_key, certificates_pem([leaf]), key_pem(key))


def _with_served(authorities: bytes, served: bytes, now: datetime) -> bytes:
    """The bundle, with the first CA of the bundle `served` added if that is still usable.

    A user who replaces the CA in the Secret does not know what replicas serve at that moment.
    """
    bundle = certificates(authorities)
    missing = [old for old in _kept_authorities(certificates(served)[:1], now) if old not in bundle]
    return certificates_pem([*bundle[:1], *missing, *bundle[1:]][:MAX_AUTHORITIES]) if missing else authorities


def certificates(pem: bytes) -> list[x509.Certificate]:
    """All certificates of a bundle; none when it cannot be read."""
    with _any_serial_number():
        return read_or_default(lambda: [x509.load_der_x509_certificate(der) for der in blocks(pem)], [])


def serial_number(certificate: x509.Certificate) -> int:
    """The serial number; only RFC 5280 requires it to be positive."""
    with _any_serial_number():
        return certificate.serial_number


def read_key(pem: bytes) -> PrivateKey:
    """A private key without a password. Raises UnsupportedAlgorithm for other kinds, else ValueError or TypeError."""
    key = serialization.load_pem_private_key(pem, None)
    if not isinstance(key, PrivateKey) or not is_accepted(key.public_key()):
        raise UnsupportedAlgorithm("not an EC key on a curve that is used, nor an RSA key of a size that is")
    return key


def is_accepted(key: object) -> bool:
    """Whether the API server's TLS accepts this kind of public key."""
    if isinstance(key, rsa.RSAPublicKey):
        return key.key_size in RSA_BITS
    return isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in CURVES


def signs(certificate: x509.Certificate) -> bool:
    """Whether this is the certificate of a CA by RFC 5280 (4.2.1.3, 4.2.1.9): key usage is optional."""
    try:
        if not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
            return False
    except x509.ExtensionNotFound:
        return False
    usage = usage_of(certificate)
    return usage is None or usage.key_cert_sign


def usage_of(certificate: x509.Certificate) -> x509.KeyUsage | None:
    """Its key usage; None if the certificate has none."""
    try:
        return certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    except x509.ExtensionNotFound:
        return None


def hosts_of(certificate: x509.Certificate) -> list[str]:
    """Host names and addresses of a certificate."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]


def read_or_default(read: Callable[[], T], otherwise: T) -> T:
    """The result of `read`; `otherwise` if it raises, since no content of a Secret may end the manager."""
    try:
        return read()
    except Exception:  # noqa: BLE001 -- the library has a dozen errors for this, without a common base
        return otherwise


@contextmanager
def _any_serial_number() -> Iterator[None]:
    """Without the library's warning: the Go JobSet gives its CA the number 0."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CryptographyDeprecationWarning)
        yield


def _kept_hosts(pem: bytes) -> list[str]:
    """Host names of the old certificate that a new one can have, too."""
    none: list[str] = []
    names = [name for old in certificates(pem)[:1] for name in read_or_default(partial(hosts_of, old), none)]
    return [name for name in names if _DNS_NAME.fullmatch(name) or _address(name)][:MAX_KEPT_HOSTS]


def _kept_authorities(candidates: list[x509.Certificate], now: datetime) -> list[x509.Certificate]:
    """The old CAs that are still valid."""

    def is_trusted(old: x509.Certificate) -> bool:
        # OpenSSL would refuse the whole bundle because of a CA that it cannot read.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=certificates_pem([old]).decode("ascii"))
        return is_accepted(old.public_key()) and signs(old) and old.not_valid_after_utc > now

    return [old for old in candidates if read_or_default(partial(is_trusted, old), otherwise=False)]


def _authority(key: PrivateKey, fresh: Fresh) -> x509.Certificate:
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANIZATION),
            x509.NameAttribute(NameOID.COMMON_NAME, AUTHORITY_NAME),
        ]
    )
    public = key.public_key()
    return (
        certificate_builder(subject, subject, public, AUTHORITY_LIFETIME, fresh)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(key_usage(sign_certificates=True), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(AUTHORITY_NAME)]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .sign(key, hashes.SHA256())
    )


def _leaf(
    key: PrivateKey,
    hosts: Sequence[str],
    issuer: tuple[x509.Certificate, PrivateKey],
    fresh: Fresh,
) -> x509.Certificate:
    authority, authority_key = issuer
    # A common name holds 64 characters at most; clients only read the alternative names.
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0][:64])])
    public = key.public_key()
    return (
        certificate_builder(subject, authority.subject, public, SERVING_LIFETIME, fresh)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(key_usage(sign_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([general_name(host) for host in hosts]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )


def certificate_builder(
    subject: x509.Name, issuer: x509.Name, public: PublicKey, lifetime: timedelta, fresh: Fresh
) -> x509.CertificateBuilder:
    """A certificate without extensions, to be completed and signed."""
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(fresh.new_serial())
        .not_valid_before(fresh.now - BACKDATED)
        .not_valid_after(fresh.now + lifetime)
    )


def key_usage(*, sign_certificates: bool) -> x509.KeyUsage:
    """The extension for the certificate of a CA (`sign_certificates`), or of a server or client."""
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=sign_certificates,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def general_name(host: str) -> x509.GeneralName:
    """A host as an alternative name: an address or a DNS name."""
    return _address(host) or x509.DNSName(host)


def _address(host: str) -> x509.IPAddress | None:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return None


def certificates_pem(chain: Sequence[x509.Certificate]) -> bytes:
    """The certificates as PEM."""
    return b"".join(certificate.public_bytes(serialization.Encoding.PEM) for certificate in chain)


def key_pem(key: PrivateKey) -> bytes:
    """The key as PEM, PKCS 8, without a password."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
