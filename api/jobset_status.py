"""The records of the status of a JobSet. `make generate` turns them into the CRD. See docs/reference/api.md.

"The set" in their texts is the JobSet. An attempt is one run of the JobSet. A failure may end it with a restart, which
begins the next attempt. `maxRestarts` of the failure policy limits the restarts that count.
"""

from typing import Annotated

from api.elastic import ReducedReplicas
from api.failure_actions import MAX_REPLICAS_TO_RESTART
from api.maintenance import MAX_LEFT_NODES
from api.policies import ATOMIC, INT32, INT64, MAP_BY_NAME, MAX_FAILED_NODES
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
        doc("Of those, the ones counted against maxRestarts.", maxItems=MAX_REPLICAS_TO_RESTART, **ATOMIC),
    ] = ()
    completed_indexes: Annotated[
        str,
        doc(
            "Indexes of the Jobs that completed in this attempt, as in batch/v1 (1,3-5), or a bitmap if that text is"
            " long (bits: and base64, bit i of byte b, from the lowest, is index 8b+i): a completed Job that is deleted"
            " is not run again.",
            in_go_jobset=False,
        ),
    ] = ""
    started: Annotated[
        bool,
        doc(
            "Whether every Job was ready or had succeeded at some time of this attempt; kept where a later"
            " ReplicatedJob waits for it. A restart or a suspension takes it back.",
            in_go_jobset=False,
        ),
    ] = False
    released: Annotated[
        bool,
        doc(
            "Whether its stage has been released in this attempt (executionPolicy InOrder). A restart or a suspension"
            " takes it back.",
            in_go_jobset=False,
        ),
    ] = False
    remaining: Annotated[
        int | None,
        doc(
            "Jobs that are still to come or to end (executionPolicy InOrder): those that have not completed in this"
            " attempt, whether or not their stage has been released. 0: what its stage was given may be used for"
            " others. A restart raises it again.",
            in_go_jobset=False,
            **INT32,
        ),
    ] = None


class RuleRestarts(Base, frozen=True, kw_only=True):
    """How often a rule of the failure policy that has a limit of its own was applied. Not in the Go JobSet."""

    name: Annotated[str, doc("Name of the rule.")]
    restarts: Annotated[int, doc("Restarts that it has brought about.", **INT32)] = 0


class RuleStep(Base, frozen=True, kw_only=True):
    """How far a rule of the failure policy that says `then` has come. Not in the Go JobSet."""

    name: Annotated[str, doc("Name of the rule.")]
    step: Annotated[int, doc("Number of the action that it takes, from 1: the rule's own.", **INT32)] = 1
    restarts: Annotated[int, doc("Restarts by that action.", **INT32)] = 0
    times: Annotated[
        tuple[Annotated[str, doc("RFC 3339, seconds.", format="date-time")], ...],
        doc("When the last of them were decided; absent where no withinSeconds asks for it.", maxItems=10, **ATOMIC),
    ] = ()


class FailedAttempt(Base, frozen=True, kw_only=True):
    """How one attempt at running the set ended in failure. Not in the Go JobSet."""

    attempt: Annotated[int, doc("Number of the attempt, counted as in executionAttempts.", **INT32)] = 0
    time: Annotated[str, doc("When it was given up: RFC 3339, seconds.", format="date-time")] = ""
    reason: Annotated[
        str, doc("Reason of the Failed or RestartingJobSet condition that followed; InPlaceRestart if none did.")
    ] = ""
    message: Annotated[
        str, doc("Reason and message with which the Job failed, at most 1024 bytes; or what else ended the attempt.")
    ] = ""
    failed_job: Annotated[str, doc("Name of the failed Job that decided; absent where a deadline did.")] = ""
    pod: Annotated[str, doc("Name of its first failed pod, where one was found.")] = ""
    node: Annotated[str, doc("Node of that pod.")] = ""
    container: Annotated[str, doc("Container of that pod that decided, or failed first.")] = ""
    exit_code: Annotated[int | None, doc("Exit code of that container.", **INT32)] = None
    pod_reason: Annotated[
        str, doc("Why that container or pod failed, as its kubelet says, at most 256 bytes: OOMKilled, Evicted.")
    ] = ""
    termination_message: Annotated[
        str, doc("End of its termination message, or what its agent sent instead, at most 1024 bytes.")
    ] = ""
    step: Annotated[
        int | None, doc("Number of the action of the rule that decided, from 1; absent without `then`.", **INT32)
    ] = None


