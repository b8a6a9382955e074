"""Decides which parts of the Secret are unusable, why, and what replaces them (docs/reference/manager.md#certificates).

Users with the right to write the Secret may write anything into it. Every faulty part is reported and replaced, and no
chain that the API server refuses is stored. Pure: time and randomness are arguments.
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
    ImpureInputs,
    hosts_of,
    is_authority,
    read_certificates,
    read_key,
    renew,
    serial_number,
    usage_of,
)

_SERVER_USAGES = {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE}


def decide(material: Material, hosts: Sequence[str], now: datetime) -> Decision:
    """The parts to renew, so that clients accept the chain for 90 more days and the certificate names every host.

    Does not raise, whatever the material is. `hosts` must not be empty.
    """
    reason = _run_check("the CA", lambda: _authority_fault(material, now))
    if reason:
        return Decision(Renewal.ALL, reason)
    reason = _run_check("the serving certificate or its key", lambda: _serving_fault(material, hosts, now))
    return Decision(Renewal.SERVING, reason) if reason else Decision(Renewal.NOTHING)


def decide_and_renew(
    material: Material, hosts: Sequence[str], inputs: ImpureInputs, served_bundle: bytes = b""
) -> tuple[Decision, Material]:
    """Decide about the material, and renew it if needed. Returns the decision, and the material to use.

    `served_bundle` is the bundle with the CA of the certificate that is served. Raises ValueError if even a new CA
    cannot sign a valid certificate, such as for an invalid host name.
    """
    decision = decide(material, hosts, inputs.now)
    with_served_authority = renew(material, Renewal.BUNDLE, hosts, inputs, served_bundle)
    if decision.renewal is Renewal.NOTHING and with_served_authority != material:
        return Decision(Renewal.BUNDLE, "the CA of the certificate that is served is missing"), with_served_authority
    while decision.renewal is not Renewal.NOTHING:
        renewed = renew(material, decision.renewal, hosts, inputs, served_bundle)
        next_decision = decide(renewed, hosts, inputs.now)
        if next_decision.renewal is Renewal.NOTHING:
            return decision, renewed
        if decision.renewal is Renewal.ALL:
            raise ValueError(f"new certificates for {', '.join(hosts)} are of no use: {next_decision.reason}")
        decision = Decision(Renewal.ALL, f"the CA makes no certificate that is accepted: {next_decision.reason}")
    return decision, material


def _run_check(subject: str, check: Callable[[], str]) -> str:
    """The fault that a check of `subject` returns, or the fault for its exception."""
    try:
        return check()
    except UnsupportedAlgorithm:
        return f"{subject} uses an algorithm that the API server does not take"
    except Exception:  # noqa: BLE001 -- see `certs.pki.read_or_default`
        return f"{subject} cannot be read"


def _authority_fault(material: Material, now: datetime) -> str:
    if not material.authorities:
        return "there is no CA yet"
    authority = read_certificates(material.authorities)[0]
    key = read_key(material.authority_key)
    if authority.public_key() != key.public_key():
        return "the CA and its key do not belong together"
    if not is_authority(authority):
        return "the certificate of the CA may not sign others"
    if authority.subject == authority.issuer and not _is_issued_by(authority, authority):
        return "the signature of the CA is wrong"
    return _certificate_fault("CA", authority, now)


def _serving_fault(material: Material, hosts: Sequence[str], now: datetime) -> str:
    leaf, authority = read_certificates(material.certificate)[0], read_certificates(material.authorities)[0]
    if leaf.public_key() != read_key(material.key).public_key():
        return "the serving certificate and its key do not belong together"
    if not _is_issued_by(leaf, authority):
        return "the serving certificate is not signed by the CA"
    missing_hosts = sorted(set(hosts) - set(hosts_of(leaf)))
    if missing_hosts:
        return f"the serving certificate does not name {', '.join(missing_hosts)}"
    if not _is_for_servers(leaf):
        return "the serving certificate is not for servers"
    fault = _certificate_fault("serving certificate", leaf, now)
    if fault:
        return fault
    # Strict OpenSSL requires a key usage of every CA; the API server does not.
    is_strict = usage_of(authority) is not None
    refusal_reason = refusal(material.certificate, material.key, material.authorities, hosts[0], strict=is_strict)
    return f"clients refuse the serving certificate: {refusal_reason}" if refusal_reason else ""


def _is_issued_by(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _is_for_servers(leaf: x509.Certificate) -> bool:
    try:
        usages = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    return not _SERVER_USAGES.isdisjoint(usages)


def _certificate_fault(subject: str, certificate: x509.Certificate, now: datetime) -> str:
    """A fault that the CA and the serving certificate may both have, or ""."""
    if serial_number(certificate) < 0:
        return f"the {subject} has a negative serial number, which the API server does not read"
    if certificate.not_valid_before_utc <= now and now + RENEW_BEFORE < certificate.not_valid_after_utc:
        return ""
    first, last = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return f"the {subject} is valid from {first:%Y-%m-%dT%H:%M:%SZ} to {last:%Y-%m-%dT%H:%M:%SZ}"
