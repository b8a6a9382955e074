"""The rules of a JobSetPolicy, as records: one field of `Rules` for each, all of them optional.

Each list has a most number of items and each text a most length, so that the work for one JobSet is bounded, whatever
the policy.
"""

from typing import Annotated, Any, Final

import msgspec

from api.keys import QUEUE_NAME
from kube.model.meta import Base, doc
from kube.model.quantity import PATTERN, WHOLE_PATTERN

MOST_ITEMS: Final = 64
MOST_PATTERN: Final = 512
"""Characters of a pattern."""

Key = Annotated[str, doc("A key.", maxLength=317)]
Name = Annotated[str, doc("A name.", maxLength=253)]
Word = Annotated[str, doc("A value.", maxLength=253)]


def _list(text: str, **more: Any) -> msgspec.Meta:
    keys: dict[str, Any] = {"x-kubernetes-list-type": "set"}
    return doc(text, maxItems=MOST_ITEMS, **keys, **more)


def _by(key: str, text: str) -> msgspec.Meta:
    keys: dict[str, Any] = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}
    return doc(text, maxItems=MOST_ITEMS, **keys)


class Limit(Base, frozen=True, kw_only=True):
    """The most of what is counted. A value at the namespace wins over `max`; with neither there is no limit."""

    max: Annotated[int | str | None, doc("The limit, a whole number such as 8.", pattern=WHOLE_PATTERN)] = None
    from_namespace_label: Annotated[
        str, doc("Key of a label of the namespace that has the limit, so that each tenant has its own.", maxLength=317)
    ] = ""
    from_namespace_annotation: Annotated[
        str, doc("The same by an annotation. The label wins if both are there.", maxLength=317)
    ] = ""


class ResourceLimit(Limit, frozen=True, kw_only=True):
    """The most that the pods of one set may request of a resource."""

    name: Annotated[str, doc("Name of the resource, such as cpu, memory or nvidia.com/gpu.", maxLength=317)]
    max: Annotated[
        int | str | None,
        doc("The limit, as a number or a Kubernetes quantity such as 500m or 1Ti.", pattern=PATTERN),
    ] = None


class RequiredQueue(Base, frozen=True, kw_only=True):
    """Which queue label a JobSet must have."""

    labels: Annotated[
        tuple[Key, ...],
        _list(f"Keys of labels that name a queue. One of them has to be there. Default [{QUEUE_NAME}] (CRD).",
              default=[QUEUE_NAME]),
    ] = (QUEUE_NAME,)  # fmt: skip
    allowed: Annotated[tuple[Word, ...] | None, _list("Queues that may be named. Absent: all.")] = None


class MaxTotals(Base, frozen=True, kw_only=True):
    """What the pods of one set may take together while all of them run."""

    pods: Annotated[Limit | None, doc("Pods that run at once.")] = None
    resources: Annotated[tuple[ResourceLimit, ...], _by("name", "Requests of all these pods, for each resource.")] = ()
    resource_claims: Annotated[Limit | None, doc("Claims for devices, of all these pods and of their groups.")] = None


class MaxRestarts(Limit, frozen=True, kw_only=True):
    """How often a failed set may be restarted."""

    forbid_unlimited_actions: Annotated[
        bool,
        doc(
            "Refuse actions of failure policies that restart without being counted, in rules without a maxRestarts and"
            " in nodeFailure."
        ),
    ] = False


class MaxSeconds(Limit, frozen=True, kw_only=True):
    """A field in seconds that has to be set, or may not be larger than a limit."""

    max: Annotated[
        int | str | None, doc("The limit in seconds, such as 604800 for seven days.", pattern=WHOLE_PATTERN)
    ] = None
    required: Annotated[bool, doc("The field has to be set. Else a set without it passes.")] = False


class PriorityClasses(Base, frozen=True, kw_only=True):
    """Priority classes that pods may name."""

    allowed: Annotated[tuple[Name, ...], _list("Names of PriorityClasses.")]
    required: Annotated[bool, doc("Pods have to name one. Else those without one pass.")] = False


class ExclusiveTopologies(Base, frozen=True, kw_only=True):
    """Topologies for exclusive placement."""

    allowed: Annotated[tuple[Key, ...] | None, _list("Labels of nodes that may be used. Absent: all.")] = None
    required: Annotated[bool, doc("Every ReplicatedJob has to use exclusive placement.")] = False


class ImageRegistries(Base, frozen=True, kw_only=True):
    """Where images may come from."""

    allowed: Annotated[
        tuple[Word, ...],
        _list("Registries such as registry.example.com, or paths in them such as registry.example.com/team."),
    ]


class RequiredResources(Base, frozen=True, kw_only=True):
    """Resources for which containers have to state an amount."""

    resources: Annotated[tuple[Key, ...], _list("Names of resources, such as cpu, memory or nvidia.com/gpu.")]


class RequiredPair(Base, frozen=True, kw_only=True):
    """A label or annotation that a JobSet must have."""

    key: Annotated[str, doc("The key.", maxLength=317)]
    pattern: Annotated[
        str, doc("An RE2 pattern that the whole value has to match. Absent: any value.", maxLength=MOST_PATTERN)
    ] = ""


