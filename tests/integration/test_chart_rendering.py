"""What Helm 3 and 4 make of the chart: the installed objects by default, and each value where it belongs."""

import copy
import json
import re

import pytest
import yaml

from app.settings_file import load
from manifests import files, install_objects
from manifests.chart.templates import NO_LEADER
from tests.integration.test_chart_releases import VALUES
from tests.support.cluster.helm import CHART, GO_USER
from tests.support.objects.selectors import SELECTED_BY, selectors
from tests.support.panels import FILE

pytestmark = pytest.mark.slow
"""The first run on a machine builds both Helms, for some minutes."""

DEPLOYMENT = ("Deployment", "jobset-controller-manager")
CONFIG = "controller_manager_config.yaml"
FIXED = re.compile(r"jobset-(mutating|validating)-webhook-configuration|jobset-pod-\w+|jobsets\.jobset\.x-k8s\.io")
"""Names that the manager or the API server looks for."""


def by_name(objects):
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


def comparable(objects):
    """Without what is Helm's own: who manages, the mark on the CRD, and the hash that replaces pods."""
    found = by_name(json.loads(json.dumps(objects).replace('managed-by": "Helm"', 'managed-by": "kustomize"')))
    for (kind, _), each in found.items():
        if kind == "ConfigMap":
            each["data"] = {key: yaml.safe_load(text) for key, text in each["data"].items()}
        if kind == "CustomResourceDefinition":
            each["metadata"].pop("annotations", None)
        if kind == "Deployment":
            each["spec"]["template"]["metadata"]["annotations"].pop("jobset.x-k8s.io/config-hash", None)
    return found


def documents(path):
    return [each for each in yaml.load_all(path.read_text(), yaml.CSafeLoader) if each]


@pytest.mark.parametrize("pods", ["webhooks", "policies", "policies-without-manager"])
def test_by_default_the_objects_of_install_yaml(helm, pods):
    installed = [each for each in install_objects(pods=pods) if each["kind"] != "Namespace"]
    assert comparable(helm.objects({"podAdmission": pods})) == comparable(installed)


def test_policies_are_those_of_kustomize_with_the_gate_on(helm):
    installed = [each for path in sorted((files.ROOT / "policy").glob("*.yaml")) for each in documents(path)]
    kept = {"jobSetPolicies": {"enable": True}}
    on, off = comparable(helm.objects(kept)), comparable(helm.objects())
    added = {name: each for name, each in on.items() if name not in off}
    assert added == comparable([each for each in installed if each["kind"] != "Kustomization"])
    config = on["ConfigMap", "jobset-manager-config"]["data"][CONFIG]
    assert config["featureGates"] == {"JobSetPolicies": True}
    more = by_name(helm.objects(kept | {"featureGates": {"RestartJob": True, "JobSetPolicies": False}}))
    config = yaml.safe_load(more["ConfigMap", "jobset-manager-config"]["data"][CONFIG])
    assert config["featureGates"] == {"RestartJob": True, "JobSetPolicies": False}, "what is given wins"
    elsewhere = helm.objects(kept | {"certManager": {"enable": True}}, release="ml", namespace="elsewhere")
    for each in elsewhere:
        if "Webhook" in each["kind"]:
            inject = each["metadata"]["annotations"]["cert-manager.io/inject-ca-from"]
            assert inject == "elsewhere/ml-jobset-webhook-server-cert"
    assert "jobset-system" not in json.dumps(elsewhere)


@pytest.mark.parametrize(
    ("value", "look_up", "file"), [("configMaps", "ConfigMaps", "config-maps"), ("secrets", "Secrets", "secrets")]
)
def test_a_look_up_comes_with_its_right_and_its_setting(helm, value, look_up, file):
    on, off = comparable(helm.objects({"lookUp": {value: True}})), comparable(helm.objects())
    added = {name: each for name, each in on.items() if name not in off}
    assert added == comparable(documents(files.ROOT / f"references/{file}.yaml"))
    config = on["ConfigMap", "jobset-manager-config"]["data"][CONFIG]
    assert config["childDryRun"] == {"lookUp": [look_up]}
    given = {"lookUp": {"configMaps": True, "secrets": True}, "managerConfiguration": {"childDryRun": {"budget": "5s"}}}
    both = comparable(helm.objects(given))["ConfigMap", "jobset-manager-config"]["data"][CONFIG]
    assert both["childDryRun"] == {"lookUp": ["ConfigMaps", "Secrets"], "budget": "5s"}


