"""The installed objects: CRD, RBAC, webhook configurations and the manager's workload.

The YAML files in this directory are their source. `python -m manifests` generates the other files: CRDs, admission
policies that replace webhooks, and install.yaml. Tests, the demo and `jobset` commands use the same objects as Python
values. Only the refresh of the embedded Kubernetes schema talks to a cluster.
"""

from manifests.admission import webhook_configurations
from manifests.definition import crd
from manifests.naming import IMAGE, NAMESPACE, SERVICE_ACCOUNT
from manifests.objects import every_rbac_object, objects
from manifests.policies import pod_policies
from manifests.workload import PodAdmission, install_objects, policy_objects

__all__ = [
    "IMAGE",
    "NAMESPACE",
    "SERVICE_ACCOUNT",
    "PodAdmission",
    "crd",
    "every_rbac_object",
    "install_objects",
    "objects",
    "pod_policies",
    "policy_objects",
    "webhook_configurations",
]
