"""The installed objects as templates: the same definitions as install.yaml, with values in some places.

Names that begin with `jobset-` begin with the release's name, but for those of webhook configurations and policies: a
cluster has one JobSet, and the manager finds the configurations by their names.
"""

from typing import Any

import yaml

from manifests.access import (
    config_map_rbac_objects,
    every_rbac_object,
    policy_api_server_rbac_objects,
    policy_rbac_objects,
    policy_report_rbac_objects,
    rbac_objects,
    secret_rbac_objects,
)
from manifests.admission import PODS, policy_webhook_configurations, webhook_configurations
from manifests.chart.templates import If, Insert, Raw, Template
from manifests.definition import crd, exception_crd, policy_crd
from manifests.naming import (
    CONFIG_KEY,
    CONFIG_MAP,
    DEPLOYMENT,
    IMAGE_NAME,
    LABELS,
    METRICS_SERVICE,
    NAMESPACE,
    POD_LABELS,
    SERVICE_ACCOUNT,
    WEBHOOK_SECRET,
    WEBHOOK_SERVICE,
    Object,
)
from manifests.policies import pod_policies
from manifests.reserved import reserved_label_policies
from manifests.workload import CONFIGURATION, manager_objects, webhook_service

_IN_API_SERVER = "and .Values.jobSetPolicies.enable .Values.jobSetPolicies.inAPIServer"
_REPORTS = "and .Values.jobSetPolicies.enable .Values.jobSetPolicies.reports"
CERT_MANAGER = ".Values.certManager.enable"
_CONFIG_MAPS, _SECRETS = ".Values.lookUp.configMaps", ".Values.lookUp.secrets"
_RBAC_NAMES = {each["metadata"]["name"] for each in every_rbac_object()}
_NAMES = {CONFIG_MAP, DEPLOYMENT, METRICS_SERVICE, SERVICE_ACCOUNT, WEBHOOK_SECRET, WEBHOOK_SERVICE, *_RBAC_NAMES}
_PREFIX = f"{IMAGE_NAME}-"
METRICS_SECRET = f"{_PREFIX}metrics-server-cert"
_METRICS_CERT_DIR = "/tmp/k8s-metrics-server/serving-certs"  # noqa: S108 - fixed by the configuration's default

_ONE_WITHOUT_ELECTION = (
    "{{ if and (gt (int .Values.controller.replicas) 1) (not .Values.controller.leaderElection.enable) }}"
    '{{ fail "controller.leaderElection.enable: false is for one replica: with more, each reconciles every JobSet" }}'
    "{{ end }}"
)
"""Before the number of replicas."""


def name(text: str) -> Raw:
    """One of our names as the release has it."""
    return Raw(f'{{{{ include "jobset.fullname" . }}}}-{text.removeprefix(_PREFIX)}')


def value(path: str) -> Insert:
    """A mapping or list of the values."""
    return Insert(f"toYaml .Values.{path}")


def templated(node: Any) -> Any:
    """The same with the names, namespace and labels of the release."""
    if node == POD_LABELS:
        return {Insert('include "jobset.selectorLabels" .'): None}
    if isinstance(node, dict):
        if LABELS.items() <= node.items():
            others = {key: each for key, each in node.items() if key not in LABELS}
            return {Insert('include "jobset.labels" .'): None, **others}
        return {key: templated(each) for key, each in node.items()}
    if isinstance(node, list):
        return [templated(each) for each in node]
    if node == NAMESPACE:
        return Raw("{{ .Release.Namespace | quote }}")
    return name(node) if node in _NAMES else node


def configuration() -> Template:
    """The manager's configuration, before `managerConfiguration` is merged over it."""
    config: Template = templated(yaml.safe_load(CONFIGURATION))
    config["leaderElection"]["leaderElect"] = Raw("{{ .Values.controller.leaderElection.enable }}")
    config["metrics"]["bindAddress"] = Raw('{{ ternary ":8443" "0" .Values.metrics.enable | quote }}')
    config["internalCertManagement"]["enable"] = Raw(f"{{{{ not {CERT_MANAGER} }}}}")
    config["clientConnection"] = value("controller.clientConnection")
    gates = {"featureGates": Insert('include "jobset.featureGates" .')}
    config[If("or .Values.featureGates .Values.jobSetPolicies.enable")] = gates
    config[If(_REPORTS)] = {"policies": {"reports": True}}
    look_up = [If(_CONFIG_MAPS, ("ConfigMaps",)), If(_SECRETS, ("Secrets",))]
    config[If(f"or {_CONFIG_MAPS} {_SECRETS}")] = {"childDryRun": {"lookUp": look_up}}
    config[If(".Values.tls")] = {"tls": value("tls")}
    return config


