"""The facts that explain a JobSet: records with the fields of Kubernetes objects that findings need. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from api.batch import Job, JobSpec, JobStatus
from api.event import SeenEvent
from api.gang_status import StoredGroup
from api.jobset import JobSet
from api.pending import Trouble, first_trouble
from api.pod import DetailedPod, Pod, PodCondition, Terminated
from diagnose.needs import Resources, SeenSpec
from diagnose.nodes import Nodes, SeenNode
from kube.model.meta import Base, Condition, ObjectMeta, Owner
from manifests.installed.webhook_switch import State


class _JobSpec(JobSpec, frozen=True, kw_only=True):
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None


class _JobStatus(JobStatus, frozen=True, kw_only=True):
    failed: int = 0


class SeenJob(Job, frozen=True, kw_only=True):
    """A Job with the fields about its failed pods."""

    spec: _JobSpec = _JobSpec()
    status: _JobStatus = _JobStatus()

    @property
    def may_hide_failures(self) -> bool:
        """Whether the status may lack failed pods, which the Job controller counts late if other pods are ready."""
        has_retries = self.spec.backoff_limit != 0 or self.spec.backoff_limit_per_index is not None
        return has_retries and self.status.active > 1 and bool(self.status.ready)

    def with_failures(self, failures: int) -> "SeenJob":
        """The Job with this number of failed pods added to its status, and no longer counted as active or ready."""
        active = max(self.status.active - failures, 0)
        ready = min(self.status.ready or 0, active)
        status = replace(self.status, active=active, ready=ready, failed=self.status.failed + failures)
        return replace(self, status=status) if failures else self


class SeenPod(DetailedPod, frozen=True, kw_only=True):
    """A pod of a JobSet with the fields about its owner, its node, and why it does not run."""

    spec: SeenSpec = SeenSpec()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def job_uid(self) -> str:
        owner = self.metadata.controller()
        return "" if owner is None else owner.uid

    @property
    def job_label(self) -> str:
        """Its Job in lists of Jobs that hold nodes, such as `team-a/train-workers-0 (ending, not exclusive)`."""
        owner = self.metadata.controller()
        marks = ["ending"] if self.metadata.deletion_timestamp is not None else []
        marks += ["not exclusive"] if self.metadata.topology is None else []
        job = self.name if owner is None else owner.name
        return f"{self.metadata.namespace}/{job}" + (f" ({', '.join(marks)})" if marks else "")

    @property
    def priority(self) -> int:
        return self.spec.priority or 0

    @property
    def is_gated(self) -> bool:
        return bool(self.spec.scheduling_gates) and not self.spec.node_name

    @property
    def scheduling_failure(self) -> PodCondition | None:
        """The condition in which the scheduler says why it found no node; None if there is none or the pod is gated."""
        if self.spec.node_name or self.is_gated:
            return None
        scheduled = self.status.condition("PodScheduled")
        return scheduled if scheduled is not None and scheduled.status == "False" else None

    @property
    def has_no_scheduler(self) -> bool:
        """Whether the pod has neither a node nor a message of a scheduler, and no scheduling gate."""
        is_schedulable = self.is_live and not self.spec.node_name and not self.is_gated
        return is_schedulable and self.status.condition("PodScheduled") is None

    @property
    def _ended_containers(self) -> Iterator[tuple[str, Terminated]]:
        """The name and the end of each container that has ended; init containers come last."""
        for status in (*self.status.container_statuses, *self.status.init_container_statuses):
            if status.state.terminated is not None:
                yield status.name, status.state.terminated

    @property
    def failed_container(self) -> tuple[str, Terminated] | None:
        """The name and the end of the container that failed first, with an exit code other than 0; None without one."""
        failed = (container for container in self._ended_containers if container[1].exit_code)
        return min(failed, key=lambda container: container[1].finished_at or "", default=None)

    @property
    def ended_at(self) -> str:
        """When its last container ended, as RFC 3339; empty if no container has ended."""
        return max((end.finished_at or "" for _, end in self._ended_containers), default="")

    @property
    def is_ready(self) -> bool:
        ready = self.status.condition("Ready")
        return ready is not None and ready.status == "True"

    @property
    def has_stopped_container(self) -> bool:
        """Whether a container of the pod waits, or has failed and not started again."""
        states = (status.state for status in (*self.status.init_container_statuses, *self.status.container_statuses))
        return any(state.waiting or (state.terminated and state.terminated.exit_code) for state in states)

    @property
    def is_unready_without_reason(self) -> bool:
        """Whether the pod is Running and not ready, although no container waits or has failed. Its node may be gone."""
        is_running = self.status.phase == "Running" and bool(self.spec.node_name)
        return is_running and not self.is_ready and not self.has_stopped_container

    @property
    def running_init_container(self) -> str:
        """The name of the running init container; empty if no init container runs."""
        statuses = (status for status in self.status.init_container_statuses if status.name not in self.spec.sidecars)
        current = next((status for status in statuses if status.state.terminated is None), None)
        return current.name if current is not None and current.state.waiting is None and self.spec.node_name else ""

    @property
    def trouble(self) -> Trouble | None:
        """Why the first container that does not run is stopped, init containers first; None if all containers run."""
        return first_trouble(self)


class _ClaimSpec(Base, frozen=True, kw_only=True):
    storage_class_name: str | None = None
    access_modes: tuple[str, ...] = ()
    resources: Resources = Resources()


class _ClaimStatus(Base, frozen=True, kw_only=True):
    phase: str = ""


class SeenClaim(Base, frozen=True, kw_only=True):
    """core/v1 PersistentVolumeClaim.

    `storage_class_name` is None if the cluster had no default class, and empty if the claim wants a volume that has no
    class.
    """

    spec: _ClaimSpec = _ClaimSpec()
    status: _ClaimStatus = _ClaimStatus()

    @property
    def requirements(self) -> str:
        """What a volume has to provide, such as `ReadWriteOnce, 1Gi`."""
        size = self.spec.resources.requests.get("storage")
        return ", ".join([*self.spec.access_modes, *([str(size)] if size else [])])


class SeenStorageClass(Base, frozen=True, kw_only=True):
    """storage.k8s.io/v1 StorageClass."""

    metadata: ObjectMeta
    provisioner: str = ""


class _QuotaStatus(Base, frozen=True, kw_only=True):
    hard: dict[str, Any] = {}
    used: dict[str, Any] = {}


class SeenQuota(Base, frozen=True, kw_only=True):
    """core/v1 ResourceQuota: the allowed and the used quantities by resource."""

    status: _QuotaStatus = _QuotaStatus()


class _Conditions(Base, frozen=True, kw_only=True):
    conditions: tuple[Condition, ...] = ()


class SeenConditions(Base, frozen=True, kw_only=True):
    """The conditions of a core/v1 Namespace or of a Workload of Kueue."""

    metadata: ObjectMeta = ObjectMeta()
    status: _Conditions = _Conditions()


class _LeaseSpec(Base, frozen=True, kw_only=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: str | None = None


class SeenLease(Base, frozen=True, kw_only=True):
    """The lease of the manager. Without a holder the lease has been released, or was never acquired."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _LeaseSpec = _LeaseSpec()