class NodeLabel(Base, frozen=True, kw_only=True):
    """A label of nodes by which pods may select them."""

    key: Annotated[str, doc("The key.", maxLength=317)]
    values: Annotated[tuple[Word, ...] | None, _list("Values that may be selected. Absent: all.")] = None


class NodeSelectors(Base, frozen=True, kw_only=True):
    """Labels by which pods may select nodes."""

    allowed: Annotated[tuple[NodeLabel, ...], _by("key", "Labels of nodes.")]


class AllowedToleration(Base, frozen=True, kw_only=True):
    """A taint that pods may tolerate."""

    key: Annotated[str, doc("Key of the taint.", maxLength=317)]
    values: Annotated[tuple[Word, ...] | None, _list("Values of the taint that may be tolerated. Absent: all.")] = None
    effects: Annotated[
        tuple[Annotated[str, doc("An effect.", enum=["NoSchedule", "PreferNoSchedule", "NoExecute"])], ...] | None,
        _list("Effects of the taint that may be tolerated. Absent: all."),
    ] = None


class Tolerations(Base, frozen=True, kw_only=True):
    """Taints that pods may tolerate."""

    allowed: Annotated[tuple[AllowedToleration, ...], _by("key", "Taints.")]


class BackoffLimit(Limit, frozen=True, kw_only=True):
    """How often the Jobs of a set may start pods again."""

    zero_with_restarts: Annotated[
        bool, doc("The backoffLimit has to be 0 where failurePolicy.maxRestarts is larger than 0.")
    ] = False


class ManagedBy(Base, frozen=True, kw_only=True):
    """Controllers that may manage JobSets."""

    allowed: Annotated[tuple[Word, ...], _list("Values of spec.managedBy. A set without one is managed by this one.")]


class RestartStrategies(Base, frozen=True, kw_only=True):
    """How Jobs may be created again."""

    allowed: Annotated[
        tuple[Annotated[str, doc("A strategy.", enum=["Recreate", "BlockingRecreate", "InPlaceRestart"])], ...],
        _list("Values of spec.failurePolicy.restartStrategy. A set without one has Recreate."),
    ]


FORBIDDEN: Final = (
    "hostNetwork",
    "hostPath",
    "hostPorts",
    "privileged",
    "hostPID",
    "hostIPC",
    "capabilities",
    "procMount",
    "hostProcess",
    "seccomp",
    "appArmor",
    "seLinux",
    "sysctls",
    "probeHosts",
    "resourceClaims",
)
Forbidden = Annotated[str, doc("What is forbidden.", enum=list(FORBIDDEN))]


class Rules(Base, frozen=True, kw_only=True):
    """What is demanded of a JobSet. Every rule is optional."""

    required_queue: Annotated[RequiredQueue | None, doc("A label that names a queue.")] = None
    max_totals: Annotated[MaxTotals | None, doc("Pods and resources of the whole set.")] = None
    max_replicated_jobs: Annotated[Limit | None, doc("ReplicatedJobs of a set.")] = None
    max_jobs: Annotated[Limit | None, doc("Jobs of a set.")] = None
    max_restarts: Annotated[MaxRestarts | None, doc("Restarts after failures.")] = None
    ttl: Annotated[MaxSeconds | None, doc("spec.ttlSecondsAfterFinished.")] = None
    active_deadline: Annotated[MaxSeconds | None, doc("spec.activeDeadlineSeconds.")] = None
    priority_classes: Annotated[PriorityClasses | None, doc("priorityClassName of pods.")] = None
    exclusive_topologies: Annotated[ExclusiveTopologies | None, doc("Exclusive placement.")] = None
    image_registries: Annotated[ImageRegistries | None, doc("Registries of images.")] = None
    images_by_digest: Annotated[bool, doc("Every image has to be named by its digest.")] = False
    required_requests: Annotated[RequiredResources | None, doc("Requests that containers have to state.")] = None
    required_limits: Annotated[RequiredResources | None, doc("Limits that containers have to state.")] = None
    allowed_resources: Annotated[
        tuple[Key, ...] | None, _list("Names of resources that pods may request, such as cpu or nvidia.com/gpu.")
    ] = None
    required_labels: Annotated[tuple[RequiredPair, ...] | None, _by("key", "Labels of the JobSet.")] = None
    required_annotations: Annotated[tuple[RequiredPair, ...] | None, _by("key", "Annotations of the JobSet.")] = None
    node_selectors: Annotated[NodeSelectors | None, doc("Nodes that pods may select.")] = None
    tolerations: Annotated[Tolerations | None, doc("Taints that pods may tolerate.")] = None
    forbid: Annotated[tuple[Forbidden, ...] | None, _list("What pods may not use of their node.")] = None
    backoff_limit: Annotated[BackoffLimit | None, doc("backoffLimit of Jobs.")] = None
    network_dns: Annotated[
        str, doc("Whether pods have DNS names: spec.network.enableDNSHostnames.", enum=["Enabled", "Disabled"])
    ] = msgspec.field(name="networkDNS", default="")
    managed_by: Annotated[ManagedBy | None, doc("spec.managedBy.")] = None
    restart_strategies: Annotated[RestartStrategies | None, doc("spec.failurePolicy.restartStrategy.")] = None
