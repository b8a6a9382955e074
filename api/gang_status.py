"""Records of stored Workloads, PodGroups and CompositePodGroups, with the fields that the controller reads.

The kinds are those of scheduling.k8s.io in Kubernetes 1.37. A PodGroup or a CompositePodGroup is a group: the members
of a PodGroup are pods, and the members of a CompositePodGroup are groups.
"""

from api.scheduling import GangOfPods, JobScheduling, PodsPolicy
from kube.model.meta import JSON, Base, Condition, ObjectMeta

INITIALLY_SCHEDULED = "PodGroupInitiallyScheduled"
"""A condition of a PodGroup. True: the group has been scheduled once. False: an attempt to schedule it has failed."""


class StoredGang(GangOfPods, frozen=True, kw_only=True):
    """A gang, whose members are placed at once. A gang of pods has `min_count`, a gang of groups `min_group_count`."""

    min_group_count: int | None = None

    @property
    def count(self) -> int:
        """How many members are placed at once; 0 if the stored gang has no count."""
        return self.min_count or self.min_group_count or 0


class StoredPolicy(PodsPolicy, frozen=True, kw_only=True):
    """How the members are placed: one by one (`basic`), or at once (`gang`)."""

    gang: StoredGang | None = None


class WorkloadRef(Base, frozen=True, kw_only=True):
    """The template of the Workload that a group was made from."""

    template_name: str = ""


class GroupSpec(JobScheduling, frozen=True, kw_only=True):
    """Spec of a PodGroup or CompositePodGroup.

    The inherited fields have the same names and types as in `spec.scheduling` of a JobSet. The API server sets
    `priority` at admission.
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