class FailedNode(Base, frozen=True, kw_only=True):
    """A node that failed the set. Not in the Go JobSet."""

    name: Annotated[str, doc("Name of the node.")]
    failures: Annotated[int, doc("Times that it failed the set.", **INT32)] = 0
    last_time: Annotated[str, doc("When it last did: RFC 3339, seconds.", format="date-time")] = ""
    reason: Annotated[str, doc("How, in words, at most 256 bytes.")] = ""
    topology_key: Annotated[str, doc("With scope Domain: the label of nodes by which the Job was placed.")] = ""
    domain: Annotated[str, doc("With scope Domain: the value of that label, where it is known.")] = ""


class LeftNode(Base, frozen=True, kw_only=True):
    """A node that has a taint of the set's maintenance, or evicted pods of the set. Not in the Go JobSet."""

    name: Annotated[str, doc("Name of the node.")]
    taint: Annotated[
        str, doc("Key of the taint by which it was noticed. Absent: by the eviction of a pod of the set.")
    ] = ""
    pods_until: Annotated[
        str,
        doc(
            "When the newest pod that has to leave it was created: RFC 3339. Later ones tolerate the taint, and stay"
            " unless they are evicted.",
            format="date-time",
        ),
    ] = ""
    moved: Annotated[
        bool,
        doc(
            "Whether the set has left it. It is not left again before all of the taints are gone, unless a later pod is"
            " evicted."
        ),
    ] = False


