"""Finds parts of scheduling.k8s.io that the groups of a JobSet need and that the API server does not serve. Pure.

The groups of a JobSet with `spec.scheduling` are PodGroups and CompositePodGroups, made from a Workload (`api.gangs`).
The controller and admission ask the API server what it serves. They report the missing parts with the messages of this
module, which also say how to make a cluster serve them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from api.gang_objects import ALPHA, BETA
from api.gangs import POD_GROUP, Forest
from kube.model.meta import JSON
from kube.model.versions import GANGS, Version

GATE = "JobSetWorkloadAwareSchedulingAPI"
"""The feature gate of `spec.scheduling`."""
LEVELS_GATE = "JobSetGangOfGangs"
"""The feature gate of groups above other groups."""

PROBE_NAMESPACE = "kube-system"
PROBE: JSON = {
    "apiVersion": BETA,
    "kind": POD_GROUP,
    "metadata": {"name": "jobset-probe", "namespace": PROBE_NAMESPACE},
    "spec": {
        "schedulingPolicy": {"basic": {}},
        "schedulingConstraints": {"topology": [{"key": "kubernetes.io/hostname"}]},
    },
}
"""A PodGroup with a topology constraint. Its dry run shows whether the API server keeps the constraint."""


@dataclass(frozen=True, slots=True)
class Served:
    """Which parts of scheduling.k8s.io the API server serves; None: not known yet.

    - `enabled`: whether the manager's feature gate `GATE` is on.
    - `groups`: Workloads and PodGroups. `composites`: CompositePodGroups.
    - `topology`: whether it stores topology constraints of PodGroups.
    - `version`: the version of the API server, which is requested only if it serves no groups.
    """

    enabled: bool = True
    groups: bool | None = None
    composites: bool | None = None
    topology: bool | None = None
    version: Version | None = None

    def __str__(self) -> str:
        """The served and missing parts as a text for the log."""
        kinds = {"Workloads and PodGroups": self.groups, "CompositePodGroups": self.composites}
        kinds["topology constraints of PodGroups"] = self.topology
        texts = {True: "served", False: "not served", None: "not known yet"}
        return ", ".join(f"{kind}: {texts[is_served]}" for kind, is_served in kinds.items())


NOT_KNOWN = Served()


@dataclass(frozen=True, slots=True)
class MissingApi:
    """A missing part, and how to turn it on.

    - `reason`: the reason of the JobSet's condition that reports the missing part.
    - `problem`: what is missing, as a sentence without a full stop.
    - `gates`: feature gates of the control plane, as the value of `--feature-gates`; empty if none would help.
    - `versions`: group versions (`scheduling.k8s.io/...`) that kube-apiserver has to serve.
    """

    reason: str
    problem: str
    gates: str = ""
    versions: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """The problem and how to turn the part on, as a sentence without a full stop."""
        if not self.gates:
            return self.problem
        fix = (
            f"start kube-apiserver, kube-scheduler and kube-controller-manager with --feature-gates={self.gates}"
            + (f", and kube-apiserver with --runtime-config={self.runtime_config}" if self.versions else "")
        )  # fmt: skip
        return f"{self.problem}: {fix}"

    @property
    def runtime_config(self) -> str:
        """The versions as the value of kube-apiserver's `--runtime-config`."""
        return ",".join(f"{version}=true" for version in self.versions)


NO_GATE = MissingApi(
    "FeatureGateDisabled",
    f"spec.scheduling needs the manager's feature gate {GATE}: start it with --feature-gates={GATE}=true",
)
NO_GROUPS = MissingApi(
    "APIUnavailable",
    f"the API server serves no workloads and podgroups of {BETA}",
    "GenericWorkload=true",
    (BETA,),
)
NO_COMPOSITES = MissingApi(
    "CompositePodGroupUnavailable",
    f"the API server serves no compositepodgroups of {ALPHA}",
    "GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true",
    (BETA, ALPHA),
)
NO_TOPOLOGY = MissingApi(
    "FieldDropped",
    "the API server drops schedulingConstraints without a word",
    "GenericWorkload=true,TopologyAwareWorkloadScheduling=true",
)
UNKNOWN = MissingApi("Discovering", "what the API server serves of scheduling.k8s.io is being looked up")


def missing_api(wanted: Forest, served: Served) -> MissingApi | None:
    """The first missing part that these trees of groups need; None if nothing is missing."""
    if not served.enabled:
        return NO_GATE
    needs = [(served.groups, NO_GROUPS)]
    if wanted.needs_composites:
        needs.append((served.composites, NO_COMPOSITES))
    # An API server with CompositePodGroups keeps topologies, as their feature gate depends on that of topologies.
    elif any(group.topology_key for group in wanted.groups()):
        needs.append((served.topology, NO_TOPOLOGY))
    for is_served, missing in needs:
        if is_served is None:
            return UNKNOWN
        if not is_served:
            too_old = GANGS.shortfall(served.version)  # a sentence if no flag makes this version serve groups
            return MissingApi(missing.reason, too_old) if too_old else missing
    return None


def keeps_topology(dry_run_result: JSON) -> bool:
    """Whether the result of the dry run of `PROBE` still has its topology constraint."""
    return bool((dry_run_result.get("spec") or {}).get("schedulingConstraints"))


def missing_fields(kind: str, name: str, fields: Sequence[str]) -> MissingApi:
    """The missing part if the API server has stored a group without some fields, because a feature gate is off."""
    claims = ",DynamicResourceAllocation=true,DRAWorkloadResourceClaims=true" if "resourceClaims" in fields else ""
    problem = f"the API server has stored {kind} {name} without {', '.join(fields)}"
    return MissingApi("FieldDropped", problem, NO_COMPOSITES.gates + claims)
