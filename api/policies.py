"""The policies in the spec of a JobSet: when it succeeds or fails, and what happens when a Job fails.

`make generate` turns these records into a part of the CRD (docs/reference/api.md#spec-fields). "The set" in their texts
is the JobSet. Fields that the Go JobSet does not have are marked with `in_go_jobset=False`, or in the text of their
record. They are optional, and a JobSet without them behaves as with the Go JobSet.
"""

from typing import Annotated, Final

from api import failure_actions
from api.elastic import WhenNoCapacity
from api.maintenance import Maintenance
from kube.model.meta import Base, doc

MAP_BY_NAME: Final = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
ATOMIC: Final = {"x-kubernetes-list-type": "atomic"}
SET: Final = {"x-kubernetes-list-type": "set"}
INT32: Final = {"format": "int32"}
INT64: Final = {"format": "int64"}
# The five constants above are keywords of OpenAPI schemas.

MAX_FAILED_NODES: Final = 32
"""The status names at most this many nodes that caused failures."""
PodReason = Annotated[str, doc("A reason.", maxLength=256)]
ExitCode = Annotated[int, doc("An exit code other than 0, which is not a failure.", minimum=1, **INT32)]

# Messages and rules of the CRD. The share is `minSucceeded` of the success policy.
ANY_WITH_SHARE = "minSucceeded and operator Any exclude each other: Any means one Job; keep All beside minSucceeded"
SHARE_RULE: Final = {"rule": "!has(self.minSucceeded) || self.operator != 'Any'", "message": ANY_WITH_SHARE}


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
            " which is rounded up. What still runs then is deleted. Absent: as operator says.",
            in_go_jobset=False,
        ),
    ] = None
    unit: Annotated[
        str,
        doc(
            "What minSucceeded counts. Job: Jobs that completed. Pod: completions of the Jobs; a completed Job counts"
            " with all of its own. Absent: Job.",
            in_go_jobset=False,
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


class Escalation(Base, frozen=True, kw_only=True):
    """What a rule does after its action has not helped. Not in the Go JobSet."""

    after_restarts: Annotated[
        int,
        doc("Restarts by the action before it, after which this one takes over.", minimum=1, maximum=10, **INT32),
    ]
    within_seconds: Annotated[
        int | None,
        doc("Only restarts within this many seconds before now count. Absent: all of them.", minimum=1, **INT32),
    ] = None
    action: Annotated[
        str,
        doc("What is done then, as in rules; it has to recreate more.", enum=[*failure_actions.ACTIONS]),
    ]


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
        doc(failure_actions.describe_actions(), enum=[*failure_actions.ACTIONS]),
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
            " is left does not match.",
            in_go_jobset=False,
        ),
    ] = None
    on_pod_reasons: Annotated[
        tuple[PodReason, ...],
        doc(
            "Reasons that match in the status of the failed pod that decided about the Job, or of its containers, such"
            " as UnexpectedAdmissionError, Evicted or OOMKilled; beside all other conditions. Empty = any. A Job none"
            " of whose failed pods is left does not match.",
            in_go_jobset=False,
            maxItems=32,
            **SET,
        ),
    ] = ()
    max_restarts: Annotated[
        int | None,
        doc(
            "Times that this rule restarts something before the set is Failed, counted in"
            " status.failurePolicyRestarts, beside the set's own maxRestarts. Absent: no limit of its own.",
            in_go_jobset=False,
            minimum=0,
            **INT32,
        ),
    ] = None
    then: Annotated[
        tuple[Escalation, ...],
        doc(
            "What follows when the action has not helped, step by step (feature gate JobSetFailureEscalation). Absent:"
            " the same action each time.",
            in_go_jobset=False,
            maxItems=4,
            **ATOMIC,
        ),
    ] = ()

    @property
    def is_about_pods(self) -> bool:
        """Whether the rule has a condition about the failed pod of a Job (onExitCodes, onPodReasons)."""
        return self.on_exit_codes is not None or bool(self.on_pod_reasons)


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
            "What is done where no rule of the failure policy matches, as in rules. Absent: RestartJobSet; with"
            " restartStrategy InPlaceRestart, pods that need not be waited for are replaced, and all others restart in"
            " place.",
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
    when_no_capacity: Annotated[
        WhenNoCapacity | None,
        doc(
            "Lets elastic ReplicatedJobs continue with fewer Jobs where pods find no node, by a restart that does not"
            " count against maxRestarts (feature gate JobSetElasticReplicas). Absent: the set waits."
        ),
    ] = None


