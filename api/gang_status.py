"""Workload, PodGroup and CompositePodGroup as they are cached: what decisions compare (scheduling.k8s.io, 1.37)."""

from api.meta import JSON, Base, Condition, ObjectMeta
from api.scheduling import GangOfPods, JobScheduling, PodsPolicy

INITIALLY_SCHEDULED = "PodGroupInitiallyScheduled"
"""Condition of a PodGroup. True is a hint: it was scheduled once. So is False: it may be bound since."""


class StoredGang(GangOfPods, frozen=True, kw_only=True):
    """Gang of pods or of groups: which number is there says which."""

    min_group_count: int | None = None

    @property
    def count(self) -> int:
        return self.min_count or self.min_group_count or 0


class StoredPolicy(PodsPolicy, frozen=True, kw_only=True):
    """One of both."""

    gang: StoredGang | None = None


class WorkloadRef(Base, frozen=True, kw_only=True):
    """The template that a group was made from."""

    workload_name: str = ""
    template_name: str = ""


class GroupSpec(JobScheduling, frozen=True, kw_only=True):
    """Spec of a PodGroup or CompositePodGroup. Its parent is empty for a root, its priority is what admission gave it.

    Kubernetes stores in a group what a JobSet says of one, in fields of the same names.
    """

    parent_composite_pod_group_name: str | None = None
    workload_ref: WorkloadRef | None = None
    scheduling_policy: StoredPolicy = StoredPolicy()
    priority: int | None = None


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
