"""Lists the installed objects, depending on who admits pods and where the manager runs.

See docs/reference/manager.md#installed-objects.
"""

from typing import Literal

from manifests.admission import policy_webhook_configurations, webhook_configurations
from manifests.definition import crd, exception_crd, policy_crd
from manifests.naming import Object
from manifests.objects import RBAC, objects
from manifests.policies import pod_policies

MANAGER = "manager/manager.yaml"
"""Configuration, Secret, metrics Service, Deployment, PodDisruptionBudget and NetworkPolicy."""
WEBHOOK_SERVICE = "webhook/service.yaml"

PodAdmission = Literal["webhooks", "policies", "policies-without-manager"]
"""Who admits pods of JobSets: the webhooks of the manager, or one of the two variants of `pod_policies`."""


def pod_admission(pods: PodAdmission, *, url_base: str | None = None, ca_bundle: bytes | None = None) -> list[Object]:
    """The policies that replace the pod webhooks, if any, followed by the webhook configurations."""
    webhooks = webhook_configurations(url_base=url_base, ca_bundle=ca_bundle, pods=pods == "webhooks")
    if pods == "webhooks":
        return webhooks
    return [*pod_policies("gate" if pods == "policies" else "affinity"), *webhooks]


def policy_objects(*, webhook_url: str | None = None) -> list[Object]:
    """The additional objects for JobSetPolicies. `webhook_url` is the same as in `install_objects`."""
    webhooks = policy_webhook_configurations(url_base=webhook_url)
    return [policy_crd(), exception_crd(), *objects("policy/rbac.yaml"), *webhooks]


def install_objects(
    *, webhook_url: str | None = None, ca_bundle: bytes | None = None, pods: PodAdmission = "webhooks"
) -> list[Object]:
    """All installed objects, in the order in which they can be applied.

    With `webhook_url` (see `webhook_configurations`) the manager runs outside the cluster. Then Deployment, its
    ConfigMap, disruption budget, network policy and both Services are left out.
    """
    workload = objects(MANAGER, WEBHOOK_SERVICE)
    if webhook_url is not None:
        workload = [each for each in workload if each["kind"] == "Secret"]
    admission = pod_admission(pods, url_base=webhook_url, ca_bundle=ca_bundle)
    return [*objects("manager/namespace.yaml"), crd(), *objects(RBAC), *workload, *admission]