def _pod_metadata(metadata: Template) -> Template:
    return {
        "annotations": {
            **metadata["annotations"],
            # The manager reads its configuration once, so a change of it replaces the pods.
            "jobset.x-k8s.io/config-hash": Raw('{{ include "jobset.configuration" . | sha256sum | quote }}'),
            If(".Values.controller.excludeWebhookPortFromMesh"): {
                "traffic.sidecar.istio.io/excludeInboundPorts": Raw('{{ include "jobset.webhookPort" . | quote }}')
            },
            If(".Values.controller.podAnnotations"): {value("controller.podAnnotations"): None},
        },
        "labels": {Insert('include "jobset.podLabels" .'): None},
    }


def _container(container: Template) -> Template:
    repository_and_tag = "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
    webhook, metrics = container["ports"]
    return {
        **container,
        "image": Raw(f'"{repository_and_tag}"'),
        "imagePullPolicy": Raw("{{ .Values.image.pullPolicy }}"),
        "ports": [
            {**webhook, "containerPort": Raw('{{ include "jobset.webhookPort" . }}')},
            If(".Values.metrics.enable", (metrics,)),
        ],
        "resources": value("controller.resources"),
        "securityContext": value("controller.securityContext"),
        "volumeMounts": [
            *container["volumeMounts"],
            If(CERT_MANAGER, ({"name": "metrics-cert", "mountPath": _METRICS_CERT_DIR, "readOnly": True},)),
            If(".Values.controller.volumeMounts", (value("controller.volumeMounts"),)),
        ],
        If(".Values.controller.env"): {"env": value("controller.env")},
        If(".Values.controller.envFrom"): {"envFrom": value("controller.envFrom")},
    }


