"""Findings about the certificates of the webhooks: which exist, and whether each caller trusts them. Pure."""

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

from certs.bundles import bundle_of, injector
from certs.handshake import refusal
from certs.material import Material, material_of
from certs.pki import RENEW_BEFORE, certificates, hosts_of, read_or_default
from certs.remedies import apply_again, make_secret, write_by_manager
from kube.clock import rfc3339
from kube.model.meta import JSON
from manifests.admission import wrong_path
from manifests.naming import APPLY_CRD

EXPIRES_SOON = timedelta(days=14)
"""Time before the end of validity at which it is a fault; the alert JobSetCertificateExpires uses the same."""

RENEWAL_LATE = timedelta(days=1)
"""Time after which the manager should have renewed its own certificate: it checks every 12 hours."""

CERT_MANAGER = "cert-manager.io/certificate-name"
"""Annotation of the Secrets that cert-manager makes: the name of the Certificate."""

_TRIED_ALONE = 16
"""CAs of a bundle, the first ones. A handshake takes some milliseconds."""

_MANAGER, _SOMEBODY_ELSE = "the manager", "somebody else"
_CURVES = {"secp256r1": "P-256", "secp384r1": "P-384", "secp521r1": "P-521"}


@dataclass(frozen=True, slots=True)
class FoundObjects:
    """The objects in the cluster: None for one that does not exist. `configurations` by kind and name."""

    secret_name: str
    secret: JSON | None
    configurations: dict[tuple[str, str], JSON | None]
    crd_name: str
    crd: JSON | None
    unanswered: tuple[str, ...] = ()
    """Findings about Services without endpoints."""


class Certificate(msgspec.Struct, frozen=True, rename="camel"):
    """One certificate. `use`: serving, CA or earlier CA. Times are RFC 3339; `renewal` "": unknown here."""

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
    """One webhook, as the API server calls it. `problem` "": it trusts the certificate in the Secret."""

    kind: str
    name: str
    webhook: str
    host: str
    bundle_written_by: str
    problem: str


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """The state of all certificates. `conversion`: the strategy of the CRD."""

    secret: str
    renewed_by: str
    """"": nobody, as the Secret does not exist or is empty."""
    certificates: tuple[Certificate, ...]
    callers: tuple[Caller, ...]
    conversion: str
    problems: tuple[str, ...]


