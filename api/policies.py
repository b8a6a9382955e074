"""The policies of a JobSet: in which order it starts, what an exit code means, when it has succeeded, when it fails.

Records of `jobset.x-k8s.io/v1alpha2` (docs/reference/api.md#spec-fields), read and turned into the CRD like those of
api/jobset.py. Fields that the Go JobSet has not are marked so; all of them are optional, and a JobSet without them
behaves as it would there.
"""

from typing import Annotated, Final

from api import failure_actions
from api.meta import Base, doc

MAP_BY_NAME: Final = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
ATOMIC: Final = {"x-kubernetes-list-type": "atomic"}
SET: Final = {"x-kubernetes-list-type": "set"}
INT32: Final = {"format": "int32"}
INT64: Final = {"format": "int64"}
ExitCode = Annotated[int, doc("An exit code other than 0, which is no failure.", minimum=1, **INT32)]

NOT_FAILED = "a failed Job sets off the failure policy, so nothing can wait for it: wait for Succeeded, Ready or Active"
NOT_SUSPENDED = "a suspended JobSet starts nothing, so no stage can follow on it: wait for Succeeded, Ready or Active"
STAGE_STATES = ("Succeeded", "Ready", "Active")
_STAGE_STATE_RULES = [
    {"rule": "self != 'Failed'", "message": NOT_FAILED},
    {"rule": "self != 'Suspended'", "message": NOT_SUSPENDED},
    {
        "rule": "self in ['Succeeded', 'Ready', 'Active', 'Failed', 'Suspended']",
        "message": "must be Succeeded, Ready or Active",
    },
]
ANY_WITH_SHARE = "minSucceeded and operator Any exclude each other: Any means one Job; keep All beside minSucceeded"
SHARE_RULE: Final = {"rule": "!has(self.minSucceeded) || self.operator != 'Any'", "message": ANY_WITH_SHARE}


class ExecutionPolicy(Base, frozen=True, kw_only=True):
    """Runs the ReplicatedJobs as stages, one after the other in list order. Not in the Go JobSet."""

    execution_policy_order: Annotated[
        str,
        doc(
            "AnyOrder: all start at once. InOrder: nothing of a stage is created before the stage ahead of it has"
            " reached replicatedJobsStatus; not together with startupPolicy InOrder or dependsOn. Default AnyOrder"
            " (CRD).",
            enum=["AnyOrder", "InOrder"],
            default="AnyOrder",
        ),
    ] = "AnyOrder"
    replicated_jobs_status: Annotated[
        str,
        doc(
            "What every Job of a stage has to be before the next stage is released. Succeeded: completed. Ready: all"
            " its pods ready or done. Active: has pods, or is done. Default Succeeded (CRD).",
            default="Succeeded",
            maxLength=64,
            **{"x-kubernetes-validations": _STAGE_STATE_RULES},
        ),
    ] = "Succeeded"
    sequential_replicated_jobs: Annotated[
        int | None,
        doc(
            "Number of ReplicatedJobs, from the first, that are a stage each; those after them start together as the"
            " last stage. Absent: every ReplicatedJob is a stage of its own.",
            minimum=1,
            **INT32,
        ),
    ] = None


class ExitCodePolicy(Base, frozen=True, kw_only=True):
    """What the exit codes of containers mean for a Job. Not in the Go JobSet.

    With neither list, the table of the training operators: permanent 1, 2, 126, 127, 128, 139; retryable 130, 137, 138,
    143. Needs restartPolicy Never. Written into the child Job's podFailurePolicy, after the rules it has.
    """

    permanent: Annotated[
        tuple[ExitCode, ...],
        doc("Exit codes by which the Job fails at once, whatever its backoffLimit.", maxItems=255, **SET),
    ] = ()
    retryable: Annotated[
        tuple[ExitCode, ...],
        doc("Exit codes after which the pod is created again, not counted against backoffLimit.", maxItems=255, **SET),
    ] = ()
    container_name: Annotated[
        str, doc("The container, or init container, whose exit codes count. Absent: all of the pod.")
    ] = ""


class SuccessPolicy(Base, frozen=True, kw_only=True):
    """When the set is done."""

    operator: Annotated[
        str,
        doc(
            "All: every targeted Job has to succeed, or as many as minSucceeded says. Any: one of them is enough.",
            enum=["All", "Any"],
            **{"x-required": True},
        ),
    ] = "All"
    target_replicated_jobs: Annotated[
        tuple[str, ...], doc("Names of the ReplicatedJobs that count. Empty = all.", **ATOMIC)
    ] = ()
    min_succeeded: Annotated[
        int | str | None,
        doc(
            "How many of the targeted Jobs, or pods, have to succeed: a number from 1, or a share from 1% to 100%,"
            " which is rounded up. What still runs then is deleted. Absent: as operator says. Not in the Go JobSet."
        ),
    ] = None
    unit: Annotated[
        str,
        doc(
            "What minSucceeded counts. Job: Jobs that completed. Pod: completions of the Jobs; a completed Job counts"
            " with all of its own. Absent: Job. Not in the Go JobSet.",
            enum=["Job", "Pod"],
        ),
    ] = ""


