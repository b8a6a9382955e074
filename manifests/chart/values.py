"""The values of the chart, with defaults, JSON schemas and descriptions. The Go project's chart has the same names."""

import copy
import json
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from manifests.chart import configuration
from manifests.naming import IMAGE_NAME, LABELS, Object
from manifests.objects import objects
from manifests.workload import MANAGER

(_DEPLOYMENT,) = (each["spec"] for each in objects(MANAGER) if each["kind"] == "Deployment")
_POD: Object = _DEPLOYMENT["template"]["spec"]
(_CONTAINER,) = _POD["containers"]
# JSON schemas of values
TEXT: Object = {"type": "string"}
FLAG: Object = {"type": "boolean"}
TEXT_MAP: Object = {"type": "object", "additionalProperties": {"type": "string"}}
OBJECT: Object = {"type": "object"}
OBJECTS: Object = {"type": "array", "items": {"type": "object"}}
COUNT: Object = {"type": "integer", "minimum": 0}
OWN_LABELS = sorted({*LABELS, "control-plane"})
"""Labels that values may not set, since selectors use them."""
HOSTS: Object = {"type": "array", "items": {"type": "string", "pattern": "^[A-Za-z0-9.-]+$"}}
UI_RESOURCES: Object = {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}}
PODS_OR_PERCENTAGE: Object = {"type": ["integer", "string", "null"], "minimum": 0}


@dataclass(frozen=True, slots=True)
class Value:
    """One value of the chart. `path`: such as `controller.env`. `absent_in_go`: the Go project's chart lacks it."""

    path: str
    default: Any
    schema: Object
    description: str
    absent_in_go: bool = field(default=False, kw_only=True)


added_value = partial(Value, absent_in_go=True)
"""A value that the Go project's chart lacks."""

VALUES = (
    Value("nameOverride", "", TEXT, "name of the chart in names and labels"),
    Value(
        "fullnameOverride", "", TEXT, "prefix of all names; default: the release, with the chart's name if it lacks it"
    ),
    Value(
        "commonLabels",
        {},
        TEXT_MAP | {"propertyNames": {"not": {"enum": OWN_LABELS}}},
        "labels for every object and the pods",
    ),
    Value("image.repository", IMAGE_NAME, TEXT, "image of the manager"),
    Value("image.tag", "", TEXT, "its tag; default: the chart's appVersion"),
    Value("image.pullPolicy", "IfNotPresent", {"enum": ["Always", "IfNotPresent", "Never"]}, "when it is pulled"),
    Value("image.pullSecrets", [], OBJECTS, "Secrets for a private registry: `[{name: ...}]`"),
    Value("controller.replicas", _DEPLOYMENT["replicas"], COUNT, "replicas; each serves admission, one reconciles"),
    Value("controller.leaderElection.enable", True, FLAG, "off only with one replica"),
    Value("controller.clientConnection.qps", 500, {"type": "number", "exclusiveMinimum": 0}, "requests per second"),
    Value("controller.clientConnection.burst", 500, {"type": "integer", "minimum": 1}, "requests at once"),
    Value("controller.annotations", {}, TEXT_MAP, "annotations of the Deployment"),
    Value("controller.podAnnotations", {}, TEXT_MAP, "annotations of the pods"),
    Value("controller.env", [], OBJECTS, "environment variables"),
    Value("controller.envFrom", [], OBJECTS, "sources of environment variables"),
    Value("controller.volumes", [], OBJECTS, "more volumes"),
    Value("controller.volumeMounts", [], OBJECTS, "more mounts"),
    Value("controller.resources", _CONTAINER["resources"], OBJECT, "requests and limits"),
    Value("controller.securityContext", _CONTAINER["securityContext"], OBJECT, "of the container"),
    Value("controller.podSecurityContext", _POD["securityContext"], OBJECT, "of the pods"),
    Value("controller.nodeSelector", {}, TEXT_MAP, "labels that a node must have"),
    Value("controller.affinity", {}, OBJECT, "affinity of the pods"),
    Value("controller.tolerations", [], OBJECTS, "tolerations of the pods"),
    Value(
        "controller.hostNetwork",
        False,
        FLAG,
        "pods use the network of their node, which a `restricted` namespace refuses; updates need one more node",
    ),
    Value("controller.podDisruptionBudget.enabled", True, FLAG, "whether there is a PodDisruptionBudget"),
    Value(
        "controller.podDisruptionBudget.minAvailable",
        None,
        PODS_OR_PERCENTAGE,
        "replicas, or a share such as 50%; then maxUnavailable does not count",
    ),
    Value(
        "controller.podDisruptionBudget.maxUnavailable", 1, PODS_OR_PERCENTAGE, "replicas that may be evicted at a time"
    ),
    added_value(
        "controller.topologySpreadConstraints",
        None,
        {"type": ["array", "null"], "items": {"type": "object"}},
        "default: over nodes and zones, if there is room",
    ),
    added_value("controller.priorityClassName", "", TEXT, "`system-cluster-critical`, for example"),
    added_value(
        "controller.excludeWebhookPortFromMesh",
        False,
        FLAG,
        "annotation for Istio that keeps its sidecar from the port of the webhooks",
    ),
    Value("certManager.enable", False, FLAG, "certificates of cert-manager instead of the manager's own"),
    Value("certManager.issuerRef", {}, OBJECT, "issuer; default: a self-signed one is created"),
    Value("prometheus.enable", False, FLAG, "ServiceMonitor, and the rights to scrape; needs the Prometheus operator"),
    Value(
        "prometheus.prometheusNamespace",
        "monitoring",
        TEXT,
        "namespace of Prometheus, with the accounts `prometheus-k8s` and `prometheus-operator`",
    ),
    Value(
        "prometheus.prometheusClientCertSecretName",
        "jobset-metrics-server-cert",
        TEXT,
        "Secret with the certificate that Prometheus shows, if certManager is on",
    ),
    added_value(
        "prometheus.alerts.enable",
        False,
        FLAG,
        "PrometheusRule with the alerts; needs the Prometheus operator",
    ),
    added_value(
        "prometheus.alerts.runbooks",
        "",
        TEXT,
        "address at which the documentation is served, with which the `runbook_url` of alerts begins",
    ),
    added_value("dashboard.enable", False, FLAG, "ConfigMap with the dashboard for Grafana"),
    added_value(
        "dashboard.labels",
        {"grafana_dashboard": "1"},
        TEXT_MAP,
        "labels by which Grafana's sidecar finds the ConfigMap",
    ),
    added_value("dashboard.annotations", {}, TEXT_MAP, "annotations of the ConfigMap: `grafana_folder`, for example"),
    added_value("metrics.enable", True, FLAG, "port and Service of the metrics"),
    added_value("featureGates", {}, configuration.feature_gates(), "feature gates of the manager"),
    added_value("tls", {}, configuration.section("tls"), "`tls` of the manager's configuration"),
    added_value(
        "managerConfiguration",
        {},
        configuration.configuration(),
        "any other field of the manager's configuration; it wins over the rest",
    ),
    added_value(
        "podAdmission",
        "webhooks",
        {"enum": ["webhooks", "policies", "policies-without-manager"]},
        "who admits pods of JobSets; policies need Kubernetes 1.36",
    ),
    added_value(
        "reservedLabel.enable",
        False,
        FLAG,
        "admission policies: no other pods get the label by which exclusive placement keeps Jobs apart",
    ),
    added_value(
        "lookUp.configMaps",
        False,
        FLAG,
        "admission warns of missing ConfigMaps that pods name: `childDryRun.lookUp`, and the right to get them",
    ),
    added_value(
        "lookUp.secrets",
        False,
        FLAG,
        "the same of Secrets: the manager may then get every Secret, of which it asks for the metadata alone",
    ),
    added_value(
        "jobSetPolicies.enable",
        False,
        FLAG,
        "JobSetPolicies: the CRD, the manager's rights for it, the webhooks that check them, and the feature gate",
    ),
    added_value(
        "jobSetPolicies.reports",
        False,
        FLAG,
        "with jobSetPolicies.enable: reports about policies, if the cluster has the CRD of OpenReports",
    ),
    added_value(
        "jobSetPolicies.inAPIServer",
        False,
        FLAG,
        "with jobSetPolicies.enable: the right to keep policies with apiServer: Enforce in the API server, too",
    ),
    added_value("ui.enable", False, FLAG, "the page of all JobSets (`jobset ui`), with rights to read"),
    added_value("ui.proxyImage", "", TEXT, "image of kube-rbac-proxy; needed with ui.enable"),
    added_value("ui.hosts", [], HOSTS, "hosts by which browsers open the page, beside localhost and its Service"),
    added_value("ui.tlsSecret", "", TEXT, "Secret with tls.crt and tls.key of the proxy; default: self-signed"),
    added_value("ui.resources", UI_RESOURCES, OBJECT, "requests and limits of the page"),
    added_value("networkPolicy.enabled", True, FLAG, "whether there is a NetworkPolicy"),
    added_value(
        "networkPolicy.webhookFrom",
        [],
        OBJECTS,
        "peers that may call the webhooks; default: all, since API servers are not pods",
    ),
    added_value(
        "networkPolicy.metricsFrom",
        [{"namespaceSelector": {}}],
        OBJECTS,
        "peers that may read the metrics; `[]`: all",
    ),
    added_value("crds.enabled", True, FLAG, "the release installs and upgrades the CRD"),
    added_value("crds.keep", True, FLAG, "uninstalling keeps the CRD, and with it every JobSet"),
)


