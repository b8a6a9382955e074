"""The chart's templates of installed objects: the YAML of the objects with names, labels and values of the release.

Each public function returns the text of one template. A text that is replaced has to occur exactly once in the YAML, so
that no change of an object is missed in the chart.
"""

import re
import textwrap
from collections.abc import Iterable
from typing import Any

from kube.model.versions import POD_POLICIES
from manifests.admission import is_about_pods, policy_webhook_configurations, webhook_configurations
from manifests.definition import crd, exception_crd, policy_crd
from manifests.naming import (
    CONFIG_KEY,
    CONFIG_MAP,
    DEPLOYMENT,
    IMAGE,
    IMAGE_NAME,
    METRICS_SERVICE,
    NAMESPACE,
    WEBHOOK_SECRET,
    WEBHOOK_SERVICE,
    Object,
)
from manifests.objects import RBAC, every_rbac_object, objects
from manifests.policies import pod_policies
from manifests.text import yaml_text
from manifests.workload import MANAGER
from manifests.workload import WEBHOOK_SERVICE as SERVICE_FILE

NO_LEADER = "JobSetNoLeader"
"""The alert that requires leader election."""
_LINE_WIDTH = 100_000
"""More characters than any line has. So no line is folded, and the YAML of a part occurs in the YAML of its object."""

_RBAC_NAMES = {each["metadata"]["name"] for each in every_rbac_object()}
_NAMES = _RBAC_NAMES | {CONFIG_MAP, DEPLOYMENT, METRICS_SERVICE, WEBHOOK_SECRET, WEBHOOK_SERVICE, "jobset-alerts"}
"""Names whose prefix `jobset-` is replaced by the name of the release. Names of webhook configurations and policies
stay, since a cluster has one manager of JobSets, which finds the configurations by name."""

_NAME = re.compile(rf"(?<![\w-]){IMAGE_NAME}-({'|'.join(name.removeprefix('jobset-') for name in _NAMES)})(?![\w-])")
_LABELS = re.compile(
    r"(?P<key> (?:labels|matchLabels|selector):\n)(?P<indent> +)app\.kubernetes\.io/name: jobset\n"
    r" +app\.kubernetes\.io/instance: jobset\n(?: +app\.kubernetes\.io/managed-by: kustomize\n)?"
    r"(?P<pod> +control-plane: controller-manager\n)?"
)

_METADATA_LABELS = '    {{- include "jobset.labels" . | nindent 4 }}\n'
_KEEP_CRD = """\
  {{- if .Values.crds.keep }}
  annotations:
    helm.sh/resource-policy: keep
  {{- end }}
"""
_INJECT_AUTHORITY = """\
  {{- if .Values.certManager.enable }}
  annotations:
    cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/{{ include "jobset.fullname" . }}-webhook-server-cert
  {{- end }}
"""


def release_template(documents: Iterable[Object]) -> str:
    """The YAML documents of the objects, with the names, namespace and labels of the release."""
    return "".join(f"---\n{_insert_release(_escaped_yaml(document))}" for document in documents)


def release_template_if(condition: str, *paths: str) -> str:
    """The template of the objects in files, which is rendered if the condition holds."""
    return render_if(condition, release_template(objects(*paths)))


def render_if(condition: str, text: str) -> str:
    """A template that renders `text` if the condition holds."""
    return f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n"


def _escaped_yaml(node: Any) -> str:
    """The YAML, in which `{{`, such as in alerts of Prometheus, is escaped for Helm."""
    return yaml_text(node, _LINE_WIDTH).replace("{{", '{{ "{{" }}')


def _insert_release(text: str) -> str:
    text = _LABELS.sub(_release_labels, text)
    text = _NAME.sub(r'{{ include "jobset.fullname" . }}-\1', text)
    text = re.sub(rf"(?<=: |- ){NAMESPACE}$", "{{ .Release.Namespace | quote }}", text, flags=re.MULTILINE)
    return re.sub(rf"(?<![\w-]){NAMESPACE}(?![\w-])", "{{ .Release.Namespace }}", text)