def test_the_reserved_label_is_that_of_kustomize_for_the_account_of_the_release(helm):
    wanted = {"reservedLabel": {"enable": True}}
    on, off = comparable(helm.objects(wanted)), comparable(helm.objects())
    added = {name: each for name, each in on.items() if name not in off}
    assert added == comparable(documents(files.ROOT / "reserved-label/policies.yaml"))
    elsewhere = by_name(helm.objects(wanted, release="ml", namespace="elsewhere"))
    (variable,) = elsewhere["ValidatingAdmissionPolicy", "jobset-reserved-label-jobs"]["spec"]["variables"]
    (account,) = (each["metadata"] for (kind, _), each in elsewhere.items() if kind == "ServiceAccount")
    assert variable["expression"] == f"['system:serviceaccount:elsewhere:{account['name']}']"


def test_nothing_that_is_written_at_run_time_is_rendered(helm):
    everything = GO_USER | {"certManager": {"enable": False}, "jobSetPolicies": {"enable": True}}
    text = helm.template(everything)
    assert "caBundle" not in text
    (secret,) = [each for each in helm.objects(everything) if each["kind"] == "Secret"]
    assert secret.keys() == {"apiVersion", "kind", "metadata"}


@pytest.mark.parametrize("values", [{}, GO_USER, VALUES, VALUES | {"certManager": {"enable": False}}])
@pytest.mark.parametrize("pods", ["webhooks", "policies", "policies-without-manager"])
def test_selectors_are_the_same_whoever_manages(helm, values, pods):
    everything = {"prometheus": {"enable": True, "alerts": {"enable": True}}, "dashboard": {"enable": True}}
    objects = helm.objects(everything | values | {"podAdmission": pods, "commonLabels": {"team": "ml"}})
    found = [labels for each in objects for labels in selectors(each)]
    assert [labels for labels in found if {*labels} - SELECTED_BY] == []
    assert len(found) >= 7


def test_names_and_namespace_are_those_of_the_release(helm):
    objects = helm.objects(release="ml", namespace="elsewhere")
    assert "jobset-system" not in json.dumps(objects)
    names = {each["metadata"]["name"] for each in objects}
    assert {name for name in names if not name.startswith("ml-jobset-")} == {n for n in names if FIXED.fullmatch(n)}
    long = helm.objects({"fullnameOverride": "x" * 63})
    assert max(len(each["metadata"]["name"]) for each in long if each["kind"] == "Service") == 63


def test_an_unknown_value_is_refused(helm):
    done = helm.run("template", "jobset", str(CHART), "--kube-version=1.37.1", values={"controllers": {}}, check=False)
    assert done.returncode != 0
    assert "controllers" in done.stderr


def test_several_replicas_without_an_election_are_refused(helm):
    def rendered(replicas):
        values = {"controller": {"replicas": replicas, "leaderElection": {"enable": False}}}
        return helm.run("template", "jobset", str(CHART), "--kube-version=1.37.1", values=values, check=False)

    assert "controller.leaderElection.enable: false is for one replica" in rendered(3).stderr
    assert rendered(1).returncode == 0


@pytest.mark.parametrize("mode", ["policies", "policies-without-manager"])
def test_policies_for_pods_are_refused_where_the_cluster_is_too_old(helm, mode):
    def rendered(version, admission):
        options = ("template", "jobset", str(CHART), f"--kube-version={version}")
        return helm.run(*options, values={"podAdmission": admission}, check=False)

    said = "admission of pods inside the API server needs Kubernetes 1.36 or newer"
    assert said in rendered("1.35.10", mode).stderr
    assert "here it is v1.35.10" in rendered("1.35.10", mode).stderr
    assert rendered("v1.36.0-eks-1", mode).returncode == rendered("1.35.10", "webhooks").returncode == 0


