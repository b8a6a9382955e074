"""What only the chart has: certificates of cert-manager, and what Prometheus and Grafana need."""

import json
from pathlib import PurePosixPath
from typing import Any

from manifests.alerts import NO_LEADER, prometheus_rule
from manifests.chart.objects import CERT_MANAGER, METRICS_SECRET, name, templated, value
from manifests.chart.templates import If, Insert, Raw
from manifests.naming import METRICS_SERVICE, NAMESPACE, WEBHOOK_SECRET, WEBHOOK_SERVICE, Object, obj

_CERT_MANAGER_API = "cert-manager.io/v1"
_RBAC = "rbac.authorization.k8s.io"
_ISSUER = "jobset-selfsigned-issuer"
_PROMETHEUS = "jobset-prometheus"
_ISSUER_REF = ".Values.certManager.issuerRef"
DASHBOARD_FILE = PurePosixPath("dashboards/jobset.json")
"""Below the chart's folder."""

_READ = ["get", "list", "watch"]
_SELECTED = {
    "app.kubernetes.io/name": Raw('{{ include "jobset.name" . }}'),
    "app.kubernetes.io/instance": Raw("{{ .Release.Name | quote }}"),
}
"""Of `LABELS`, those by which the Services of the release are found."""


def _object(api: str, kind: str, named: str, spec: Object, *, namespace: str | None = NAMESPACE) -> Object:
    made: Object = templated(obj(api, kind, named, namespace=namespace))
    made["metadata"]["name"] = name(named)
    return {**made, **spec}


def _certificate(secret: str, service: str, usages: list[str]) -> Object:
    host = f"{name(service).text}.{{{{ .Release.Namespace }}}}.svc"
    spec = {
        "secretName": name(secret),
        "duration": "8760h",
        "renewBefore": "720h",
        "usages": usages,
        "dnsNames": [Raw(host), Raw(f"{host}.cluster.local")],
        If(f"not {_ISSUER_REF}"): {"issuerRef": {"kind": "Issuer", "name": name(_ISSUER)}},
        If(_ISSUER_REF): {"issuerRef": Insert(f"toYaml {_ISSUER_REF}")},
    }
    return _object(_CERT_MANAGER_API, "Certificate", secret, {"spec": spec})


def certificates() -> list[Any]:
    """The serving certificates of webhooks and metrics, and a self-signed issuer if no other is named."""
    issuer = _object(_CERT_MANAGER_API, "Issuer", _ISSUER, {"spec": {"selfSigned": {}}})
    made = [
        _certificate(WEBHOOK_SECRET, WEBHOOK_SERVICE, ["server auth"]),
        _certificate(METRICS_SECRET, METRICS_SERVICE, ["server auth", "client auth"]),
    ]
    return [If(f"and {CERT_MANAGER} (not {_ISSUER_REF})", (issuer,)), If(CERT_MANAGER, tuple(made))]


def _service_monitor() -> Object:
    client = Raw("{{ .Values.prometheus.prometheusClientCertSecretName }}")
    verified = {
        "ca": {"secret": {"name": name(METRICS_SECRET), "key": "ca.crt"}},
        "cert": {"secret": {"name": client, "key": "tls.crt"}},
        "keySecret": {"name": client, "key": "tls.key"},
        "serverName": Raw(f"{name(METRICS_SERVICE).text}.{{{{ .Release.Namespace }}}}.svc"),
    }
    endpoint = {
        "port": "https",
        "path": "/metrics",
        "scheme": "https",
        "bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
        "tlsConfig": {If(CERT_MANAGER): verified, If(f"not {CERT_MANAGER}"): {"insecureSkipVerify": True}},
    }
    spec = {"selector": {"matchLabels": dict(_SELECTED)}, "endpoints": [endpoint]}
    return _object("monitoring.coreos.com/v1", "ServiceMonitor", _PROMETHEUS, {"spec": spec})


def _granted(kind: str, role: str, accounts: list[str], namespace: str | None) -> Object:
    subjects = [
        {"kind": "ServiceAccount", "name": each, "namespace": Raw("{{ .Values.prometheus.prometheusNamespace }}")}
        for each in accounts
    ]
    reference = {"apiGroup": _RBAC, "kind": kind, "name": name(role)}
    body = {"roleRef": reference, "subjects": subjects}
    return _object(f"{_RBAC}/v1", f"{kind}Binding", _PROMETHEUS, body, namespace=namespace)


def _text(text: str) -> Raw:
    """A text with the release's own Service of the metrics. Prometheus fills in `{{ }}` later, not Helm."""
    kept = json.dumps(text).replace("{{", '{{ "{{" }}')
    return Raw(kept.replace(METRICS_SERVICE, name(METRICS_SERVICE).text))


def _alerts() -> Object:
    """The PrometheusRule, with an alert about the leader only where one is elected."""
    made = prometheus_rule()
    (group,) = made["spec"]["groups"]
    rules = []
    for rule in group["rules"]:
        texts = {"expr": _text(rule["expr"]), "annotations": {k: _text(v) for k, v in rule["annotations"].items()}}
        only = rule["alert"] == NO_LEADER
        rules.append(If(".Values.controller.leaderElection.enable", (rule | texts,)) if only else rule | texts)
    spec = {"groups": [{**group, "rules": rules}]}
    return _object(made["apiVersion"], made["kind"], made["metadata"]["name"], {"spec": spec})


def _dashboard() -> Object:
    """The ConfigMap in which the sidecar of Grafana's charts finds the dashboard."""
    made = _object("v1", "ConfigMap", "jobset-dashboard", {})
    labels = {**made["metadata"]["labels"], If(".Values.dashboard.labels"): {value("dashboard.labels"): None}}
    annotations = {If(".Values.dashboard.annotations"): {"annotations": value("dashboard.annotations")}}
    # A file of its own: Helm would take the names of labels in its legends for a template.
    data = {DASHBOARD_FILE.name: Raw(f'|\n    {{{{- .Files.Get "{DASHBOARD_FILE}" | nindent 4 }}}}')}
    return {**made, "metadata": {**made["metadata"], "labels": labels, **annotations}, "data": data}


def monitoring() -> list[Any]:
    """The ServiceMonitor and the rights to find the pods and to read their metrics; the alerts; the dashboard."""
    find: Object = {"rules": [{"apiGroups": [""], "resources": ["services", "endpoints", "pods"], "verbs": _READ}]}
    made = (
        _service_monitor(),
        _object(f"{_RBAC}/v1", "Role", _PROMETHEUS, find),
        _granted("Role", _PROMETHEUS, ["prometheus-k8s", "prometheus-operator"], NAMESPACE),
        _granted("ClusterRole", "jobset-metrics-reader", ["prometheus-k8s"], None),
    )
    return [
        If("and .Values.prometheus.enable .Values.metrics.enable", made),
        If("and .Values.prometheus.alerts.enable .Values.metrics.enable", (_alerts(),)),
        If("and .Values.dashboard.enable .Values.metrics.enable", (_dashboard(),)),
    ]
