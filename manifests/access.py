"""RBAC of the manager, verb by verb (manifests/README.md#the-managers-rights).

No wildcards, no creation of pods, Secrets only in the manager's own namespace, and only its own two webhook
configurations may be written. Each rule says what needs it in manifests/README.md; a test holds the table.
"""

from api.keys import GROUP, PLURAL
from manifests.naming import (
    MUTATING_CONFIGURATION,
    NAMESPACE,
    SERVICE_ACCOUNT,
    VALIDATING_CONFIGURATION,
    Object,
    obj,
)

_RBAC = "rbac.authorization.k8s.io"
_API = f"{_RBAC}/v1"
_READ = ["get", "list", "watch"]
_CRUD = ["create", "delete", "get", "list", "patch", "update", "watch"]
_GROUPS = [verb for verb in _CRUD if verb != "update"]
_WRITE_STATUS = ["get", "patch", "update"]


def _rule(group: str, resources: str, verbs: list[str], names: list[str] | None = None) -> Object:
    rule: Object = {"apiGroups": [group], "resources": resources.split(), "verbs": list(verbs)}
    if names:
        rule["resourceNames"] = names
    return rule


def _manager_rules() -> list[Object]:
    webhooks = "admissionregistration.k8s.io"
    return [
        _rule(GROUP, PLURAL, ["delete", "get", "list", "patch", "update", "watch"]),
        _rule(GROUP, f"{PLURAL}/status", _WRITE_STATUS),
        _rule(GROUP, f"{PLURAL}/finalizers", ["update"]),
        _rule("batch", "jobs", [*_CRUD, "deletecollection"]),
        _rule("batch", "jobs/status", _WRITE_STATUS),
        _rule("", "services", _CRUD),
        _rule("", "persistentvolumeclaims", ["create", *_READ]),
        _rule("", "pods", ["delete", "get", "list", "patch", "update", "watch"]),
        _rule("", "pods/status", ["patch", "update"]),
        _rule("", "nodes", _READ),
        _rule("scheduling.k8s.io", "priorityclasses", _READ),
        _rule("scheduling.k8s.io", "workloads podgroups compositepodgroups", _GROUPS),
        _rule("", "events", ["create", "patch", "update"]),
        _rule("events.k8s.io", "events", ["create", "patch", "update"]),
        _rule(webhooks, "mutatingwebhookconfigurations validatingwebhookconfigurations", _READ),
        _rule(webhooks, "mutatingwebhookconfigurations", ["patch", "update"], [MUTATING_CONFIGURATION]),
        _rule(webhooks, "validatingwebhookconfigurations", ["patch", "update"], [VALIDATING_CONFIGURATION]),
    ]


def _grant(kind: str, name: str, rules: list[Object]) -> list[Object]:
    """A Role or ClusterRole and its binding to the manager's service account."""
    namespace = NAMESPACE if kind == "Role" else None
    return [
        obj(_API, kind, f"jobset-{name}-role", namespace=namespace, rules=rules),
        obj(
            _API,
            f"{kind}Binding",
            f"jobset-{name}-rolebinding",
            namespace=namespace,
            roleRef={"apiGroup": _RBAC, "kind": kind, "name": f"jobset-{name}-role"},
            subjects=[{"kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": NAMESPACE}],
        ),
    ]


def rbac_objects() -> list[Object]:
    """The service account `jobset-system/jobset-controller-manager` and exactly the rights it has.

    The namespace is not among them; apply it first. ClusterRole `jobset-metrics-reader` is for scrapers and has no
    binding here.
    """
    reviews = [
        _rule("authentication.k8s.io", "tokenreviews", ["create"]),
        _rule("authorization.k8s.io", "subjectaccessreviews", ["create"]),
    ]
    leases = [_rule("coordination.k8s.io", "leases", ["create", "get", "patch", "update"])]
    secrets = [_rule("", "secrets", ["get", "list", "patch", "update", "watch"])]
    scrape: list[Object] = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    return [
        obj("v1", "ServiceAccount", SERVICE_ACCOUNT),
        *_grant("ClusterRole", "manager", _manager_rules()),
        *_grant("ClusterRole", "proxy", reviews),
        *_grant("Role", "leader-election", leases),
        *_grant("Role", "manager-secrets", secrets),
        obj(_API, "ClusterRole", "jobset-metrics-reader", namespace=None, rules=scrape),
    ]
