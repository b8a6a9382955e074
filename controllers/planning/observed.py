"""Records of the observed state of one JobSet, from which a plan (what to do about the JobSet) is made.

`Observed` has all of the state. The other records are for its fields: pods that failed, do not start or may lose their
nodes, the groups by which kube-scheduler places pods, and spares (Jobs that run idle to hold nodes). An attempt is the
time between two restarts of the set.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from api.batch import Job, Service
from api.gang_api import NOT_KNOWN, Served
from api.gang_status import StoredGroup, StoredWorkload
from api.jobset import JobSet, ReplicatedJob
from api.leftovers import Leftovers
from api.pod import Pod
from api.priority import Priorities
from api.spare_pods import PoolPod
from kube.model.meta import Owner


@dataclass(frozen=True, slots=True)
class Ended:
    """How a container ended with an exit code other than 0.

    `ended_at`: RFC 3339, empty if not known. `message`: the last part of the container's termination message. `reason`:
    the reason that the kubelet gives; empty if the reason is Error.
    """

    container: str
    exit_code: int
    ended_at: str = ""
    message: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class FailedPod:
    """A pod of phase Failed.

    - `ends`: how its containers ended, and then how its init containers ended, in the order of the pod's spec. If a
      container and an init container (a sidecar) end in the same second, the container counts as the first to end.
    - `ended_at`: when the last container ended, RFC 3339, may be empty. `conditions`: (type, status).
    - `deleting`: the pod is being deleted, which may be why it failed. `deletion_asked`: when its deletion was
      requested, RFC 3339; empty if not known.
    - `index_failures`: how often the pod's completion index had failed before; 0 if the Job does not count failures by
      index.
    - `reasons`: the reason in the pod's status, and the reasons for which its containers ended.
    - `topology`, `domain`: in exclusive placement, the key and value of the node label by which the Job was placed. The
      `domain` is empty for a leader, which is the pod with completion index 0.
    - `kubelet_reason`: reason and message of the pod's status if the kubelet has evicted or refused the pod.
    """

    name: str
    node: str = ""
    ends: tuple[Ended, ...] = ()
    ended_at: str = ""
    conditions: frozenset[tuple[str, str]] = frozenset()
    deleting: bool = False
    index_failures: int = 0
    reasons: tuple[str, ...] = ()
    topology: str = ""
    domain: str = ""
    kubelet_reason: str = ""
    deletion_asked: str = ""


@dataclass(frozen=True, slots=True)
class PendingPod:
    """A pod of phase Pending without a scheduling gate. `created`: RFC 3339. `reason`: why it does not run.

    - `unschedulable`: the oldest pod of the same Job for which kube-scheduler has found no node; None if there is none.
    - `nodeless`: the oldest pod of the same Job that has no node and might get one if its node affinity were different.
      None: there is none. The node affinity keeps pods away from nodes that failed the set.
    """

    name: str
    node: str
    created: str
    reason: str
    nodeless: "PendingPod | None" = None
    unschedulable: "PendingPod | None" = None


@dataclass(frozen=True, slots=True)
class PodAtRisk:
    """A pod on a failed node (`failurePolicy.nodeFailure`) or on a node in maintenance (`failurePolicy.maintenance`).

    A failed node does not exist any more, or has a taint. A node in maintenance has a taint, or an evicted pod of the
    set.

    - `job_uid`: the UID of the Job that controls the pod. `created`: RFC 3339.
    - `taint`: the key of the taint; empty if the node does not exist or has no taint.
    - `at_risk_since`: when the taint was added, RFC 3339. If the API server does not know when, or the node does not
      exist: when this process first saw the failed node so; for a node in maintenance, empty.
    - `deleting`: the pod has a deletion timestamp. `ended`: its phase is Succeeded or Failed.
    - `evicted`: an eviction deletes the pod, and the pod has not succeeded; only for nodes in maintenance.
    - `is_tracked_by_job`: the pod has the finalizer batch.kubernetes.io/job-tracking, so the Job will count its end.
    - `topology`, `domain`: in exclusive placement, the key and value of the node label by which the Job was placed. The
      value is empty if it is not known.
    """

    name: str
    uid: str
    job_uid: str
    node: str
    taint: str
    at_risk_since: str
    created: str = ""
    deleting: bool = False
    ended: bool = False
    topology: str = ""
    domain: str = ""
    evicted: bool = False
    is_tracked_by_job: bool = False


FailedPodsByJob = Mapping[str, tuple[FailedPod, ...]]
"""Failed pods by the UID of their Job. For a Job that has no failed pods, the tuple is empty.

