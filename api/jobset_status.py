"""The records of the status of a JobSet. `make generate` turns them into the CRD. See docs/reference/api.md.

"The set" in their texts is the JobSet. An attempt is one run of the JobSet. A failure may end it with a restart, which
begins the next attempt. `maxRestarts` of the failure policy limits the restarts that count. A spare is an idle Job
that holds nodes, and each of its pods that is on a node holds a place there for a pod that loses its own node.
"""

from typing import Annotated

from api.elastic import ReducedReplicas
from api.failure_actions import MAX_REPLICAS_TO_RESTART
from api.maintenance import MAX_LEFT_NODES
from api.policies import ATOMIC, INT32, MAP_BY_NAME, MAX_FAILED_NODES
from api.recovery_times import Recovery
from kube.model.meta import Base, Condition, doc


class ReplicatedJobStatus(Base, frozen=True, kw_only=True):
    """Counts of Jobs of one ReplicatedJob, of the current attempt; the five counters are always present.

    `job_restarts` and `job_restarts_count_towards_max` alone outlive an attempt: they stay until the JobSet is deleted.
    """

    name: Annotated[str, doc("Name of the ReplicatedJob.")]
    ready: Annotated[int, doc("Jobs whose pods are all ready or done.", **INT32)]
    succeeded: Annotated[int, doc("Jobs that completed.", **INT32)]
    failed: Annotated[int, doc("Jobs that failed.", **INT32)]
    active: Annotated[int, doc("Jobs with at least one pending or running pod.", **INT32)]
    suspended: Annotated[int, doc("Jobs that are suspended.", **INT32)]
    job_restarts: Annotated[
        tuple[Annotated[int, doc("Restarts of one Job.", **INT32)], ...],
        doc("Restarts of each Job by its index (feature gate RestartJob).", maxItems=MAX_REPLICAS_TO_RESTART, **ATOMIC),
    ] = ()
    job_restarts_count_towards_max: Annotated[
        tuple[Annotated[int, doc("Restarts of one Job.", **INT32)], ...],
        doc(
            "Restarts in jobRestarts that count against maxRestarts, by index.",
            maxItems=MAX_REPLICAS_TO_RESTART,
            **ATOMIC,
        ),
    ] = ()
    completed_indexes: Annotated[
        str,
        doc(
            "Indexes of the Jobs that completed in this attempt, in the format of batch/v1, such as `1,3-5`. If that"
            " text is long: `bits:` and a bitmap in base64, in which the bit of index n is bit n%8 (0 is the lowest) of"
            " byte n/8. A completed Job that is deleted is not run again.",
            in_go_jobset=False,
        ),
    ] = ""
    started: Annotated[
        bool,
        doc(
            "Whether every Job was ready or had succeeded at some time of this attempt. Recorded only if a later"
            " ReplicatedJob waits for this one. False again after a restart or a suspension.",
            in_go_jobset=False,
        ),
    ] = False
    released: Annotated[
        bool,
        doc(
            "Whether the stage of the ReplicatedJob has been released in this attempt. With executionPolicy InOrder,"
            " ReplicatedJobs are divided into stages, and may start once their stage is released. False again after a"
            " restart or a suspension.",
            in_go_jobset=False,
        ),
    ] = False
    remaining: Annotated[
        int | None,
        doc(
            "Jobs that have not completed in this attempt, whether or not their stage has been released. Only with"
            " executionPolicy InOrder. 0: the quota of this ReplicatedJob may be used for others. A restart of the set"
            " raises the number again.",
            in_go_jobset=False,
            **INT32,
        ),
    ] = None


class RuleRestarts(Base, frozen=True, kw_only=True):
    """How often a rule of the failure policy that has its own maxRestarts was applied. Not in the Go JobSet."""

    name: Annotated[str, doc("Name of the rule.")]
    restarts: Annotated[int, doc("Restarts by the rule.", **INT32)] = 0


