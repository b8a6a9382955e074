"""RBAC of the manager, verb by verb. docs/manager-rights.md says for each what it is needed for; a test compares.

No wildcards, no creation of pods, and of Secrets and webhook configurations only its own, by name, but for what is
installed apart to look up Secrets. What the test suite
asks of API servers is compared with these rules: a right that nothing uses fails `make rights`.
"""

from api.keys import GROUP, PLURAL
from manifests.naming import (
    MUTATING_CONFIGURATION,
    NAMESPACE,
    POLICY_MUTATING_CONFIGURATION,
    POLICY_VALIDATING_CONFIGURATION,
    SERVICE_ACCOUNT,
    VALIDATING_CONFIGURATION,
    WEBHOOK_SECRET,
    Object,
    obj,
)
from policy import types as policy
from policy.exception_types import EXCEPTION_PLURAL
from policy.reports import REPORT_PLURAL, REPORTS_GROUP

_RBAC = "rbac.authorization.k8s.io"
_API = f"{_RBAC}/v1"
_FOLLOW = ["list", "watch"]
_OWN = ["get", "list", "update", "watch"]
"""One object that is read, followed and written whole: a list or watch of one name is allowed by that name."""


def _rule(group: str, resources: str, verbs: list[str], names: list[str] | None = None) -> Object:
    rule: Object = {"apiGroups": [group], "resources": resources.split(), "verbs": list(verbs)}
    if names:
        rule["resourceNames"] = names
    return rule


