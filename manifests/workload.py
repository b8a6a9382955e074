"""The manager's own objects: namespace, Deployment, Services, configuration, Secret.

See docs/reference/manager.md#installed-objects.

The pod fits the `restricted` Pod Security Standard and the namespace enforces it. Fields that are written at run time
(the Secret's data, the webhooks' caBundle) are never rendered, so that no installer fights the manager for them.
"""

import copy
from typing import Literal

from manifests.access import policy_rbac_objects, rbac_objects
from manifests.admission import policy_webhook_configurations, webhook_configurations
from manifests.availability import (
    GRACE_SECONDS,
    LIFECYCLE,
    REPLICAS,
    ROLLOUT,
    disruption_budget,
    network_policy,
    topology_spread,
)
from manifests.definition import crd, exception_crd, policy_crd
from manifests.naming import (
    CONFIG_KEY,
    CONFIG_MAP,
    DEPLOYMENT,
    IMAGE,
    METRICS_SERVICE,
    NAMESPACE,
    POD_LABELS,
    SERVICE_ACCOUNT,
    WEBHOOK_SECRET,
    WEBHOOK_SERVICE,
    Object,
    obj,
)
from manifests.policies import pod_policies

_CERT_DIR = "/tmp/k8s-webhook-server/serving-certs"  # noqa: S108 - fixed by the configuration's default
CONFIGURATION = f"""\
apiVersion: config.jobset.x-k8s.io/v1alpha1
kind: Configuration
health:
  healthProbeBindAddress: :8081
metrics:
  bindAddress: :8443
webhook:
  port: 9443
leaderElection:
  leaderElect: true
internalCertManagement:
  enable: true
  webhookServiceName: {WEBHOOK_SERVICE}
  webhookSecretName: {WEBHOOK_SECRET}
clientConnection:
  qps: 500
  burst: 500
"""
RESOURCES: Object = {"requests": {"cpu": "500m", "memory": "128Mi"}, "limits": {"memory": "4Gi"}}
POD_SECURITY: Object = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
CONTAINER_SECURITY: Object = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}

_SERVING_PAIR = {
    "secretName": WEBHOOK_SECRET,
    # Never the key of the CA. The Secret is installed empty: a pod must not wait for what its manager will write.
    "items": [{"key": name, "path": name} for name in ("tls.crt", "tls.key")],
    "optional": True,
}


def namespace() -> Object:
    """The namespace, closed to pods that do not fit the `restricted` standard."""
    created = obj("v1", "Namespace", NAMESPACE, namespace=None)
    created["metadata"]["labels"] |= {
        "control-plane": "controller-manager",
        "pod-security.kubernetes.io/enforce": "restricted",
    }
    return created


def _container() -> Object:
    return {
        "name": "manager",
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/manager"],
        "args": [f"--config=/{CONFIG_KEY}", "--zap-log-level=2"],
        "ports": [
            {"name": "webhook-server", "containerPort": 9443, "protocol": "TCP"},
            {"name": "https", "containerPort": 8443, "protocol": "TCP"},
        ],
        "lifecycle": copy.deepcopy(LIFECYCLE),
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": 8081},
            "initialDelaySeconds": 30,
            "periodSeconds": 20,
        },
        # A second after its start a manager is ready, and pods behind the Service of the webhooks are few: the kubelet
        # looks often. As before it takes 30 s of failures to be taken out of it.
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": 8081},
            "periodSeconds": 1,
            "failureThreshold": 30,
        },
        "resources": copy.deepcopy(RESOURCES),
        "securityContext": copy.deepcopy(CONTAINER_SECURITY),
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the only writable place of the pod
            {"name": "cert", "mountPath": _CERT_DIR, "readOnly": True},
            {"name": "manager-config", "mountPath": f"/{CONFIG_KEY}", "subPath": CONFIG_KEY, "readOnly": True},
        ],
    }


def _deployment() -> Object:
    deployment = obj("apps/v1", "Deployment", DEPLOYMENT)
    deployment["metadata"]["labels"] = dict(POD_LABELS)
    deployment["spec"] = {
        "replicas": REPLICAS,
        "strategy": copy.deepcopy(ROLLOUT),
        "selector": {"matchLabels": dict(POD_LABELS)},
        "template": {
            "metadata": {
                "annotations": {"kubectl.kubernetes.io/default-container": "manager"},
                "labels": dict(POD_LABELS),
            },
            "spec": {
                "serviceAccountName": SERVICE_ACCOUNT,
                "securityContext": copy.deepcopy(POD_SECURITY),
                "containers": [_container()],
                "terminationGracePeriodSeconds": GRACE_SECONDS,
                "topologySpreadConstraints": topology_spread(),
                "volumes": [
                    {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
                    {"name": "cert", "secret": _SERVING_PAIR},
                    {"name": "manager-config", "configMap": {"name": CONFIG_MAP}},
                ],
            },
        },
    }
    return deployment


def _service(name: str, port: Object) -> Object:
    return obj("v1", "Service", name, spec={"ports": [port], "selector": dict(POD_LABELS)})


def manager_objects() -> list[Object]:
    """Configuration, Secret and Deployment with what keeps it available, and the Service of the metrics."""
    return [
        obj("v1", "ConfigMap", CONFIG_MAP, data={CONFIG_KEY: CONFIGURATION}),
        obj("v1", "Secret", WEBHOOK_SECRET),
        _service(METRICS_SERVICE, {"name": "https", "port": 8443, "protocol": "TCP", "targetPort": "https"}),
        _deployment(),
        disruption_budget(),
        network_policy(),
    ]


def webhook_service() -> Object:
    """The Service behind which the webhooks of all replicas are found."""
    return _service(
        WEBHOOK_SERVICE, {"name": "webhook", "port": 443, "protocol": "TCP", "targetPort": "webhook-server"}
    )


PodAdmission = Literal["webhooks", "policies", "policies-without-manager"]
"""Who admits pods of JobSets: the manager, or the API server, in either variant of `pod_policies`."""


def pod_admission(pods: PodAdmission, *, url_base: str | None = None, ca_bundle: bytes | None = None) -> list[Object]:
    """The webhook configurations (see there), with the policies in front that stand in for the webhooks of pods."""
    webhooks = webhook_configurations(url_base=url_base, ca_bundle=ca_bundle, pods=pods == "webhooks")
    if pods == "webhooks":
        return webhooks
    return [*pod_policies("gate" if pods == "policies" else "affinity"), *webhooks]


def policy_objects(*, webhook_url: str | None = None) -> list[Object]:
    """What is installed beside that for JobSetPolicies. `webhook_url`: as for `install_objects`."""
    return [policy_crd(), exception_crd(), *policy_rbac_objects(), *policy_webhook_configurations(url_base=webhook_url)]


def install_objects(
    *, webhook_url: str | None = None, ca_bundle: bytes | None = None, pods: PodAdmission = "webhooks"
) -> list[Object]:
    """All that is installed, in the order in which it can be applied.

    With `webhook_url` (see `webhook_configurations`) the manager runs outside the cluster: Deployment, its ConfigMap,
    disruption budget, network policy and both Services are left out; namespace, Secret, service account, RBAC, CRD,
    webhooks and policies stay.
    """
    workload = [*manager_objects(), webhook_service()]
    if webhook_url is not None:
        workload = [o for o in workload if o["kind"] == "Secret"]
    admission = pod_admission(pods, url_base=webhook_url, ca_bundle=ca_bundle)
    return [namespace(), crd(), *rbac_objects(), *workload, *admission]