class RuleStep(Base, frozen=True, kw_only=True):
    """How far a rule of the failure policy with further actions (`then`) has come. Not in the Go JobSet."""

    name: Annotated[str, doc("Name of the rule.")]
    step: Annotated[
        int,
        doc("Number of the action that the rule takes now: 1 is its own action, 2 the first of `then`.", **INT32),
    ] = 1
    restarts: Annotated[int, doc("Restarts by that action.", **INT32)] = 0
    times: Annotated[
        tuple[Annotated[str, doc("RFC 3339, seconds.", format="date-time")], ...],
        doc(
            "Times of the last restarts by that action. Absent if the action has no withinSeconds.",
            maxItems=10,
            **ATOMIC,
        ),
    ] = ()


class FailedAttempt(Base, frozen=True, kw_only=True):
    """How one attempt at running the set ended in failure. Not in the Go JobSet."""

    attempt: Annotated[int, doc("Number of the attempt, counted as in executionAttempts.", **INT32)] = 0
    time: Annotated[str, doc("When the attempt ended: RFC 3339, seconds.", format="date-time")] = ""
    reason: Annotated[
        str, doc("Reason of the Failed or RestartingJobSet condition that followed; InPlaceRestart if none did.")
    ] = ""
    message: Annotated[
        str, doc("Reason and message of the failure of the Job, or what else ended the attempt, at most 1024 bytes.")
    ] = ""
    failed_job: Annotated[str, doc("Name of the failed Job that ended the attempt. Absent if a deadline did.")] = ""
    pod: Annotated[str, doc("Name of the first failed pod of that Job. Absent if none was found.")] = ""
    node: Annotated[str, doc("Node of that pod.")] = ""
    container: Annotated[str, doc("Container of that pod that matched the rule, or that failed first.")] = ""
    exit_code: Annotated[int | None, doc("Exit code of that container.", **INT32)] = None
    pod_reason: Annotated[
        str, doc("Why the kubelet says that container or pod failed, such as OOMKilled or Evicted. At most 256 bytes.")
    ] = ""
    termination_message: Annotated[
        str,
        doc(
            "End of the container's termination message, or the message that the agent of in-place restart reported"
            " instead. At most 1024 bytes."
        ),
    ] = ""
    step: Annotated[
        int | None,
        doc("Number of the action of the rule that was taken, from 1. Absent if the rule has no `then`.", **INT32),
    ] = None


class FailedNode(Base, frozen=True, kw_only=True):
    """A node that failed the set. Not in the Go JobSet."""

    name: Annotated[str, doc("Name of the node.")]
    failures: Annotated[int, doc("Times that it failed the set.", **INT32)] = 0
    last_time: Annotated[str, doc("When it last failed the set: RFC 3339, seconds.", format="date-time")] = ""
    reason: Annotated[str, doc("How it failed the set, in words. At most 256 bytes.")] = ""
    topology_key: Annotated[str, doc("With scope Domain: the key of the node label by which the Job was placed.")] = ""
    domain: Annotated[str, doc("With scope Domain: the value of that label. Absent if it is not known.")] = ""


class LeftNode(Base, frozen=True, kw_only=True):
    """A node that the set leaves or has left, since it has one of the taints or evicted pods. Not in the Go JobSet."""

    name: Annotated[str, doc("Name of the node.")]
    taint: Annotated[
        str, doc("Key of the taint by which the node was noticed. Absent if a pod of the set was evicted from it.")
    ] = ""
    pods_until: Annotated[
        str,
        doc(
            "When the newest of the pods that have to leave the node was created: RFC 3339. Pods that are created later"
            " tolerate the taint, and stay unless they are evicted.",
            format="date-time",
        ),
    ] = ""
    moved: Annotated[
        bool,
        doc(
            "Whether the set has left the node. The set does not leave it again before all of the taints are gone,"
            " unless a later pod is evicted."
        ),
    ] = False


