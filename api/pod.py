"""Records of core/v1 Pods, with the fields that this program reads. The decoder drops all other fields.

- `Pod` takes a few hundred bytes. With the feature gate InPlaceRestart, all pods of all JobSets are cached as `Pod`.
- `DetailedPod` has more fields, and is requested only when a decision needs it. `PodMetadata` has only metadata.
- `api.topology`, `api.nodes` and `api.spare_pods` make small records for other caches from these two records.

These records are never written back to the API server. In exclusive placement, the leader of a Job is its pod with
completion index 0, and the other pods are its followers (`api.exclusive`).
"""

import msgspec

from api import keys
from kube.model.meta import Base, Identity

DEFAULT_SCHEDULER = "default-scheduler"

LONGEST_REPORT = 1024
"""At most this many characters of an annotation are cached. An annotation may have 256 KiB."""


class Reports(Base, frozen=True, kw_only=True):
    """The annotations that the agent for restarts in place writes on its pod (`api.restart_agent`). None: absent."""

    in_place_restart_attempt: str | None = msgspec.field(name=keys.IN_PLACE_RESTART_ATTEMPT, default=None)
    in_place_restart_failure: str | None = msgspec.field(name=keys.IN_PLACE_RESTART_FAILURE, default=None)
    maintenance_acknowledged: str | None = msgspec.field(name=keys.MAINTENANCE_ACKNOWLEDGED, default=None)


class CachedPodMeta(Identity, frozen=True, kw_only=True):
    """The metadata of a cached pod, with the reports of its agent."""

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
    """A pod in the cache."""

    metadata: CachedPodMeta
    spec: CachedPodSpec = CachedPodSpec()
    status: CachedPodStatus = CachedPodStatus()

    @property
    def job_uid(self) -> str:
        """The UID of the Job that controls the pod; empty if no Job does."""
        ref = self.metadata.controller()
        return ref.uid if ref is not None and ref.kind == "Job" else ""

    @property
    def is_reporting(self) -> bool:
        """Whether the reports of the pod's agent count: the pod has not failed and is not being deleted."""
        return self.status.phase != "Failed" and self.metadata.deletion_timestamp is None

    @property
    def restarts(self) -> int:
        """The highest restart count of the pod's containers, including init containers (sidecars)."""
        status = self.status
        return max((c.restart_count for c in (*status.init_container_statuses, *status.container_statuses)), default=0)


def with_short_reports(pod: Pod) -> Pod:
    """The pod with each annotation cut to `LONGEST_REPORT` characters."""
    reports = pod.metadata.annotations
    cut_reports = {
        name: text[:LONGEST_REPORT]
        for name, text in msgspec.structs.asdict(reports).items()
        if text is not None and len(text) > LONGEST_REPORT
    }
    if not cut_reports:
        return pod
    annotations = msgspec.structs.replace(reports, **cut_reports)
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, annotations=annotations))


class PodLabels(Base, frozen=True, kw_only=True):
    """The labels that this program reads; empty: absent."""

    jobset: str = msgspec.field(name=keys.JOBSET_NAME, default="")
    jobset_uid: str = msgspec.field(name=keys.JOBSET_UID, default="")
    attempt: str = msgspec.field(name=keys.RESTART_ATTEMPT, default="")
    priority: str = msgspec.field(name=keys.PRIORITY, default="")
    job_uid: str = msgspec.field(name=keys.JOB_UID, default="")
    replicated_job: str = msgspec.field(name=keys.REPLICATED_JOB_NAME, default="")
    spares: str = msgspec.field(name=keys.SPARES, default="")
    job_key: str = msgspec.field(name=keys.JOB_KEY, default="")


