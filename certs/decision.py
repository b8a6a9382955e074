"""Finds unusable parts of the Secret, the reasons, and their replacement (docs/reference/manager.md#certificates).

Users with the right to write the Secret may write anything into it. Any fault is reported and replaced, and no chain
that the API server refuses is ever stored. Pure: time and randomness are arguments.
"""

from collections.abc import Callable, Sequence
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.x509.oid import ExtendedKeyUsageOID

from certs.handshake import refusal
from certs.material import Decision, Material, Renewal
from certs.pki import (
    RENEW_BEFORE,
    Fresh,
    certificates,
    hosts_of,
    read_key,
    renew,
    serial_number,
    signs,
    usage_of,
)

_SERVER_USAGES = {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE}


def decide(material: Material, hosts: Sequence[str], now: datetime) -> Decision:
    """What to renew so that clients accept the chain for another 90 days and the certificate names every host.

    Never raises, for any material. `hosts` is not empty.
    """
    reason = _run_check("the CA", lambda: _authority_fault(material, now))
    if reason:
        return Decision(Renewal.ALL, reason)
    reason = _run_check("the serving certificate or its key", lambda: _serving_fault(material, hosts, now))
    return Decision(Renewal.SERVING, reason) if reason else Decision(Renewal.NOTHING)


def heal(material: Material, hosts: Sequence[str], fresh: Fresh, served: bytes = b"") -> tuple[Decision, Material]:
    """The decision about the material, and the material to use: the same, or the renewed one (see `certs.pki.renew`).

    Raises ValueError if even a new CA cannot sign it, such as for an invalid host name.
    """
    decision = decide(material, hosts, fresh.now)
    trusted = renew(material, Renewal.BUNDLE, hosts, fresh, served)
    if decision.renewal is Renewal.NOTHING and trusted != material:
        return Decision(Renewal.BUNDLE, "the CA of the certificate that is served is missing"), trusted
    while decision.renewal is not Renewal.NOTHING:
        renewed = renew(material, decision.renewal, hosts, fresh, served)
        left = decide(renewed, hosts, fresh.now)
        if left.renewal is Renewal.NOTHING:
            return decision, renewed
        if decision.renewal is Renewal.ALL:
            raise ValueError(f"new certificates for {', '.join(hosts)} are of no use: {left.reason}")
        decision = Decision(Renewal.ALL, f"the CA makes no certificate that is accepted: {left.reason}")
    return decision, material


def _run_check(subject: str, check: Callable[[], str]) -> str:
    try:
        return check()
    except UnsupportedAlgorithm:
        return f"{subject} uses an algorithm that the API server does not take"
    except Exception:  # noqa: BLE001 -- see `certs.pki.read_or_default`
        return f"{subject} cannot be read"


def _authority_fault(material: Material, now: datetime) -> str:
    if not material.authorities:
        return "there is no CA yet"
    authority = certificates(material.authorities)[0]
    key = read_key(material.authority_key)
    if authority.public_key() != key.public_key():
        return "the CA and its key do not belong together"
    if not signs(authority):
        return "the certificate of the CA may not sign others"
    if authority.subject == authority.issuer and not _is_issued_by(authority, authority):
        return "the signature of the CA is wrong"
    return _fault("CA", authority, now)


def _serving_fault(material: Material, hosts: Sequence[str], now: datetime) -> str:
    leaf, authority = certificates(material.certificate)[0], certificates(material.authorities)[0]
    if leaf.public_key() != read_key(material.key).public_key():
        return "the serving certificate and its key do not belong together"
    if not _is_issued_by(leaf, authority):
        return "the serving certificate is not signed by the CA"
    missing = sorted(set(hosts) - set(hosts_of(leaf)))
    if missing:
        return f"the serving certificate does not name {', '.join(missing)}"
    if not _serves(leaf):
        return "the serving certificate is not for servers"
    fault = _fault("serving certificate", leaf, now)
    if fault:
        return fault
    # Strict OpenSSL requires a key usage of every CA; the API server does not.
    strict = usage_of(authority) is not None
    refused = refusal(material.certificate, material.key, material.authorities, hosts[0], strict=strict)
    return f"clients refuse the serving certificate: {refused}" if refused else ""


def _is_issued_by(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _serves(leaf: x509.Certificate) -> bool:
    try:
        usages = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    return not _SERVER_USAGES.isdisjoint(usages)


def _fault(subject: str, certificate: x509.Certificate, now: datetime) -> str:
    """Faults that both kinds of certificates may have."""
    if serial_number(certificate) < 0:
        return f"the {subject} has a negative serial number, which the API server does not read"
    if certificate.not_valid_before_utc <= now and now + RENEW_BEFORE < certificate.not_valid_after_utc:
        return ""
    first, last = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return f"the {subject} is valid from {first:%Y-%m-%dT%H:%M:%SZ} to {last:%Y-%m-%dT%H:%M:%SZ}"
