"""Names, wiring and hardening of what is installed (docs/reference/manager.md#installed-objects)."""

import base64

import pytest
import yaml

from manifests import files, install_objects, webhook_configurations
from tests.support.objects.selectors import SELECTED_BY, selectors

OBJECTS = install_objects()
NAMES = {
    ("Namespace", "jobset-system"),
    ("CustomResourceDefinition", "jobsets.jobset.x-k8s.io"),
    ("Deployment", "jobset-controller-manager"),
    ("PodDisruptionBudget", "jobset-controller-manager"),
    ("NetworkPolicy", "jobset-controller-manager"),
    ("ServiceAccount", "jobset-controller-manager"),
    ("ConfigMap", "jobset-manager-config"),
    ("Secret", "jobset-webhook-server-cert"),
    ("Service", "jobset-webhook-service"),
    ("Service", "jobset-controller-manager-metrics-service"),
    ("MutatingWebhookConfiguration", "jobset-mutating-webhook-configuration"),
    ("ValidatingWebhookConfiguration", "jobset-validating-webhook-configuration"),
    ("ClusterRole", "jobset-manager-role"),
    ("ClusterRoleBinding", "jobset-manager-rolebinding"),
    ("ClusterRole", "jobset-proxy-role"),
    ("ClusterRoleBinding", "jobset-proxy-rolebinding"),
    ("ClusterRole", "jobset-metrics-reader"),
    ("ClusterRole", "jobset-debugger"),
    ("ClusterRole", "jobset-editor-role"),
    ("ClusterRole", "jobset-viewer-role"),
    ("Role", "jobset-leader-election-role"),
    ("RoleBinding", "jobset-leader-election-rolebinding"),
    ("Role", "jobset-manager-secrets-role"),
    ("RoleBinding", "jobset-manager-secrets-rolebinding"),
}
CLUSTER_SCOPED = {
    "Namespace",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleBinding",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
}
LABELS = {
    "app.kubernetes.io/name": "jobset",
    "app.kubernetes.io/instance": "jobset",
    "app.kubernetes.io/managed-by": "kustomize",
}


def names(objects):
    return [(o["kind"], o["metadata"]["name"]) for o in objects]


def one(kind, name):
    return OBJECTS[names(OBJECTS).index((kind, name))]