def _release_labels(match: re.Match[str]) -> str:
    key, indent, pod = match["key"], match["indent"], match["pod"]
    name = "labels" if not pod else "podLabels" if key == " labels:\n" else "selectorLabels"
    return f'{key}{indent}{{{{- include "jobset.{name}" . | nindent {len(indent)} }}}}\n'


def _replace_once(text: str, *pairs: tuple[str, str]) -> str:
    """The text, with the first of each pair replaced by the second. Raises ValueError if the first is not unique."""
    for old, new in pairs:
        if text.count(old) != 1:
            raise ValueError(f"the chart replaces {old!r}, which occurs {text.count(old)} times in\n{text}")
        text = text.replace(old, new)
    return text


def _lines_of_key(text: str, key: str) -> str:
    """The line of a key, and the lines below it. `key` includes its indentation."""
    indent = " " * (len(key) - len(key.lstrip()))
    (lines,) = re.findall(rf"^{key}:\n(?:{indent}[ -].*\n)+", text, re.MULTILINE)
    return str(lines)


def _values_lines(key: str, path: str) -> str:
    """The lines of a key with a mapping or list from the chart's values. `path` is the path of the value."""
    indent = len(key) - len(key.lstrip()) + 2
    return f"{key}:\n{' ' * indent}{{{{- toYaml .Values.{path} | nindent {indent} }}}}\n"


def _optional_lines(key: str, path: str) -> str:
    """The lines of a key with a value of the chart, which are left out if the value is empty."""
    indent = " " * (len(key) - len(key.lstrip()))
    return f"{indent}{{{{- if .Values.{path} }}}}\n{_values_lines(key, path)}{indent}{{{{- end }}}}\n"


def configuration() -> str:
    """The template `jobset.madeConfiguration`: the manager's configuration without the value `managerConfiguration`."""
    config_text: str = objects(MANAGER)[0]["data"][CONFIG_KEY]
    text = _replace_once(
        config_text,
        ("bindAddress: :8443", 'bindAddress: {{ ternary ":8443" "0" .Values.metrics.enable | quote }}'),
        ("leaderElect: true", "leaderElect: {{ .Values.controller.leaderElection.enable }}"),
        ("  enable: true", "  enable: {{ not .Values.certManager.enable }}"),
        (
            _lines_of_key(config_text, "clientConnection"),
            _values_lines("clientConnection", "controller.clientConnection"),
        ),
    )
    optional = '{{- include "jobset.optionalConfiguration" . }}'
    return f'{{{{- define "jobset.madeConfiguration" -}}}}\n{_insert_release(text)}{optional}\n{{{{- end }}}}\n'


_REPLICAS = (
    "  replicas: {{ if and (gt (int .Values.controller.replicas) 1) (not .Values.controller.leaderElection.enable) }}"
    '{{ fail "controller.leaderElection.enable: false is for one replica: with more, each reconciles every JobSet" }}'
    "{{ end }}{{ .Values.controller.replicas }}\n"
)
# The manager reads its configuration once, so the pods are replaced when it changes.
_POD_ANNOTATIONS = """\
        jobset.x-k8s.io/config-hash: {{ include "jobset.configuration" . | sha256sum | quote }}
        {{- if .Values.controller.excludeWebhookPortFromMesh }}
        traffic.sidecar.istio.io/excludeInboundPorts: {{ include "jobset.webhookPort" . | quote }}
        {{- end }}
        {{- with .Values.controller.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
"""
_MOUNTS = """\
        {{- if .Values.certManager.enable }}
        - name: metrics-cert
          mountPath: /tmp/k8s-metrics-server/serving-certs
          readOnly: true
        {{- end }}
        {{- with .Values.controller.volumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
"""
_VOLUMES = """\
      {{- if .Values.certManager.enable }}
      - name: metrics-cert
        secret:
          secretName: {{ include "jobset.fullname" . }}-metrics-server-cert
      {{- end }}
      {{- with .Values.controller.volumes }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
      {{- with .Values.controller.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- if .Values.controller.hostNetwork }}
      hostNetwork: true
      dnsPolicy: ClusterFirstWithHostNet
      {{- end }}
"""


