"""Renews certificates now, with new keys. Called by `certs.apart` in a child process."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from certs.decision import heal
from certs.material import Decision, KeyAlgorithm, Material
from certs.pki import Fresh, PrivateKey

RSA_BITS = 3072
"""As strong as P-256. The CA lives for ten years."""


def new_key(algorithm: KeyAlgorithm) -> PrivateKey:
    """A private key. One on P-256 takes a tenth of the time of one for RSA in a handshake."""
    if algorithm == "RSA":
        return rsa.generate_private_key(public_exponent=65537, key_size=RSA_BITS)
    return ec.generate_private_key(ec.SECP256R1())


def heal_now(
    material: Material, hosts: Sequence[str], now: datetime, algorithm: KeyAlgorithm, served: bytes
) -> tuple[Decision, Material]:
    """`certs.decision.heal` with new keys of that kind and random serial numbers."""
    return heal(material, hosts, Fresh(now, partial(new_key, algorithm), x509.random_serial_number), served)
