"""Workload, PodGroup and CompositePodGroup as they are cached: what decisions compare (scheduling.k8s.io, 1.37)."""

from api.meta import JSON, Base, Condition, ObjectMeta
from api.scheduling import Basic, DisruptionMode, GroupResourceClaim, SchedulingConstraints

INITIALLY_SCHEDULED = "PodGroupInitiallyScheduled"
"""Condition of a PodGroup. True is a hint: it was scheduled once. So is False: it may be bound since."""


class StoredGang(Base, frozen=True, kw_only=True):
    """Gang of pods or of groups: which number is there says which."""

    min_count: int | None = None
    min_group_count: int | None = None

    @property
    def count(self) -> int:
        return self.min_count or self.min_group_count or 0


class StoredPolicy(Base, frozen=True, kw_only=True):
    """One of both."""

    basic: Basic | None = None
    gang: StoredGang | None = None


class WorkloadRef(Base, frozen=True, kw_only=True):
    """The template that a group was made from."""

    workload_name: str = ""
    template_name: str = ""


class GroupSpec(Base, frozen=True, kw_only=True):
    """Spec of a PodGroup or CompositePodGroup. Its parent is empty for a root."""

    parent_composite_pod_group_name: str | None = None
    workload_ref: WorkloadRef | None = None
    scheduling_policy: StoredPolicy = StoredPolicy()
    scheduling_constraints: SchedulingConstraints | None = None
    disruption_mode: DisruptionMode | None = None
    resource_claims: tuple[GroupResourceClaim, ...] | None = None


class GroupStatus(Base, frozen=True, kw_only=True):
    """Nobody writes that of a CompositePodGroup in 1.37."""

    conditions: tuple[Condition, ...] | None = None


class StoredGroup(Base, frozen=True, kw_only=True):
    """A PodGroup or CompositePodGroup."""

    metadata: ObjectMeta
    spec: GroupSpec = GroupSpec()
    status: GroupStatus = GroupStatus()


class StoredWorkload(Base, frozen=True, kw_only=True):
    """A Workload. Its templates are compared as the JSON that they are."""

    metadata: ObjectMeta
    spec: JSON = {}