def test_the_values_of_a_user_of_the_go_projects_chart_mean_the_same(helm):
    objects = by_name(helm.objects(GO_USER))
    deployment = objects["Deployment", "ml-jobset-controller-manager"]
    template = deployment["spec"]["template"]
    pod, (container,) = template["spec"], template["spec"]["containers"]
    given = GO_USER["controller"]
    for labels in (template["metadata"]["labels"], *(each["metadata"]["labels"] for each in objects.values())):
        assert labels.items() >= (GO_USER["commonLabels"] | {"app.kubernetes.io/name": "jobset"}).items()
    assert "team" not in deployment["spec"]["selector"]["matchLabels"], "a selector can never change"
    image = ("registry.example/mirror/jobset:v0.12.0-mirror.1", "Always")
    assert (container["image"], container["imagePullPolicy"]) == image
    assert (pod["imagePullSecrets"], deployment["spec"]["replicas"]) == ([{"name": "mirror-pull"}], 3)
    assert deployment["metadata"]["annotations"] == given["annotations"]
    assert template["metadata"]["annotations"].items() >= given["podAnnotations"].items()
    assert (container["env"], container["envFrom"]) == (given["env"], given["envFrom"])
    assert given["volumes"][0] in pod["volumes"]
    assert given["volumeMounts"][0] in container["volumeMounts"]
    assert container["resources"]["requests"] == {"cpu": "1", "memory": "128Mi"}
    assert container["resources"]["limits"]["cpu"] == "2"
    assert container["securityContext"].items() >= {"runAsUser": 65532, "readOnlyRootFilesystem": True}.items()
    assert pod["securityContext"].items() >= {"fsGroup": 65532, "runAsNonRoot": True}.items()
    assert {key: pod[key] for key in ("nodeSelector", "affinity", "tolerations", "hostNetwork")} == {
        key: given[key] for key in ("nodeSelector", "affinity", "tolerations", "hostNetwork")
    }
    assert objects["PodDisruptionBudget", "ml-jobset-controller-manager"]["spec"]["minAvailable"] == 1
    assert "maxUnavailable" not in objects["PodDisruptionBudget", "ml-jobset-controller-manager"]["spec"]
    config = yaml.safe_load(objects["ConfigMap", "ml-jobset-manager-config"]["data"][CONFIG])
    assert config["clientConnection"] == given["clientConnection"]
    assert config["leaderElection"]["leaderElect"] is True


def test_certificates_of_cert_manager(helm):
    """The manager makes none, its Secret is not in the way, and the CA bundle comes from the certificate."""
    objects = by_name(helm.objects(GO_USER))
    config = yaml.safe_load(objects["ConfigMap", "ml-jobset-manager-config"]["data"][CONFIG])
    assert config["internalCertManagement"]["enable"] is False
    assert not [each for each in objects if each[0] in {"Secret", "Issuer"}]
    webhook, metrics = (
        objects["Certificate", f"ml-jobset-{name}-server-cert"]["spec"] for name in ("webhook", "metrics")
    )
    assert webhook["dnsNames"][0] == "ml-jobset-webhook-service.jobset-system.svc"
    assert webhook["secretName"] == "ml-jobset-webhook-server-cert"
    assert webhook["issuerRef"] == metrics["issuerRef"] == GO_USER["certManager"]["issuerRef"]
    for kind in ("Mutating", "Validating"):
        found = objects[f"{kind}WebhookConfiguration", f"jobset-{kind.lower()}-webhook-configuration"]
        inject = found["metadata"]["annotations"]["cert-manager.io/inject-ca-from"]
        assert inject == "jobset-system/ml-jobset-webhook-server-cert"
    pod = objects["Deployment", "ml-jobset-controller-manager"]["spec"]["template"]["spec"]
    secrets = {each["name"]: each["secret"]["secretName"] for each in pod["volumes"] if "secret" in each}
    assert secrets == {"cert": "ml-jobset-webhook-server-cert", "metrics-cert": "ml-jobset-metrics-server-cert"}
    own = by_name(helm.objects({"certManager": {"enable": True}}))
    issuer = own["Issuer", "jobset-selfsigned-issuer"]["metadata"]["name"]
    assert own["Certificate", "jobset-webhook-server-cert"]["spec"]["issuerRef"] == {"kind": "Issuer", "name": issuer}


def test_prometheus_finds_the_metrics_and_may_read_them(helm):
    objects = by_name(helm.objects({"prometheus": {"enable": True}}))
    monitor = objects["ServiceMonitor", "jobset-prometheus"]["spec"]
    service = objects["Service", "jobset-controller-manager-metrics-service"]
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["endpoints"][0]["port"] in {port["name"] for port in service["spec"]["ports"]}
    (subject,) = objects["ClusterRoleBinding", "jobset-prometheus"]["subjects"]
    assert subject == {"kind": "ServiceAccount", "name": "prometheus-k8s", "namespace": "monitoring"}
    verified = by_name(helm.objects(GO_USER))["ServiceMonitor", "ml-jobset-prometheus"]["spec"]["endpoints"][0][
        "tlsConfig"
    ]
    assert verified["serverName"] == "ml-jobset-controller-manager-metrics-service.jobset-system.svc"
    assert verified["cert"]["secret"]["name"] == "prometheus-client"


