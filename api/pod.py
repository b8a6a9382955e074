"""The part of a core/v1 Pod that decisions read: whose it is, where it ran, how its containers fared.

A cluster has far more pods than Jobs, so a cached pod is a few hundred bytes whatever it carries: labels, containers
and all annotations but one are dropped on decode. Nothing is written through these records.
"""

import msgspec

from api.keys import IN_PLACE_RESTART_ATTEMPT, INDEX_FAILURES, JOB_UID
from api.meta import Base, Identity


class PodAnnotations(Base, frozen=True, kw_only=True):
    """The annotations that are read. None = absent."""

    in_place_restart_attempt: str | None = msgspec.field(name=IN_PLACE_RESTART_ATTEMPT, default=None)


class PodMeta(Identity, frozen=True, kw_only=True):
    """Identity of a pod and what its in-place restart agent reported."""

    deletion_timestamp: str | None = None
    annotations: PodAnnotations = PodAnnotations()


class PodSpec(Base, frozen=True, kw_only=True):
    """core/v1 PodSpec: the node, empty until the pod is bound."""

    node_name: str = ""


class Terminated(Base, frozen=True, kw_only=True):
    """core/v1 ContainerStateTerminated. `finished_at` is RFC 3339."""

    exit_code: int = 0
    reason: str = ""
    finished_at: str | None = None


class ContainerState(Base, frozen=True, kw_only=True):
    """core/v1 ContainerState; None = waiting or running."""

    terminated: Terminated | None = None


class ContainerStatus(Base, frozen=True, kw_only=True):
    """core/v1 ContainerStatus. `last_state` tells how the run before this one ended."""

    name: str = ""
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodStatus(Base, frozen=True, kw_only=True):
    """core/v1 PodStatus. `phase` is Pending, Running, Succeeded, Failed, Unknown, or empty before the first report."""

    phase: str = ""
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(Base, frozen=True, kw_only=True):
    """A pod as it is cached."""

    metadata: PodMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def restarts(self) -> int:
        """The highest restart count of its containers, init containers (sidecars) included."""
        status = self.status
        return max((c.restart_count for c in (*status.init_container_statuses, *status.container_statuses)), default=0)


class FailedPodLabels(Base, frozen=True, kw_only=True):
    """The one label of a failed pod that is read: the UID of its Job."""

    job_uid: str = msgspec.field(name=JOB_UID, default="")


class FailedPodAnnotations(PodAnnotations, frozen=True, kw_only=True):
    """What is read of a failed pod besides: how often its index had failed before it, where a Job counts that."""

    index_failures: str | None = msgspec.field(name=INDEX_FAILURES, default=None)


class FailedPodMeta(PodMeta, frozen=True, kw_only=True):
    """Metadata of a failed pod."""

    labels: FailedPodLabels = FailedPodLabels()
    annotations: FailedPodAnnotations = FailedPodAnnotations()


class PodCondition(Base, frozen=True, kw_only=True):
    """core/v1 PodCondition. Anybody may add one, and the API server stores a time that was left out as null."""

    type: str = ""
    status: str = ""
    last_transition_time: str | None = None


class FailedPodStatus(PodStatus, frozen=True, kw_only=True):
    """Status of a failed pod: conditions tell of disruptions, by which failures are told apart."""

    conditions: tuple[PodCondition, ...] = ()


class FailedPod(Pod, frozen=True, kw_only=True):
    """A pod as it is looked up once its Job has failed. Never cached, so it may say more."""

    metadata: FailedPodMeta
    status: FailedPodStatus = FailedPodStatus()
