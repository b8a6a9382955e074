"""Which rules the API server can hold by itself, and how far that is what the rule says. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from policy.compiled import containers, failures, images, metadata, placement, resources, totals
from policy.compiled.cel import Say
from policy.compiled.words import Compiled


class Fit(Enum):
    """How the verdict of a compiled rule compares with that of the rule."""

    EXACT = "exact"
    STRICTER = "approximate: may refuse more"
    LAXER = "approximate: may refuse less"
    CANNOT = "cannot be expressed"


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """`write` makes CEL of what a policy demands. `note`: in which cases a verdict differs, or where its words do."""

    write: Callable[[Any, Say], Compiled]
    fit: Fit = Fit.EXACT
    note: str = ""


COMPILED: Mapping[str, CompiledRule] = {
    "requiredQueue": CompiledRule(metadata.required_queue),
    "maxTotals": CompiledRule(
        totals.max_totals,
        Fit.STRICTER,
        "exact for totals below 2P of cpu and 2E of everything else. Larger ones exceed every limit",
    ),
    "maxReplicatedJobs": CompiledRule(totals.max_replicated_jobs),
    "maxJobs": CompiledRule(totals.max_jobs),
    "maxRestarts": CompiledRule(failures.max_restarts),
    "ttl": CompiledRule(failures.ttl),
    "activeDeadline": CompiledRule(failures.active_deadline),
    "priorityClasses": CompiledRule(placement.priority_classes),
    "exclusiveTopologies": CompiledRule(placement.exclusive_topologies),
    "imageRegistries": CompiledRule(images.image_registries),
    "imagesByDigest": CompiledRule(images.images_by_digest),
    "requiredRequests": CompiledRule(containers.required_requests),
    "requiredLimits": CompiledRule(containers.required_limits),
    "allowedResources": CompiledRule(resources.allowed_resources),
    "requiredLabels": CompiledRule(metadata.required_labels),
    "requiredAnnotations": CompiledRule(metadata.required_annotations),
    "nodeSelectors": CompiledRule(placement.node_selectors),
    "tolerations": CompiledRule(placement.tolerations),
    "forbid": CompiledRule(containers.forbid),
    "backoffLimit": CompiledRule(failures.backoff_limit),
    "networkDNS": CompiledRule(failures.network_dns),
    "managedBy": CompiledRule(failures.managed_by),
    "restartStrategies": CompiledRule(failures.restart_strategies),
}
"""By the name of the rule."""
