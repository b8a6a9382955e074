"""Creates and reads a CA, and a serving certificate that the CA signs. `certs.decision` decides when to create them.

See docs/reference/manager.md#certificates.

Pure: times, serial numbers and private keys are arguments. Certificates that the Go JobSet created stay in use while
they are valid.
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
from certs.validity import der_certificates

AUTHORITY_NAME = "jobset-ca"
ORGANIZATION = "jobset"
BACKDATING = timedelta(hours=1)
"""A certificate is valid from this long before its creation, since clocks of clients may be late."""
AUTHORITY_LIFETIME = timedelta(days=3650)
SERVING_LIFETIME = timedelta(days=365)
RENEW_BEFORE = timedelta(days=90)

ACCEPTED_CURVES = ("secp256r1", "secp384r1", "secp521r1")
ACCEPTED_RSA_BITS = range(2048, 8192 + 1)
"""Bits of a key that both ends accept: the API server (Go) refuses larger keys, OpenSSL smaller keys."""

MAX_AUTHORITIES = 8
"""Number of the newest CAs that stay in a bundle. Outdated replicas may still serve certificates of an older CA."""

MAX_KEPT_HOSTS = 32
"""The most host names of the old certificate that a new certificate keeps."""
_LABEL = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_DNS_NAME = re.compile(rf"(\*\.)?{_LABEL}(\.{_LABEL})*", re.IGNORECASE)

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ImpureInputs:
    """The time, new keys and new serial numbers for new certificates."""

    now: datetime
    new_key: Callable[[], PrivateKey]
    new_serial: Callable[[], int]


def renew(
    material: Material, renewal: Renewal, hosts: Collection[str], inputs: ImpureInputs, served_bundle: bytes = b""
) -> Material:
    """New material, which keeps usable host names and CAs of the old material.

    The host names stay so that two programs that share the Secret with different hosts do not undo each other's work.
    The CAs stay so that their certificates stay trusted. `served_bundle` is the bundle with the CA of the served
    certificate. This CA stays, too, since the Secret may have lost it.
    """
    if renewal is Renewal.NOTHING:
        return material
    if renewal is Renewal.BUNDLE:
        return replace(material, authorities=_add_served_authority(material.authorities, served_bundle, inputs.now))
    all_hosts = list(dict.fromkeys([*hosts, *_usable_hosts(material.certificate)]))
    if renewal is Renewal.ALL:
        key = inputs.new_key()
        authority = _new_authority(key, inputs)
        # The newest are the first of the list, not the latest dates: the clock of a replica that created a CA may be
        # ahead.
        old_authorities = _valid_authorities(
            [*read_certificates(material.authorities), *read_certificates(served_bundle)], inputs.now
        )
        newest = certificates_pem(list(dict.fromkeys([authority, *old_authorities]))[:MAX_AUTHORITIES])
        authorities = _add_served_authority(newest, served_bundle, inputs.now)
        authority_key = key_pem(key)
    else:
        authority = read_certificates(material.authorities)[0]
        authorities = _add_served_authority(material.authorities, served_bundle, inputs.now)
        authority_key = material.authority_key
    key = inputs.new_key()
    leaf = _new_leaf(key, all_hosts, (authority, read_key(authority_key)), inputs)
    return Material(authorities, authority_key, certificates_pem([leaf]), key_pem(key))


def _add_served_authority(authorities: bytes, served_bundle: bytes, now: datetime) -> bytes:
    """The bundle, with the first CA of `served_bundle` added if this CA is still usable.

    A user who replaces the CA in the Secret does not know which certificates replicas serve at that moment.
    """
    bundle = read_certificates(authorities)
    served_authorities = _valid_authorities(read_certificates(served_bundle)[:1], now)
    missing_authorities = [authority for authority in served_authorities if authority not in bundle]
    return (
        certificates_pem([*bundle[:1], *missing_authorities, *bundle[1:]][:MAX_AUTHORITIES])
        if missing_authorities
        else authorities
    )


def read_certificates(pem: bytes) -> list[x509.Certificate]:
    """All certificates of a bundle; none if the bundle cannot be read."""
    with _allow_any_serial_number():
        return read_or_default(lambda: [x509.load_der_x509_certificate(der) for der in der_certificates(pem)], [])


def serial_number(certificate: x509.Certificate) -> int:
    """The serial number, which may be 0 or negative in certificates that do not follow RFC 5280."""
    with _allow_any_serial_number():
        return certificate.serial_number


def read_key(pem: bytes) -> PrivateKey:
    """A private key without a password.

    Raises UnsupportedAlgorithm for a kind of key that is not accepted, ValueError or TypeError for invalid content.
    """
    key = serialization.load_pem_private_key(pem, None)
    if not isinstance(key, PrivateKey) or not is_accepted(key.public_key()):
        raise UnsupportedAlgorithm("not an EC key on a curve that is used, nor an RSA key of a size that is")
    return key


def is_accepted(key: object) -> bool:
    """Whether the API server's TLS accepts this kind of public key."""
    if isinstance(key, rsa.RSAPublicKey):
        return key.key_size in ACCEPTED_RSA_BITS
    return isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in ACCEPTED_CURVES


