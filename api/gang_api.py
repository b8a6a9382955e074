"""Finds the parts of the scheduling API that the groups of a set need and the API server does not serve. Pure.

The controller and admission look up what is served, and report with these messages what is missing and how to make a
cluster serve it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from api.gang_objects import ALPHA, BETA
from api.gangs import POD_GROUP, Forest
from kube.model.meta import JSON
from kube.model.versions import GANGS, Version

GATE = "JobSetWorkloadAwareSchedulingAPI"
LEVELS_GATE = "JobSetGangOfGangs"

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
"""A PodGroup for a dry run, which shows whether the API server stores topology constraints."""


@dataclass(frozen=True, slots=True)
class Served:
    """What the API server serves for groups; None: not known yet. `enabled`: the manager's feature gate is on.

    `version`: the version of the API server, which is looked up only if it serves no groups.
    """

    enabled: bool = True
    groups: bool | None = None
    composites: bool | None = None
    topology: bool | None = None
    version: Version | None = None

    def __str__(self) -> str:
        """What is served, in words for the log."""
        kinds = {"Workloads and PodGroups": self.groups, "CompositePodGroups": self.composites}
        kinds["topology constraints of PodGroups"] = self.topology
        texts = {True: "served", False: "not served", None: "not known yet"}
        return ", ".join(f"{kind}: {texts[is_served]}" for kind, is_served in kinds.items())


NOT_KNOWN = Served()


@dataclass(frozen=True, slots=True)
class MissingApi:
    """What is missing, and how to turn it on. `reason`: the reason of the condition. `problem`: a sentence.

    `gates`: feature gates of the control plane. `versions`: versions of scheduling.k8s.io that kube-apiserver has to
    serve.
    """

    reason: str
    problem: str
    gates: str = ""
    versions: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """The problem and the fix, as a sentence without a full stop."""
        if not self.gates:
            return self.problem
        fix = (
            f"start kube-apiserver, kube-scheduler and kube-controller-manager with --feature-gates={self.gates}"
            + (f", and kube-apiserver with --runtime-config={self.runtime_config}" if self.versions else "")
        )  # fmt: skip
        return f"{self.problem}: {fix}"

    @property
    def runtime_config(self) -> str:
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
    """The missing part of the API that these trees need; None if nothing is missing."""
    if not served.enabled:
        return NO_GATE
    needs = [(served.groups, NO_GROUPS)]
    if wanted.needs_composites:
        needs.append((served.composites, NO_COMPOSITES))
    elif any(group.topology for group in wanted.groups()):
        needs.append((served.topology, NO_TOPOLOGY))
    for is_served, missing in needs:
        if not is_served:
            too_old = GANGS.shortfall(served.version)
            return UNKNOWN if is_served is None else MissingApi(missing.reason, too_old) if too_old else missing
    return None


def keeps_topology(dry_run_result: JSON) -> bool:
    """Whether the result of the dry run of `PROBE` still has its topology constraint."""
    return bool((dry_run_result.get("spec") or {}).get("schedulingConstraints"))


def missing_fields(kind: str, name: str, fields: Sequence[str]) -> MissingApi:
    """What is missing if a group was stored without some of its fields, because a feature gate is off."""
    claims = ",DynamicResourceAllocation=true,DRAWorkloadResourceClaims=true" if "resourceClaims" in fields else ""
    problem = f"the API server has stored {kind} {name} without {', '.join(fields)}"
    return MissingApi("FieldDropped", problem, NO_COMPOSITES.gates + claims)
