"""The CA bundles in webhook configurations: who writes them, and what they hold. Pure.

A configuration may ask a program such as cert-manager's ca-injector to write `caBundle`. It does so in an annotation.
Two programs that write one field undo each other's work, so the manager only reads such a configuration.
"""

import base64
import binascii
from typing import Any

from certs.validity import blocks

JSON = dict[str, Any]

INJECTORS = (
    "cert-manager.io/inject-ca-from",
    "cert-manager.io/inject-ca-from-secret",
    "cert-manager.io/inject-apiserver-ca",
    "service.beta.openshift.io/inject-cabundle",
)
"""Annotations by which a configuration asks somebody else to write `caBundle`."""


def injector(configuration: JSON) -> str:
    """The annotation by which somebody else writes `caBundle`; "" if there is none."""
    annotations = (configuration.get("metadata") or {}).get("annotations") or {}
    return next((key for key in INJECTORS if annotations.get(key) not in {None, "", "false"}), "")


def bundle_of(hook: JSON) -> bytes:
    """The CA bundle of one webhook, PEM; b"" if it has none that is base64."""
    try:
        return base64.b64decode((hook.get("clientConfig") or {}).get("caBundle") or "", validate=True)
    except (binascii.Error, ValueError):
        return b""


def called_by_url(configuration: JSON) -> bool:
    """Whether the API server calls any of its webhooks by URL: their manager runs outside the cluster."""
    return any((hook.get("clientConfig") or {}).get("url") for hook in configuration.get("webhooks") or [])


def names_service(configuration: JSON) -> bool:
    """Whether the API server calls any of its webhooks by a Service."""
    return any((hook.get("clientConfig") or {}).get("service") for hook in configuration.get("webhooks") or [])


def trusts(configuration: JSON, authority: bytes) -> bool:
    """Whether the bundles of all its webhooks hold this CA, DER."""
    return all(authority in blocks(bundle_of(hook)) for hook in configuration.get("webhooks") or [])