DEPLOYMENT = one("Deployment", "jobset-controller-manager")
POD = DEPLOYMENT["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]


def test_names():
    assert sorted(names(OBJECTS)) == sorted(NAMES)


def test_namespaces_and_labels():
    for o in OBJECTS:
        assert o["metadata"].get("namespace") == (None if o["kind"] in CLUSTER_SCOPED else "jobset-system")
        assert o["metadata"]["labels"].items() >= LABELS.items()


def test_the_namespace_and_the_types_come_before_what_needs_them():
    kinds = [o["kind"] for o in OBJECTS]
    assert kinds[:2] == ["Namespace", "CustomResourceDefinition"]
    assert set(kinds[-2:]) == {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}


def test_pods_are_selected_by_the_labels_they_carry():
    carried = LABELS | {"control-plane": "controller-manager"}
    labels = {key: carried[key] for key in SELECTED_BY}
    assert DEPLOYMENT["spec"]["selector"]["matchLabels"] == labels
    assert DEPLOYMENT["spec"]["template"]["metadata"]["labels"] == carried
    for name in ("jobset-webhook-service", "jobset-controller-manager-metrics-service"):
        assert one("Service", name)["spec"]["selector"] == labels


@pytest.mark.parametrize("path", sorted(files.ROOT.rglob("*.yaml")), ids=lambda path: str(path.relative_to(files.ROOT)))
def test_no_selector_has_who_manages(path):
    """Else another manager that takes the objects over leaves the Services without pods."""
    found = [labels for each in yaml.load_all(path.read_text(), yaml.CSafeLoader) for labels in selectors(each)]
    assert [labels for labels in found if {*labels} - SELECTED_BY] == []
    assert found or path.name not in {"install.yaml", "manager.yaml", "service.yaml"}


def test_services_reach_the_ports_of_the_container():
    ports = {p["name"]: p["containerPort"] for p in CONTAINER["ports"]}
    assert ports == {"webhook-server": 9443, "https": 8443}
    reached = {
        name: [(p["port"], ports[p["targetPort"]]) for p in one("Service", name)["spec"]["ports"]]
        for name in ("jobset-webhook-service", "jobset-controller-manager-metrics-service")
    }
    assert reached == {
        "jobset-webhook-service": [(443, 9443)],
        "jobset-controller-manager-metrics-service": [(8443, 8443)],
    }


def test_what_selects_pods_selects_the_managers():
    labels = DEPLOYMENT["spec"]["selector"]["matchLabels"]
    budget = one("PodDisruptionBudget", "jobset-controller-manager")["spec"]
    policy = one("NetworkPolicy", "jobset-controller-manager")["spec"]
    selectors = [
        budget["selector"],
        policy["podSelector"],
        *(s["labelSelector"] for s in POD["topologySpreadConstraints"]),
    ]
    assert all(selector == {"matchLabels": labels} for selector in selectors)


def test_who_may_connect():
    """API servers cannot be selected, so the webhooks take all comers; nobody but the kubelet reaches the probes."""
    spec = one("NetworkPolicy", "jobset-controller-manager")["spec"]
    ports = {p["name"]: p["containerPort"] for p in CONTAINER["ports"]}
    assert spec["policyTypes"] == ["Ingress"]
    assert {ports[p["port"]]: rule.get("from") for rule in spec["ingress"] for p in rule["ports"]} == {
        9443: None,
        8443: [{"namespaceSelector": {}}],
    }


def test_every_mount_has_its_volume_and_object():
    volumes = {v["name"]: v for v in POD["volumes"]}
    mounts = {m["mountPath"]: m for m in CONTAINER["volumeMounts"]}
    cert = mounts["/tmp/k8s-webhook-server/serving-certs"]
    config = mounts["/controller_manager_config.yaml"]
    assert volumes[cert["name"]]["secret"]["secretName"] == "jobset-webhook-server-cert"
    assert volumes[config["name"]]["configMap"]["name"] == "jobset-manager-config"
    assert volumes[cert["name"]]["secret"]["items"] == [
        {"key": "tls.crt", "path": "tls.crt"},
        {"key": "tls.key", "path": "tls.key"},
    ], "the key of the CA is not for the file system"
    assert volumes[cert["name"]]["secret"]["optional"], "the Secret is installed empty"
    assert config["subPath"] in one("ConfigMap", "jobset-manager-config")["data"]
    assert {m["name"] for m in mounts.values()} == volumes.keys()


def test_configuration_agrees_with_the_objects():
    text = one("ConfigMap", "jobset-manager-config")["data"]["controller_manager_config.yaml"]
    config = yaml.safe_load(text)
    assert (config["apiVersion"], config["kind"]) == ("config.jobset.x-k8s.io/v1alpha1", "Configuration")
    assert config["webhook"]["port"] == 9443
    assert config["metrics"]["bindAddress"] == ":8443"
    assert config["health"]["healthProbeBindAddress"] == ":8081"
    assert config["internalCertManagement"] == {
        "enable": True,
        "webhookServiceName": "jobset-webhook-service",
        "webhookSecretName": "jobset-webhook-server-cert",
    }


def test_nothing_that_is_written_at_run_time_is_rendered():
    assert "data" not in one("Secret", "jobset-webhook-server-cert")
    assert "caBundle" not in str(OBJECTS)


def test_webhooks_of_a_manager_outside_the_cluster():
    configurations = webhook_configurations(url_base="https://127.0.0.1:9443/", ca_bundle=b"-----BEGIN")
    clients = [w["clientConfig"] for c in configurations for w in c["webhooks"]]
    assert [c["url"] for c in clients] == [
        "https://127.0.0.1:9443/mutate-jobset-x-k8s-io-v1alpha2-jobset",
        "https://127.0.0.1:9443/mutate--v1-pod",
        "https://127.0.0.1:9443/mutate--v1-pod",
        "https://127.0.0.1:9443/mutate--v1-pod",
        "https://127.0.0.1:9443/validate-jobset-x-k8s-io-v1alpha2-jobset",
        "https://127.0.0.1:9443/validate--v1-pod",
    ]
    assert {base64.b64decode(c["caBundle"]) for c in clients} == {b"-----BEGIN"}
    assert not any("service" in c for c in clients)


def test_install_of_a_manager_outside_the_cluster():
    outside = install_objects(webhook_url="https://127.0.0.1:1", ca_bundle=b"x")
    left_out = set(names(OBJECTS)) - set(names(outside))
    assert left_out == {
        ("Deployment", "jobset-controller-manager"),
        ("PodDisruptionBudget", "jobset-controller-manager"),
        ("NetworkPolicy", "jobset-controller-manager"),
        ("ConfigMap", "jobset-manager-config"),
        ("Service", "jobset-webhook-service"),
        ("Service", "jobset-controller-manager-metrics-service"),
    }
    assert [o for o in outside if "Webhook" in o["kind"]] == webhook_configurations(
        url_base="https://127.0.0.1:1", ca_bundle=b"x"
    )


def test_objects_are_new_for_each_caller():
    install_objects()[0]["metadata"]["labels"]["spoilt"] = "yes"
    assert install_objects() == OBJECTS
