"""Names and labels of the installed objects (docs/reference/manager.md#installed-objects).

The names are API: kustomize patches, scripts and test harnesses of other projects find the objects by these names.
"""

from typing import Any

from api.keys import MANAGER_NAMESPACE

NAMESPACE = MANAGER_NAMESPACE
IMAGE_NAME = "jobset"
IMAGE_TAG = "v0.1.0"
"""The version in pyproject.toml; a test compares them."""

IMAGE = f"{IMAGE_NAME}:{IMAGE_TAG}"
"""Image of the manager. Change it with `images:` in a kustomization on top of `manifests/`."""

DEPLOYMENT = "jobset-controller-manager"
SERVICE_ACCOUNT = "jobset-controller-manager"
CONFIG_MAP = "jobset-manager-config"
CONFIG_KEY = "controller_manager_config.yaml"
WEBHOOK_SERVICE = "jobset-webhook-service"
WEBHOOK_SECRET = "jobset-webhook-server-cert"  # noqa: S105 - the name of a Secret, not a secret
METRICS_SERVICE = "jobset-controller-manager-metrics-service"
MUTATING_CONFIGURATION = "jobset-mutating-webhook-configuration"
VALIDATING_CONFIGURATION = "jobset-validating-webhook-configuration"
POLICY_MUTATING_CONFIGURATION = "jobset-policy-mutating-webhook-configuration"
POLICY_VALIDATING_CONFIGURATION = "jobset-policy-validating-webhook-configuration"

APPLY_CRD = "kubectl apply --server-side --force-conflicts -k manifests/crd"
"""The command that installs only the CRD."""

OTHER_MANAGER = "another program is the manager, and fields that the Go JobSet does not have are stored without effect"
RESTORE_MANAGER = (
    f"kubectl -n {NAMESPACE} get deployments -o wide shows whose image runs; to have this program again, apply its"
    " chart, or kubectl apply --server-side --force-conflicts -f manifests/install.yaml"
)

LABELS = {
    "app.kubernetes.io/name": "jobset",
    "app.kubernetes.io/instance": "jobset",
    "app.kubernetes.io/managed-by": "kustomize",
}
Object = dict[str, Any]
"""A Kubernetes object as JSON."""


def obj(api_version: str, kind: str, name: str, **body: Any) -> Object:
    """A cluster-scoped object with our common labels."""
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "labels": dict(LABELS)}, **body}
