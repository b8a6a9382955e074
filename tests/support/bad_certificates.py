"""Everything that may be wrong with the certificates in the Secret: what, what is renewed then, and the reason given."""

import base64
import ipaddress
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, ObjectIdentifier

from certs.material import Material, Renewal
from certs.pki import key_usage, read_certificates
from tests.support.tls import DAY, HOSTS, NOW, material

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey
Extensions = Sequence[x509.ExtensionType]

P256 = bytes.fromhex("06082a8648ce3d030107")
UNKNOWN_CURVE = P256[:-1] + b"\x63"
"""Object identifiers of a curve, DER; nobody has given the second one to any."""

GOOD, OTHER = material(), material()


_IS_CA = x509.BasicConstraints(ca=True, path_length=None)
_CA = (_IS_CA, key_usage(sign_certificates=True))


class Bad(NamedTuple):
    """Contents of the Secret, and what has to become of it. `reason` is how the reason begins."""

    material: Material
    renewal: Renewal
    reason: str


def curve(kind: type[ec.EllipticCurve] = ec.SECP256R1) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(kind())


def key_pem(key: Key, password: bytes = b"") -> bytes:
    encryption = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


def on_unknown_curve() -> bytes:
    """A private key that is well-formed, on a curve that no library knows."""
    der = curve().private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return pem("PRIVATE KEY", der.replace(P256, UNKNOWN_CURVE))


def pem(what: str, der: bytes) -> bytes:
    """DER as PEM, whatever it holds."""
    return b"-----BEGIN %s-----\n%s-----END %s-----\n" % (what.encode(), base64.encodebytes(der), what.encode())


def der(bundle: bytes) -> bytes:
    """The first certificate of a PEM bundle."""
    return read_certificates(bundle)[0].public_bytes(serialization.Encoding.DER)


