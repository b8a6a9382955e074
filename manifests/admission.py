"""The webhook configurations (docs/reference/manager.md#webhook-registrations).

Match conditions choose the pods that reach a webhook. An ordinary pod reaches none, nor does a pod of a JobSet that has
the right priority label already. A condition must never fail: that would refuse the pod.
"""

import base64
import copy
from collections.abc import Sequence
from urllib.parse import urlsplit

from api.exclusive import EXCLUDED_NAMESPACES
from api.keys import (
    COMPLETION_INDEX,
    EXCLUSIVE_TOPOLOGY,
    GROUP,
    JOBSET_NAME,
    NODE_SELECTOR_STRATEGY,
    PLACEMENT_GATE,
    PLURAL,
    PRIORITY,
    VERSION,
)
from manifests.naming import (
    MUTATING_CONFIGURATION,
    NAMESPACE,
    POLICY_MUTATING_CONFIGURATION,
    POLICY_VALIDATING_CONFIGURATION,
    VALIDATING_CONFIGURATION,
    WEBHOOK_SERVICE,
    Object,
    obj,
)
from policy import types as policy
from policy.exception_types import EXCEPTION_PLURAL

MUTATE_PATH = "/mutate-jobset-x-k8s-io-v1alpha2-jobset"
VALIDATE_PATH = "/validate-jobset-x-k8s-io-v1alpha2-jobset"
MUTATE_POD_PATH = "/mutate--v1-pod"
VALIDATE_POD_PATH = "/validate--v1-pod"
POLICY_PATH = "/validate-policy-jobset-x-k8s-io-v1alpha1-jobsetpolicy"
EXCEPTION_PATH = "/validate-policy-jobset-x-k8s-io-v1alpha1-jobsetpolicyexception"
TIMEOUT_SECONDS = 10
"""For JobSets: reading a large one takes seconds, and admission asks the API server about its children."""

POD_TIMEOUT_SECONDS = 5
"""For pods: an answer takes a quarter of a second at most. A Job's other pods wait while one waits in vain."""

LABEL_TIMEOUT_SECONDS = 2
"""For a label without which the pod runs all the same."""

_JOBSETS = {
    "apiGroups": [GROUP],
    "apiVersions": [VERSION],
    "operations": ["CREATE", "UPDATE"],
    "resources": [PLURAL],
    "scope": "Namespaced",
}
_JOBSET_POLICIES = {
    "apiGroups": [policy.GROUP],
    "apiVersions": [policy.VERSION],
    "operations": ["CREATE", "UPDATE"],
    "resources": [policy.PLURAL],
    "scope": "Cluster",
}
_POLICY_EXCEPTIONS = {**_JOBSET_POLICIES, "resources": [EXCEPTION_PLURAL], "scope": "Namespaced"}
PODS = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE"],
    "resources": ["pods"],
    "scope": "Namespaced",
}
POD_SELECTORS: Object = {
    "objectSelector": {"matchExpressions": [{"key": JOBSET_NAME, "operator": "Exists"}]},
    # Pods that the cluster and the manager need must not wait for the manager.
    "namespaceSelector": {
        "matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [*EXCLUDED_NAMESPACES]}
        ]
    },
}


def _condition(name: str, expression: str) -> Object:
    return {"name": name, "expression": expression}


def _has_annotation(key: str) -> str:
    """CEL: whether the pod has an annotation."""
    return f"has(object.metadata.annotations) && '{key}' in object.metadata.annotations"


NOT_IN_DELETION = _condition("not-in-deletion", "!has(object.metadata.deletionTimestamp)")
"""Removing a finalizer is an update: a manager that is down must not keep a JobSet from being deleted."""

OF_A_JOBSET = _condition("of-a-jobset", _has_annotation(JOBSET_NAME))
BY_AFFINITY = _condition("not-by-node-selector", f"!({_has_annotation(NODE_SELECTOR_STRATEGY)})")
EXCLUSIVE = _condition("exclusive", _has_annotation(EXCLUSIVE_TOPOLOGY))
NOT_EXCLUSIVE = _condition("not-exclusive", f"!({_has_annotation(EXCLUSIVE_TOPOLOGY)})")
PRIORITY_TEXT = "(object.spec.priority < 0 ? 'minus' + string(-object.spec.priority) : string(object.spec.priority))"
"""CEL: `api.exclusive.priority_label`."""

WRONG_PRIORITY = _condition(
    "priority-label-missing-or-wrong",
    "has(object.spec.priority) && !("
    f"has(object.metadata.labels) && '{PRIORITY}' in object.metadata.labels"
    f" && object.metadata.labels['{PRIORITY}'] == {PRIORITY_TEXT})",
)
FOLLOWER = _condition(
    "follower", f"!({_has_annotation(COMPLETION_INDEX)} && object.metadata.annotations['{COMPLETION_INDEX}'] == '0')"
)
WITHOUT_DOMAIN = _condition(
    "without-domain",
    f"!({_has_annotation(EXCLUSIVE_TOPOLOGY)} && has(object.spec.nodeSelector)"
    f" && object.metadata.annotations['{EXCLUSIVE_TOPOLOGY}'] in object.spec.nodeSelector)",
)
NOT_GATED = _condition(
    "not-gated",
    f"!(has(object.spec.schedulingGates) && object.spec.schedulingGates.exists(gate, gate.name == '{PLACEMENT_GATE}'))",
)