def is_authority(certificate: x509.Certificate) -> bool:
    """Whether this is the certificate of a CA by RFC 5280 (4.2.1.3, 4.2.1.9), which does not require a key usage."""
    try:
        if not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
            return False
    except x509.ExtensionNotFound:
        return False
    usage = usage_of(certificate)
    return usage is None or usage.key_cert_sign


def usage_of(certificate: x509.Certificate) -> x509.KeyUsage | None:
    """The key usage of the certificate; None without one."""
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


def read_or_default(read: Callable[[], T], default: T) -> T:
    """The result of `read`, or `default` if `read` raises, since no content of a Secret may end the manager."""
    try:
        return read()
    except Exception:  # noqa: BLE001 -- the library has a dozen errors for this, without a common base
        return default


@contextmanager
def _allow_any_serial_number() -> Iterator[None]:
    """Suppress the library's warning about the serial number 0, which the CA of the Go JobSet has."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CryptographyDeprecationWarning)
        yield


def _usable_hosts(pem: bytes) -> list[str]:
    """The host names and addresses of the certificate that a new certificate can have, too."""
    leaves = read_certificates(pem)[:1]
    names = [name for leaf in leaves for name in read_or_default(partial(hosts_of, leaf), list[str]())]
    return [name for name in names if _DNS_NAME.fullmatch(name) or _address(name)][:MAX_KEPT_HOSTS]


def _valid_authorities(candidates: list[x509.Certificate], now: datetime) -> list[x509.Certificate]:
    """The candidates that are still valid CAs."""

    def is_trusted(authority: x509.Certificate) -> bool:
        # OpenSSL would refuse the whole bundle because of a CA that it cannot read.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(
            cadata=certificates_pem([authority]).decode("ascii")
        )
        return is_accepted(authority.public_key()) and is_authority(authority) and authority.not_valid_after_utc > now

    return [authority for authority in candidates if read_or_default(partial(is_trusted, authority), default=False)]


def _new_authority(key: PrivateKey, inputs: ImpureInputs) -> x509.Certificate:
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANIZATION),
            x509.NameAttribute(NameOID.COMMON_NAME, AUTHORITY_NAME),
        ]
    )
    public = key.public_key()
    return (
        certificate_builder(subject, subject, public, AUTHORITY_LIFETIME, inputs)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(key_usage(sign_certificates=True), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(AUTHORITY_NAME)]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .sign(key, hashes.SHA256())
    )


def _new_leaf(
    key: PrivateKey,
    hosts: Sequence[str],
    issuer: tuple[x509.Certificate, PrivateKey],
    inputs: ImpureInputs,
) -> x509.Certificate:
    authority, authority_key = issuer
    # A common name holds at most 64 characters. Clients only read the alternative names.
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0][:64])])
    public = key.public_key()
    return (
        certificate_builder(subject, authority.subject, public, SERVING_LIFETIME, inputs)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(key_usage(sign_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([general_name(host) for host in hosts]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )


def certificate_builder(
    subject: x509.Name, issuer: x509.Name, public: PublicKey, lifetime: timedelta, inputs: ImpureInputs
) -> x509.CertificateBuilder:
    """A builder of a certificate without extensions, for the caller to complete and sign."""
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(inputs.new_serial())
        .not_valid_before(inputs.now - BACKDATING)
        .not_valid_after(inputs.now + lifetime)
    )


def key_usage(*, sign_certificates: bool) -> x509.KeyUsage:
    """The key usage of a CA (with `sign_certificates`), or of a server or client."""
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
    """The alternative name for a host, which is an IP address or a DNS name."""
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
