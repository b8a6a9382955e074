"""core/v1 Pods as they are read. Each record has the fields that decisions read; all others are dropped on decode.

- `Pod` is cached, all pods of all JobSets (gate InPlaceRestart): a few hundred bytes, whatever the pod carries.
- `DetailedPod` is looked up, judged and forgotten; of `PodMetadata` only the metadata was sent.
- `api.topology` makes its own, smaller records of these, and caches them.

Nothing is written through these records. Pods that are about to be stored are read by `webhooks.pod.subject`.
"""

import msgspec

from api import keys
from kube.model.meta import Base, Identity

DEFAULT_SCHEDULER = "default-scheduler"


LONGEST_REPORT = 1024
"""Characters that are cached of an annotation of a pod, which may have 256 KiB."""


class Reports(Base, frozen=True, kw_only=True):
    """The annotations of a cached pod that are read: what its in-place restart agent reported. None = absent."""

    in_place_restart_attempt: str | None = msgspec.field(name=keys.IN_PLACE_RESTART_ATTEMPT, default=None)
    in_place_restart_failure: str | None = msgspec.field(name=keys.IN_PLACE_RESTART_FAILURE, default=None)
    maintenance_acknowledged: str | None = msgspec.field(name=keys.MAINTENANCE_ACKNOWLEDGED, default=None)


class CachedPodMeta(Identity, frozen=True, kw_only=True):
    """Identity of a cached pod and what its agent reported."""

    deletion_timestamp: str | None = None
    annotations: Reports = Reports()


class CachedEnd(Base, frozen=True, kw_only=True):
    """core/v1 ContainerStateTerminated of a cached pod."""

    exit_code: int = 0
    reason: str = ""


class CachedState(Base, frozen=True, kw_only=True):
    """core/v1 ContainerState of a cached pod."""

    terminated: CachedEnd | None = None


class CachedContainer(Base, frozen=True, kw_only=True):
    """core/v1 ContainerStatus of a cached pod."""

    name: str = ""
    restart_count: int = 0
    state: CachedState = CachedState()


class CachedPodStatus(Base, frozen=True, kw_only=True):
    """core/v1 PodStatus. `phase` is Pending, Running, Succeeded, Failed, Unknown, or empty before the first report."""

    phase: str = ""
    init_container_statuses: tuple[CachedContainer, ...] = ()
    container_statuses: tuple[CachedContainer, ...] = ()


class CachedPodSpec(Base, frozen=True, kw_only=True):
    """core/v1 PodSpec of a cached pod."""

    node_name: str = ""


class Pod(Base, frozen=True, kw_only=True):
    """A pod as it is cached."""

    metadata: CachedPodMeta
    spec: CachedPodSpec = CachedPodSpec()
    status: CachedPodStatus = CachedPodStatus()

    @property
    def job_uid(self) -> str:
        """UID of the Job that controls it; empty without one."""
        ref = self.metadata.controller()
        return ref.uid if ref is not None and ref.kind == "Job" else ""

    @property
    def counts(self) -> bool:
        """Whether what its agent reports counts: it neither has failed nor is being deleted."""
        return self.status.phase != "Failed" and self.metadata.deletion_timestamp is None

    @property
    def restarts(self) -> int:
        """The highest restart count of its containers, init containers (sidecars) included."""
        status = self.status
        return max((c.restart_count for c in (*status.init_container_statuses, *status.container_statuses)), default=0)


def with_short_reports(pod: Pod) -> Pod:
    """The pod with annotations of a length that can be kept of very many."""
    reports = pod.metadata.annotations
    long = {
        name: text[:LONGEST_REPORT]
        for name, text in msgspec.structs.asdict(reports).items()
        if text is not None and len(text) > LONGEST_REPORT
    }
    if not long:
        return pod
    short = msgspec.structs.replace(reports, **long)
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, annotations=short))


class PodLabels(Base, frozen=True, kw_only=True):
    """The labels that are read; empty = absent. All but `job_uid` are ours."""

    jobset: str = msgspec.field(name=keys.JOBSET_NAME, default="")
    jobset_uid: str = msgspec.field(name=keys.JOBSET_UID, default="")
    attempt: str = msgspec.field(name=keys.RESTART_ATTEMPT, default="")
    priority: str = msgspec.field(name=keys.PRIORITY, default="")
    job_uid: str = msgspec.field(name=keys.JOB_UID, default="")
    replicated_job: str = msgspec.field(name=keys.REPLICATED_JOB_NAME, default="")
    spares: str = msgspec.field(name=keys.SPARES, default="")
    job_key: str = msgspec.field(name=keys.JOB_KEY, default="")


