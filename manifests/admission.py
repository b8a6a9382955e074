"""The webhook configurations (heads of behaviour sections 2 and 3).

Only the JobSet webhooks are registered: those of pods belong to exclusive placement and would, with nobody to answer
them, keep every JobSet's pods from being created.
"""

import base64

from api.keys import GROUP, VERSION
from manifests.naming import (
    MUTATING_CONFIGURATION,
    NAMESPACE,
    VALIDATING_CONFIGURATION,
    WEBHOOK_SERVICE,
    Object,
    obj,
)

MUTATE_PATH = "/mutate-jobset-x-k8s-io-v1alpha2-jobset"
VALIDATE_PATH = "/validate-jobset-x-k8s-io-v1alpha2-jobset"
TIMEOUT_SECONDS = 10

NOT_IN_DELETION = {"name": "not-in-deletion", "expression": "!has(object.metadata.deletionTimestamp)"}
"""Removing a finalizer is an update: a manager that is down must not keep a JobSet from being deleted."""


def _webhook(name: str, path: str, url_base: str | None, ca_bundle: bytes | None) -> Object:
    client: Object
    if url_base is None:
        client = {"service": {"name": WEBHOOK_SERVICE, "namespace": NAMESPACE, "path": path, "port": 443}}
    else:
        client = {"url": url_base.rstrip("/") + path}
    if ca_bundle is not None:
        client["caBundle"] = base64.b64encode(ca_bundle).decode()
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": client,
        "failurePolicy": "Fail",
        "matchConditions": [NOT_IN_DELETION],
        "rules": [
            {
                "apiGroups": [GROUP],
                "apiVersions": [VERSION],
                "operations": ["CREATE", "UPDATE"],
                "resources": ["jobsets"],
                "scope": "Namespaced",
            }
        ],
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_SECONDS,
    }


def webhook_configurations(*, url_base: str | None = None, ca_bundle: bytes | None = None) -> list[Object]:
    """The mutating and the validating configuration.

    `url_base` (`https://127.0.0.1:9443`) is for a manager that runs outside the cluster; None points at the Service.
    `ca_bundle` is the PEM of the CA that signed the serving certificate; None leaves it to the manager, who then owns
    the field, so that applying again takes nothing away.
    """
    mutating = _webhook("mjobset.kb.io", MUTATE_PATH, url_base, ca_bundle)
    validating = _webhook("vjobset.kb.io", VALIDATE_PATH, url_base, ca_bundle)
    api = "admissionregistration.k8s.io/v1"
    return [
        obj(api, "MutatingWebhookConfiguration", MUTATING_CONFIGURATION, namespace=None, webhooks=[mutating]),
        obj(api, "ValidatingWebhookConfiguration", VALIDATING_CONFIGURATION, namespace=None, webhooks=[validating]),
    ]
