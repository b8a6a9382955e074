"""What only the chart has: the page of JobSets (`jobset ui`) for a cluster, behind a proxy that asks who it is.

See docs/ui.md#in-the-cluster. The page itself listens on the loopback of its pod, and the proxy alone on the network.
"""

import copy
from typing import Any

import yaml

from api.keys import GROUP, PLURAL, VERSION
from manifests.chart.objects import name, templated, value
from manifests.chart.templates import If, Insert, Raw, Template
from manifests.naming import NAMESPACE, Object, obj
from manifests.workload import CONTAINER_SECURITY, POD_SECURITY

_RBAC = "rbac.authorization.k8s.io"
_NAME = "jobset-ui"
_PORT = 8790
_PROXY_PORT = 8443
_HEALTH_PORT = 8643
_CONFIG_KEY = "config.yaml"
_CONFIG_DIR = "/etc/kube-rbac-proxy"
_TLS_DIR = "/etc/tls"
_TLS = ".Values.ui.tlsSecret"
_SELECTOR: Template = {Insert('include "jobset.ownLabels" .'): None, "control-plane": "ui"}

WHO = {"authorization": {"resourceAttributes": {"apiGroup": GROUP, "apiVersion": VERSION, "resource": PLURAL}}}
"""The proxy's configuration: whoever may get JobSets of all namespaces sees the page."""


def rules() -> list[Object]:
    """What the page reads, and what the proxy asks about those who open it. It changes nothing."""
    look = ["get", "list", "watch"]

    def rule(group: str, resources: str, *verbs: str) -> Object:
        return {"apiGroups": [group], "resources": resources.split(), "verbs": list(verbs)}

    return [
        rule(GROUP, PLURAL, *look),
        rule("batch", "jobs", *look),
        rule("", "pods nodes", *look),
        rule("", "persistentvolumeclaims", "get"),
        rule("storage.k8s.io", "storageclasses", "list"),
        rule("events.k8s.io", "events", "list"),
        rule("scheduling.k8s.io", "podgroups compositepodgroups", "list", "watch"),
        rule("authentication.k8s.io", "tokenreviews", "create"),
        rule("authorization.k8s.io", "subjectaccessreviews", "create"),
    ]


def lease_rules() -> list[Object]:
    """In the manager's namespace: whether there is a manager."""
    return [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get"]}]


def _made(api: str, kind: str, *, namespace: str | None = NAMESPACE, **body: Any) -> Object:
    made: Object = templated(obj(api, kind, _NAME, namespace=namespace))
    made["metadata"]["name"] = name(_NAME)
    return {**made, **body}


def _bound(kind: str, granted: list[Object]) -> list[Object]:
    """A Role or ClusterRole for the page's account."""
    namespace = NAMESPACE if kind == "Role" else None
    account = {"kind": "ServiceAccount", "name": name(_NAME), "namespace": Raw("{{ .Release.Namespace | quote }}")}
    reference = {"apiGroup": _RBAC, "kind": kind, "name": name(_NAME)}
    return [
        _made(f"{_RBAC}/v1", kind, namespace=namespace, rules=granted),
        _made(f"{_RBAC}/v1", f"{kind}Binding", namespace=namespace, roleRef=reference, subjects=[account]),
    ]


def _page() -> Object:
    service = f"{name(_NAME).text}.{{{{ .Release.Namespace }}}}.svc"
    return {
        "name": "ui",
        "image": Raw('"{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"'),
        "imagePullPolicy": Raw("{{ .Values.image.pullPolicy }}"),
        "command": ["/jobset"],
        "args": [
            "ui",
            "--all-namespaces",
            f"--address=127.0.0.1:{_PORT}",
            Raw(f'"--allow-host={service}"'),
            If(".Values.ui.hosts", (Insert('include "jobset.uiHosts" . | trim'),)),
        ],
        "resources": value("ui.resources"),
        "securityContext": copy.deepcopy(CONTAINER_SECURITY),
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108 - the only writable place of the pod
    }


def _proxy() -> Object:
    certificate = [f"--tls-cert-file={_TLS_DIR}/tls.crt", f"--tls-private-key-file={_TLS_DIR}/tls.key"]
    tls = {"name": "tls", "mountPath": _TLS_DIR, "readOnly": True}
    return {
        "name": "proxy",
        "image": Raw('{{ required "ui.proxyImage: the image of kube-rbac-proxy" .Values.ui.proxyImage | quote }}'),
        "imagePullPolicy": Raw("{{ .Values.image.pullPolicy }}"),
        "args": [
            f"--secure-listen-address=:{_PROXY_PORT}",
            f"--proxy-endpoints-port={_HEALTH_PORT}",
            f"--upstream=http://127.0.0.1:{_PORT}/",
            f"--config-file={_CONFIG_DIR}/{_CONFIG_KEY}",
            If(_TLS, tuple(certificate)),
        ],
        "ports": [{"name": "page", "containerPort": _PROXY_PORT, "protocol": "TCP"}],
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": _HEALTH_PORT, "scheme": "HTTPS"}},
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
        "securityContext": copy.deepcopy(CONTAINER_SECURITY),
        "volumeMounts": [{"name": "who", "mountPath": _CONFIG_DIR, "readOnly": True}, If(_TLS, (tls,))],
    }


def _deployment() -> Object:
    tls = {"name": "tls", "secret": {"secretName": Raw("{{ .Values.ui.tlsSecret }}")}}
    optional = {key: f"controller.{key}" for key in ("nodeSelector", "tolerations")}
    optional["imagePullSecrets"] = "image.pullSecrets"
    pod: Template = {
        "serviceAccountName": name(_NAME),
        "securityContext": copy.deepcopy(POD_SECURITY),
        "containers": [_page(), _proxy()],
        "volumes": [
            {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
            {"name": "who", "configMap": {"name": name(_NAME)}},
            If(_TLS, (tls,)),
        ],
        **{If(f".Values.{path}"): {key: value(path)} for key, path in optional.items()},
    }
    labels = {Insert('include "jobset.labels" .'): None, "control-plane": "ui"}
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": dict(_SELECTOR)},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    return _made("apps/v1", "Deployment", spec=spec)


def page() -> list[Any]:
    """Account, read-only rights, Deployment, Service and NetworkPolicy of the page; nothing by default."""
    port = {"port": "page", "protocol": "TCP"}
    service = {"ports": [{**port, "name": "page", "port": 443, "targetPort": "page"}], "selector": dict(_SELECTOR)}
    closed = {
        "podSelector": {"matchLabels": dict(_SELECTOR)},
        "policyTypes": ["Ingress"],
        "ingress": [{"ports": [port]}],
    }
    made = (
        _made("v1", "ServiceAccount"),
        *_bound("ClusterRole", rules()),
        *_bound("Role", lease_rules()),
        _made("v1", "ConfigMap", data={_CONFIG_KEY: yaml.safe_dump(WHO)}),
        _deployment(),
        _made("v1", "Service", spec=service),
        If(".Values.networkPolicy.enabled", (_made("networking.k8s.io/v1", "NetworkPolicy", spec=closed),)),
    )
    return [If(".Values.ui.enable", made)]
