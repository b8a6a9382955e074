"""Makes certificates with new keys and random serial numbers. `certs.apart` calls it in a child process."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from certs.decision import heal
from certs.material import Decision, KeyAlgorithm, Material
from certs.pki import (
    AUTHORITY_LIFETIME,
    Fresh,
    PrivateKey,
    certificate_builder,
    certificates_pem,
    general_name,
    key_pem,
)

RSA_BITS = 3072
"""Key size that is as strong as P-256, since the CA lives for ten years."""


def new_key(algorithm: KeyAlgorithm) -> PrivateKey:
    """A new private key. In a handshake, a key on P-256 takes a tenth of the time of an RSA key."""
    if algorithm == "RSA":
        return rsa.generate_private_key(public_exponent=65537, key_size=RSA_BITS)
    return ec.generate_private_key(ec.SECP256R1())


def heal_now(
    material: Material, hosts: Sequence[str], now: datetime, algorithm: KeyAlgorithm, served: bytes
) -> tuple[Decision, Material]:
    """The result of `certs.decision.heal` with new keys of the kind `algorithm` and random serial numbers."""
    return heal(material, hosts, _fresh(now, algorithm), served)


def self_signed() -> tuple[bytes, bytes]:
    """A PEM certificate and its key for localhost. It serves only encryption, since no client can verify it."""
    host, fresh = "localhost", _fresh(datetime.now(UTC), "ECDSA")
    key = fresh.new_key()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    builder = certificate_builder(name, name, key.public_key(), AUTHORITY_LIFETIME, fresh)
    builder = builder.add_extension(x509.SubjectAlternativeName([general_name(host)]), critical=False)
    return certificates_pem([builder.sign(key, hashes.SHA256())]), key_pem(key)


def _fresh(now: datetime, algorithm: KeyAlgorithm) -> Fresh:
    return Fresh(now, partial(new_key, algorithm), x509.random_serial_number)