def _webhook(name: str, path: str, rule: Object, conditions: Sequence[Object], **more: object) -> Object:
    """A webhook of ours; `_with_client` adds the rest of its client configuration."""
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"path": path},
        "failurePolicy": "Fail",
        "matchConditions": list(conditions),
        "rules": [rule],
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_SECONDS,
        **more,
    }


MUTATING = (
    _webhook("mjobset.kb.io", MUTATE_PATH, _JOBSETS, [NOT_IN_DELETION]),
    _webhook(
        "mpod.kb.io",
        MUTATE_POD_PATH,
        PODS,
        [OF_A_JOBSET, BY_AFFINITY, EXCLUSIVE],
        timeoutSeconds=POD_TIMEOUT_SECONDS,
        **POD_SELECTORS,
    ),
    _webhook(
        "mpodlabel.kb.io",
        MUTATE_POD_PATH,
        PODS,
        [OF_A_JOBSET, BY_AFFINITY, NOT_EXCLUSIVE, WRONG_PRIORITY],
        failurePolicy="Ignore",
        timeoutSeconds=LABEL_TIMEOUT_SECONDS,
        **POD_SELECTORS,
    ),
)
VALIDATING = (
    _webhook("vjobset.kb.io", VALIDATE_PATH, _JOBSETS, [NOT_IN_DELETION]),
    _webhook(
        "vpod.kb.io",
        VALIDATE_POD_PATH,
        PODS,
        [OF_A_JOBSET, BY_AFFINITY, EXCLUSIVE, FOLLOWER, WITHOUT_DOMAIN, NOT_GATED],
        timeoutSeconds=POD_TIMEOUT_SECONDS,
        **POD_SELECTORS,
    ),
)

MUTATING_POLICIES = (
    _webhook("mjobsetpolicy.kb.io", POLICY_PATH, _JOBSET_POLICIES, [NOT_IN_DELETION]),
    _webhook("mjobsetpolicyexception.kb.io", EXCEPTION_PATH, _POLICY_EXCEPTIONS, [NOT_IN_DELETION]),
)
VALIDATING_POLICIES = (
    _webhook("vjobsetpolicy.kb.io", POLICY_PATH, _JOBSET_POLICIES, [NOT_IN_DELETION]),
    _webhook("vjobsetpolicyexception.kb.io", EXCEPTION_PATH, _POLICY_EXCEPTIONS, [NOT_IN_DELETION]),
)

PATHS: dict[str, str] = {
    webhook["name"]: webhook["clientConfig"]["path"]
    for webhook in (*MUTATING, *VALIDATING, *MUTATING_POLICIES, *VALIDATING_POLICIES)
}
"""What the manager serves, by the name of the webhook."""


def wrong_path(webhook: Object) -> str:
    """The path by which a stored webhook is called if the manager serves nothing there for it; "" if all is well."""
    client, wanted = webhook.get("clientConfig") or {}, PATHS.get(str(webhook.get("name")), "")
    service = client.get("service")
    try:
        path = str(service.get("path") or "/") if service else urlsplit(str(client.get("url") or "")).path
    except ValueError:  # no URL at all
        return ""
    return "" if path.endswith(wanted) else path


def _with_client(webhook: Object, url_base: str | None, ca_bundle: bytes | None) -> Object:
    """The webhook with the whole of its client configuration."""
    path = webhook["clientConfig"]["path"]
    client: Object
    if url_base is None:
        client = {"service": {"name": WEBHOOK_SERVICE, "namespace": NAMESPACE, "path": path, "port": 443}}
    else:
        client = {"url": url_base.rstrip("/") + path}
    if ca_bundle is not None:
        client["caBundle"] = base64.b64encode(ca_bundle).decode()
    return copy.deepcopy({**webhook, "clientConfig": client})


def webhook_configurations(
    *, url_base: str | None = None, ca_bundle: bytes | None = None, pods: bool = True
) -> list[Object]:
    """The mutating and the validating configuration, with or without the webhooks of `pods`.

    `url_base` (`https://127.0.0.1:9443`) is for a manager that runs outside the cluster; None points at the Service.
    `ca_bundle` is the PEM of the CA that signed the serving certificate; None leaves it to the manager, who then owns
    the field, so that applying again takes nothing away.
    """
    mutating, validating = (
        [_with_client(webhook, url_base, ca_bundle) for webhook in webhooks if pods or webhook["rules"] != [PODS]]
        for webhooks in (MUTATING, VALIDATING)
    )
    return _configurations(MUTATING_CONFIGURATION, mutating, VALIDATING_CONFIGURATION, validating)


def policy_webhook_configurations(*, url_base: str | None = None) -> list[Object]:
    """The same for JobSetPolicies and exceptions. Mutating webhooks change nothing: they say more than the schema."""
    mutating, validating = (
        [_with_client(webhook, url_base, None) for webhook in webhooks]
        for webhooks in (MUTATING_POLICIES, VALIDATING_POLICIES)
    )
    return _configurations(POLICY_MUTATING_CONFIGURATION, mutating, POLICY_VALIDATING_CONFIGURATION, validating)


def _configurations(
    mutating_name: str, mutating: list[Object], validating_name: str, validating: list[Object]
) -> list[Object]:
    api = "admissionregistration.k8s.io/v1"
    return [
        obj(api, "MutatingWebhookConfiguration", mutating_name, namespace=None, webhooks=mutating),
        obj(api, "ValidatingWebhookConfiguration", validating_name, namespace=None, webhooks=validating),
    ]
