"""A CA, a serving certificate signed by it, and the decision when to make new ones.

See docs/reference/manager.md#certificates.

Pure: times, serial numbers and private keys come in from outside. EC P-256, where the Go JobSet makes RSA: handshakes
cost a tenth. Certificates made by the Go JobSet are read and kept for as long as they are good.
"""

import ipaddress
import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.utils import CryptographyDeprecationWarning
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_NAME = "jobset-ca"
ORGANIZATION = "jobset"
BACKDATED = timedelta(hours=1)
AUTHORITY_LIFETIME = timedelta(days=3650)
SERVING_LIFETIME = timedelta(days=365)
RENEW_BEFORE = timedelta(days=90)

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True, slots=True)
class Fresh:
    """What a new certificate is made of that is not decided here."""

    now: datetime
    new_key: Callable[[], ec.EllipticCurvePrivateKey]
    new_serial: Callable[[], int]


@dataclass(frozen=True, slots=True)
class Material:
    """Contents of the Secret, PEM. `authorities` holds the CA of `authority_key` first, then older ones."""

    authorities: bytes = b""
    authority_key: bytes = field(default=b"", repr=False)
    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)


class Renewal(Enum):
    """What has to be renewed."""

    NOTHING = "nothing"
    SERVING = "serving certificate"
    ALL = "CA and serving certificate"


@dataclass(frozen=True, slots=True)
class Decision:
    """What to renew, and why, in words for the log."""

    renewal: Renewal
    reason: str = ""


def decide(material: Material, hosts: Collection[str], now: datetime) -> Decision:
    """What to renew so that all is good for another 90 days and the certificate names every host."""
    reason = _authority_fault(material, now)
    if reason:
        return Decision(Renewal.ALL, reason)
    reason = _serving_fault(material, hosts, now)
    return Decision(Renewal.SERVING, reason) if reason else Decision(Renewal.NOTHING)


def renew(material: Material, renewal: Renewal, hosts: Collection[str], fresh: Fresh) -> Material:
    """New material; names and CA of the old one are kept beside the new.

    The names, so that two programs that share the Secret and want different hosts do not undo each other's work; the
    CA, so that what it signed stays trusted.
    """
    if renewal is Renewal.NOTHING:
        return material
    wanted = list(dict.fromkeys([*hosts, *_hosts(material.certificate)]))
    if renewal is Renewal.ALL:
        key = fresh.new_key()
        authority = _authority(key, fresh)
        older = [cert for cert in certificates(material.authorities)[:1] if cert.not_valid_after_utc > fresh.now]
        authorities = _pem([authority, *older])
        authority_key = _key_pem(key)
    else:
        authority = certificates(material.authorities)[0]
        authorities, authority_key = material.authorities, material.authority_key
    key = fresh.new_key()
    leaf = _leaf(key, wanted, (authority, _load_key(authority_key)), fresh)
    return Material(authorities, authority_key, _pem([leaf]), _key_pem(key))


def certificates(pem: bytes) -> list[x509.Certificate]:
    """All certificates of a bundle; none when it cannot be read."""
    with warnings.catch_warnings():
        # The Go JobSet gives its CA the serial number 0.
        warnings.simplefilter("ignore", CryptographyDeprecationWarning)
        try:
            return x509.load_pem_x509_certificates(pem)
        except ValueError:
            return []


def _authority_fault(material: Material, now: datetime) -> str:
    authorities = certificates(material.authorities)
    key = _try_key(material.authority_key)
    if not authorities or key is None:
        return "there is no CA yet" if not material.authorities else "the CA cannot be read"
    if authorities[0].public_key() != key.public_key():
        return "the CA and its key do not belong together"
    return _expiry_fault("CA", authorities[0], now)


def _serving_fault(material: Material, hosts: Collection[str], now: datetime) -> str:
    chain = certificates(material.certificate)
    key = _try_key(material.key)
    if not chain or key is None:
        return "the serving certificate or its key cannot be read"
    if chain[0].public_key() != key.public_key():
        return "the serving certificate and its key do not belong together"
    try:
        chain[0].verify_directly_issued_by(certificates(material.authorities)[0])
    except (ValueError, TypeError, InvalidSignature):
        return "the serving certificate is not signed by the CA"
    missing = sorted(set(hosts) - set(_hosts(material.certificate)))
    if missing:
        return f"the serving certificate does not name {', '.join(missing)}"
    return _expiry_fault("serving certificate", chain[0], now)


def _expiry_fault(what: str, certificate: x509.Certificate, now: datetime) -> str:
    if certificate.not_valid_before_utc <= now and now + RENEW_BEFORE < certificate.not_valid_after_utc:
        return ""
    return f"the {what} is valid from {certificate.not_valid_before_utc} to {certificate.not_valid_after_utc}"


def _hosts(pem: bytes) -> list[str]:
    """Names and addresses of the first certificate."""
    for certificate in certificates(pem)[:1]:
        try:
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except (x509.ExtensionNotFound, ValueError):
            return []
        addresses = names.get_values_for_type(x509.IPAddress)
        return [*names.get_values_for_type(x509.DNSName), *map(str, addresses)]
    return []


def _authority(key: ec.EllipticCurvePrivateKey, fresh: Fresh) -> x509.Certificate:
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANIZATION),
            x509.NameAttribute(NameOID.COMMON_NAME, AUTHORITY_NAME),
        ]
    )
    public = key.public_key()
    return (
        _builder(subject, subject, public, AUTHORITY_LIFETIME, fresh)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(sign_certificates=True), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(AUTHORITY_NAME)]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .sign(key, hashes.SHA256())
    )


def _leaf(
    key: ec.EllipticCurvePrivateKey,
    hosts: Sequence[str],
    issuer: tuple[x509.Certificate, PrivateKey],
    fresh: Fresh,
) -> x509.Certificate:
    authority, authority_key = issuer
    # A common name holds 64 characters at most; clients read the alternative names alone.
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0][:64])])
    public = key.public_key()
    return (
        _builder(subject, authority.subject, public, SERVING_LIFETIME, fresh)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(sign_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, lifetime: timedelta, fresh: Fresh
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(fresh.new_serial())
        .not_valid_before(fresh.now - BACKDATED)
        .not_valid_after(fresh.now + lifetime)
    )


def _usage(*, sign_certificates: bool) -> x509.KeyUsage:
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


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(chain: Sequence[x509.Certificate]) -> bytes:
    return b"".join(certificate.public_bytes(serialization.Encoding.PEM) for certificate in chain)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _load_key(pem: bytes) -> PrivateKey:
    key = serialization.load_pem_private_key(pem, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise TypeError("only EC and RSA keys are used")
    return key


def _try_key(pem: bytes) -> PrivateKey | None:
    try:
        return _load_key(pem)
    except (ValueError, TypeError):
        return None