class PodAnnotations(Base, frozen=True, kw_only=True):
    """The annotations that this program reads. None: absent.

    `index_failures`: how many earlier pods with the same completion index have failed, if the Job counts them
    (backoffLimitPerIndex).
    """

    jobset: str | None = msgspec.field(name=keys.JOBSET_NAME, default=None)
    index: str | None = msgspec.field(name=keys.COMPLETION_INDEX, default=None)
    topology: str | None = msgspec.field(name=keys.EXCLUSIVE_TOPOLOGY, default=None)
    node_selector: str | None = msgspec.field(name=keys.NODE_SELECTOR_STRATEGY, default=None)
    index_failures: str | None = msgspec.field(name=keys.INDEX_FAILURES, default=None)


class PodMeta(Identity, frozen=True, kw_only=True):
    """The fields of a pod's metadata that this program reads. Times are RFC 3339."""

    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    finalizers: tuple[str, ...] = ()
    labels: PodLabels = PodLabels()
    annotations: PodAnnotations = PodAnnotations()

    @property
    def topology(self) -> str | None:
        """The topology key of the pod's exclusive placement, as in `api.exclusive.topology_of`."""
        annotations = self.annotations
        return None if annotations.jobset is None or annotations.node_selector is not None else annotations.topology

    @property
    def leads(self) -> bool:
        """Whether the pod is the leader of its Job, as in `api.exclusive.leads`."""
        return self.annotations.index == "0"


class PodMetadata(Base, frozen=True, kw_only=True):
    """A pod of which only the metadata was requested."""

    metadata: PodMeta


class SchedulingGate(Base, frozen=True, kw_only=True):
    """core/v1 PodSchedulingGate."""

    name: str = ""


class AffinityTerm(Base, frozen=True, kw_only=True):
    """core/v1 PodAffinityTerm."""

    topology_key: str = ""


class PodAffinity(Base, frozen=True, kw_only=True):
    """The required terms of core/v1 PodAffinity."""

    required: tuple[AffinityTerm, ...] = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=()
    )


class Affinity(Base, frozen=True, kw_only=True):
    """core/v1 Affinity."""

    pod_affinity: PodAffinity = PodAffinity()


class PodSpec(Base, frozen=True, kw_only=True):
    """The fields of core/v1 PodSpec for scheduling. `node_name` is empty until the pod is bound."""

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
    """core/v1 ContainerStateTerminated. `finished_at` is RFC 3339. The container itself may have written `message`."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""
    finished_at: str | None = None


class ContainerState(Base, frozen=True, kw_only=True):
    """core/v1 ContainerState. If both are None, the container runs, or waits without a reason."""

    waiting: Waiting | None = None
    terminated: Terminated | None = None


class ContainerStatus(Base, frozen=True, kw_only=True):
    """core/v1 ContainerStatus. `last_state` says how the previous run ended."""

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
        """When the status last changed, RFC 3339; empty if that is absent."""
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
        """The condition of this type, whatever its status; None if it is absent."""
        return next((c for c in self.conditions if c.type == kind), None)


class DetailedPod(PodMetadata, frozen=True, kw_only=True):
    """A pod that is requested when a decision needs it. It is never cached."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def is_live(self) -> bool:
        """Whether the pod has neither ended nor is being deleted."""
        return self.metadata.deletion_timestamp is None and self.status.phase not in {"Succeeded", "Failed"}

    @property
    def domain(self) -> str:
        """The domain that the pod's node selector selects in exclusive placement; empty for a leader."""
        return self.spec.node_selector.get(self.metadata.topology or "", "")

    @property
    def awaits_leader(self) -> bool:
        """Whether the pod has the scheduling gate of exclusive placement, which holds followers without a domain."""
        return any(gate.name == keys.PLACEMENT_GATE for gate in self.spec.scheduling_gates)

    @property
    def follows(self) -> bool:
        """Whether the pod is a live follower of a Job with exclusive placement."""
        return self.is_live and self.metadata.topology is not None and not self.metadata.leads

    def finds_leader_by_itself(self, topology: str) -> bool:
        """Whether the pod has an affinity to its leader's domain, which admission policies without a manager add."""
        return any(term.topology_key == topology for term in self.spec.affinity.pod_affinity.required)
