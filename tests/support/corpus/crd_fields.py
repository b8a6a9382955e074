"""What the CRD has to say of each field that is no part of a template, written down a second time (docs/reference/api.md).

Path -> keywords apart from description, properties and items. `!` marks a field that the schema requires. A new field
gets its line in `SINCE`.
"""

from typing import Any

from api.failure_actions import ACTIONS

NOT_FAILED = "a failed Job sets off the failure policy, so nothing can wait for it: wait for Succeeded, Ready or Active"
NOT_SUSPENDED = "a suspended JobSet starts nothing, so no stage can follow on it: wait for Succeeded, Ready or Active"
STAGES_OR_STARTUP = (
    "executionPolicy InOrder and startupPolicy InOrder exclude each other: keep executionPolicy; startupPolicy is"
    " deprecated, and executionPolicy with replicatedJobsStatus Ready does the same"
)
STAGES_OR_DEPENDS_ON = (
    "executionPolicy InOrder and dependsOn exclude each other: keep dependsOn where a ReplicatedJob waits for several"
    " or for certain ones, executionPolicy where each waits for the one ahead of it in the list"
)
SHARE_RULE = {
    "rule": "!has(self.minSucceeded) || self.operator != 'Any'",
    "message": "minSucceeded and operator Any exclude each other: Any means one Job; keep All beside minSucceeded",
}
IMMUTABLE = [{"rule": "self == oldSelf", "message": "Value is immutable"}]
MAP = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
ATOMIC = {"type": "array", "x-kubernetes-list-type": "atomic"}
INT32 = {"type": "integer", "format": "int32"}
INT64 = {"type": "integer", "format": "int64"}
ONE_POLICY = {
    "rule": "has(self.basic) != has(self.gang)",
    "message": "exactly one of basic and gang: gang: {} is all or nothing, basic: {} one by one",
}
ONE_MODE = {
    "rule": "has(self.single) != has(self.all)",
    "message": "exactly one of single and all: all: {} preempts everything below as one, single: {} pod by pod",
}
ONE_SOURCE = {
    "rule": "has(self.resourceClaimName) != has(self.resourceClaimTemplateName)",
    "message": "exactly one of resourceClaimName, which all groups share, and resourceClaimTemplateName, one for each",
}
OBJECT = {"type": "object"}


def scheduling(path, count, *, claims):
    """What every level of spec.scheduling has; `count` is what its gangs count."""
    fields = {
        f"{path}.schedulingPolicy": OBJECT | {"x-kubernetes-validations": [ONE_POLICY]},
        f"{path}.schedulingPolicy.basic": OBJECT,
        f"{path}.schedulingPolicy.gang": OBJECT,
        f"{path}.schedulingPolicy.gang.{count}": INT32 | {"minimum": 1},
        f"{path}.schedulingConstraints": OBJECT,
        f"{path}.schedulingConstraints.topology": ATOMIC | {"maxItems": 1},
        f"{path}.schedulingConstraints.topology[]": OBJECT,
        f"{path}.schedulingConstraints.topology[].key!": {"type": "string"},
        f"{path}.disruptionMode": OBJECT | {"x-kubernetes-validations": [ONE_MODE]},
        f"{path}.disruptionMode.single": OBJECT,
        f"{path}.disruptionMode.all": OBJECT,
    }
    if claims:
        fields |= {
            f"{path}.resourceClaims": MAP | {"maxItems": 4},
            f"{path}.resourceClaims[]": OBJECT | {"x-kubernetes-validations": [ONE_SOURCE]},
            f"{path}.resourceClaims[].name!": {"type": "string"},
            f"{path}.resourceClaims[].resourceClaimName": {"type": "string", "minLength": 1},
            f"{path}.resourceClaims[].resourceClaimTemplateName": {"type": "string", "minLength": 1},
        }
    return fields