def _pod(pod: Template) -> Template:
    (container,) = pod["containers"]
    certificate = {"name": "metrics-cert", "secret": {"secretName": name(METRICS_SECRET)}}
    spread = ".Values.controller.topologySpreadConstraints"
    optional = {
        "imagePullSecrets": "image.pullSecrets",
        "nodeSelector": "controller.nodeSelector",
        "affinity": "controller.affinity",
        "tolerations": "controller.tolerations",
    }
    return {
        **{key: each for key, each in pod.items() if key != "topologySpreadConstraints"},
        "securityContext": value("controller.podSecurityContext"),
        "containers": [_container(container)],
        "volumes": [
            *pod["volumes"],
            If(CERT_MANAGER, (certificate,)),
            If(".Values.controller.volumes", (value("controller.volumes"),)),
        ],
        If(f'kindIs "invalid" {spread}'): {"topologySpreadConstraints": pod["topologySpreadConstraints"]},
        If(spread): {"topologySpreadConstraints": value("controller.topologySpreadConstraints")},
        If(".Values.controller.priorityClassName"): {
            "priorityClassName": Raw("{{ .Values.controller.priorityClassName }}")
        },
        If(".Values.controller.hostNetwork"): {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"},
        **{If(f".Values.{path}"): {key: value(path)} for key, path in optional.items()},
    }


def _deployment(deployment: Template) -> Template:
    spec, metadata = deployment["spec"], deployment["metadata"]
    template = spec["template"]
    return {
        **deployment,
        "metadata": {
            **metadata,
            "labels": {Insert('include "jobset.podLabels" .'): None},
            If(".Values.controller.annotations"): {"annotations": value("controller.annotations")},
        },
        "spec": {
            **spec,
            "replicas": Raw(f"{_ONE_WITHOUT_ELECTION}{{{{ .Values.controller.replicas }}}}"),
            "template": {"metadata": _pod_metadata(template["metadata"]), "spec": _pod(template["spec"])},
        },
    }


def _config_map(config_map: Template) -> Template:
    included = Raw('|\n    {{- include "jobset.configuration" . | nindent 4 }}')
    return {**config_map, "data": {CONFIG_KEY: included}}


def _budget(budget: Template) -> Template:
    path = ".Values.controller.podDisruptionBudget"
    spec = {key: each for key, each in budget["spec"].items() if key != "maxUnavailable"}
    given = f'kindIs "invalid" {path}.minAvailable'
    return {
        **budget,
        "spec": {
            If(f"not ({given})"): {"minAvailable": Raw(f"{{{{ {path}.minAvailable }}}}")},
            If(given): {"maxUnavailable": Raw(f"{{{{ {path}.maxUnavailable }}}}")},
            **spec,
        },
    }


def _network_policy(policy: Template) -> Template:
    webhooks, metrics = policy["spec"]["ingress"]
    ingress = [
        {**webhooks, If(".Values.networkPolicy.webhookFrom"): {"from": value("networkPolicy.webhookFrom")}},
        If(".Values.metrics.enable", ({"ports": metrics["ports"], "from": value("networkPolicy.metricsFrom")},)),
    ]
    return {**policy, "spec": {**policy["spec"], "ingress": ingress}}


def manager() -> list[Any]:
    """Configuration, Secret, Deployment, Services, disruption budget and network policy."""
    of = {(each["kind"], each["metadata"]["name"]): templated(each) for each in (*manager_objects(), webhook_service())}
    return [
        _config_map(of.pop(("ConfigMap", CONFIG_MAP))),
        If(f"not {CERT_MANAGER}", (of.pop(("Secret", WEBHOOK_SECRET)),)),
        If(".Values.metrics.enable", (of.pop(("Service", METRICS_SERVICE)),)),
        _deployment(of.pop(("Deployment", DEPLOYMENT))),
        If(".Values.controller.podDisruptionBudget.enabled", (_budget(of.pop(("PodDisruptionBudget", DEPLOYMENT))),)),
        If(".Values.networkPolicy.enabled", (_network_policy(of.pop(("NetworkPolicy", DEPLOYMENT))),)),
        *of.values(),
    ]


def rbac() -> list[Any]:
    """The service account and its rights."""
    return [
        *(templated(each) for each in rbac_objects()),
        If(_CONFIG_MAPS, tuple(templated(each) for each in config_map_rbac_objects())),
        If(_SECRETS, tuple(templated(each) for each in secret_rbac_objects())),
    ]


def _kept(definition: Object) -> Object:
    """A CRD that stays when the release goes."""
    kept = {If(".Values.crds.keep"): {"annotations": {"helm.sh/resource-policy": "keep"}}}
    return {**definition, "metadata": {**templated(definition["metadata"]), **kept}}


def definition() -> list[Any]:
    """The CRD as a template, because Helm never upgrades what lies in a chart's folder `crds`."""
    return [If(".Values.crds.enabled", (_kept(crd()),))]


def _configuration(made: Object) -> Object:
    """A webhook configuration without what the manager or cert-manager writes into it."""
    inject = Raw('{{ .Release.Namespace }}/{{ include "jobset.fullname" . }}-webhook-server-cert')
    annotations = {If(CERT_MANAGER): {"annotations": {"cert-manager.io/inject-ca-from": inject}}}
    webhooks = [
        If('eq .Values.podAdmission "webhooks"', (templated(each),)) if each["rules"] == [PODS] else templated(each)
        for each in made["webhooks"]
    ]
    return {**made, "metadata": {**templated(made["metadata"]), **annotations}, "webhooks": webhooks}


def admission() -> list[Any]:
    """The webhook configurations, and policies: in the place of the webhooks of pods, and for the reserved label."""
    gate, affinity = templated(pod_policies("gate")), templated(pod_policies("affinity"))
    account = f"system:serviceaccount:{{{{ .Release.Namespace }}}}:{name(SERVICE_ACCOUNT).text}"
    reserved = templated(reserved_label_policies(Raw(f"\"['{account}']\"")))
    return [
        *(_configuration(made) for made in webhook_configurations()),
        If('eq .Values.podAdmission "policies"', tuple(gate)),
        If('eq .Values.podAdmission "policies-without-manager"', tuple(affinity)),
        If(".Values.reservedLabel.enable", tuple(reserved)),
    ]


def policies() -> list[Any]:
    """What the gate JobSetPolicies needs: the CRD, the manager's rights for it, and the webhooks that check it."""
    wanted = ".Values.jobSetPolicies.enable"
    made = (
        *(templated(each) for each in policy_rbac_objects()),
        *(_configuration(each) for each in policy_webhook_configurations()),
    )
    crds = (_kept(policy_crd()), _kept(exception_crd()))
    reports = tuple(templated(each) for each in policy_report_rbac_objects())
    rights = tuple(templated(each) for each in policy_api_server_rbac_objects())
    return [
        If(f"and {wanted} .Values.crds.enabled", crds),
        If(wanted, made),
        If(_REPORTS, reports),
        If(_IN_API_SERVER, rights),
    ]