class MaintenanceStatus(Base, frozen=True, kw_only=True):
    """Which nodes the set leaves for maintenance, and when. Not in the Go JobSet."""

    notice_time: Annotated[
        str,
        doc(
            "When the first node that the set still has to leave was noticed: RFC 3339. Absent if there is none.",
            format="date-time",
        ),
    ] = ""
    move_time: Annotated[
        str,
        doc("When the set leaves these nodes at the latest: RFC 3339. Absent if noticeTime is.", format="date-time"),
    ] = ""
    nodes: Annotated[
        tuple[LeftNode, ...],
        doc(
            "Nodes with one of the taints or with evicted pods, if they have or had pods of the set.",
            maxItems=MAX_LEFT_NODES,
            **MAP_BY_NAME,
        ),
    ] = ()


class LastRestart(Base, frozen=True, kw_only=True):
    """The last restart of the whole set. Not in the Go JobSet."""

    reason: Annotated[
        str,
        doc(
            "DefaultFailurePolicy, FailurePolicy_ with the name of the rule, InPlaceRestartImpossible, or, if it was"
            " planned, NodeMaintenance, ReplicasReduced, ReplicasRestored or ReplicasChanged."
        ),
    ] = ""
    start_time: Annotated[str, doc("When the restart was decided: RFC 3339, seconds.", format="date-time")] = ""
    duration_seconds: Annotated[
        int | None, doc("Seconds until every Job was ready or done again; absent until then.", **INT32)
    ] = None


MAX_PROMISED = 64
"""At most this many pods are promised places of spares of a ReplicatedJob. Other pods get places if they find no node.

A promise: a pod is held back from scheduling until it gets the place of a spare, as its predecessor lost its node.
"""


class SpareStatus(Base, frozen=True, kw_only=True):
    """Spares: the Jobs of a ReplicatedJob with `spareFor`. Not in the Go JobSet.

    The pods of a spare are idle. Each of them holds a place on its node for a pod of another ReplicatedJob.
    """

    name: Annotated[str, doc("Name of the ReplicatedJob.")]
    ready: Annotated[int, doc("Jobs of which every pod is ready, and so holds a place.", **INT32)] = 0
    missing: Annotated[int, doc("Jobs that do not exist, or have a pod that is not ready.", **INT32)] = 0
    used: Annotated[int, doc("Places that were given to other pods since the JobSet was created.", **INT32)] = 0
    promised_to: Annotated[
        tuple[str, ...],
        doc(
            "Pods that get places of spares. `set-rjob-0-1` is a pod name without its random suffix: that pod has lost"
            " its node, and the pod that replaces it is held back until it gets a place. In exclusive placement, only"
            " the leader of a Job (`set-rjob-0-0`) is named, and `set-rjob-0-*` stands for the other pods once the"
            " leader has a domain. `=set-rjob-0-1-abcde` is a pod that is not held back: its place is counted in"
            " `used`, and about to be given.",
            maxItems=MAX_PROMISED,
            **ATOMIC,
        ),
    ] = ()