def chain(
    *,
    authority_key: Key | None = None,
    key: Key | None = None,
    authority: Extensions = _CA,
    leaf: Extensions = (),
    hosts: Sequence[str] = HOSTS,
    made: datetime = NOW - DAY,
    days: int = 365,
) -> Material:
    """A CA and what it signed, right but for the arguments."""
    authority_key, key = authority_key or curve(), key or curve()
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "ca")])
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "leaf")])
    names = x509.SubjectAlternativeName([_name(host) for host in hosts])
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    signed_by = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())

    def certificate(of: x509.Name, public: Key, extensions: Extensions, days: int) -> bytes:
        builder = (
            x509.CertificateBuilder()
            .subject_name(of)
            .issuer_name(name)
            .public_key(public.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(made)
            .not_valid_after(made + days * DAY)
        )
        for extension in extensions:
            critical = isinstance(extension, x509.BasicConstraints | x509.NameConstraints | x509.UnrecognizedExtension)
            builder = builder.add_extension(extension, critical=critical)
        algorithm = None if isinstance(authority_key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
        return builder.sign(authority_key, algorithm).public_bytes(serialization.Encoding.PEM)

    return Material(
        certificate(name, authority_key, (*authority, signed_by), 3650),
        key_pem(authority_key),
        certificate(subject, key, (names, identifier, *leaf), days),
        key_pem(key),
    )


def _name(host: str) -> x509.GeneralName:
    return x509.IPAddress(ipaddress.ip_address(host)) if host[0].isdigit() else x509.DNSName(host)


def _number(value: int) -> bytes:
    return value.to_bytes((value.bit_length() + 7) // 8)


_ELSEWHERE = x509.NameConstraints(permitted_subtrees=[x509.DNSName("elsewhere.example")], excluded_subtrees=None)
_UNKNOWN = x509.UnrecognizedExtension(ObjectIdentifier("1.3.6.1.4.1.99999.1"), b"\x05\x00")
_FOR_CLIENTS = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
_K1 = curve(ec.SECP256K1)
_SMALL = rsa.generate_private_key(65537, 1024)  # noqa: S505 -- what must not be served
_ED25519 = ed25519.Ed25519PrivateKey.generate()
_SERIAL = read_certificates(GOOD.authorities)[0].serial_number
_CHANGED = der(GOOD.authorities).replace(_number(_SERIAL), _number(_SERIAL ^ 1))

_CA_ALGORITHM = "the CA uses an algorithm that the API server does not take"
_PAIR_ALGORITHM = "the serving certificate or its key uses an algorithm that the API server does not take"
_CA_UNREADABLE = "the CA cannot be read"
_PAIR_UNREADABLE = "the serving certificate or its key cannot be read"
_NO_CA = "the certificate of the CA may not sign others"
_NOT_ACCEPTED = "the CA makes no certificate that is accepted: clients refuse the serving certificate: "

BAD = {
    "nothing": Bad(Material(), Renewal.ALL, "there is no CA yet"),
    "all is garbage": Bad(Material(b"\xff" * 9, b"\0", b"x" * 9, b"\n"), Renewal.ALL, _CA_UNREADABLE),
    "CA is garbage": Bad(replace(GOOD, authorities=b"x"), Renewal.ALL, _CA_UNREADABLE),
    "CA is PEM of garbage": Bad(replace(GOOD, authorities=pem("CERTIFICATE", b"x" * 99)), Renewal.ALL, _CA_UNREADABLE),
    "CA is cut off": Bad(replace(GOOD, authorities=GOOD.authorities[:300]), Renewal.ALL, _CA_UNREADABLE),
    "CA is a key": Bad(replace(GOOD, authorities=GOOD.authority_key), Renewal.ALL, _CA_UNREADABLE),
    "CA without key": Bad(replace(GOOD, authority_key=b""), Renewal.ALL, _CA_UNREADABLE),
    "key of the CA is garbage": Bad(replace(GOOD, authority_key=b"x"), Renewal.ALL, _CA_UNREADABLE),
    "key of the CA has a password": Bad(
        replace(GOOD, authority_key=key_pem(curve(), b"password")), Renewal.ALL, _CA_UNREADABLE
    ),
    "key of another CA": Bad(
        replace(GOOD, authority_key=OTHER.authority_key), Renewal.ALL, "the CA and its key do not belong together"
    ),
    "CA key on an unknown curve": Bad(replace(GOOD, authority_key=on_unknown_curve()), Renewal.ALL, _CA_ALGORITHM),
    "CA on a curve that Go does not know": Bad(chain(authority_key=_K1), Renewal.ALL, _CA_ALGORITHM),
    "CA with a small RSA key": Bad(chain(authority_key=_SMALL), Renewal.ALL, _CA_ALGORITHM),
    "CA with Ed25519": Bad(chain(authority_key=_ED25519), Renewal.ALL, _CA_ALGORITHM),
    "CA is none": Bad(
        chain(authority=[x509.BasicConstraints(ca=False, path_length=None), key_usage(sign_certificates=True)]),
        Renewal.ALL,
        _NO_CA,
    ),
    "CA does not say that it is one": Bad(chain(authority=[key_usage(sign_certificates=True)]), Renewal.ALL, _NO_CA),
    "CA may not sign": Bad(chain(authority=[_IS_CA, key_usage(sign_certificates=False)]), Renewal.ALL, _NO_CA),
    "CA has been changed": Bad(
        replace(GOOD, authorities=pem("CERTIFICATE", _CHANGED)), Renewal.ALL, "the signature of the CA is wrong"
    ),
    "CA for other names": Bad(chain(authority=[*_CA, _ELSEWHERE]), Renewal.ALL, f"{_NOT_ACCEPTED}permitted subtree"),
    "CA for something unknown": Bad(
        chain(authority=[*_CA, _UNKNOWN]), Renewal.ALL, f"{_NOT_ACCEPTED}unhandled critical"
    ),
    "CA has expired": Bad(material(NOW - 4000 * DAY), Renewal.ALL, "the CA is valid from "),
    "CA is not valid yet": Bad(material(NOW + DAY), Renewal.ALL, "the CA is valid from "),
    "certificate is empty": Bad(replace(GOOD, certificate=b""), Renewal.SERVING, _PAIR_UNREADABLE),
    "certificate is garbage": Bad(replace(GOOD, certificate=b"x"), Renewal.SERVING, _PAIR_UNREADABLE),
    "key is empty": Bad(replace(GOOD, key=b""), Renewal.SERVING, _PAIR_UNREADABLE),
    "key is garbage": Bad(replace(GOOD, key=b"x"), Renewal.SERVING, _PAIR_UNREADABLE),
    "key has a password": Bad(replace(GOOD, key=key_pem(curve(), b"password")), Renewal.SERVING, _PAIR_UNREADABLE),
    "key on an unknown curve": Bad(replace(GOOD, key=on_unknown_curve()), Renewal.SERVING, _PAIR_ALGORITHM),
    "pair on a curve that Go does not know": Bad(chain(key=_K1), Renewal.SERVING, _PAIR_ALGORITHM),
    "pair with a small RSA key": Bad(chain(key=_SMALL), Renewal.SERVING, _PAIR_ALGORITHM),
    "key of another certificate": Bad(
        replace(GOOD, key=OTHER.key), Renewal.SERVING, "the serving certificate and its key do not belong together"
    ),
    "pair of another CA": Bad(
        replace(GOOD, certificate=OTHER.certificate, key=OTHER.key),
        Renewal.SERVING,
        "the serving certificate is not signed by the CA",
    ),
    "wrong names": Bad(
        material(hosts=("a", "b")),
        Renewal.SERVING,
        "the serving certificate does not name 127.0.0.1, hook.ns.svc, localhost",
    ),
    "certificate for clients": Bad(chain(leaf=[_FOR_CLIENTS]), Renewal.SERVING, "the serving certificate is not for"),
    "certificate for something unknown": Bad(
        chain(leaf=[_UNKNOWN]), Renewal.SERVING, "clients refuse the serving certificate: unhandled critical extension"
    ),
    "certificate has expired": Bad(
        chain(made=NOW - 400 * DAY), Renewal.SERVING, "the serving certificate is valid from "
    ),
}
