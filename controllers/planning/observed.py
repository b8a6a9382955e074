"""The input of a plan: one JobSet, its children, and data about them beyond the caches. Records only."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from api.batch import Job, Service
from api.gang_api import NOT_KNOWN, Served
from api.gang_status import StoredGroup, StoredWorkload
from api.jobset import JobSet, ReplicatedJob
from api.pod import Pod
from api.priority import Priorities
from api.spare_pods import PoolPod
from kube.model.meta import Owner


@dataclass(frozen=True, slots=True)
class Ended:
    """A container that ended with an exit code other than 0. `at` is RFC 3339, empty when it is not known.

    `message`: the end of its termination message. `why`: the reason of its end, if it has one other than Error.
    """

    container: str
    exit_code: int
    at: str = ""
    message: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class FailedPod:
    """A pod of phase Failed.

    - `ends`: containers first, then init containers, each in the order of the pod. So if both end in the same second,
      the container counts as the first: the init container is a sidecar that ended with it. `ended_at`: when the last
      container had ended, RFC 3339, may be empty. `conditions`: (type, status).
    - `deleting`: it is being deleted, which may be why it failed.
    - `index_failures`: how often its index had failed before it; 0 where the Job does not count that.
    - `reasons`: that of its status, and those with which its containers ended. `topology`, `domain`: in exclusive
      placement, the label of nodes by which its Job was placed, and the value of it; of a leader only the label.
    - `why`: reason and message of its status: its kubelet has evicted or refused it. `deletion_asked`: when its
      deletion was asked for, RFC 3339; empty if it is not known.
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
    why: str = ""
    deletion_asked: str = ""


@dataclass(frozen=True, slots=True)
class PendingPod:
    """A pod of phase Pending without a scheduling gate. `created`: RFC 3339. `why`: the reason why it does not run.

    `unschedulable`: of the pods of the same Job the one that was created first of those for which the scheduler has
    found no node; None if there is none. `nodeless`: the same of those for which one more node may be of use.
    """

    name: str
    node: str
    created: str
    why: str
    nodeless: "PendingPod | None" = None
    unschedulable: "PendingPod | None" = None


@dataclass(frozen=True, slots=True)
class PodOnTaintedNode:
    """A pod on a node that was deleted, or that has a taint or an evicted pod for which the set has a policy.

    - `job_uid`: of the Job that controls it. `created`: RFC 3339.
    - `taint`: the key; empty if the node does not exist, or has none and pods on it are evicted. `since`: RFC 3339,
      when the taint was added. If the API server does not say when, or the node does not exist: when this process first
      saw it so. For `maintenance` it is empty then.
    - `deleting`: it has a deletion timestamp. `ended`: its phase is Succeeded or Failed. `evicted`: it is being deleted
      because somebody evicts it, and has not succeeded; only of a node of maintenance. `tracked`: its Job will count it
      when it has ended.
    - `topology`, `domain`: in exclusive placement, the label of nodes by which its Job was placed, and the value of it,
      empty if it is not known.
    """

    name: str
    uid: str
    job_uid: str
    node: str
    taint: str
    since: str
    created: str = ""
    deleting: bool = False
    ended: bool = False
    topology: str = ""
    domain: str = ""
    evicted: bool = False
    tracked: bool = False


FailedPodsByJob = Mapping[str, tuple[FailedPod, ...]]
"""Failed pods by the UID of their Job. A Job that was looked up and has none has an empty tuple."""


@dataclass(frozen=True, slots=True)
class KnownGroups:
    """The groups that a set owns, and data about the scheduling API.

    `required`: whether its Jobs wait when the API server lacks something; else they run without groups. `error`:
    why a group could not be created a moment ago, as reason and message.
    """

    served: Served = NOT_KNOWN
    required: bool = True
    error: tuple[str, str] | None = None
    workloads: tuple[StoredWorkload, ...] = ()
    composites: tuple[StoredGroup, ...] = ()
    pod_groups: tuple[StoredGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class Spares:
    """One ReplicatedJob of spares, and its Jobs that exist."""

    group: ReplicatedJob
    jobs: tuple[Job, ...] = ()


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything that a plan may read.

    - `jobs`: Jobs whose controlling owner has the JobSet's UID, those in deletion included.
    - `departed`: Jobs of that UID that were deleted finished, or bound to fail, and that the status may not record yet.
    - `foreign`: names of Jobs that others own, of those that carry this JobSet's name, with their owner.
    - `unreadable`: names of Jobs of its namespace that exist and that this program cannot read, with what is wrong.
    - `service`: the Service of the wanted name, whoever owns it.
    - `claims`: names of volume claims that exist, of those that the set wants.
    - `pods`: pods of `jobs`; looked up for in-place restart only. `last_ends`: how a container of them last failed, as
      far as this process saw it, by UID of the pod.
    - `leftovers`: names of Jobs of which pods of earlier attempts are left; None: that is not known.
    - `priorities`: the cluster's priority classes; None: pods are not labelled with their priority.
    - `groups`: what is known of scheduling groups; None: the set wants none and has none.
    - `reported_group`: the PodGroup that the last plan of this process reported as unschedulable; empty: not known.
    - `failed_pods`: the answers to `Plan.pod_query` so far.
    - `pending_pods`: by the UID of their Job, the one of each that was created first; None: they were not looked up.
      `next_start_check`: before this moment (RFC 3339, empty: any) no check can find a pod that has been pending too
      long.
    - `pods_on_failed_nodes`: as the caches of pods and nodes have them; empty unless the set asks for `nodeFailure`.
      `read_nodes`: names of the nodes that were read for this plan, with the pods on them.
    - `pods_to_move`: those on nodes with a taint of the set's `maintenance`, or with a pod of the set that is evicted.
      `nodes_in_maintenance`: the names of these nodes, and of those that the status names and that have such a taint.
    - `job_window`: how many Jobs may wait for the Job controller, as measured; 0: not known. `others_wait`: whether
      another set has Jobs that wait for it, or some to create or resume.
    - `held_back`: UIDs of Jobs that must not be resumed yet, with the seconds until then: they are suspended by others.
    - `spares`: the groups of spares, which are then no part of `jobset`, and their Jobs, which are not among `jobs`.
    - `placeholders`: Jobs that hold room for those which the set goes without; they are not among `jobs`.
    - `spare_pods`: ready spares, and pods without a node that they stand in for. `pool_is_read`: whether this process
      has read them. `served_pods`: UIDs of those that were given a place a moment ago.
    - `now`: RFC 3339 in UTC, whole seconds. `second_passed`: the part of that second, below 1, that has passed.
    - `since_status_write`: seconds since the last status write, None if there was none in this process.
    - `counts_waited`: seconds since the counts were first seen to differ from the stored ones; None: not known.
    """

    jobset: JobSet
    jobs: tuple[Job, ...]
    service: Service | None
    claims: frozenset[str]
    now: str
    since_status_write: float | None = None
    counts_waited: float | None = None
    departed: tuple[Job, ...] = ()
    foreign: Mapping[str, Owner] = field(default_factory=dict)
    pods: tuple[Pod, ...] = ()
    last_ends: Mapping[str, Ended] = field(default_factory=dict)
    failed_pods: FailedPodsByJob = field(default_factory=dict)
    leftovers: frozenset[str] | None = frozenset()
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
