"""Makes certificates with new keys and random serial numbers. `certs.child_process` calls it in a child process."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from certs.decision import decide_and_renew
from certs.material import Decision, KeyAlgorithm, Material
from certs.pki import (
    AUTHORITY_LIFETIME,
    ImpureInputs,
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


def decide_and_renew_now(
    material: Material, hosts: Sequence[str], now: datetime, algorithm: KeyAlgorithm, served_bundle: bytes
) -> tuple[Decision, Material]:
    """The result of `certs.decision.decide_and_renew` with new keys for `algorithm` and random serial numbers."""
    return decide_and_renew(material, hosts, _impure_inputs(now, algorithm), served_bundle)


def self_signed() -> tuple[bytes, bytes]:
    """A PEM certificate and its key for localhost. It serves only encryption, since no client can verify it."""
    host, inputs = "localhost", _impure_inputs(datetime.now(UTC), "ECDSA")
    key = inputs.new_key()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    builder = certificate_builder(name, name, key.public_key(), AUTHORITY_LIFETIME, inputs)
    builder = builder.add_extension(x509.SubjectAlternativeName([general_name(host)]), critical=False)
    return certificates_pem([builder.sign(key, hashes.SHA256())]), key_pem(key)


def _impure_inputs(now: datetime, algorithm: KeyAlgorithm) -> ImpureInputs:
    return ImpureInputs(now, partial(new_key, algorithm), x509.random_serial_number)
