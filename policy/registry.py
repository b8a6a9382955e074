"""All rules of policies. A line of `Rules` registers a rule: its field in the API, its functions and its page. Pure."""

from collections.abc import Mapping
from typing import Final, get_type_hints

import msgspec

from kube.model.meta import Base
from policy.rule import PolicyRule
from policy.rules import (
    amounts,
    baseline,
    failures,
    images,
    management,
    metadata,
    placement,
    resources,
    selection,
    sizes,
    taints,
    times,
    totals,
)


class Rules(Base, frozen=True, kw_only=True):
    """What is demanded of a JobSet. Every rule is optional."""

    required_queue: metadata.RequiredQueueRule = None
    max_totals: totals.MaxTotalsRule = None
    max_replicated_jobs: sizes.MaxReplicatedJobsRule = None
    max_jobs: sizes.MaxJobsRule = None
    max_restarts: failures.MaxRestartsRule = None
    ttl: times.TTLRule = None
    active_deadline: times.ActiveDeadlineRule = None
    priority_classes: placement.PriorityClassesRule = None
    exclusive_topologies: placement.ExclusiveTopologiesRule = None
    image_registries: images.ImageRegistriesRule = None
    images_by_digest: images.ImagesByDigestRule = False
    required_requests: amounts.RequiredRequestsRule = None
    required_limits: amounts.RequiredLimitsRule = None
    allowed_resources: resources.AllowedResourcesRule = None
    required_labels: metadata.RequiredLabelsRule = None
    required_annotations: metadata.RequiredAnnotationsRule = None
    node_selectors: selection.NodeSelectorsRule = None
    tolerations: taints.TolerationsRule = None
    forbid: baseline.ForbidRule = None
    backoff_limit: failures.BackoffLimitRule = None
    network_dns: management.NetworkDNSRule = msgspec.field(name="networkDNS", default="")
    managed_by: management.ManagedByRule = None
    restart_strategies: failures.RestartStrategiesRule = None


RULES: Final[Mapping[str, PolicyRule]] = {
    field: next(item for item in hint.__metadata__ if isinstance(item, PolicyRule))
    for field, hint in get_type_hints(Rules, include_extras=True).items()
}
"""The rules by the name of their field in `Rules`, in the order of the API."""
