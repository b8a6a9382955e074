"""The facts that explain a JobSet: records of the fields that matter. Pure; writes nothing."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from api import keys
from api.batch import Job, JobSpec, JobStatus, OwnedObject
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
        """Whether other pods of it run while the Job controller waits before it replaces a failed one."""
        retries = self.spec.backoff_limit != 0 or self.spec.backoff_limit_per_index is not None
        return retries and self.status.active > 1 and bool(self.status.ready)

    def with_failures(self, more: int) -> "SeenJob":
        """The Job with that many more failed pods counted."""
        active = max(self.status.active - more, 0)
        ready = min(self.status.ready or 0, active)
        status = replace(self.status, active=active, ready=ready, failed=self.status.failed + more)
        return replace(self, status=status) if more else self


class TrackedPod(OwnedObject, frozen=True, kw_only=True):
    """A pod that has ended, of which only metadata was sent."""

    metadata: ObjectMeta

    @property
    def is_uncounted(self) -> bool:
        """Whether its Job does not count it yet: the Job controller removes the finalizer of counted pods."""
        return keys.JOB_TRACKING in self.metadata.finalizers


class SeenPod(DetailedPod, frozen=True, kw_only=True):
    """A pod of some JobSet: its owner, its node, and why it does not run."""

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
        """Its Job, for a list of those that hold nodes: `team-a/train-workers-0 (ending, not exclusive)`."""
        owner, ending = self.metadata.controller(), self.metadata.deletion_timestamp is not None
        marks = [
            mark for mark, holds in (("ending", ending), ("not exclusive", self.metadata.topology is None)) if holds
        ]
        job = self.name if owner is None else owner.name
        return f"{self.metadata.namespace}/{job}" + (f" ({', '.join(marks)})" if marks else "")

    @property
    def priority(self) -> int:
        return self.spec.priority or 0

    @property
    def gated(self) -> bool:
        """Whether it is held back by any scheduling gate."""
        return bool(self.spec.scheduling_gates) and not self.spec.node_name

    @property
    def scheduling_failure(self) -> PodCondition | None:
        """The condition with the scheduler's reason why it found no node; None without one, and for gated pods."""
        if self.spec.node_name or self.gated:
            return None
        scheduled = self.status.condition("PodScheduled")
        return scheduled if scheduled is not None and scheduled.status == "False" else None

    @property
    def unseen(self) -> bool:
        """Whether it waits for a scheduler and none has handled it yet."""
        waits = self.live and not self.spec.node_name and not self.gated
        return waits and self.status.condition("PodScheduled") is None

    @property
    def _ends(self) -> Iterator[tuple[str, Terminated]]:
        """Its containers that have ended, by name: the containers first."""
        for status in (*self.status.container_statuses, *self.status.init_container_statuses):
            if status.state.terminated is not None:
                yield status.name, status.state.terminated

    @property
    def failed_container(self) -> tuple[str, Terminated] | None:
        """The container that failed first (exit code other than 0), with its name."""
        failed = (end for end in self._ends if end[1].exit_code)
        return min(failed, key=lambda end: end[1].finished_at or "", default=None)

    @property
    def ended_at(self) -> str:
        """When the last of its containers ended, as RFC 3339; empty if none has."""
        return max((end.finished_at or "" for _, end in self._ends), default="")

    @property
    def ready(self) -> bool:
        ready = self.status.condition("Ready")
        return ready is not None and ready.status == "True"

    @property
    def is_stopped(self) -> bool:
        """Whether a container of it waits, or has failed and not started again."""
        states = (status.state for status in (*self.status.init_container_statuses, *self.status.container_statuses))
        return any(state.waiting or (state.terminated and state.terminated.exit_code) for state in states)

    @property
    def silent(self) -> bool:
        """Whether it is Running and not ready without a reason of a container: its node may be gone."""
        runs = self.status.phase == "Running" and bool(self.spec.node_name)
        return runs and not self.ready and not self.is_stopped

    @property
    def initializing(self) -> str:
        """The name of the running init container; empty without one."""
        inits = (status for status in self.status.init_container_statuses if status.name not in self.spec.sidecars)
        first = next((status for status in inits if status.state.terminated is None), None)
        return first.name if first is not None and first.state.waiting is None and self.spec.node_name else ""

    @property
    def trouble(self) -> Trouble | None:
        """Why one of its containers does not run, init containers first; None if all run."""
        return first_trouble(self)


class _ClaimSpec(Base, frozen=True, kw_only=True):
    storage_class_name: str | None = None
    access_modes: tuple[str, ...] = ()
    resources: Resources = Resources()


class _ClaimStatus(Base, frozen=True, kw_only=True):
    phase: str = ""


class SeenClaim(Base, frozen=True, kw_only=True):
    """core/v1 PersistentVolumeClaim.

    An absent class means that there is no default class; an empty one asks for volumes without a class.
    """

    spec: _ClaimSpec = _ClaimSpec()
    status: _ClaimStatus = _ClaimStatus()

    @property
    def asks(self) -> str:
        """`ReadWriteOnce, 1Gi`: what a volume has to provide."""
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
    """core/v1 ResourceQuota: what it allows and what is used, as quantities by resource."""

    status: _QuotaStatus = _QuotaStatus()