def test_alerts_are_those_of_kustomize_and_select_the_releases_own_series(helm):
    on = {"prometheus": {"alerts": {"enable": True}}}
    (installed,) = yaml.safe_load_all((files.ROOT / "prometheus/alerts.yaml").read_text())
    rendered = by_name(helm.objects(on))["PrometheusRule", "jobset-alerts"]
    assert comparable([rendered]) == comparable([installed])
    service = "js-controller-manager-metrics-service"
    objects = by_name(helm.objects(on | {"fullnameOverride": "js"}))
    assert ("Service", service) in objects
    (group,) = objects["PrometheusRule", "js-alerts"]["spec"]["groups"]
    for rule in group["rules"]:
        assert set(re.findall(r'job="([^"]*)"', rule["expr"])) == {service}
    alone = by_name(helm.objects(on | {"controller": {"leaderElection": {"enable": False}, "replicas": 1}}))
    (group,) = alone["PrometheusRule", "jobset-alerts"]["spec"]["groups"]
    assert NO_LEADER not in {rule["alert"] for rule in group["rules"]}


def test_the_dashboard_is_in_a_config_map_that_grafana_finds(helm):
    config_map = by_name(helm.objects({"dashboard": {"enable": True}}))["ConfigMap", "jobset-dashboard"]
    assert config_map["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(config_map["data"]["jobset.json"]) == json.loads(FILE.read_text())
    found = {"labels": {"grafana_dashboard": None, "board": "yes"}, "annotations": {"grafana_folder": "Batch"}}
    metadata = by_name(helm.objects({"dashboard": {"enable": True} | found}))["ConfigMap", "jobset-dashboard"][
        "metadata"
    ]
    assert metadata["annotations"] == {"grafana_folder": "Batch"}
    assert metadata["labels"]["board"] == "yes"
    assert "grafana_dashboard" not in metadata["labels"]


def test_nothing_watches_metrics_that_are_not_served(helm):
    on = {"prometheus": {"enable": True, "alerts": {"enable": True}}, "dashboard": {"enable": True}}
    assert helm.objects(on | {"metrics": {"enable": False}}) == helm.objects({"metrics": {"enable": False}})


PAGE = {"enable": True, "proxyImage": "proxy:v1", "hosts": ["jobs.example.org", "10"]}


def test_the_page_listens_behind_the_proxy_alone(helm):
    added = {
        key: each for key, each in by_name(helm.objects({"ui": PAGE})).items() if key not in by_name(helm.objects())
    }
    assert {(kind, name) for kind, name in added} == {
        (kind, "jobset-ui")
        for kind in (
            "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ConfigMap", "Deployment",
            "Service", "NetworkPolicy",
        )
    }  # fmt: skip
    pod = added["Deployment", "jobset-ui"]["spec"]["template"]
    page, proxy = pod["spec"]["containers"]
    assert (page["command"], "ports" in page) == (["/jobset"], False)
    assert page["args"] == [
        "ui", "--all-namespaces", "--address=127.0.0.1:8790", "--allow-host=jobset-ui.jobset-system.svc",
        "--allow-host=jobs.example.org", "--allow-host=10",
    ]  # fmt: skip
    assert "--upstream=http://127.0.0.1:8790/" in proxy["args"]
    assert not [arg for arg in proxy["args"] if "tls-" in arg or "ignore-paths" in arg or "insecure" in arg]
    [port] = added["Service", "jobset-ui"]["spec"]["ports"]
    assert port["targetPort"] == proxy["ports"][0]["name"]
    selector = added["Service", "jobset-ui"]["spec"]["selector"]
    assert selector.items() <= pod["metadata"]["labels"].items()
    manager = by_name(helm.objects())[DEPLOYMENT]["spec"]["template"]["metadata"]["labels"]
    assert not selector.items() <= manager.items(), "the manager's pods are not behind it"
    asked = yaml.safe_load(added["ConfigMap", "jobset-ui"]["data"]["config.yaml"])
    wanted = {"apiGroup": "jobset.x-k8s.io", "apiVersion": "v1alpha2", "resource": "jobsets"}
    assert asked == {"authorization": {"resourceAttributes": wanted}}


def test_the_page_needs_the_image_of_its_proxy(helm):
    def refused(**ui):
        values = {"ui": {"enable": True, **ui}}
        done = helm.run("template", "jobset", str(CHART), "--kube-version=1.37.1", values=values, check=False)
        assert done.returncode != 0
        return done.stderr

    assert "ui.proxyImage: the image of kube-rbac-proxy" in refused()
    assert "hosts" in refused(**{**PAGE, "hosts": ["a b"]})


def test_the_configuration_is_one_that_the_manager_takes(helm, tmp_path):
    values = {
        "featureGates": {"RestartJob": True},
        "tls": {"minVersion": "VersionTLS13"},
        "metrics": {"enable": False},
        "managerConfiguration": {"webhook": {"port": 10250, "workers": 2}, "clientConnection": {"qps": 7}},
        "controller": {"excludeWebhookPortFromMesh": True, "leaderElection": {"enable": False}, "replicas": 1},
    }
    objects = by_name(helm.objects(values))
    path = tmp_path / "config.yaml"
    path.write_text(objects["ConfigMap", "jobset-manager-config"]["data"][CONFIG])
    settings = load(str(path))
    assert (settings.webhook.port, settings.webhook.workers) == (10250, 2)
    assert (settings.client_connection.qps, settings.client_connection.burst) == (7, 500)
    assert settings.feature_gates == {"RestartJob": True}
    assert not settings.leader_election.leader_elect
    template = objects[DEPLOYMENT]["spec"]["template"]
    ports = {port["name"]: port["containerPort"] for port in template["spec"]["containers"][0]["ports"]}
    assert ports == {"webhook-server": 10250}
    assert template["metadata"]["annotations"]["traffic.sidecar.istio.io/excludeInboundPorts"] == "10250"
    assert ("Service", "jobset-controller-manager-metrics-service") not in objects


def test_another_configuration_replaces_the_pods(helm):
    def template(values):
        return by_name(helm.objects(values))[DEPLOYMENT]["spec"]["template"]

    assert template({}) == template({})
    assert template({"featureGates": {"RestartJob": True}}) != template({})


def test_availability(helm):
    values = {
        "controller": {
            "topologySpreadConstraints": [],
            "priorityClassName": "system-cluster-critical",
            "podDisruptionBudget": {"enabled": False},
        },
        "networkPolicy": {"webhookFrom": [{"ipBlock": {"cidr": "192.0.2.0/24"}}], "metricsFrom": [{"podSelector": {}}]},
    }
    objects = by_name(helm.objects(copy.deepcopy(values)))
    pod = objects[DEPLOYMENT]["spec"]["template"]["spec"]
    assert pod["priorityClassName"] == "system-cluster-critical"
    assert "topologySpreadConstraints" not in pod
    assert not [each for each in objects if each[0] == "PodDisruptionBudget"]
    peers = [rule["from"] for rule in objects["NetworkPolicy", "jobset-controller-manager"]["spec"]["ingress"]]
    assert peers == [values["networkPolicy"]["webhookFrom"], values["networkPolicy"]["metricsFrom"]]
    closed = by_name(helm.objects({"networkPolicy": {"enabled": False}, "crds": {"enabled": False}}))
    assert not {"NetworkPolicy", "CustomResourceDefinition"} & {kind for kind, _ in closed}


def test_rights_configuration_and_objects_name_the_same_secret_service_and_account(helm):
    """Under another name of the release, too: the manager finds what it may write."""
    objects = by_name(helm.objects({"fullnameOverride": "js"}, namespace="elsewhere"))
    config = yaml.safe_load(objects["ConfigMap", "js-manager-config"]["data"][CONFIG])["internalCertManagement"]
    assert ("Secret", config["webhookSecretName"]) in objects
    assert objects["Role", "js-manager-secrets-role"]["rules"][0]["resourceNames"] == [config["webhookSecretName"]]
    assert ("Service", config["webhookServiceName"]) in objects
    hooks = [hook for (kind, _), each in objects.items() if "Webhook" in kind for hook in each["webhooks"]]
    called = {(hook["clientConfig"]["service"]["name"], hook["clientConfig"]["service"]["namespace"]) for hook in hooks}
    assert called == {(config["webhookServiceName"], "elsewhere")}
    account = objects["Deployment", "js-controller-manager"]["spec"]["template"]["spec"]["serviceAccountName"]
    bindings = [each for (kind, _), each in objects.items() if kind in {"RoleBinding", "ClusterRoleBinding"}]
    assert ("ServiceAccount", account) in objects
    for binding in bindings:
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": "elsewhere"}]
        assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) in objects
