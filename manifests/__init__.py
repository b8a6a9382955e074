"""What is installed into a cluster: CRD, RBAC, webhook configurations and the manager's workload.

The committed YAML in this directory is generated from here (`python -m manifests`), and tests, the demo and `jobset`
commands take the same objects as Python values. Only the refresh of the embedded Kubernetes schema talks to a cluster.
"""

from manifests.access import (
    config_map_rbac_objects,
    every_rbac_object,
    policy_api_server_rbac_objects,
    policy_rbac_objects,
    policy_report_rbac_objects,
    rbac_objects,
    secret_rbac_objects,
)
from manifests.admission import webhook_configurations
from manifests.definition import crd
from manifests.naming import IMAGE, NAMESPACE, SERVICE_ACCOUNT
from manifests.policies import pod_policies
from manifests.workload import PodAdmission, install_objects, policy_objects

__all__ = [
    "IMAGE",
    "NAMESPACE",
    "SERVICE_ACCOUNT",
    "PodAdmission",
    "config_map_rbac_objects",
    "crd",
    "every_rbac_object",
    "install_objects",
    "pod_policies",
    "policy_api_server_rbac_objects",
    "policy_objects",
    "policy_rbac_objects",
    "policy_report_rbac_objects",
    "rbac_objects",
    "secret_rbac_objects",
    "webhook_configurations",
]