def with_comments(text: str) -> str:
    """`text`, the content of values.yaml, with a comment above each value that describes it."""
    description = {value.path: value.description for value in VALUES}
    folders: list[str] = []
    lines: list[str] = []
    for line in text.splitlines():
        indent, key = len(line) - len(line.lstrip()), line.strip().partition(":")[0]
        folders[indent // 2 :] = [key]
        if indent // 2 == len(folders) - 1 and (comment := description.pop(".".join(folders), "")):
            lines.append(f"{' ' * indent}# {comment[0].upper()}{comment[1:]}")
        lines.append(line)
    return "\n".join(lines) + "\n"


def defaults() -> Object:
    """The default of every value, as a tree."""
    tree: Object = {}
    for value in VALUES:
        *folders, name = value.path.split(".")
        node = tree
        for folder in folders:
            node = node.setdefault(folder, {})
        node[name] = copy.deepcopy(value.default)
    return tree


def schema() -> Object:
    """The content of values.schema.json, which refuses unknown names, so that a misspelt name is not ignored.

    Templates check dependencies between values, since they can give clearer messages.
    """
    root: Object = {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Values of the jobset chart"}
    root |= {"type": "object", "additionalProperties": False, "properties": {"global": {"type": "object"}}}
    for value in VALUES:
        *folders, name = value.path.split(".")
        node = root
        for folder in folders:
            empty = {"type": "object", "additionalProperties": False, "properties": {}}
            node = node["properties"].setdefault(folder, empty)
        node["properties"][name] = {"description": value.description, **value.schema}
    return root


def values_table() -> str:
    """The values as a table in Markdown."""
    rows = ["| Value | Default | |", "|---|---|---|"]
    for value in VALUES:
        mark = " **+**" if value.absent_in_go else ""
        rows.append(f"| `{value.path}`{mark} | `{json.dumps(value.default)}` | {value.description} |")
    return "\n".join(rows)
