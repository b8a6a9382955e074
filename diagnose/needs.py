"""Records of a pod's spec with the fields that decide which nodes it fits on, or why it waits. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from api.pod import Affinity, PodSpec
from kube.model.meta import Base
from kube.model.node_affinity import NodeAffinity, Requirement, Toleration
from kube.model.requests import Amounts, pod_requests


class Resources(Base, frozen=True, kw_only=True):
    """core/v1 ResourceRequirements, of containers or of a claim. The API server has filled in requests from limits."""

    requests: dict[str, Any] = {}


class _RestartRule(Base, frozen=True, kw_only=True):
    action: str = ""


class _Present(Base, frozen=True, kw_only=True):
    """A core/v1 Probe or EphemeralVolumeSource, of which only its presence counts."""


class _ReadinessGate(Base, frozen=True, kw_only=True):
    condition_type: str = ""


class _Container(Base, frozen=True, kw_only=True):
    """core/v1 Container. An init container with restartPolicy Always is a sidecar."""

    name: str = ""
    restart_policy: str = ""
    restart_policy_rules: tuple[_RestartRule, ...] = ()
    resources: Resources = Resources()
    readiness_probe: _Present | None = None
    startup_probe: _Present | None = None


class SeenAffinity(Affinity, frozen=True, kw_only=True):
    """core/v1 Affinity with the node affinity."""

    node_affinity: NodeAffinity = NodeAffinity()


class _ClaimSource(Base, frozen=True, kw_only=True):
    claim_name: str = ""


class _Volume(Base, frozen=True, kw_only=True):
    """core/v1 Volume: with an existing claim, with a claim that is created for the pod, or without a claim."""

    name: str = ""
    persistent_volume_claim: _ClaimSource = _ClaimSource()
    ephemeral: _Present | None = None


class _DeviceClaim(Base, frozen=True, kw_only=True):
    """core/v1 PodResourceClaim: an existing ResourceClaim, or a ResourceClaimTemplate."""

    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class SeenSpec(PodSpec, frozen=True, kw_only=True):
    """core/v1 PodSpec: the requirements of the pod on its node."""

    affinity: SeenAffinity = SeenAffinity()
    containers: tuple[_Container, ...] = ()
    host_network: bool = False
    host_users: bool | None = None
    init_containers: tuple[_Container, ...] = ()
    overhead: dict[str, Any] = {}
    readiness_gates: tuple[_ReadinessGate, ...] = ()
    resource_claims: tuple[_DeviceClaim, ...] = ()
    resources: Resources = Resources()
    tolerations: tuple[Toleration, ...] = ()
    volumes: tuple[_Volume, ...] = ()

    @property
    def _expressions(self) -> Iterator[Requirement]:
        for term in self.affinity.node_affinity.terms:
            yield from term.match_expressions

    @property
    def needed_features(self) -> Mapping[str, str]:
        """The features of Kubernetes that a node has to declare for this pod, each with the field that needs it."""
        features: dict[str, str] = {}
        containers = (*self.containers, *self.init_containers)
        rules = (rule for container in containers for rule in container.restart_policy_rules)
        if any(rule.action == "RestartAllContainers" for rule in rules):
            features["RestartAllContainersOnContainerExits"] = "restartPolicyRules with action RestartAllContainers"
        if self.host_network and self.host_users is False:
            features["UserNamespacesHostNetworkSupport"] = "hostNetwork with hostUsers: false"
        return features

    def claims_of(self, pod: str) -> tuple[str, ...]:
        """Names of the PersistentVolumeClaims that a pod of this name mounts."""
        claim_names = [name for volume in self.volumes if (name := volume.persistent_volume_claim.claim_name)]
        return (*claim_names, *self.ephemeral_claims(pod))

    def ephemeral_claims(self, pod: str) -> tuple[str, ...]:
        """Names of the claims that Kubernetes creates for the pod from its ephemeral volumes."""
        return tuple(f"{pod}-{volume.name}" for volume in self.volumes if volume.ephemeral is not None)

    @property
    def sidecars(self) -> frozenset[str]:
        """Names of the init containers with restartPolicy Always, which run beside the containers."""
        return frozenset(container.name for container in self.init_containers if container.restart_policy == "Always")

    @property
    def label_keys(self) -> frozenset[str]:
        """Keys of the node labels that the node selector and the required node affinity name."""
        return frozenset((*self.node_selector, *(expression.key for expression in self._expressions)))

    @property
    def affinity_text(self) -> str:
        """The required node affinity as text, such as `pool In [a, b]`, its terms joined by `or`; empty without one."""
        return " or ".join(map(str, self.affinity.node_affinity.terms))

    @property
    def demanded_labels(self) -> Iterator[Requirement]:
        """The labels that the required node affinity demands, each with one of its values (In) or with any (Exists)."""
        for expression in self._expressions:
            if expression.operator == "In" and expression.values:
                yield expression
            elif expression.operator in {"Exists", "Gt", "Lt"}:
                yield Requirement(key=expression.key, operator="Exists")

    def tolerates(self, key: str, value: str, effect: str) -> bool:
        return any(toleration.tolerates(key, value, effect) for toleration in self.tolerations)

    def requests(self) -> Amounts:
        """The requests of the whole pod by resource, as kube-scheduler counts them, without amounts of 0."""
        return {name: amount for name, amount in pod_requests(msgspec.to_builtins(self)).items() if amount > 0}