class _Conditions(Base, frozen=True, kw_only=True):
    conditions: tuple[Condition, ...] = ()


class SeenConditions(Base, frozen=True, kw_only=True):
    """A core/v1 Namespace: why its deletion takes long. Or a Workload: whether Kueue has admitted it."""

    metadata: ObjectMeta = ObjectMeta()
    status: _Conditions = _Conditions()


class _LeaseSpec(Base, frozen=True, kw_only=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: str | None = None


class SeenLease(Base, frozen=True, kw_only=True):
    """The lease of the manager; one without a holder has been given back, or never taken."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _LeaseSpec = _LeaseSpec()


@dataclass(frozen=True, slots=True)
class SeenGroups:
    """The groups of a set: `there` by name, and how many pods have a node (`bound`), by the UID of their Job."""

    there: Mapping[str, StoredGroup]
    bound: Mapping[str, int]


@dataclass(slots=True, kw_only=True)
class Facts:
    """All that was read; `gather` fills it in. None: not known; `unseen` says why, and what is left out because of it.

    - `jobs`: those that the JobSet owns. `foreign`: names that its missing Jobs should have, and who owns those.
    - `namespace`: its own, looked up where Jobs are missing that may start, or are being deleted.
    - `leftover_pods`: pods of earlier attempts by the name of their Job, which is gone. `ending`: pods of earlier
      attempts that are being deleted on a node, those first that are most likely to stay. `earlier`: the same of Jobs
      that an earlier JobSet of this name has left and that have names of missing Jobs.
    - `warnings`: about the JobSet. `job_warnings`: about its Jobs. Newest first.
    - `service_made`: whether its Service is there, looked up where a Warning says that it could not be created.
    - `pod_warnings`: about pods that have a node and are not ready, or have claims and no scheduler has looked at them.
      Newest first.
    - `pods`: of Jobs that are not ready: those with completion index 0, and others that pend, are not ready, or have
      failed.
    - `gated`: pods that await their leader, by the UID of their Job.
    - `nodes`: the topology labels of every node, by its name. `node_offers`: where the scheduler misses something on
      nodes, what each has. `holders`: a pod of each Job of all JobSets that is on a node.
    - `placed`: pods of all JobSets that are on nodes, looked up where nodes could take a pod and too little is free.
    - `late_agents`: pods without the attempt in place that workers wait for, looked up where all Jobs are ready.
    - `lease`: the manager's; without holder where there is none.
    - `manager`: the pod that holds the lease, looked up where Jobs are missing and nothing says why.
    - `managers`: the manager's pods, looked up where none holds the lease.
    - `quotas`: those that have refused Jobs or pods, by name; None for one that is gone.
    - `webhooks`: whether the mutating webhooks are called, looked up for a set that lacks their defaults.
    - `claims`: of pods that have no node because of them. `storage_classes`: all of the cluster.
    - `device_claims`: whether ResourceClaims exist, of pods at which no scheduler has looked.
    - `nodes_by_name`: of pods that run and are not ready, and of `ending` and `earlier`; None for one that is gone.
    - `kueue`: whether Kueue is in the cluster, looked up for a suspended set of a queue.
    - `workloads`: Kueue's of such a set; empty where they cannot be read.
    - `ends`: events about pods that were ended from outside. Newest first.
    - `groups`: of a set with `spec.scheduling` that has Jobs that are not ready.
    """

    now: datetime
    jobset: JobSet
    jobs: tuple[SeenJob, ...] | None = None
    foreign: Mapping[str, Owner] = field(default_factory=dict)
    namespace: SeenConditions | None = None
    leftover_pods: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    ending: tuple[SeenPod, ...] = ()
    earlier: tuple[SeenPod, ...] = ()
    warnings: tuple[SeenEvent, ...] = ()
    service_made: bool = False
    job_warnings: tuple[SeenEvent, ...] = ()
    pod_warnings: tuple[SeenEvent, ...] = ()
    pods: tuple[SeenPod, ...] | None = None
    gated: Mapping[str, int] = field(default_factory=dict)
    nodes: Mapping[str, Mapping[str, str]] | None = None
    node_offers: Nodes | None = None
    holders: Sequence[SeenPod] | None = None
    placed: Sequence[SeenPod] | None = None
    late_agents: tuple[Pod, ...] = ()
    lease: SeenLease | None = None
    manager: SeenPod | None = None
    managers: tuple[SeenPod, ...] = ()
    webhooks: State | None = None
    quotas: Mapping[str, SeenQuota | None] = field(default_factory=dict)
    claims: Mapping[str, SeenClaim | None] = field(default_factory=dict)
    device_claims: Mapping[str, bool] = field(default_factory=dict)
    storage_classes: Sequence[SeenStorageClass] | None = None
    nodes_by_name: dict[str, SeenNode | None] = field(default_factory=dict)
    kueue: bool = True
    workloads: Sequence[SeenConditions] = ()
    ends: tuple[SeenEvent, ...] = ()
    groups: SeenGroups | None = None
    unseen: tuple[str, ...] = ()
