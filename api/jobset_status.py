"""The status of a JobSet: counts, attempts and restarts. See docs/reference/api.md.

Records only, turned into the CRD like those of api/jobset.py.
"""

from typing import Annotated

from api.failure_actions import MAX_REPLICAS_TO_RESTART
from api.meta import Base, Condition, doc
from api.policies import ATOMIC, INT32, MAP_BY_NAME


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
            "Indexes of the Jobs that completed in this attempt, as in batch/v1 (1,3-5): a completed Job that is"
            " deleted is not run again. Not in the Go JobSet."
        ),
    ] = ""
    started: Annotated[
        bool,
        doc(
            "Whether every Job was ready or had succeeded at some time of this attempt; kept where a later"
            " ReplicatedJob waits for it. A restart or a suspension takes it back. Not in the Go JobSet."
        ),
    ] = False
    released: Annotated[
        bool,
        doc(
            "Whether its stage has been released in this attempt (executionPolicy InOrder). A restart or a suspension"
            " takes it back. Not in the Go JobSet."
        ),
    ] = False
    remaining: Annotated[
        int | None,
        doc(
            "Jobs that are still to come or to end (executionPolicy InOrder): those that have not completed in this"
            " attempt, whether or not their stage has been released. 0: what its stage was given may be used for"
            " others. A restart raises it again. Not in the Go JobSet.",
            **INT32,
        ),
    ] = None


class RuleRestarts(Base, frozen=True, kw_only=True):
    """How often a rule of the failure policy that has a limit of its own was applied. Not in the Go JobSet."""

    name: Annotated[str, doc("Name of the rule.")]
    restarts: Annotated[int, doc("Restarts that it has brought about.", **INT32)] = 0


class FailedAttempt(Base, frozen=True, kw_only=True):
    """How one attempt at running the set ended in failure. Not in the Go JobSet."""

    attempt: Annotated[int, doc("Number of the attempt, counted as in executionAttempts.", **INT32)] = 0
    time: Annotated[str, doc("When it was given up: RFC 3339, seconds.", format="date-time")] = ""
    reason: Annotated[str, doc("Reason of the Failed or RestartingJobSet condition that followed.")] = ""
    message: Annotated[
        str, doc("Reason and message with which the Job failed, at most 1024 bytes; or what else ended the attempt.")
    ] = ""
    failed_job: Annotated[str, doc("Name of the failed Job that decided; absent where a deadline did.")] = ""
    pod: Annotated[str, doc("Name of its first failed pod, where one was found.")] = ""
    node: Annotated[str, doc("Node of that pod.")] = ""
    container: Annotated[str, doc("Container of that pod that decided, or failed first.")] = ""
    exit_code: Annotated[int | None, doc("Exit code of that container.", **INT32)] = None


class LastRestart(Base, frozen=True, kw_only=True):
    """The last restart of the whole set. Not in the Go JobSet."""

    reason: Annotated[
        str, doc("DefaultFailurePolicy, FailurePolicy_ with the name of the rule, or InPlaceRestartImpossible.")
    ] = ""
    start_time: Annotated[str, doc("When it was decided: RFC 3339, seconds.", format="date-time")] = ""
    duration_seconds: Annotated[
        int | None, doc("Seconds until every Job was ready or done again; absent until then.", **INT32)
    ] = None


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
    current_stage: Annotated[
        str,
        doc("Last stage that has been released, `trainer (2/3)` (executionPolicy InOrder). Not in the Go JobSet."),
    ] = ""
    failure_policy_restarts: Annotated[
        tuple[RuleRestarts, ...],
        doc("Restarts by rules with maxRestarts of their own. Not in the Go JobSet.", **MAP_BY_NAME),
    ] = ()
    execution_attempts: Annotated[
        int | None,
        doc(
            "Number of the attempt that runs, from 0: one more for each restart of the set and each resume after a"
            " suspension (KEP-1282). Absent until the set first ran. Not in the Go JobSet.",
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
    last_restart: Annotated[LastRestart | None, doc("The last restart of the whole set; absent before the first.")] = (
        None
    )
    attempt_history: Annotated[
        tuple[FailedAttempt, ...],
        doc("How the last attempts failed, oldest first, at most 10. Not in the Go JobSet.", maxItems=10, **ATOMIC),
    ] = ()
    previous_in_place_restart_attempt: Annotated[
        int | None,
        doc("Highest in-place attempt that is to be left (feature gate InPlaceRestart).", minimum=0, **INT32),
    ] = None
    current_in_place_restart_attempt: Annotated[
        int | None,
        doc("In-place attempt that all pods have reached (feature gate InPlaceRestart).", minimum=0, **INT32),
    ] = None
