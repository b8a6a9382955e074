"""Reads the CA bundles in webhook configurations, and finds out which program writes them. Pure.

An annotation of a configuration may ask a program such as cert-manager's ca-injector to write `caBundle`. Two writers
of one field would undo each other's work, so the manager only reads such a configuration.
"""

import base64

from certs.validity import der_certificates
from kube.model.meta import JSON

INJECTORS = (
    "cert-manager.io/inject-ca-from",
    "cert-manager.io/inject-ca-from-secret",
    "cert-manager.io/inject-apiserver-ca",
    "service.beta.openshift.io/inject-cabundle",
)
"""Annotations by which a configuration asks another program to write `caBundle`."""


def injector_annotation(configuration: JSON) -> str:
    """The annotation that asks another program to write `caBundle`; "" without such an annotation."""
    annotations = (configuration.get("metadata") or {}).get("annotations") or {}
    return next((key for key in INJECTORS if annotations.get(key) not in {None, "", "false"}), "")


def bundle_of(hook: JSON) -> bytes:
    """The CA bundle of one webhook as PEM; b"" without a bundle, or if it is not valid base64."""
    try:
        return base64.b64decode((hook.get("clientConfig") or {}).get("caBundle") or "", validate=True)
    except ValueError:
        return b""


def is_called_by_url(configuration: JSON) -> bool:
    """Whether the API server calls a webhook of the configuration by URL, which means a manager outside the cluster."""
    return any((hook.get("clientConfig") or {}).get("url") for hook in configuration.get("webhooks") or [])


def names_service(configuration: JSON) -> bool:
    """Whether the API server calls a webhook of the configuration by a Service."""
    return any((hook.get("clientConfig") or {}).get("service") for hook in configuration.get("webhooks") or [])


def trusts(configuration: JSON, authority: bytes) -> bool:
    """Whether the bundles of all webhooks of the configuration contain this CA. `authority` is DER."""
    return all(authority in der_certificates(bundle_of(hook)) for hook in configuration.get("webhooks") or [])