def look(found: FoundObjects, now: datetime) -> Status:
    """The status and its faults. Never raises, whatever the objects contain."""
    material = material_of(found.secret or {})
    renewed_by = _renewed_by(found.secret or {}, material)
    ours = renewed_by == _MANAGER
    described = tuple(_certificates(material, now, ours=ours))
    writer = {_MANAGER: _MANAGER, "": "not known"}.get(renewed_by, _SOMEBODY_ELSE)
    callers = tuple(_callers(found, material, writer))
    conversion = ((found.crd or {}).get("spec") or {}).get("conversion") or {}
    problems = [*_missing(found), *found.unanswered, *_certificate_faults(found, described, now)]
    problems += [f"{each.kind} {each.name}, {each.webhook}: {each.problem}" for each in callers if each.problem]
    return Status(
        found.secret_name,
        renewed_by,
        described,
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


def _certificates(material: Material, now: datetime, *, ours: bool) -> Iterator[Certificate]:
    for leaf in certificates(material.certificate)[:1]:
        yield _certificate(leaf, "serving", now, ours=ours)
    for number, authority in enumerate(certificates(material.authorities)):
        yield _certificate(authority, "earlier CA" if number else "CA", now, ours=ours and not number)


def _certificate(certificate: x509.Certificate, use: str, now: datetime, *, ours: bool) -> Certificate:
    return Certificate(
        use,
        read_or_default(certificate.subject.rfc4514_string, ""),
        read_or_default(certificate.issuer.rfc4514_string, ""),
        read_or_default(partial(_key, certificate), "unknown"),
        tuple(read_or_default(partial(hosts_of, certificate), [])),
        rfc3339(certificate.not_valid_before_utc),
        rfc3339(certificate.not_valid_after_utc),
        (certificate.not_valid_after_utc - now).days,
        rfc3339(certificate.not_valid_after_utc - RENEW_BEFORE) if ours else "",
    )


def _key(certificate: x509.Certificate) -> str:
    key = certificate.public_key()
    if isinstance(key, rsa.RSAPublicKey):
        return f"RSA {key.key_size}"
    if isinstance(key, ec.EllipticCurvePublicKey):
        return f"ECDSA {_CURVES.get(key.curve.name, key.curve.name)}"
    return type(key).__name__.removesuffix("PublicKey").strip("_")


def _callers(found: FoundObjects, material: Material, usual_writer: str) -> Iterator[Caller]:
    remedy = apply_again(found.configurations.values())
    for (kind, name), configuration in found.configurations.items():
        annotation = injector(configuration or {})
        for hook in (configuration or {}).get("webhooks") or []:
            caller = _caller(kind, name, str(hook.get("name", "")), hook, annotation or usual_writer, material)
            if caller.problem and annotation and usual_writer == _MANAGER and not _has_authority(hook, material):
                caller = replace(caller, problem=f"{caller.problem}; {write_by_manager(kind, name, annotation)}")
            if not caller.problem and (path := wrong_path(hook)):
                caller = replace(
                    caller, problem=f"it is called at {path}, where the manager does not serve it: {remedy}"
                )
            yield caller
    conversion = ((found.crd or {}).get("spec") or {}).get("conversion") or {}
    if conversion.get("strategy") == "Webhook":
        writer = injector(found.crd or {}) or _SOMEBODY_ELSE
        hook = conversion.get("webhook") or {}
        yield _caller("CustomResourceDefinition", found.crd_name, "conversion", hook, writer, material)


def _caller(kind: str, name: str, webhook: str, hook: JSON, writer: str, material: Material) -> Caller:
    host = _host(hook.get("clientConfig") or {})
    bundle = bundle_of(hook)
    problem = ""
    if not certificates(bundle):
        problem = "caBundle holds no certificate"
    elif certificates(material.certificate):
        refused = read_or_default(partial(_refusal, material, bundle, host), "this name cannot be checked")
        problem = f"the certificate is refused for {host}: {refused}" if refused else ""
    return Caller(kind, name, webhook, host, writer, problem)


def _refusal(material: Material, bundle: bytes, host: str) -> str:
    """Why the API server refuses the certificate; "" if it accepts it.

    Of several CAs with the same name, OpenSSL may try another than the signer; the API server tries all.
    """
    alone = [each.public_bytes(Encoding.PEM) for each in certificates(bundle)[:_TRIED_ALONE]]
    reasons = (refusal(material.certificate, material.key, each, host, strict=False) for each in (bundle, *alone))
    first = next(reasons)
    return first if first and all(reasons) else ""


def _has_authority(hook: JSON, material: Material) -> bool:
    return set(certificates(material.authorities)[:1]) <= set(certificates(bundle_of(hook)))


def _host(client: JSON) -> str:
    """The name that the API server expects in the certificate."""
    if service := client.get("service"):
        return f"{service.get('name')}.{service.get('namespace')}.svc"
    return read_or_default(lambda: urlsplit(str(client.get("url", ""))).hostname or "", "")


def _missing(found: FoundObjects) -> Iterator[str]:
    remedy = apply_again(found.configurations.values())
    if found.secret is None:
        yield (
            f"Secret {found.secret_name} does not exist: {make_secret(*found.secret_name.split('/'))} makes it, and the"
            " manager fills it; or name another with -n and --secret"
        )
    for (kind, name), configuration in found.configurations.items():
        if configuration is None:
            yield f"{kind} {name} does not exist: {remedy}"
        elif not configuration.get("webhooks"):
            yield f"{kind} {name} lists no webhook: see `jobset webhooks status`"
    if found.crd is None:
        yield f"CustomResourceDefinition {found.crd_name} does not exist: {APPLY_CRD}"


def _certificate_faults(found: FoundObjects, described: tuple[Certificate, ...], now: datetime) -> Iterator[str]:
    if found.secret is not None and not any(each.use == "serving" for each in described):
        yield f"Secret {found.secret_name}: tls.crt holds no certificate that can be read"
    for each in described:
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
