"""The fields of cached Workloads, PodGroups and CompositePodGroups that decisions read (scheduling.k8s.io, 1.37)."""

from api.scheduling import GangOfPods, JobScheduling, PodsPolicy
from kube.model.meta import JSON, Base, Condition, ObjectMeta

INITIALLY_SCHEDULED = "PodGroupInitiallyScheduled"
"""Condition of a PodGroup. True: the group was scheduled once. False: an attempt to schedule the group has failed."""


class StoredGang(GangOfPods, frozen=True, kw_only=True):
    """A gang of pods, which has `min_count`, or of groups, which has `min_group_count`."""

    min_group_count: int | None = None

    @property
    def count(self) -> int:
        """How many members are placed together; 0 if the gang has no count."""
        return self.min_count or self.min_group_count or 0


class StoredPolicy(PodsPolicy, frozen=True, kw_only=True):
    """A policy: `basic` or `gang`."""

    gang: StoredGang | None = None


class WorkloadRef(Base, frozen=True, kw_only=True):
    """The template that a group was made from."""

    template_name: str = ""


class GroupSpec(JobScheduling, frozen=True, kw_only=True):
    """Spec of a PodGroup or CompositePodGroup. A root has no parent; `priority` is set by the API server's admission.

    The fields of a group have the same names as those of a JobSet's `spec.scheduling`.
    """

    parent_composite_pod_group_name: str | None = None
    workload_ref: WorkloadRef | None = None
    scheduling_policy: StoredPolicy = StoredPolicy()
    priority: int | None = None


class GroupStatus(Base, frozen=True, kw_only=True):
    """Status of a PodGroup. In Kubernetes 1.37, no component writes the status of a CompositePodGroup."""

    conditions: tuple[Condition, ...] | None = None


class StoredGroup(Base, frozen=True, kw_only=True):
    """A PodGroup or CompositePodGroup."""

    metadata: ObjectMeta
    spec: GroupSpec = GroupSpec()
    status: GroupStatus = GroupStatus()


class StoredWorkload(Base, frozen=True, kw_only=True):
    """A Workload. Its templates are compared as JSON."""

    metadata: ObjectMeta
    spec: JSON = {}