ENTRY = "spec.scheduling.replicatedJobs[]"
EXIT_CODES = {"type": "array", "x-kubernetes-list-type": "set", "maxItems": 255}
BEFORE = {
    "spec.replicatedJobs": MAP,
    "spec.replicatedJobs[].name!": {"type": "string"},
    "spec.replicatedJobs[].groupName": {"type": "string", "default": "default"},
    "spec.replicatedJobs[].template!": {"type": "object"},
    "spec.replicatedJobs[].replicas": INT32 | {"default": 1, "maximum": 1_000_000, "minimum": 0},
    "spec.replicatedJobs[].dependsOn": MAP | {"maxItems": 5, "x-kubernetes-validations": IMMUTABLE},
    "spec.replicatedJobs[].dependsOn[].name!": {"type": "string"},
    "spec.replicatedJobs[].dependsOn[].status!": {"type": "string", "enum": ["Ready", "Complete"]},
    "spec.network": {"type": "object", "x-kubernetes-validations": IMMUTABLE},
    "spec.network.enableDNSHostnames": {"type": "boolean"},
    "spec.network.subdomain": {"type": "string"},
    "spec.network.publishNotReadyAddresses": {"type": "boolean"},
    "spec.successPolicy": {"type": "object", "x-kubernetes-validations": [*IMMUTABLE, SHARE_RULE]},
    "spec.successPolicy.operator!": {"type": "string", "enum": ["All", "Any"]},
    "spec.successPolicy.targetReplicatedJobs": ATOMIC,
    "spec.successPolicy.targetReplicatedJobs[]": {"type": "string"},
    "spec.failurePolicy": {"type": "object", "x-kubernetes-validations": IMMUTABLE},
    "spec.failurePolicy.maxRestarts": INT32,
    "spec.failurePolicy.restartStrategy": {
        "type": "string",
        "default": "Recreate",
        "enum": ["Recreate", "BlockingRecreate", "InPlaceRestart"],
    },
    "spec.failurePolicy.rules": {"type": "array"},
    "spec.failurePolicy.rules[].name!": {"type": "string"},
    "spec.failurePolicy.rules[].action!": {"type": "string", "enum": [*ACTIONS]},
    "spec.failurePolicy.rules[].onJobFailureReasons": {"type": "array"},
    "spec.failurePolicy.rules[].onJobFailureReasons[]": {"type": "string"},
    "spec.failurePolicy.rules[].onJobFailureMessagePatterns": {"type": "array"},
    "spec.failurePolicy.rules[].onJobFailureMessagePatterns[]": {"type": "string"},
    "spec.failurePolicy.rules[].targetReplicatedJobs": ATOMIC,
    "spec.failurePolicy.rules[].targetReplicatedJobs[]": {"type": "string"},
    "spec.startupPolicy": {"type": "object", "x-kubernetes-validations": IMMUTABLE},
    "spec.startupPolicy.startupPolicyOrder!": {"type": "string", "enum": ["AnyOrder", "InOrder"]},
    "spec.suspend": {"type": "boolean"},
    "spec.coordinator": {"type": "object"},
    "spec.coordinator.replicatedJob!": {"type": "string"},
    "spec.coordinator.jobIndex": {"type": "integer"},
    "spec.coordinator.podIndex": {"type": "integer"},
    "spec.managedBy": {"type": "string"},
    "spec.ttlSecondsAfterFinished": INT32 | {"minimum": 0},
    "spec.volumeClaimPolicies": ATOMIC | {"maxItems": 50, "x-kubernetes-validations": IMMUTABLE},
    "spec.volumeClaimPolicies[].templates": ATOMIC | {"maxItems": 50},
    "spec.volumeClaimPolicies[].templates[]": {"type": "object"},
    "spec.volumeClaimPolicies[].retentionPolicy": {"type": "object"},
    "spec.volumeClaimPolicies[].retentionPolicy.whenDeleted": {
        "type": "string",
        "default": "Delete",
        "enum": ["Delete", "Retain"],
    },
    "status.conditions": MAP | {"x-kubernetes-list-map-keys": ["type"]},
    "status.conditions[].observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
    "status.conditions[].status!": {"type": "string", "enum": ["True", "False", "Unknown"]},
    "status.conditions[].message!": {"type": "string", "maxLength": 32768},
    "status.conditions[].lastTransitionTime!": {"type": "string", "format": "date-time"},
    "status.restarts": INT32,
    "status.restartsCountTowardsMax": INT32,
    "status.terminalState": {"type": "string"},
    "status.replicatedJobsStatus": MAP,
    "status.replicatedJobsStatus[].name!": {"type": "string"},
    **{f"status.replicatedJobsStatus[].{n}!": INT32 for n in ("ready", "succeeded", "failed", "active", "suspended")},
    "status.replicatedJobsStatus[].jobRestarts": ATOMIC | {"maxItems": 1024},
    "status.replicatedJobsStatus[].jobRestarts[]": INT32,
    "status.replicatedJobsStatus[].jobRestartsCountTowardsMax": ATOMIC | {"maxItems": 1024},
    "status.replicatedJobsStatus[].jobRestartsCountTowardsMax[]": INT32,
    # Additions to the Go JobSet's status.
    "status.replicatedJobsStatus[].completedIndexes": {"type": "string"},
    "status.replicatedJobsStatus[].started": {"type": "boolean"},
    "status.executionAttempts": INT32 | {"minimum": 0},
    "status.lastRestart": {"type": "object"},
    "status.lastRestart.reason": {"type": "string"},
    "status.lastRestart.startTime": {"type": "string", "format": "date-time"},
    "status.lastRestart.durationSeconds": INT32,
    "status.attemptHistory": ATOMIC | {"maxItems": 10},
    "status.attemptHistory[]": {"type": "object"},
    "status.attemptHistory[].time": {"type": "string", "format": "date-time"},
    **{f"status.attemptHistory[].{n}": INT32 for n in ("attempt", "exitCode")},
    **{f"status.attemptHistory[].{n}": {"type": "string"} for n in ("reason", "message", "failedJob", "pod", "node")},
    "status.previousInPlaceRestartAttempt": INT32 | {"minimum": 0},
    "status.currentInPlaceRestartAttempt": INT32 | {"minimum": 0},
}
"""Fields of the definition whose digest is in tests/support/corpus/crd_before.py."""