class OnExitCodes(Base, frozen=True, kw_only=True):
    """Exit codes of the failed pod that decided about its Job. Needs restartPolicy Never. Not in the Go JobSet."""

    operator: Annotated[
        str,
        doc(
            "In: a container ended with one of the values. NotIn: a container ended with none of them, and not with 0.",
            enum=["In", "NotIn"],
        ),
    ]
    values: Annotated[
        tuple[ExitCode, ...],
        doc("Exit codes, at least one.", maxItems=255, **SET),
    ]
    container_name: Annotated[
        str, doc("The container, or init container, whose exit code counts. Absent: all of the pod.")
    ] = ""


class FailurePolicyRule(Base, frozen=True, kw_only=True):
    """What to do about a failed Job that matches. The first matching rule of the list decides."""

    name: Annotated[
        str,
        doc(
            "Name, 1 to 128 characters, unique among the rules. Default `failurePolicyRule<index>` (webhook).",
            **{"x-required": True},
        ),
    ] = ""
    action: Annotated[
        str,
        doc(failure_actions.in_words(), enum=[*failure_actions.ACTIONS]),
    ]
    on_job_failure_reasons: Annotated[
        tuple[str, ...],
        doc("Reasons of the Job's Failed condition that match. Empty = any."),
    ] = ()
    on_job_failure_message_patterns: Annotated[
        tuple[str, ...],
        doc("RE2 patterns, searched for in the message of the Job's Failed condition. Empty = any."),
    ] = ()
    target_replicated_jobs: Annotated[
        tuple[str, ...], doc("Names of the ReplicatedJobs whose Jobs match. Empty = all.", **ATOMIC)
    ] = ()
    on_exit_codes: Annotated[
        OnExitCodes | None,
        doc(
            "Exit codes that match, beside reasons, patterns and targets. Absent: any. A Job none of whose failed pods"
            " is left does not match. Not in the Go JobSet."
        ),
    ] = None
    max_restarts: Annotated[
        int | None,
        doc(
            "Times that this rule restarts something before the set is Failed, counted in"
            " status.failurePolicyRestarts, beside the set's own maxRestarts. Absent: no limit of its own. Not in the"
            " Go JobSet.",
            minimum=0,
            **INT32,
        ),
    ] = None


class NodeFailure(Base, frozen=True, kw_only=True):
    """When a pod counts as failed because of its node, and what follows. Not in the Go JobSet."""

    after_seconds: Annotated[
        int,
        doc(
            "Seconds for which the node has to be gone, or to have one of the taints, before its pods count as failed.",
            minimum=0,
            **INT32,
        ),
    ]
    action: Annotated[
        str,
        doc(
            "What is done where no rule of the failure policy matches, as in rules. Absent: RestartJobSet.",
            enum=[*failure_actions.ACTIONS],
        ),
    ] = ""
    force_delete_pods: Annotated[
        bool,
        doc(
            "true: pods that are being deleted on such a node are deleted without waiting for it (grace period 0). If"
            " the node is only cut off, its processes go on beside those of the next attempt. Absent: their end is"
            " waited for, unless the node does not exist."
        ),
    ] = False


class FailurePolicy(Base, frozen=True, kw_only=True):
    """What to do when a Job fails. Absent: the first failed Job fails the set."""

    max_restarts: Annotated[int, doc("Restarts of the set that count, before it is Failed. Default 0.", **INT32)] = 0
    restart_strategy: Annotated[
        str,
        doc(
            "Recreate: each Job is created again as soon as its old one is gone. BlockingRecreate: none is created"
            " before all old ones are gone. InPlaceRestart (feature gate): pods stay, processes start again."
            " Default Recreate (CRD).",
            default="Recreate",
            enum=["Recreate", "BlockingRecreate", "InPlaceRestart"],
        ),
    ] = "Recreate"
    rules: Annotated[tuple[FailurePolicyRule, ...], doc("Rules, first match wins.")] = ()
    fail_on: Annotated[
        str,
        doc(
            "When a Job counts as failed. JobFailed: when the last of its pods is gone. FailureTarget: as soon as it is"
            " bound to fail, while its pods still end. Absent: JobFailed. Not in the Go JobSet.",
            enum=["JobFailed", "FailureTarget"],
        ),
    ] = ""
    start_timeout_seconds: Annotated[
        int | None,
        doc(
            "Seconds from its creation after which a pod of phase Pending fails its Job, with reason StartTimeout and"
            " what the kubelet or the scheduler says about it (feature gate JobSetStartTimeout). Pods with a scheduling"
            " gate do not count. Absent: pods may pend for ever. Not in the Go JobSet.",
            minimum=1,
            **INT32,
        ),
    ] = None
    node_failure: Annotated[
        NodeFailure | None,
        doc(
            "Lets pods of a node that is gone, unreachable or out of service fail their Job, with reason NodeFailure"
            " (feature gate JobSetNodeFailure). Absent: nodes are not looked at. Not in the Go JobSet."
        ),
    ] = None


class StartupPolicy(Base, frozen=True, kw_only=True):
    """Order of start. Deprecated in favour of dependsOn."""

    startup_policy_order: Annotated[
        str,
        doc(
            "AnyOrder: all at once. InOrder: the next ReplicatedJob starts when the one before it is ready.",
            enum=["AnyOrder", "InOrder"],
            **{"x-required": True},
        ),
    ] = "AnyOrder"
