"""A pod with the fields that its webhooks need. Pure.

Normally the API server has decoded the pod before. A review from another client may have a pod with invalid values.
"""

import msgspec

from api import exclusive, keys
from kube.model.jsontree import rephrase_for_json, without_nulls
from kube.model.meta import JSON, Base, ObjectMeta
from webhooks.jobset.subject import GENERATED_SUFFIX
from webhooks.jobset.templates import NamedItem


class Terms(Base, frozen=True, kw_only=True):
    """core/v1 PodAffinity or PodAntiAffinity: the terms that must hold."""

    required: tuple[JSON, ...] = msgspec.field(name="requiredDuringSchedulingIgnoredDuringExecution", default=())


class Affinity(Base, frozen=True, kw_only=True):
    """core/v1 Affinity between pods."""

    pod_affinity: Terms = Terms()
    pod_anti_affinity: Terms = Terms()


class PodSpec(Base, frozen=True, kw_only=True):
    """core/v1 PodSpec, the fields for placement. The API server has resolved `priority`."""

    priority: int | None = None
    node_name: str = ""
    node_selector: dict[str, str] = {}
    scheduling_gates: tuple[NamedItem, ...] = ()
    affinity: Affinity = Affinity()


class Pod(Base, frozen=True, kw_only=True):
    """A pod that is about to be stored."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()

    @property
    def name(self) -> str:
        """The name of the pod, or an example of a name for its generateName."""
        meta = self.metadata
        return meta.name or f"{meta.generate_name}{GENERATED_SUFFIX}"

    @property
    def needs_mutation(self) -> bool:
        """Whether the pod belongs to a JobSet without the node-selector strategy, which needs no webhook of pods."""
        annotations = self.metadata.annotations
        return keys.JOBSET_NAME in annotations and keys.NODE_SELECTOR_STRATEGY not in annotations

    @property
    def topology(self) -> str | None:
        """The topology of exclusive placement; None for any other pod (`api.exclusive.topology_of`)."""
        return exclusive.topology_of(self.metadata.annotations)

    @property
    def is_leader(self) -> bool:
        """Whether the pod is the leader of an exclusive Job, whose node decides the domain."""
        return self.topology is not None and exclusive.leads(self.metadata.annotations)

    @property
    def is_follower(self) -> bool:
        """Whether the pod is a follower, which has to run in the domain of its leader."""
        return self.topology is not None and not exclusive.leads(self.metadata.annotations)

    @property
    def is_gated(self) -> bool:
        """Whether the pod has the scheduling gate that the controller lifts when it sets the domain."""
        return any(gate.name == keys.PLACEMENT_GATE for gate in self.spec.scheduling_gates)

    @property
    def job_uid(self) -> str:
        """UID of the controlling owner; empty if there is none."""
        owner = self.metadata.controller()
        return "" if owner is None else owner.uid


class UnreadablePodError(ValueError):
    """The object does not have the form of a pod. The text has the path, and quotes no value of the object."""


def decode_pod(pod: JSON) -> Pod:
    """Decode a pod. Raises `UnreadablePodError`."""
    try:
        return msgspec.convert(without_nulls(pod), Pod)
    except msgspec.ValidationError as error:
        raise UnreadablePodError(f"the object is not a pod: {rephrase_for_json(error)}") from None
