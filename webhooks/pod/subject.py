"""A pod as its webhooks read it: only the fields that they need. Pure.

The API server has normally decoded the pod before; if not, an invalid value is an error.
"""

import msgspec

from api import exclusive, keys
from kube.model.jsontree import rephrase_for_json, without_nulls
from kube.model.meta import JSON, Base, ObjectMeta
from webhooks.jobset.subject import GENERATED_SUFFIX, VolumeMount


class Terms(Base, frozen=True, kw_only=True):
    """core/v1 PodAffinity or PodAntiAffinity: the terms that must hold."""

    required: tuple[JSON, ...] = msgspec.field(name="requiredDuringSchedulingIgnoredDuringExecution", default=())


class Affinity(Base, frozen=True, kw_only=True):
    """core/v1 Affinity between pods."""

    pod_affinity: Terms = Terms()
    pod_anti_affinity: Terms = Terms()


class PodSpec(Base, frozen=True, kw_only=True):
    """core/v1 PodSpec, the fields for placement. `priority` is resolved by the API server."""

    priority: int | None = None
    node_name: str = ""
    node_selector: dict[str, str] = {}
    scheduling_gates: tuple[VolumeMount, ...] = ()
    affinity: Affinity = Affinity()


class Pod(Base, frozen=True, kw_only=True):
    """A pod that is about to be stored."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()

    @property
    def name(self) -> str:
        """The name of the pod, or an example of one for a generateName."""
        meta = self.metadata
        return meta.name or f"{meta.generate_name}{GENERATED_SUFFIX}"

    @property
    def ours(self) -> bool:
        """Whether it belongs to a JobSet without the node-selector strategy, which needs no webhook of pods."""
        annotations = self.metadata.annotations
        return keys.JOBSET_NAME in annotations and keys.NODE_SELECTOR_STRATEGY not in annotations

    @property
    def topology(self) -> str | None:
        """As `api.exclusive.topology_of`."""
        return exclusive.topology_of(self.metadata.annotations)

    @property
    def leads(self) -> bool:
        """Whether it is the pod of an exclusive Job that looks for a domain."""
        return self.topology is not None and exclusive.leads(self.metadata.annotations)

    @property
    def follows(self) -> bool:
        """Whether it follows a leader to its domain."""
        return self.topology is not None and not exclusive.leads(self.metadata.annotations)

    @property
    def is_gated(self) -> bool:
        """Whether it waits for the controller to set its domain."""
        return any(gate.name == keys.PLACEMENT_GATE for gate in self.spec.scheduling_gates)

    @property
    def job_uid(self) -> str:
        """UID of its controlling owner; empty without one."""
        owner = self.metadata.controller()
        return "" if owner is None else owner.uid


class UnreadablePodError(ValueError):
    """The object does not have the form of a pod; the text says where, and quotes nothing of it."""


def read(pod: JSON) -> Pod:
    """The pod. Raises `UnreadablePodError`."""
    try:
        return msgspec.convert(without_nulls(pod), Pod)
    except msgspec.ValidationError as error:
        raise UnreadablePodError(f"the object is not a pod: {rephrase_for_json(error)}") from None
