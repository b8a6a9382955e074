"""Describes the certificates of the webhooks, and finds callers that do not trust them. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from urllib.parse import urlsplit

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from msgspec.structs import replace

from certs.bundles import bundle_of, injector_annotation
from certs.handshake import refusal
from certs.material import Material, material_of
from certs.pki import RENEW_BEFORE, hosts_of, read_certificates, read_or_default
from certs.remedies import apply_again_remedy, create_secret_command, injector_remedy
from kube.clock import rfc3339
from kube.model.meta import JSON
from manifests.admission import wrong_path
from manifests.naming import APPLY_CRD

EXPIRES_SOON = timedelta(days=14)
"""Time before the end of validity within which this end is a fault, as in the alert JobSetCertificateExpires."""

RENEWAL_LATE = timedelta(days=1)
"""Time after the due renewal within which the manager should have renewed its certificate. It checks every 12 hours."""

CERT_MANAGER = "cert-manager.io/certificate-name"
"""Annotation with the name of the Certificate, on Secrets that cert-manager makes."""

_MAX_SINGLE_CAS = 16
"""Number of the first CAs of a bundle that are also tried one by one. A handshake takes some milliseconds."""

_MANAGER, _SOMEBODY_ELSE = "the manager", "somebody else"
_CURVES = {"secp256r1": "P-256", "secp384r1": "P-384", "secp521r1": "P-521"}


@dataclass(frozen=True, slots=True)
class InstalledObjects:
    """The installed objects; None for an object that does not exist. `configurations` are by kind and name."""

    secret_name: str
    secret: JSON | None
    configurations: dict[tuple[str, str], JSON | None]
    crd_name: str
    crd: JSON | None
    service_findings: tuple[str, ...] = ()
    """Findings about Services without endpoints."""


class Certificate(msgspec.Struct, frozen=True, rename="camel"):
    """One certificate. `use`: serving, CA or earlier CA. Times are RFC 3339. `renewal` is "" if it is not known."""

    use: str
    subject: str
    issuer: str
    key: str
    names: tuple[str, ...]
    not_before: str
    not_after: str
    days_left: int
    renewal: str


class Caller(msgspec.Struct, frozen=True, rename="camel"):
    """One webhook that the API server calls. `problem` is "" if the API server trusts the certificate in the Secret."""

    kind: str
    name: str
    webhook: str
    host: str
    bundle_written_by: str
    problem: str


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """The state of all certificates. `conversion` is the conversion strategy of the CRD."""

    secret: str
    renewed_by: str
    """Who renews the certificate; "" if the Secret does not exist or is empty."""
    certificates: tuple[Certificate, ...]
    callers: tuple[Caller, ...]
    conversion: str
    problems: tuple[str, ...]


def certificate_status(installed: InstalledObjects, now: datetime) -> Status:
    """The state of all certificates with its faults. Does not raise, whatever the objects contain."""
    material = material_of(installed.secret or {})
    renewed_by = _renewed_by(installed.secret or {}, material)
    is_renewed_by_manager = renewed_by == _MANAGER
    certificates = tuple(_certificates(material, now, is_renewed_by_manager=is_renewed_by_manager))
    writer = {_MANAGER: _MANAGER, "": "not known"}.get(renewed_by, _SOMEBODY_ELSE)
    callers = tuple(_callers(installed, material, writer))
    conversion = ((installed.crd or {}).get("spec") or {}).get("conversion") or {}
    problems = [
        *_missing_objects(installed),
        *installed.service_findings,
        *_certificate_faults(installed, certificates, now),
    ]
    problems += [f"{each.kind} {each.name}, {each.webhook}: {each.problem}" for each in callers if each.problem]
    return Status(
        installed.secret_name,
        renewed_by,
        certificates,
        callers,
        str(conversion.get("strategy") or "None"),
        tuple(problems),
    )


def _renewed_by(secret: JSON, material: Material) -> str:
    annotations = (secret.get("metadata") or {}).get("annotations") or {}
    if issuer := annotations.get(CERT_MANAGER):
        return f"cert-manager, Certificate {issuer}"
    if not material.certificate:
        return ""
    return _MANAGER if material.authority_key else _SOMEBODY_ELSE


def _certificates(material: Material, now: datetime, *, is_renewed_by_manager: bool) -> Iterator[Certificate]:
    for leaf in read_certificates(material.certificate)[:1]:
        yield _certificate(leaf, "serving", now, is_renewed_by_manager=is_renewed_by_manager)
    for number, authority in enumerate(read_certificates(material.authorities)):
        yield _certificate(
            authority, "earlier CA" if number else "CA", now, is_renewed_by_manager=is_renewed_by_manager and not number
        )


def _certificate(certificate: x509.Certificate, use: str, now: datetime, *, is_renewed_by_manager: bool) -> Certificate:
    return Certificate(
        use,
        read_or_default(certificate.subject.rfc4514_string, ""),
        read_or_default(certificate.issuer.rfc4514_string, ""),
        read_or_default(partial(_key_kind, certificate), "unknown"),
        tuple(read_or_default(partial(hosts_of, certificate), [])),
        rfc3339(certificate.not_valid_before_utc),
        rfc3339(certificate.not_valid_after_utc),
        (certificate.not_valid_after_utc - now).days,
        rfc3339(certificate.not_valid_after_utc - RENEW_BEFORE) if is_renewed_by_manager else "",
    )


def _key_kind(certificate: x509.Certificate) -> str:
    key = certificate.public_key()
    if isinstance(key, rsa.RSAPublicKey):
        return f"RSA {key.key_size}"
    if isinstance(key, ec.EllipticCurvePublicKey):
        return f"ECDSA {_CURVES.get(key.curve.name, key.curve.name)}"
    return type(key).__name__.removesuffix("PublicKey").strip("_")


def _callers(installed: InstalledObjects, material: Material, usual_writer: str) -> Iterator[Caller]:
    """The webhooks of the configurations, and the conversion webhook of the CRD.

    `usual_writer`: who writes `caBundle` of a configuration without an annotation for an injector.
    """
    remedy = apply_again_remedy(installed.configurations.values())
    for (kind, name), configuration in installed.configurations.items():
        annotation = injector_annotation(configuration or {})
        for hook in (configuration or {}).get("webhooks") or []:
            caller = _caller(kind, name, str(hook.get("name", "")), hook, annotation or usual_writer, material)
            if caller.problem and annotation and usual_writer == _MANAGER and not _has_authority(hook, material):
                caller = replace(caller, problem=f"{caller.problem}; {injector_remedy(kind, name, annotation)}")
            if not caller.problem and (path := wrong_path(hook)):
                caller = replace(
                    caller, problem=f"it is called at {path}, where the manager does not serve it: {remedy}"
                )
            yield caller
    conversion = ((installed.crd or {}).get("spec") or {}).get("conversion") or {}
    if conversion.get("strategy") == "Webhook":
        writer = injector_annotation(installed.crd or {}) or _SOMEBODY_ELSE
        hook = conversion.get("webhook") or {}
        yield _caller("CustomResourceDefinition", installed.crd_name, "conversion", hook, writer, material)


def _caller(kind: str, name: str, webhook: str, hook: JSON, writer: str, material: Material) -> Caller:
    host = _host(hook.get("clientConfig") or {})
    bundle = bundle_of(hook)
    problem = ""
    if not read_certificates(bundle):
        problem = "caBundle holds no certificate"
    elif read_certificates(material.certificate):
        reason = read_or_default(partial(_refusal, material, bundle, host), "this name cannot be checked")
        problem = f"the certificate is refused for {host}: {reason}" if reason else ""
    return Caller(kind, name, webhook, host, writer, problem)


def _refusal(material: Material, bundle: bytes, host: str) -> str:
    """The reason why the API server refuses the certificate; "" if it accepts it.

    Of several CAs with the same name, OpenSSL may try only a CA that is not the signer. The API server tries all CAs.
    """
    single_authorities = [each.public_bytes(Encoding.PEM) for each in read_certificates(bundle)[:_MAX_SINGLE_CAS]]
    reasons = (
        refusal(material.certificate, material.key, each, host, strict=False) for each in (bundle, *single_authorities)
    )
    bundle_reason = next(reasons)
    return bundle_reason if bundle_reason and all(reasons) else ""


def _has_authority(hook: JSON, material: Material) -> bool:
    return set(read_certificates(material.authorities)[:1]) <= set(read_certificates(bundle_of(hook)))


def _host(client: JSON) -> str:
    """The name that the API server expects in the certificate."""
    if service := client.get("service"):
        return f"{service.get('name')}.{service.get('namespace')}.svc"
    return read_or_default(lambda: urlsplit(str(client.get("url", ""))).hostname or "", "")


def _missing_objects(installed: InstalledObjects) -> Iterator[str]:
    remedy = apply_again_remedy(installed.configurations.values())
    if installed.secret is None:
        command = create_secret_command(*installed.secret_name.split("/"))
        yield (
            f"Secret {installed.secret_name} does not exist: {command} makes it, and the manager fills it;"
            " or name another with -n and --secret"
        )
    for (kind, name), configuration in installed.configurations.items():
        if configuration is None:
            yield f"{kind} {name} does not exist: {remedy}"
        elif not configuration.get("webhooks"):
            yield f"{kind} {name} lists no webhook: see `jobset webhooks status`"
    if installed.crd is None:
        yield f"CustomResourceDefinition {installed.crd_name} does not exist: {APPLY_CRD}"


def _certificate_faults(
    installed: InstalledObjects, certificates: tuple[Certificate, ...], now: datetime
) -> Iterator[str]:
    if installed.secret is not None and not any(each.use == "serving" for each in certificates):
        yield f"Secret {installed.secret_name}: tls.crt holds no certificate that can be read"
    for each in certificates:
        if each.use == "earlier CA":
            continue
        until = datetime.fromisoformat(each.not_after)
        subject = "the CA" if each.use == "CA" else "the serving certificate"
        if now < datetime.fromisoformat(each.not_before):
            yield f"{subject} is not valid before {each.not_before}"
        elif now >= until:
            yield f"{subject} has expired at {each.not_after}"
        elif now + EXPIRES_SOON > until:
            yield f"{subject} expires at {each.not_after}, in {each.days_left} days"
        elif each.renewal and now > datetime.fromisoformat(each.renewal) + RENEWAL_LATE:
            yield f"{subject} should have been renewed at {each.renewal}: the log of the manager says why it was not"