class PodAnnotations(Base, frozen=True, kw_only=True):
    """The annotations that are read. None = absent.

    `index_failures`: how often the pod's index had failed before it, where a Job counts that.
    """

    jobset: str | None = msgspec.field(name=keys.JOBSET_NAME, default=None)
    index: str | None = msgspec.field(name=keys.COMPLETION_INDEX, default=None)
    topology: str | None = msgspec.field(name=keys.EXCLUSIVE_TOPOLOGY, default=None)
    node_selector: str | None = msgspec.field(name=keys.NODE_SELECTOR_STRATEGY, default=None)
    index_failures: str | None = msgspec.field(name=keys.INDEX_FAILURES, default=None)


class PodMeta(Identity, frozen=True, kw_only=True):
    """Metadata of a pod that is looked at. Times are RFC 3339."""

    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    finalizers: tuple[str, ...] = ()
    labels: PodLabels = PodLabels()
    annotations: PodAnnotations = PodAnnotations()

    @property
    def topology(self) -> str | None:
        """As `api.exclusive.topology_of`."""
        ours = self.annotations
        return None if ours.jobset is None or ours.node_selector is not None else ours.topology

    @property
    def leads(self) -> bool:
        """As `api.exclusive.leads`."""
        return self.annotations.index == "0"


class PodMetadata(Base, frozen=True, kw_only=True):
    """A pod of which only metadata was sent."""

    metadata: PodMeta


class SchedulingGate(Base, frozen=True, kw_only=True):
    """core/v1 PodSchedulingGate."""

    name: str = ""


class AffinityTerm(Base, frozen=True, kw_only=True):
    """core/v1 PodAffinityTerm."""

    topology_key: str = ""


class PodAffinity(Base, frozen=True, kw_only=True):
    """core/v1 PodAffinity: the terms that must hold."""

    required: tuple[AffinityTerm, ...] = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=()
    )


class Affinity(Base, frozen=True, kw_only=True):
    """core/v1 Affinity."""

    pod_affinity: PodAffinity = PodAffinity()


class PodSpec(Base, frozen=True, kw_only=True):
    """core/v1 PodSpec: how the pod is scheduled. `node_name` is empty until it is bound."""

    node_name: str = ""
    node_selector: dict[str, str] = {}
    scheduler_name: str = DEFAULT_SCHEDULER
    priority: int | None = None
    preemption_policy: str = ""
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    affinity: Affinity = Affinity()


class Waiting(Base, frozen=True, kw_only=True):
    """core/v1 ContainerStateWaiting."""

    reason: str = ""
    message: str = ""


class Terminated(Base, frozen=True, kw_only=True):
    """core/v1 ContainerStateTerminated. `finished_at` is RFC 3339; `message` may be of the container itself."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""
    finished_at: str | None = None


class ContainerState(Base, frozen=True, kw_only=True):
    """core/v1 ContainerState; neither = running, or waiting without a reason."""

    waiting: Waiting | None = None
    terminated: Terminated | None = None


class ContainerStatus(Base, frozen=True, kw_only=True):
    """core/v1 ContainerStatus. `last_state` says how the run before this one ended."""

    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodCondition(Base, frozen=True, kw_only=True):
    """core/v1 PodCondition. Any client may add one, and the API server stores an absent time as null."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None

    @property
    def since(self) -> str:
        """When the status last changed, RFC 3339; empty if it has no time."""
        return self.last_transition_time or ""


class PodStatus(Base, frozen=True, kw_only=True):
    """core/v1 PodStatus. For `phase` see `CachedPodStatus`."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    nominated_node_name: str = ""
    start_time: str | None = None
    conditions: tuple[PodCondition, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()

    def condition(self, kind: str) -> PodCondition | None:
        """The condition of that type, whatever its status."""
        return next((c for c in self.conditions if c.type == kind), None)


class DetailedPod(PodMetadata, frozen=True, kw_only=True):
    """A pod as it is looked up. Never cached."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def live(self) -> bool:
        """Neither ended nor being deleted."""
        return self.metadata.deletion_timestamp is None and self.status.phase not in {"Succeeded", "Failed"}

    @property
    def domain(self) -> str:
        """The domain to which its node selector ties it in exclusive placement; empty for a leader."""
        return self.spec.node_selector.get(self.metadata.topology or "", "")

    @property
    def awaits_leader(self) -> bool:
        """Whether it has our scheduling gate, and so cannot be misplaced."""
        return any(gate.name == keys.PLACEMENT_GATE for gate in self.spec.scheduling_gates)

    @property
    def follows(self) -> bool:
        """Whether it is a follower of an exclusive Job that is neither ended nor ending."""
        return self.live and self.metadata.topology is not None and not self.metadata.leads

    def finds_leader_by_itself(self, topology: str) -> bool:
        """Whether an affinity ties it to its leader's domain, as admission policies without a manager write it."""
        return any(term.topology_key == topology for term in self.spec.affinity.pod_affinity.required)
