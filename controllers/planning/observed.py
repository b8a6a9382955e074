"""The observed state of one JobSet, which a plan is made from. This module has records only."""

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
    """A container that ended with an exit code other than 0. `ended_at` is RFC 3339, empty if it is not known.

    `message`: the last part of its termination message. `reason`: the reason for its end; empty if the reason is Error.
    """

    container: str
    exit_code: int
    ended_at: str = ""
    message: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class FailedPod:
    """A pod of phase Failed.

    - `ends`: first the containers, then the init containers, in the order of the pod's spec. If a container and an init
      container end in the same second, the container counts as the first to end: the init container is a sidecar that
      ended with it. `ended_at`: when the last container ended, RFC 3339, may be empty. `conditions`: (type, status).
    - `deleting`: the pod is being deleted, which may be why it failed.
    - `index_failures`: how often the pod's completion index had failed before; 0 if the Job does not count failures by
      index.
    - `reasons`: the reason in the pod's status, and the reasons for which its containers ended. `topology`, `domain`:
      in exclusive placement, the key and value of the node label by which the Job was placed; a leader has no `domain`.
    - `kubelet_reason`: reason and message of the pod's status if the kubelet has evicted or refused it.
      `deletion_asked`: when the pod's deletion was asked for, RFC 3339; empty if it is not known.
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

    `unschedulable`: the oldest pod of the same Job for which kube-scheduler has found no node; None if there is no such
    pod. `nodeless`: the oldest pod of the same Job that one more node may help; None if there is no such pod.
    """

    name: str
    node: str
    created: str
    reason: str
    nodeless: "PendingPod | None" = None
    unschedulable: "PendingPod | None" = None


@dataclass(frozen=True, slots=True)
class PodOnTaintedNode:
    """A pod on a node that was deleted, or that has a taint or an evicted pod for which the set has a policy.

    - `job_uid`: the UID of the Job that controls the pod. `created`: RFC 3339.
    - `taint`: the key of the taint; empty if the node does not exist, or has no taint and pods on it are evicted.
      `tainted_since`: when the taint was added, RFC 3339. If the API server does not say when, or the node does not
      exist, `tainted_since` is when this process first saw that; for `maintenance` it is then empty.
    - `deleting`: the pod has a deletion timestamp. `ended`: its phase is Succeeded or Failed. `evicted`: it is being
      deleted by an eviction, and has not succeeded; only for nodes in maintenance. `tracked`: its Job will count it
      when it has ended.
    - `topology`, `domain`: in exclusive placement, the key and value of the node label by which the Job was placed; the
      value is empty if it is not known.
    """

    name: str
    uid: str
    job_uid: str
    node: str
    taint: str
    tainted_since: str
    created: str = ""
    deleting: bool = False
    ended: bool = False
    topology: str = ""
    domain: str = ""
    evicted: bool = False
    tracked: bool = False


FailedPodsByJob = Mapping[str, tuple[FailedPod, ...]]
"""Failed pods by the UID of their Job. A Job that was looked up and has no failed pods has an empty tuple."""


@dataclass(frozen=True, slots=True)
class KnownGroups:
    """The scheduling groups that a set owns, and data about the scheduling API.

    `served`: which parts of that API the API server serves. `required`: whether the set's Jobs wait if the API server
    lacks a part that the groups need; if not, they run without groups. `error`: reason and message of a failed creation
    a moment ago.
    """

    served: Served = NOT_KNOWN
    required: bool = True
    error: tuple[str, str] | None = None
    workloads: tuple[StoredWorkload, ...] = ()
    composites: tuple[StoredGroup, ...] = ()
    pod_groups: tuple[StoredGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class Spares:
    """One ReplicatedJob of spares, and the Jobs of it that exist."""

    group: ReplicatedJob
    jobs: tuple[Job, ...] = ()


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything that a plan may read.

    - `jobs`: Jobs whose controlling owner has the JobSet's UID, including Jobs that are being deleted.
    - `departed`: Jobs of the JobSet that were deleted after they had finished or were bound to fail. The status may
      not record their end yet.
    - `foreign_owners`: by name, the owner of each Job that is labeled with this JobSet's name and has another owner.
    - `unreadable`: by name, what is wrong with each Job of the namespace that this program cannot decode.
    - `service`: the Service of the wanted name, whoever owns it.
    - `claims`: names of the volume claims that the set wants and that exist.
    - `pods`: pods of `jobs`, looked up for in-place restart only. `last_ends`: by UID of the pod, how a container of it
      last failed, as far as this process has seen.
    - `leftovers`: the owners of pods of earlier attempts that still exist; None: not known.
    - `priorities`: the cluster's priority classes; None: pods are not labeled with their priority.
    - `groups`: the scheduling groups; None: the set wants none and has none.
    - `reported_group`: the PodGroup that the last plan of this process reported as unschedulable; empty: not known.
    - `failed_pods`: the answers to `FailedPodQuery` so far.
    - `pending_pods`: by UID of the Job, its oldest pending pod; None: pending pods were not looked up.
      `next_start_check`: before this time (RFC 3339; empty: any) no check can find a pod that has been pending for too
      long.
    - `pods_on_failed_nodes`: from the caches of pods and nodes; empty unless the set has `nodeFailure`. `read_nodes`:
      names of the nodes that were read, together with the pods on them, for this plan.
    - `pods_to_move`: pods on nodes with a taint of the set's `maintenance`, or with an evicted pod of the set.
      `nodes_in_maintenance`: names of these nodes, and of the nodes that the status names and that still have such a
      taint.
    - `job_window`: the measured limit of Jobs that may wait for the Job controller; 0: not known. `others_wait`:
      whether another set has Jobs that wait for the Job controller, or Jobs to create or resume.
    - `held_back`: by UID of each Job that another client keeps suspending, the seconds until it may be resumed.
    - `spares`: the groups of spares and their Jobs, once `separate_spares` has removed both from `jobset` and `jobs`.
    - `placeholders`: Jobs that hold room for the Jobs that an elastic set runs without; they are not among `jobs`.
    - `spare_pods`: ready pods of spares, and pods without a node that may take their places. `pool_is_read`: whether
      this process has read them. `served_pods`: UIDs of the pods that were given a place a moment ago.
    - `now`: RFC 3339 in UTC, whole seconds. `second_passed`: the fraction of that second that has passed.
    - `since_status_write`: seconds since the last write of the status; None: this process has not written it.
    - `counts_waited`: seconds since the counts began to differ from the stored counts; None: not known.
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
    unreadable: Mapping[str, str] = field(default_factory=dict)
    pending_pods: Mapping[str, PendingPod] | None = None
    next_start_check: str = ""
    pods_on_failed_nodes: tuple[PodOnTaintedNode, ...] = ()
    read_nodes: frozenset[str] = frozenset()
    pods_to_move: tuple[PodOnTaintedNode, ...] = ()
    spares: tuple[Spares, ...] = ()
    placeholders: tuple[Job, ...] = ()
    spare_pods: tuple[PoolPod, ...] = ()
    pool_is_read: bool = True
    served_pods: frozenset[str] = frozenset()
    nodes_in_maintenance: frozenset[str] = frozenset()
    held_back: Mapping[str, float] = field(default_factory=dict)
    second_passed: float = 0.0
    job_window: int = 0
    others_wait: bool = False