class JobSetStatus(Base, frozen=True, kw_only=True):
    """Observed state of the JobSet."""

    conditions: Annotated[
        tuple[Condition, ...],
        doc(
            "Completed, Failed, Suspended, RestartingJobSet, StartupPolicyInProgress, StartupPolicyCompleted; with"
            " spec.scheduling SchedulingObjectsReady and PodGroupsInitiallyScheduled.",
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        ),
    ] = ()
    restarts: Annotated[int, doc("Restarts of the whole set. Always present.", **INT32)] = 0
    restarts_count_towards_max: Annotated[int, doc("Restarts that count against maxRestarts.", **INT32)] = 0
    terminal_state: Annotated[str, doc("Completed or Failed once the set is finished. Absent until then.")] = ""
    replicated_jobs_status: Annotated[
        tuple[ReplicatedJobStatus, ...],
        doc("Counts for each ReplicatedJob, in descending order of names.", **MAP_BY_NAME),
    ] = ()
    ready_jobs: Annotated[
        str,
        doc(
            "Jobs that are ready or have succeeded, of all Jobs of the set, as of the last write of the status: `2/4`."
            " For people; programs read replicatedJobsStatus.",
            in_go_jobset=False,
        ),
    ] = ""
    current_stage: Annotated[
        str,
        doc(
            "Last stage that has been released, and its number of all stages: `trainer (2/3)`. With executionPolicy"
            " InOrder, the ReplicatedJobs of a stage may start once it is released.",
            in_go_jobset=False,
        ),
    ] = ""
    failure_policy_restarts: Annotated[
        tuple[RuleRestarts, ...],
        doc("Restarts by rules that have their own maxRestarts.", in_go_jobset=False, **MAP_BY_NAME),
    ] = ()
    failure_policy_steps: Annotated[
        tuple[RuleStep, ...],
        doc(
            "How far rules with further actions (`then`) have come (feature gate JobSetFailureEscalation).",
            in_go_jobset=False,
            **MAP_BY_NAME,
        ),
    ] = ()
    execution_attempts: Annotated[
        int | None,
        doc(
            "Number of the attempt that runs, from 0: one more for each restart of the set, each resume after a"
            " suspension (KEP-1282), and each time that only pods on nodes in maintenance are replaced. Absent until"
            " the set first ran.",
            in_go_jobset=False,
            minimum=0,
            **INT32,
        ),
    ] = None
    start_time: Annotated[
        str,
        doc(
            "When the set began to run: RFC 3339, seconds. The deadline counts from here. A resume and a restart of the"
            " set set it again. Absent while suspended, and without activeDeadlineSeconds (feature gate"
            " JobSetActiveDeadlineSeconds).",
            format="date-time",
        ),
    ] = ""
    last_restart: Annotated[
        LastRestart | None, doc("The last restart of the whole set; absent before the first.", in_go_jobset=False)
    ] = None
    attempt_history: Annotated[
        tuple[FailedAttempt, ...],
        doc("How the last attempts failed, oldest first, at most 10.", in_go_jobset=False, maxItems=10, **ATOMIC),
    ] = ()
    recovery: Annotated[
        Recovery | None,
        doc(
            "How much time failures cost (feature gate JobSetRecoveryTimes). Absent without the gate.",
            in_go_jobset=False,
        ),
    ] = None
    failed_nodes: Annotated[
        tuple[FailedNode, ...],
        doc(
            "Nodes that failed the set within failurePolicy.avoidNodes.forSeconds, by the time of their last failure"
            " (feature gate JobSetAvoidNodes).",
            in_go_jobset=False,
            maxItems=MAX_FAILED_NODES,
            **MAP_BY_NAME,
        ),
    ] = ()
    maintenance: Annotated[
        MaintenanceStatus | None,
        doc(
            "Nodes that the set leaves by failurePolicy.maintenance (feature gate JobSetNodeMaintenance). Absent if"
            " there are none.",
            in_go_jobset=False,
        ),
    ] = None
    reduced_replicas: Annotated[
        tuple[ReducedReplicas, ...],
        doc(
            "ReplicatedJobs that run with fewer Jobs than spec says, by failurePolicy.nodeFailure.whenNoCapacity"
            " (feature gate JobSetElasticReplicas). Absent if there are none.",
            in_go_jobset=False,
            **MAP_BY_NAME,
        ),
    ] = ()
    spares: Annotated[
        tuple[SpareStatus, ...],
        doc(
            "Spares of the set: idle Jobs that hold nodes for pods that lose theirs (feature gate JobSetSpares). Absent"
            " if there are none.",
            in_go_jobset=False,
            **MAP_BY_NAME,
        ),
    ] = ()
    previous_in_place_restart_attempt: Annotated[
        int | None,
        doc(
            "Highest in-place attempt that is over: containers in attempts up to this one have to restart (feature gate"
            " InPlaceRestart).",
            minimum=0,
            **INT32,
        ),
    ] = None
    current_in_place_restart_attempt: Annotated[
        int | None,
        doc("In-place attempt that all pods have reached (feature gate InPlaceRestart).", minimum=0, **INT32),
    ] = None