A Job whose pods were not looked up has no entry.
"""


@dataclass(frozen=True, slots=True)
class KnownGroups:
    """The groups of scheduling.k8s.io that a set owns, and what this process knows about that API.

    - `served`: which parts of scheduling.k8s.io the API server serves.
    - `required`: whether Jobs wait if the API server lacks a part that their groups need. Otherwise they run without
      groups.
    - `error`: reason and message of a creation of a group that failed a moment ago; None without such a failure.
    """

    served: Served = NOT_KNOWN
    required: bool = True
    error: tuple[str, str] | None = None
    workloads: tuple[StoredWorkload, ...] = ()
    composites: tuple[StoredGroup, ...] = ()
    pod_groups: tuple[StoredGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class Spares:
    """One ReplicatedJob of spares, and those of its Jobs that exist."""

    rjob: ReplicatedJob
    jobs: tuple[Job, ...] = ()


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything that a plan may read.

    - `jobs`: Jobs whose controlling owner has the JobSet's UID, including Jobs that are being deleted.
    - `departed`: Jobs of the JobSet that were deleted after they had finished or got the condition FailureTarget. The
      status may not record their end yet.
    - `foreign_owners`: by name, the owner of each Job that is labeled with this JobSet's name and has another owner.
    - `undecodable_jobs`: by name, what is wrong with each Job of the namespace that this program cannot decode.
    - `service`: the Service of the wanted name, whoever owns it.
    - `claims`: names of the volume claims that the set wants and that exist.
    - `pods`: pods of `jobs`; empty unless the set restarts in place (restarts containers and keeps pods).
      `last_ends`: by UID of the pod, how one of its containers last failed, as far as this process has seen.
    - `leftovers`: the pods of earlier attempts that still exist (leftover pods), by their Job; None: not known.
    - `priorities`: the cluster's priority classes; None: this program does not label pods with their priority.
    - `groups`: the groups by which kube-scheduler places the pods; None: the set wants none and has none.
    - `reported_group`: the PodGroup that the last plan of this process reported as unschedulable; empty: not known.
    - `failed_pods`: the failed pods that a plan has asked for so far (`FailedPodQuery`).
    - `pending_pods`: by UID of the Job, its oldest pending pod; None: pending pods were not looked up.
      `next_start_check`: the earliest time at which a pod can have been pending for too long, RFC 3339; empty: now.
    - `pods_on_failed_nodes`: from the caches of pods and nodes; empty unless the set has `nodeFailure`. `read_nodes`:
      names of the nodes that were read, together with the pods on them, for this plan.
    - `pods_to_move`: pods on nodes with a taint of the set's `maintenance`, or with an evicted pod of the set.
      `nodes_in_maintenance`: names of these nodes, and of the nodes that the status names and that still have such a
      taint.
    - `job_window`: how many unsuspended Jobs of the set may be without pods at a time, while no other set waits for the
      Job controller. This process derives the limit from the speed of the Job controller; 0: not known.
      `others_wait`: whether another set has Jobs that wait for the Job controller, or Jobs to create or resume.
    - `held_back`: by UID of each Job that another client keeps suspending, the seconds until the Job may be resumed.
    - `spares`: the ReplicatedJobs of spares with their Jobs, which `separate_spares` removes from `jobset` and `jobs`.
    - `placeholders`: idle Jobs in place of replicas that were removed after a loss of nodes. When their pods get nodes,
      there is room to restore the replicas. They are not among `jobs`.
    - `spare_pods`: ready pods of spares, and pods without a node that may get the nodes of spare pods.
      `spare_pods_are_read`: whether this process has read them from the API server, and not only from the cache.
      `served_pods`: UIDs of the pods that were given the node of a spare pod a moment ago.
    - `now`: RFC 3339 in UTC, whole seconds. `second_passed`: the fraction of that second that has passed.
    - `since_status_write`: seconds since the last write of the status; None: this process has not written the status.
    - `counts_waited`: seconds since the counts of Jobs began to differ from the counts in the status; None: not known.
    - `write_seconds`: how many seconds the writes of a plan take now.
    """

    jobset: JobSet
    jobs: tuple[Job, ...]
    service: Service | None
    claims: frozenset[str]
    now: str
    since_status_write: float | None = None
    counts_waited: float | None = None
    write_seconds: float = 0.0
    departed: tuple[Job, ...] = ()
    foreign_owners: Mapping[str, Owner] = field(default_factory=dict)
    pods: tuple[Pod, ...] = ()
    last_ends: Mapping[str, Ended] = field(default_factory=dict)
    failed_pods: FailedPodsByJob = field(default_factory=dict)
    leftovers: Leftovers | None = field(default_factory=dict)
    priorities: Priorities | None = None
    groups: KnownGroups | None = None
    reported_group: str = ""
    undecodable_jobs: Mapping[str, str] = field(default_factory=dict)
    pending_pods: Mapping[str, PendingPod] | None = None
    next_start_check: str = ""
    pods_on_failed_nodes: tuple[PodAtRisk, ...] = ()
    read_nodes: frozenset[str] = frozenset()
    pods_to_move: tuple[PodAtRisk, ...] = ()
    spares: tuple[Spares, ...] = ()
    placeholders: tuple[Job, ...] = ()
    spare_pods: tuple[PoolPod, ...] = ()
    spare_pods_are_read: bool = True
    served_pods: frozenset[str] = frozenset()
    nodes_in_maintenance: frozenset[str] = frozenset()
    held_back: Mapping[str, float] = field(default_factory=dict)
    second_passed: float = 0.0
    job_window: int = 0
    others_wait: bool = False