def _deployment(deployment: Object) -> str:
    text = release_template([deployment])
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    metrics_port = textwrap.indent(yaml_text([container["ports"][1]]), "        ")
    mounts = _lines_of_key(text, "        volumeMounts")
    spread, volumes = _lines_of_key(text, "      topologySpreadConstraints"), _lines_of_key(text, "      volumes")
    environment = "".join(_optional_lines(f"        {key}", f"controller.{key}") for key in ("env", "envFrom"))
    no_spread = 'kindIs "invalid" .Values.controller.topologySpreadConstraints'
    labels = '    {{- include "jobset.podLabels" . | nindent 4 }}\n'
    return _replace_once(
        text,
        (f"{labels}spec:\n", f"{labels}{_optional_lines('  annotations', 'controller.annotations')}spec:\n"),
        (f"  replicas: {deployment['spec']['replicas']}\n", _REPLICAS),
        ("container: manager\n", f"container: manager\n{_POD_ANNOTATIONS}"),
        (IMAGE, '"{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"'),
        (f"PullPolicy: {container['imagePullPolicy']}", "PullPolicy: {{ .Values.image.pullPolicy }}"),
        ("containerPort: 9443", 'containerPort: {{ include "jobset.webhookPort" . }}'),
        (metrics_port, render_if(".Values.metrics.enable", metrics_port)),
        (_lines_of_key(text, "        resources"), _values_lines("        resources", "controller.resources")),
        (
            _lines_of_key(text, "        securityContext"),
            _values_lines("        securityContext", "controller.securityContext"),
        ),
        (
            _lines_of_key(text, "      securityContext"),
            _values_lines("      securityContext", "controller.podSecurityContext"),
        ),
        (mounts, mounts + _MOUNTS + environment),
        (
            spread,
            render_if(no_spread, spread)
            + _optional_lines("      topologySpreadConstraints", "controller.topologySpreadConstraints"),
        ),
        (
            volumes,
            volumes
            + _VOLUMES
            + _optional_lines("      imagePullSecrets", "image.pullSecrets")
            + "".join(
                _optional_lines(f"      {key}", f"controller.{key}")
                for key in ("nodeSelector", "affinity", "tolerations")
            ),
        ),
    )


def _budget(budget: Object) -> str:
    path = ".Values.controller.podDisruptionBudget"
    allowed_disruption = (
        f'{{{{- if kindIs "invalid" {path}.minAvailable }}}}\n  maxUnavailable: {{{{ {path}.maxUnavailable }}}}\n'
        f"{{{{- else }}}}\n  minAvailable: {{{{ {path}.minAvailable }}}}\n{{{{- end }}}}\n"
    )
    return _replace_once(
        release_template([budget]), (f"  maxUnavailable: {budget['spec']['maxUnavailable']}\n", allowed_disruption)
    )


def _network_policy(policy: Object) -> str:
    text = release_template([policy])
    metrics = "  - " + textwrap.indent(yaml_text(policy["spec"]["ingress"][1]), "    ").lstrip()
    peers = _lines_of_key(metrics.replace("-", " ", 1), "    from")
    metrics_with_peers = metrics.replace(peers[4:], _values_lines("    from", "networkPolicy.metricsFrom")[4:])
    webhooks = "    - port: webhook-server\n      protocol: TCP\n"
    return _replace_once(
        text,
        (metrics, render_if(".Values.metrics.enable", metrics_with_peers)),
        (webhooks, webhooks + _optional_lines("    from", "networkPolicy.webhookFrom")),
    )


def _config_map(config_map: Object) -> str:
    text = release_template([config_map | {"data": {CONFIG_KEY: "CONFIGURATION"}}])
    return _replace_once(text, ("CONFIGURATION", '|\n    {{- include "jobset.configuration" . | nindent 4 }}'))


def manager() -> str:
    """The template of configuration, Secret, Services, Deployment, disruption budget and network policy."""
    config_map, secret, metrics_service, deployment, budget, policy = objects(MANAGER)
    return (
        _config_map(config_map)
        + render_if("not .Values.certManager.enable", release_template([secret]))
        + render_if(".Values.metrics.enable", release_template([metrics_service]))
        + _deployment(deployment)
        + render_if(".Values.controller.podDisruptionBudget.enabled", _budget(budget))
        + render_if(".Values.networkPolicy.enabled", _network_policy(policy))
        + release_template(objects(SERVICE_FILE))
    )


