"""The manager's rights, verb by verb (docs/manager-rights.md)."""

from collections import defaultdict
from pathlib import Path

import pytest

from app.debug.pages import LEVEL_PATH, Debug
from manifests import every_rbac_object, objects

DEFAULT = objects("rbac/rbac.yaml")
OBJECTS = every_rbac_object()
APART = OBJECTS[len(DEFAULT) :]
BY_NAME = {(o["kind"], o["metadata"]["name"]): o for o in OBJECTS}
PAGE = Path(__file__).parents[2] / "docs" / "manager-rights.md"
ROWS = [
    [cell.strip(" `") for cell in line.split("|")[1:-1]]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| `jobset-")
]
TABLE = {(role, group, resource, name): verbs for role, group, resource, verbs, name, _ in ROWS}
"""(role, group, resource, name it is limited to) -> verbs, as the page has them."""


def granted(objects=OBJECTS):
    """The same table as the objects have it."""
    verbs = defaultdict(set)
    for role in objects:
        for rule in role.get("rules", []):
            for group in rule.get("apiGroups", []):
                for resource in rule["resources"]:
                    for name in rule.get("resourceNames", [""]):
                        verbs[role["metadata"]["name"], group, resource, name] |= set(rule["verbs"])
    return verbs


def test_the_page_says_for_each_right_what_it_is_for():
    assert all(row[-1] for row in ROWS)
    assert len(ROWS) == len(TABLE) > 20


def test_no_right_beyond_the_page():
    assert granted().keys() == TABLE.keys()


@pytest.mark.parametrize("key", TABLE, ids=lambda k: "-".join(filter(None, k[1:])))
def test_verbs(key):
    assert " ".join(sorted(granted()[key])) == TABLE[key]


def test_no_wildcards():
    for role in OBJECTS:
        for rule in role.get("rules", []):
            assert not any("*" in value for values in rule.values() for value in values)


def test_secrets_and_webhook_configurations_only_by_name():
    limited = {"secrets", "mutatingwebhookconfigurations", "validatingwebhookconfigurations"}
    assert {resource for _, _, resource, name in granted() if name} == limited
    unlimited = {key: verbs for key, verbs in granted().items() if key[2] in limited and not key[3]}
    assert unlimited == {("jobset-look-up-secrets-role", "", "secrets", ""): {"get"}}


def test_by_default_no_config_map_and_no_secret_of_others_can_be_read():
    assert [key for key in granted(DEFAULT) if key[2] in {"configmaps", "secrets"}] == [
        ("jobset-manager-secrets-role", "", "secrets", "jobset-webhook-server-cert")
    ]


@pytest.mark.parametrize(("file", "resource"), [("config-maps", "configmaps"), ("secrets", "secrets")])
def test_who_looks_up_one_kind_may_get_that_kind_and_nothing_else(file, resource):
    [(key, verbs)] = granted(objects(f"references/{file}.yaml")).items()
    assert (key[1:], verbs) == (("", resource, ""), {"get"})


def test_namespaced_rights_are_only_in_the_managers_namespace():
    for name in ("jobset-leader-election-role", "jobset-manager-secrets-role"):
        assert BY_NAME["Role", name]["metadata"]["namespace"] == "jobset-system"


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("ClusterRole", "jobset-manager-role"),
        ("ClusterRole", "jobset-proxy-role"),
        ("ClusterRole", "jobset-look-up-config-maps-role"),
        ("ClusterRole", "jobset-look-up-secrets-role"),
        ("ClusterRole", "jobset-policy-role"),
        ("ClusterRole", "jobset-policy-report-role"),
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


def test_scrapers_role_opens_metrics_and_nothing_else():
    assert BY_NAME["ClusterRole", "jobset-metrics-reader"]["rules"] == [
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
    ]


def test_the_role_of_the_debug_pages_opens_each_of_them_and_changes_the_log_level():
    look, change = BY_NAME["ClusterRole", "jobset-debugger"]["rules"]
    assert look == {"nonResourceURLs": sorted(Debug.paths), "verbs": ["get"]}
    assert change == {"nonResourceURLs": [LEVEL_PATH], "verbs": ["put"]}


def test_the_roles_of_people_are_bound_to_nobody():
    bound = [o.get("roleRef", {}).get("name") for o in OBJECTS]
    assert "jobset-metrics-reader" not in bound
    assert "jobset-debugger" not in bound
    assert "jobset-editor-role" not in bound
    assert "jobset-viewer-role" not in bound
    assert "jobset-policy-viewer-role" not in bound
    assert "jobset-policy-exception-granter-role" not in bound


def test_kubernetes_adds_the_roles_of_users_to_its_own_and_no_other_role():
    added = {
        (role["metadata"]["name"], key.rpartition("/aggregate-to-")[2])
        for role in OBJECTS
        for key in role["metadata"]["labels"]
        if "/aggregate-to-" in key
    }
    assert added == {
        ("jobset-editor-role", "admin"),
        ("jobset-editor-role", "edit"),
        ("jobset-viewer-role", "view"),
    }


def test_policies_are_written_by_administrators_alone_and_exceptions_by_granters():
    ours = {key: verbs for key, verbs in granted().items() if key[1].startswith("policy.")}
    writers = {
        (role, resource) for (role, _, resource, _), verbs in ours.items() if set(verbs) - {"get", "list", "watch"}
    }
    assert writers == {
        ("jobset-policy-exception-granter-role", "jobsetpolicyexceptions"),
        ("jobset-policy-role", "jobsetpolicies/status"),
        ("jobset-policy-role", "jobsetpolicyexceptions/status"),
    }
