"""The manager's rights, verb by verb (manifests/README.md#the-managers-rights)."""

from collections import defaultdict

import pytest

from manifests import rbac_objects

OBJECTS = rbac_objects()
BY_NAME = {(o["kind"], o["metadata"]["name"]): o for o in OBJECTS}
READ = "get list watch"
CRUD = "create delete get list patch update watch"
STATUS = "get patch update"
MUTATING = "mutatingwebhookconfigurations"
VALIDATING = "validatingwebhookconfigurations"
# (role, group, resource, name it is limited to) -> verbs
TABLE = {
    ("jobset-manager-role", "jobset.x-k8s.io", "jobsets", ""): "delete get list patch update watch",
    ("jobset-manager-role", "jobset.x-k8s.io", "jobsets/status", ""): STATUS,
    ("jobset-manager-role", "jobset.x-k8s.io", "jobsets/finalizers", ""): "update",
    ("jobset-manager-role", "batch", "jobs", ""): "create delete deletecollection get list patch update watch",
    ("jobset-manager-role", "batch", "jobs/status", ""): STATUS,
    ("jobset-manager-role", "", "services", ""): CRUD,
    ("jobset-manager-role", "", "persistentvolumeclaims", ""): f"create {READ}",
    ("jobset-manager-role", "", "pods", ""): "delete get list patch update watch",
    ("jobset-manager-role", "", "pods/status", ""): "patch update",
    ("jobset-manager-role", "", "nodes", ""): READ,
    ("jobset-manager-role", "scheduling.k8s.io", "priorityclasses", ""): READ,
    # To create, keep in step, replace and free groups; patch is for the numbers of a gang.
    ("jobset-manager-role", "scheduling.k8s.io", "workloads", ""): "create delete get list patch watch",
    ("jobset-manager-role", "scheduling.k8s.io", "podgroups", ""): "create delete get list patch watch",
    ("jobset-manager-role", "scheduling.k8s.io", "compositepodgroups", ""): "create delete get list patch watch",
    ("jobset-manager-role", "", "events", ""): "create patch update",
    ("jobset-manager-role", "events.k8s.io", "events", ""): "create patch update",
    ("jobset-manager-role", "admissionregistration.k8s.io", MUTATING, ""): READ,
    ("jobset-manager-role", "admissionregistration.k8s.io", VALIDATING, ""): READ,
    (
        "jobset-manager-role",
        "admissionregistration.k8s.io",
        MUTATING,
        "jobset-mutating-webhook-configuration",
    ): "patch update",
    (
        "jobset-manager-role",
        "admissionregistration.k8s.io",
        VALIDATING,
        "jobset-validating-webhook-configuration",
    ): "patch update",
    ("jobset-proxy-role", "authentication.k8s.io", "tokenreviews", ""): "create",
    ("jobset-proxy-role", "authorization.k8s.io", "subjectaccessreviews", ""): "create",
    ("jobset-leader-election-role", "coordination.k8s.io", "leases", ""): "create get patch update",
    ("jobset-manager-secrets-role", "", "secrets", ""): "get list patch update watch",
}


def granted():
    """The same table as the objects have it."""
    verbs = defaultdict(set)
    for role in OBJECTS:
        for rule in role.get("rules", []):
            for group in rule.get("apiGroups", []):
                for resource in rule["resources"]:
                    for name in rule.get("resourceNames", [""]):
                        verbs[role["metadata"]["name"], group, resource, name] |= set(rule["verbs"])
    return verbs


def test_no_right_beyond_the_table():
    assert granted().keys() == TABLE.keys()


@pytest.mark.parametrize("key", TABLE, ids=lambda k: "-".join(filter(None, k[1:])))
def test_verbs(key):
    assert " ".join(sorted(granted()[key])) == TABLE[key]


def test_no_wildcards():
    for role in OBJECTS:
        for rule in role.get("rules", []):
            assert not any("*" in value for values in rule.values() for value in values)


def test_namespaced_rights_are_only_in_the_managers_namespace():
    for name in ("jobset-leader-election-role", "jobset-manager-secrets-role"):
        assert BY_NAME["Role", name]["metadata"]["namespace"] == "jobset-system"


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("ClusterRole", "jobset-manager-role"),
        ("ClusterRole", "jobset-proxy-role"),
        ("Role", "jobset-leader-election-role"),
        ("Role", "jobset-manager-secrets-role"),
    ],
)
def test_bound_to_the_service_account_alone(kind, name):
    (binding,) = [o for o in OBJECTS if o.get("roleRef", {}).get("name") == name]
    assert binding["kind"] == f"{kind}Binding"
    assert binding["roleRef"]["kind"] == kind
    assert binding["metadata"].get("namespace") == BY_NAME[kind, name]["metadata"].get("namespace")
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": "jobset-controller-manager", "namespace": "jobset-system"}
    ]
    assert BY_NAME["ServiceAccount", "jobset-controller-manager"]["metadata"]["namespace"] == "jobset-system"


def test_scrapers_role_opens_metrics_and_is_bound_to_nobody():
    assert BY_NAME["ClusterRole", "jobset-metrics-reader"]["rules"] == [
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
    ]
    assert "jobset-metrics-reader" not in [o.get("roleRef", {}).get("name") for o in OBJECTS]