@dataclass(frozen=True, slots=True)
class SeenGroups:
    """The stored groups of a JobSet, and for the UID of each Job the number of its pods that have a node."""

    groups_by_name: Mapping[str, StoredGroup]
    placed_pods_by_job: Mapping[str, int]


@dataclass(slots=True, kw_only=True)
class Facts:
    """All facts about one JobSet, which `diagnose/gather.py` reads. None means not known.

    An attempt is the time between two restarts. The leader of a Job is its pod with index 0. Followers are other pods.

    Most facts are read only if the JobSet is in a state in which a finding may need them.

    - `jobs`: the Jobs that the JobSet owns.
    - `foreign_owners`: the owners of Jobs that have the name of a missing Job and are not of the JobSet, by this name.
    - `namespace`: the namespace of the JobSet, read if Jobs that may start are missing, or are being deleted.
    - `leftover_pods`: names of pods of earlier attempts whose Job is gone, by the name of this Job.
    - `ending_pods`: pods of the JobSet that are being deleted, such as pods of earlier attempts.
      Pods that are the least likely to end come first.
    - `namesake_pods`: pods that are being deleted and belong to an earlier JobSet of this name, read if a Job of that
      JobSet still occupies the name of a missing Job.
    - `warnings`: events of type Warning about the JobSet, newest first. `job_warnings`: Warnings about its Jobs.
    - `has_service`: whether the Service of the JobSet exists, read if a Warning says that it could not be created.
    - `pod_warnings`: Warnings about pods that have a node and are not ready, or have ResourceClaims and no message of a
      scheduler; newest first.
    - `pods`: pods of Jobs that are not ready: those with completion index 0, and pods that are pending, not ready or
      failed.
    - `gated_followers`: the number of followers that wait for their leader, by the UID of their Job.
    - `node_labels`: the topology labels of every node, by the name of the node.
    - `node_offers`: the labels, taints and resources of all nodes, read if the scheduler says that nodes lack one.
    - `holder_pods`: one pod on a node for each Job of all JobSets, which shows the domain that the Job holds.
    - `placed_pods`: all pods of all JobSets on nodes, read if nodes could take a pod and too little is free.
    - `pods_without_agent_report`: running pods whose agent has not reported the attempt that workers wait for, read if
      no Job is missing or unready.
    - `lease`: the lease of the manager; an empty record if the lease does not exist.
    - `manager_pods`: all live pods of the manager, read if no manager holds the lease, or if no Job has been created
      and the status is empty.
    - `quotas`: quotas that have refused Jobs or pods, by name; None for a quota that is gone.
    - `webhook_state`: whether the mutating webhooks are called, read if the JobSet lacks their defaults.
    - `claims`: PersistentVolumeClaims of pods that have no node because of them, by name; None for a missing claim.
    - `storage_classes`: all StorageClasses of the cluster.
    - `device_claim_exists`: whether a ResourceClaim exists, by its name, for pods without a message of a scheduler.
    - `nodes_by_name`: nodes of pods that run and are not ready, and of `ending_pods` and `namesake_pods`; None for a
      node that is gone.
    - `has_kueue`: whether Kueue is in the cluster, read if the JobSet has a queue and is suspended.
    - `workloads`: the Workloads of Kueue for a JobSet that has a queue and is suspended; empty if they cannot be read.
    - `disruption_events`: events about pods that were preempted, evicted or marked as not ready, newest first.
    - `groups`: the groups of a JobSet with `spec.scheduling` that has Jobs that are not ready.
    - `unread_notes`: sentences about facts that could not be read, and why.
    """

    now: datetime
    jobset: JobSet
    jobs: tuple[SeenJob, ...] | None = None
    foreign_owners: Mapping[str, Owner] = field(default_factory=dict)
    namespace: SeenConditions | None = None
    leftover_pods: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    ending_pods: tuple[SeenPod, ...] = ()
    namesake_pods: tuple[SeenPod, ...] = ()
    warnings: tuple[SeenEvent, ...] = ()
    has_service: bool = False
    job_warnings: tuple[SeenEvent, ...] = ()
    pod_warnings: tuple[SeenEvent, ...] = ()
    pods: tuple[SeenPod, ...] | None = None
    gated_followers: Mapping[str, int] = field(default_factory=dict)
    node_labels: Mapping[str, Mapping[str, str]] | None = None
    node_offers: Nodes | None = None
    holder_pods: Sequence[SeenPod] | None = None
    placed_pods: Sequence[SeenPod] | None = None
    pods_without_agent_report: tuple[Pod, ...] = ()
    lease: SeenLease | None = None
    manager_pods: tuple[SeenPod, ...] = ()
    webhook_state: State | None = None
    quotas: Mapping[str, SeenQuota | None] = field(default_factory=dict)
    claims: Mapping[str, SeenClaim | None] = field(default_factory=dict)
    device_claim_exists: Mapping[str, bool] = field(default_factory=dict)
    storage_classes: Sequence[SeenStorageClass] | None = None
    nodes_by_name: dict[str, SeenNode | None] = field(default_factory=dict)
    has_kueue: bool = True
    workloads: Sequence[SeenConditions] = ()
    disruption_events: tuple[SeenEvent, ...] = ()
    groups: SeenGroups | None = None
    unread_notes: tuple[str, ...] = ()