class MaintenanceStatus(Base, frozen=True, kw_only=True):
    """Which nodes the set leaves for maintenance, and when. Not in the Go JobSet."""

    notice_time: Annotated[
        str,
        doc(
            "When the first of the nodes was noticed that the set has not left: RFC 3339. Absent: there is none.",
            format="date-time",
        ),
    ] = ""
    move_time: Annotated[
        str, doc("When the set leaves them at the latest: RFC 3339. Absent as noticeTime.", format="date-time")
    ] = ""
    nodes: Annotated[
        tuple[LeftNode, ...],
        doc(
            "Nodes with one of the taints, or with evicted pods, that have, or had, pods of the set.",
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
    start_time: Annotated[str, doc("When it was decided: RFC 3339, seconds.", format="date-time")] = ""
    duration_seconds: Annotated[
        int | None, doc("Seconds until every Job was ready or done again; absent until then.", **INT32)
    ] = None


class AttemptTimes(Base, frozen=True, kw_only=True):
    """How long one start or recovery took, and how long the attempt ran after it. Not in the Go JobSet."""

    attempt: Annotated[int, doc("Number of the attempt, counted as in executionAttempts.", **INT32)] = 0
    since: Annotated[
        str,
        doc(
            "When what made it necessary happened: a failure, else the start or the resume. RFC 3339, seconds; the"
            " other times count from here.",
            format="date-time",
        ),
    ] = ""
    detected_after_seconds: Annotated[
        int | None, doc("Seconds until the restart was decided; absent for a start, a resume and a move.", **INT32)
    ] = None
    drained_after_seconds: Annotated[
        int | None, doc("Seconds until the old Jobs and pods were gone; absent where none had to go.", **INT32)
    ] = None
    created_after_seconds: Annotated[
        int | None, doc("Seconds until all Jobs that might run existed; absent where none was created.", **INT32)
    ] = None
    ready_after_seconds: Annotated[
        int | None, doc("Seconds until all of them were ready or done; absent until then.", **INT32)
    ] = None
    running_seconds: Annotated[int, doc("Seconds that it then ran, as far as they are counted.", **INT32)] = 0


class Recovery(Base, frozen=True, kw_only=True):
    """How long the set ran, how long it did not, and what its recoveries took. Not in the Go JobSet."""

    running_seconds: Annotated[
        int, doc("Seconds in which every Job that might run was ready or done, until `since`.", **INT64)
    ] = 0
    lost_seconds: Annotated[
        int, doc("All other seconds until `since`, without those for which it was suspended.", **INT64)
    ] = 0
    spare_seconds: Annotated[
        int, doc("Of all these seconds, those for which a spare held a place, summed over the ready spares.", **INT64)
    ] = 0
    goodput: Annotated[str, doc("runningSeconds as a share of both, rounded down: `99.5%`.")] = ""
    running: Annotated[bool, doc("Whether it has run since then; else these seconds are lost.")] = False
    since: Annotated[
        str,
        doc(
            "Until when the seconds are counted: RFC 3339, seconds. Absent while suspended and after the end.",
            format="date-time",
        ),
    ] = ""
    attempts: Annotated[
        tuple[AttemptTimes, ...],
        doc("The last starts and recoveries, oldest first, at most 10.", maxItems=10, **ATOMIC),
    ] = ()


MAX_PROMISED = 64
"""At most this many pods are promised places of a group of spares. Other pods get places once they find no node."""


class SpareStatus(Base, frozen=True, kw_only=True):
    """Jobs of a ReplicatedJob with `spareFor`. Not in the Go JobSet."""

    name: Annotated[str, doc("Name of the ReplicatedJob.")]
    ready: Annotated[int, doc("Jobs of which every pod holds a place.", **INT32)] = 0
    missing: Annotated[int, doc("Jobs that do not exist, or have a pod without a place.", **INT32)] = 0
    used: Annotated[int, doc("Places that were given to other pods since the JobSet was created.", **INT32)] = 0
    promised_to: Annotated[
        tuple[str, ...],
        doc(
            "Pods, without the last part of their names, that have lost their nodes: those that come in their place"
            " get places of spares. In exclusive placement: the leader of a Job; once it has a domain, `*` stands"
            " for the other pods. `=` and a whole name: a pod that is not held back, whose place is in `used` and"
            " about to be given.",
            maxItems=MAX_PROMISED,
            **ATOMIC,
        ),
    ] = ()


class JobSetStatus(Base, frozen=True, kw_only=True):
    """What is."""

    conditions: Annotated[
        tuple[Condition, ...],
        doc(
            "Completed, Failed, Suspended, RestartingJobSet, StartupPolicyInProgress, StartupPolicyCompleted; with"
            " spec.scheduling SchedulingObjectsReady and PodGroupsInitiallyScheduled.",
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        ),
    ] = ()
    restarts: Annotated[int, doc("Restarts of the whole set. Always present.", **INT32)] = 0
    restarts_count_towards_max: Annotated[int, doc("Of those, the ones counted against maxRestarts.", **INT32)] = 0
    terminal_state: Annotated[str, doc("Completed or Failed once the set is finished, else absent.")] = ""
    replicated_jobs_status: Annotated[
        tuple[ReplicatedJobStatus, ...],
        doc("Counts for each ReplicatedJob, by name descending.", **MAP_BY_NAME),
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
        doc("Last stage that has been released, `trainer (2/3)` (executionPolicy InOrder).", in_go_jobset=False),
    ] = ""
    failure_policy_restarts: Annotated[
        tuple[RuleRestarts, ...],
        doc("Restarts by rules with maxRestarts of their own.", in_go_jobset=False, **MAP_BY_NAME),
    ] = ()
    failure_policy_steps: Annotated[
        tuple[RuleStep, ...],
        doc(
            "How far rules that say `then` have come (feature gate JobSetFailureEscalation).",
            in_go_jobset=False,
            **MAP_BY_NAME,
        ),
    ] = ()
    execution_attempts: Annotated[
        int | None,
        doc(
            "Number of the attempt that runs, from 0: one more for each restart of the set, each resume after a"
            " suspension (KEP-1282), and each planned move in place. Absent until the set first ran.",
            in_go_jobset=False,
            minimum=0,
            **INT32,
        ),
    ] = None
    start_time: Annotated[
        str,
        doc(
            "When the set began to run: RFC 3339, seconds. The deadline counts from here. A resume and a restart of the"
            " set begin it again; absent while suspended. Kept only for a set with activeDeadlineSeconds (feature gate"
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
        doc("What failures cost (feature gate JobSetRecoveryTimes); absent without it.", in_go_jobset=False),
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
            "Nodes that the set leaves by failurePolicy.maintenance (feature gate JobSetNodeMaintenance). Absent:"
            " none.",
            in_go_jobset=False,
        ),
    ] = None
    reduced_replicas: Annotated[
        tuple[ReducedReplicas, ...],
        doc(
            "ReplicatedJobs that run with fewer Jobs than spec says, by failurePolicy.nodeFailure.whenNoCapacity"
            " (feature gate JobSetElasticReplicas). Absent: none.",
            in_go_jobset=False,
            **MAP_BY_NAME,
        ),
    ] = ()
    spares: Annotated[
        tuple[SpareStatus, ...],
        doc("Spares of the set (feature gate JobSetSpares). Absent: none.", in_go_jobset=False, **MAP_BY_NAME),
    ] = ()
    previous_in_place_restart_attempt: Annotated[
        int | None,
        doc("Highest in-place attempt that is to be left (feature gate InPlaceRestart).", minimum=0, **INT32),
    ] = None
    current_in_place_restart_attempt: Annotated[
        int | None,
        doc("In-place attempt that all pods have reached (feature gate InPlaceRestart).", minimum=0, **INT32),
    ] = None