def rbac() -> str:
    """The template of the service account and its rights."""
    return (
        release_template(objects(RBAC))
        + release_template_if(".Values.lookUp.configMaps", "references/config-maps.yaml")
        + release_template_if(".Values.lookUp.secrets", "references/secrets.yaml")
    )


def _annotate(text: str, annotations: str) -> str:
    return text.replace(_METADATA_LABELS, _METADATA_LABELS + annotations, 1)


def definitions(*crds: Object) -> str:
    """The template of CRDs, which is not in the chart's folder `crds`, because Helm never upgrades this folder."""
    return "".join(_annotate(release_template([crd_object]), _KEEP_CRD) for crd_object in crds)


def _webhook_configuration(configuration: Object) -> str:
    """The template of a webhook configuration, without the fields that the manager or cert-manager writes."""
    text = _annotate(release_template([configuration]), _INJECT_AUTHORITY)
    pod_hooks = (
        _insert_release(yaml_text([hook], _LINE_WIDTH)) for hook in configuration["webhooks"] if is_about_pods(hook)
    )
    return _replace_once(text, *((hook, render_if('eq .Values.podAdmission "webhooks"', hook)) for hook in pod_hooks))


_SERVER_VERSION = ".Capabilities.KubeVersion.Version"


def admission() -> str:
    """The template of webhook configurations, and of policies that replace pod webhooks or guard the reserved label."""
    major, minor = POD_POLICIES.since
    too_old = f'and (ne .Values.podAdmission "webhooks") (semverCompare "<{major}.{minor}-0" {_SERVER_VERSION})'
    message = f"podAdmission: {POD_POLICIES.need}. `helm template` takes the version from --kube-version, here it is"
    return (
        render_if(too_old, f'{{{{- fail (print "{message} " {_SERVER_VERSION}) }}}}\n')
        + "".join(map(_webhook_configuration, webhook_configurations()))
        + render_if('eq .Values.podAdmission "policies"', release_template(pod_policies("gate")))
        + render_if('eq .Values.podAdmission "policies-without-manager"', release_template(pod_policies("affinity")))
        + release_template_if(".Values.reservedLabel.enable", "reserved-label/policies.yaml")
    )


def policies() -> str:
    """The template of the objects for the feature gate JobSetPolicies: CRDs, rights of the manager, and webhooks."""
    enabled = ".Values.jobSetPolicies.enable"
    webhooks = "".join(map(_webhook_configuration, policy_webhook_configurations()))
    return (
        render_if(f"and {enabled} .Values.crds.enabled", definitions(policy_crd(), exception_crd()))
        + render_if(enabled, release_template(objects("policy/rbac.yaml")) + webhooks)
        + release_template_if(f"and {enabled} .Values.jobSetPolicies.reports", "policy-reports/rbac.yaml")
        + release_template_if(f"and {enabled} .Values.jobSetPolicies.inAPIServer", "policy-in-api-server/rbac.yaml")
    )


def alerts() -> str:
    """The template of the PrometheusRule. Its alert about the leader needs leader election."""
    (rule,) = objects("prometheus/alerts.yaml")
    (no_leader,) = (each for each in rule["spec"]["groups"][0]["rules"] if each["alert"] == NO_LEADER)
    item = textwrap.indent(_insert_release(_escaped_yaml([no_leader])), "    ")
    text = _replace_once(release_template([rule]), (item, render_if(".Values.controller.leaderElection.enable", item)))
    text = text.replace("runbook_url: ", "runbook_url: {{ .Values.prometheus.alerts.runbooks }}")
    return render_if("and .Values.prometheus.alerts.enable .Values.metrics.enable", text)


def template_files() -> dict[str, str]:
    """The text of each generated template, by its name below templates/."""
    return {
        "_configuration.tpl": configuration(),
        "admission.yaml": admission(),
        "alerts.yaml": alerts(),
        "crd.yaml": render_if(".Values.crds.enabled", definitions(crd())),
        "manager.yaml": manager(),
        "policies.yaml": policies(),
        "rbac.yaml": rbac(),
    }