class RestartAgent(Base, frozen=True, kw_only=True):
    """Puts the agent for restarts in place into the pods. Not in the Go JobSet."""

    image: Annotated[str, doc("Image of the agent.", minLength=1, maxLength=1024, **{"x-required": True})]
    mode: Annotated[
        str,
        doc(
            "Sidecar: a container of its own, for any image and command of the workers; Kubernetes 1.36 or newer."
            " MainContainer: a copy of the agent runs the command of the first container, whose image needs Python"
            " 3.10 or newer. Absent: Sidecar.",
            enum=["Sidecar", "MainContainer"],
        ),
    ] = ""
    probe_port: Annotated[
        int | None,
        doc("Sidecar: port of the startup probe. Absent: 8081.", minimum=1, maximum=65535, **INT32),
    ] = None
    image_volume: Annotated[
        bool,
        doc(
            "MainContainer: pods mount the image of the agent, and start sooner than with an init container that copies"
            " it. Kubernetes 1.35 or newer, and containerd 2.1 or newer, or CRI-O 1.33 or newer, on every node."
            " Absent: false."
        ),
    ] = False


class AvoidNodes(Base, frozen=True, kw_only=True):
    """Which nodes that failed the set its next pods keep away from, and for how long. Not in the Go JobSet.

    A node fails the set by nodeFailure, or by a failed pod that `onExitCodes` or `onPodReasons` name.
    """

    after_failures: Annotated[
        int, doc("Failures of a node from which on it is avoided. Absent: 1.", minimum=1, **INT32)
    ] = 1
    for_seconds: Annotated[
        int, doc("Seconds after its last failure for which a node is avoided. Absent: 3600.", minimum=1, **INT32)
    ] = 3600
    max_nodes: Annotated[
        int,
        doc(
            "Nodes that are avoided at a time, those that failed last. Absent: 8.",
            minimum=1,
            maximum=MAX_FAILED_NODES,
            **INT32,
        ),
    ] = 8
    scope: Annotated[
        str,
        doc(
            "Node: the node alone. Domain: in exclusive placement, all nodes of the topology domain that the Job had."
            " Absent: Node.",
            enum=["Node", "Domain"],
        ),
    ] = ""
    on_exit_codes: Annotated[
        OnExitCodes | None,
        doc("Exit codes of failed pods that say that the node is to blame. Absent: none. Needs restartPolicy Never."),
    ] = None
    on_pod_reasons: Annotated[
        tuple[PodReason, ...],
        doc(
            "Reasons in the status of failed pods, or of their containers, that say that the node is to blame, such as"
            " UnexpectedAdmissionError. Empty: none.",
            maxItems=32,
            **SET,
        ),
    ] = ()
    drop_after_seconds: Annotated[
        int,
        doc(
            "Seconds for which a pod may find no node before the node that failed first is not avoided any more and its"
            " Job is created again. Absent: 120.",
            minimum=1,
            **INT32,
        ),
    ] = 120


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
            " bound to fail, while its pods still end. Absent: JobFailed.",
            in_go_jobset=False,
            enum=["JobFailed", "FailureTarget"],
        ),
    ] = ""
    in_place_restarts: Annotated[
        int | None,
        doc(
            "With restartStrategy InPlaceRestart: restarts in place after which every Job is recreated instead, counted"
            " against maxRestarts like each of them (feature gate JobSetFailureEscalation). Absent: no limit but"
            " maxRestarts.",
            in_go_jobset=False,
            minimum=1,
            **INT32,
        ),
    ] = None
    start_timeout_seconds: Annotated[
        int | None,
        doc(
            "Seconds from its creation after which a pod of phase Pending fails its Job, with reason StartTimeout and"
            " what the kubelet or the scheduler says about it (feature gate JobSetStartTimeout). Pods with a scheduling"
            " gate do not count. Absent: pods may pend for ever.",
            in_go_jobset=False,
            minimum=1,
            **INT32,
        ),
    ] = None
    node_failure: Annotated[
        NodeFailure | None,
        doc(
            "Lets pods of a node that is gone, unreachable or out of service fail their Job, with reason NodeFailure"
            " (feature gate JobSetNodeFailure). Absent: nodes are not looked at.",
            in_go_jobset=False,
        ),
    ] = None
    maintenance: Annotated[
        Maintenance | None,
        doc(
            "Moves the set away from nodes that get one of these taints, or on which a pod of it is evicted, by a"
            " restart that does not count against maxRestarts (feature gate JobSetNodeMaintenance). Absent: taints and"
            " evictions are not looked at.",
            in_go_jobset=False,
        ),
    ] = None
    avoid_nodes: Annotated[
        AvoidNodes | None,
        doc(
            "Keeps pods of Jobs that are created again away from nodes that failed the set (feature gate"
            " JobSetAvoidNodes). Absent: pods go where the scheduler likes.",
            in_go_jobset=False,
        ),
    ] = None
    agent: Annotated[
        RestartAgent | None,
        doc(
            "With restartStrategy InPlaceRestart: puts the agent into all pods that restart in place. Absent: the pod"
            " templates have to hold it.",
            in_go_jobset=False,
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