def _manager_rules() -> list[Object]:
    webhooks = "admissionregistration.k8s.io"
    return [
        _rule(GROUP, PLURAL, ["delete", "get", *_FOLLOW]),
        _rule(GROUP, f"{PLURAL}/status", ["patch"]),
        _rule(GROUP, f"{PLURAL}/finalizers", ["update"]),
        _rule("batch", "jobs", ["create", "delete", "deletecollection", "get", "patch", *_FOLLOW]),
        _rule("batch", "jobs/status", ["patch"]),
        _rule("", "services", ["create", "get", *_FOLLOW]),
        _rule("", "persistentvolumeclaims", ["create", "get", *_FOLLOW]),
        _rule("", "pods", ["delete", "patch", *_FOLLOW]),
        _rule("", "pods/status", ["patch"]),
        _rule("", "nodes", ["get", *_FOLLOW]),
        _rule("scheduling.k8s.io", "priorityclasses", ["get", *_FOLLOW]),
        _rule("node.k8s.io", "runtimeclasses", ["get"]),
        _rule("storage.k8s.io", "storageclasses", ["get"]),
        _rule("", "serviceaccounts", ["get"]),
        _rule("", "resourcequotas", ["list"]),
        _rule(
            "scheduling.k8s.io",
            "workloads podgroups compositepodgroups",
            ["create", "delete", "get", "patch", *_FOLLOW],
        ),
        _rule("events.k8s.io", "events", ["create", "patch"]),
        _rule(webhooks, "mutatingwebhookconfigurations", _OWN, [MUTATING_CONFIGURATION]),
        _rule(webhooks, "validatingwebhookconfigurations", _OWN, [VALIDATING_CONFIGURATION]),
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


def _user_roles() -> list[Object]:
    """Who has `edit` or `admin` in a namespace may write JobSets there, and who has `view` may read them.

    Kubernetes adds the rules to these roles of its own, by the labels; there are no bindings.
    """
    every = ["create", "delete", "deletecollection", "get", "patch", "update", *_FOLLOW]
    roles = {
        "jobset-editor-role": (every, ("edit", "admin")),
        "jobset-viewer-role": (["get", *_FOLLOW], ("view",)),
    }
    found = []
    for name, (verbs, added_to) in roles.items():
        rules = [_rule(GROUP, PLURAL, verbs), _rule(GROUP, f"{PLURAL}/status", ["get"])]
        role = obj(_API, "ClusterRole", name, namespace=None, rules=rules)
        role["metadata"]["labels"] |= {f"{_RBAC}/aggregate-to-{each}": "true" for each in added_to}
        found.append(role)
    return found


def policy_rbac_objects() -> list[Object]:
    """What the manager needs to apply JobSetPolicies, and roles to read them and to grant exceptions, without bindings.

    Nobody but cluster administrators may write policies: there is no role for it.
    """
    webhooks = "admissionregistration.k8s.io"
    follow = [
        _rule(policy.GROUP, policy.PLURAL, ["get", *_FOLLOW]),
        _rule(policy.GROUP, f"{policy.PLURAL}/status", ["patch"]),
        _rule(policy.GROUP, EXCEPTION_PLURAL, ["get", *_FOLLOW]),
        _rule(policy.GROUP, f"{EXCEPTION_PLURAL}/status", ["patch"]),
        _rule("", "namespaces", ["get", *_FOLLOW]),
        _rule(webhooks, "mutatingwebhookconfigurations", _OWN, [POLICY_MUTATING_CONFIGURATION]),
        _rule(webhooks, "validatingwebhookconfigurations", _OWN, [POLICY_VALIDATING_CONFIGURATION]),
    ]
    read = [_rule(policy.GROUP, f"{policy.PLURAL} {EXCEPTION_PLURAL}", ["get", *_FOLLOW])]
    grant = [_rule(policy.GROUP, EXCEPTION_PLURAL, ["create", "delete", "get", "patch", "update", *_FOLLOW])]
    return [
        *_grant("ClusterRole", "policy", follow),
        obj(_API, "ClusterRole", "jobset-policy-viewer-role", namespace=None, rules=read),
        obj(_API, "ClusterRole", "jobset-policy-exception-granter-role", namespace=None, rules=grant),
    ]


def policy_report_rbac_objects() -> list[Object]:
    """What the manager needs to write reports about policies (`policies.reports`)."""
    rules = [_rule(REPORTS_GROUP, REPORT_PLURAL, ["create", "delete", "list", "patch"])]
    return _grant("ClusterRole", "policy-report", rules)


def policy_api_server_rbac_objects() -> list[Object]:
    """What the manager needs to keep policies with `apiServer: Enforce` in the API server.

    The API knows no right to write only some admission policies, so who has this can refuse or change every request.
    """
    kinds = "mutatingadmissionpolicies mutatingadmissionpolicybindings"
    kinds += " validatingadmissionpolicies validatingadmissionpolicybindings"
    rules = [_rule("admissionregistration.k8s.io", kinds, ["create", "delete", "list", "patch"])]
    return _grant("ClusterRole", "policy-in-api-server", rules)


def config_map_rbac_objects() -> list[Object]:
    """What the manager needs to look up the ConfigMaps that pods name (`childDryRun.lookUp: [ConfigMaps]`)."""
    return _grant("ClusterRole", "look-up-config-maps", [_rule("", "configmaps", ["get"])])


def secret_rbac_objects() -> list[Object]:
    """The same for Secrets. RBAC knows no right to metadata alone, so who has this can read each Secret by its name."""
    return _grant("ClusterRole", "look-up-secrets", [_rule("", "secrets", ["get"])])


def rbac_objects() -> list[Object]:
    """The service account `jobset-system/jobset-controller-manager` and exactly the rights it has; roles of users.

    The namespace is not among them; apply it first. The ClusterRoles `jobset-metrics-reader`, for scrapers, and
    `jobset-debugger`, for people who look for a fault, have no binding here.
    """
    reviews = [
        _rule("authentication.k8s.io", "tokenreviews", ["create"]),
        _rule("authorization.k8s.io", "subjectaccessreviews", ["create"]),
    ]
    leases = [_rule("coordination.k8s.io", "leases", ["create", "get", "patch"])]
    secrets = [_rule("", "secrets", _OWN, [WEBHOOK_SECRET])]
    scrape: list[Object] = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    look = ["/debug/loglevel", "/debug/objects", "/debug/stacks"]
    debug: list[Object] = [
        {"nonResourceURLs": look, "verbs": ["get"]},
        {"nonResourceURLs": ["/debug/loglevel"], "verbs": ["put"]},
    ]
    return [
        obj("v1", "ServiceAccount", SERVICE_ACCOUNT),
        *_grant("ClusterRole", "manager", _manager_rules()),
        *_grant("ClusterRole", "proxy", reviews),
        *_grant("Role", "leader-election", leases),
        *_grant("Role", "manager-secrets", secrets),
        obj(_API, "ClusterRole", "jobset-metrics-reader", namespace=None, rules=scrape),
        obj(_API, "ClusterRole", "jobset-debugger", namespace=None, rules=debug),
        *_user_roles(),
    ]


def every_rbac_object() -> list[Object]:
    """`rbac_objects`, and after them the rights of all options that need some of their own."""
    return [
        *rbac_objects(),
        *config_map_rbac_objects(),
        *secret_rbac_objects(),
        *policy_rbac_objects(),
        *policy_report_rbac_objects(),
        *policy_api_server_rbac_objects(),
    ]