SINCE = {
    "spec.executionPolicy": {"type": "object", "x-kubernetes-validations": IMMUTABLE},
    "spec.executionPolicy.executionPolicyOrder": {
        "type": "string",
        "default": "AnyOrder",
        "enum": ["AnyOrder", "InOrder"],
    },
    "spec.executionPolicy.replicatedJobsStatus": {
        "type": "string",
        "default": "Succeeded",
        "maxLength": 64,
        "x-kubernetes-validations": [
            {"rule": "self != 'Failed'", "message": NOT_FAILED},
            {"rule": "self != 'Suspended'", "message": NOT_SUSPENDED},
            {
                "rule": "self in ['Succeeded', 'Ready', 'Active', 'Failed', 'Suspended']",
                "message": "must be Succeeded, Ready or Active",
            },
        ],
    },
    "spec.executionPolicy.sequentialReplicatedJobs": INT32 | {"minimum": 1},
    "spec.activeDeadlineSeconds": INT64 | {"minimum": 1},
    "spec.failurePolicy.inPlaceRestarts": INT32 | {"minimum": 1},
    "spec.failurePolicy.startTimeoutSeconds": INT32 | {"minimum": 1},
    "spec.failurePolicy.agent": {"type": "object"},
    "spec.failurePolicy.agent.image!": {"type": "string", "minLength": 1, "maxLength": 1024},
    "spec.failurePolicy.agent.mode": {"type": "string", "enum": ["Sidecar", "MainContainer"]},
    "spec.failurePolicy.agent.probePort": INT32 | {"minimum": 1, "maximum": 65535},
    "spec.failurePolicy.nodeFailure": {"type": "object"},
    "spec.failurePolicy.nodeFailure.afterSeconds!": INT32 | {"minimum": 0},
    "spec.failurePolicy.nodeFailure.action": {"type": "string", "enum": [*ACTIONS]},
    "spec.failurePolicy.nodeFailure.forceDeletePods": {"type": "boolean"},
    "spec.failurePolicy.avoidNodes": {"type": "object"},
    "spec.failurePolicy.avoidNodes.afterFailures": INT32 | {"minimum": 1},
    "spec.failurePolicy.avoidNodes.forSeconds": INT32 | {"minimum": 1},
    "spec.failurePolicy.avoidNodes.maxNodes": INT32 | {"minimum": 1, "maximum": 32},
    "spec.failurePolicy.avoidNodes.scope": {"type": "string", "enum": ["Node", "Domain"]},
    "spec.failurePolicy.avoidNodes.onExitCodes": {"type": "object"},
    "spec.failurePolicy.avoidNodes.onExitCodes.operator!": {"type": "string", "enum": ["In", "NotIn"]},
    "spec.failurePolicy.avoidNodes.onExitCodes.values!": EXIT_CODES,
    "spec.failurePolicy.avoidNodes.onExitCodes.values[]": INT32 | {"minimum": 1},
    "spec.failurePolicy.avoidNodes.onExitCodes.containerName": {"type": "string"},
    "spec.failurePolicy.avoidNodes.onPodReasons": {
        "type": "array",
        "x-kubernetes-list-type": "set",
        "maxItems": 32,
    },
    "spec.failurePolicy.avoidNodes.onPodReasons[]": {"type": "string", "maxLength": 256},
    "spec.failurePolicy.avoidNodes.dropAfterSeconds": INT32 | {"minimum": 1},
    "spec.replicatedJobs[].exitCodePolicy": {"type": "object"},
    "spec.replicatedJobs[].exitCodePolicy.permanent": EXIT_CODES,
    "spec.replicatedJobs[].exitCodePolicy.permanent[]": INT32 | {"minimum": 1},
    "spec.replicatedJobs[].exitCodePolicy.retryable": EXIT_CODES,
    "spec.replicatedJobs[].exitCodePolicy.retryable[]": INT32 | {"minimum": 1},
    "spec.replicatedJobs[].exitCodePolicy.containerName": {"type": "string"},
    "spec.scheduling": OBJECT,
    **scheduling("spec.scheduling", "minGroupCount", claims=False),
    "spec.scheduling.replicatedJobs": ATOMIC | {"maxItems": 8},
    ENTRY: OBJECT,
    f"{ENTRY}.targetReplicatedJobs!": {"type": "array", "x-kubernetes-list-type": "set"},
    f"{ENTRY}.targetReplicatedJobs[]": {"type": "string"},
    **scheduling(ENTRY, "minGroupCount", claims=True),
    f"{ENTRY}.job": OBJECT,
    **scheduling(f"{ENTRY}.job", "minCount", claims=True),
    "spec.successPolicy.minSucceeded": {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": True,
    },
    "spec.successPolicy.unit": {"type": "string", "enum": ["Job", "Pod"]},
    "spec.failurePolicy.failOn": {"type": "string", "enum": ["JobFailed", "FailureTarget"]},
    "spec.failurePolicy.rules[].maxRestarts": INT32 | {"minimum": 0},
    "spec.failurePolicy.rules[].then": ATOMIC | {"maxItems": 4},
    "spec.failurePolicy.rules[].then[]": OBJECT,
    "spec.failurePolicy.rules[].then[].afterRestarts!": INT32 | {"minimum": 1, "maximum": 10},
    "spec.failurePolicy.rules[].then[].withinSeconds": INT32 | {"minimum": 1},
    "spec.failurePolicy.rules[].then[].action!": {"type": "string", "enum": [*ACTIONS]},
    "spec.failurePolicy.rules[].onExitCodes": {"type": "object"},
    "spec.failurePolicy.rules[].onExitCodes.operator!": {"type": "string", "enum": ["In", "NotIn"]},
    "spec.failurePolicy.rules[].onExitCodes.values!": EXIT_CODES,
    "spec.failurePolicy.rules[].onExitCodes.values[]": INT32 | {"minimum": 1},
    "spec.failurePolicy.rules[].onExitCodes.containerName": {"type": "string"},
    "status.replicatedJobsStatus[].released": {"type": "boolean"},
    "status.replicatedJobsStatus[].remaining": INT32,
    "status.readyJobs": {"type": "string"},
    "status.currentStage": {"type": "string"},
    "status.startTime": {"type": "string", "format": "date-time"},
    "status.failurePolicyRestarts": MAP,
    "status.failurePolicyRestarts[].name!": {"type": "string"},
    "status.failurePolicyRestarts[].restarts": INT32,
    "status.attemptHistory[].container": {"type": "string"},
    "status.attemptHistory[].terminationMessage": {"type": "string"},
    "status.attemptHistory[].step": INT32,
    "status.failurePolicySteps": MAP,
    "status.failurePolicySteps[]": OBJECT,
    "status.failurePolicySteps[].name!": {"type": "string"},
    "status.failurePolicySteps[].step": INT32,
    "status.failurePolicySteps[].restarts": INT32,
    "status.failurePolicySteps[].times": ATOMIC | {"maxItems": 10},
    "status.failurePolicySteps[].times[]": {"type": "string", "format": "date-time"},
    "status.recovery": OBJECT,
    "status.recovery.runningSeconds": INT64,
    "status.recovery.lostSeconds": INT64,
    "status.recovery.goodput": {"type": "string"},
    "status.recovery.running": {"type": "boolean"},
    "status.recovery.since": {"type": "string", "format": "date-time"},
    "status.recovery.attempts": ATOMIC | {"maxItems": 10},
    "status.recovery.attempts[]": OBJECT,
    "status.recovery.attempts[].attempt": INT32,
    "status.recovery.attempts[].since": {"type": "string", "format": "date-time"},
    **{
        f"status.recovery.attempts[].{phase}AfterSeconds": INT32
        for phase in ("detected", "drained", "created", "ready")
    },
    "status.recovery.attempts[].runningSeconds": INT32,
    "status.failedNodes": MAP | {"maxItems": 32},
    "status.failedNodes[]": OBJECT,
    "status.failedNodes[].name!": {"type": "string"},
    "status.failedNodes[].failures": INT32,
    "status.failedNodes[].lastTime": {"type": "string", "format": "date-time"},
    **{f"status.failedNodes[].{n}": {"type": "string"} for n in ("reason", "topologyKey", "domain")},
}
"""Fields that were added to it."""

FIELDS: dict[str, dict[str, Any]] = BEFORE | SINCE


def added() -> tuple[str, ...]:
    """The fields of `SINCE`, without those inside of others."""
    paths = [marked.rstrip("!") for marked in SINCE]
    return tuple(path for path in paths if not any(path.startswith((f"{other}.", f"{other}[]")) for other in paths))
