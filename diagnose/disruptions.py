"""Pods that were ended from outside without an event that says so, and what keeps such ends from counting. Pure.

A pod that is drained, preempted or deleted is often gone when its Job has failed: then no pod, node and exit code of it
stand in the history.
"""

from api.jobset import JobSet
from api.jobset_status import FailedAttempt
from diagnose.facts import SeenPod
from diagnose.remedies import IN_A_NEW
from diagnose.wording import DISRUPTED, FAILED_PODS

_CONDITION = "DisruptionTarget"


def disruption_in_history(failed: FailedAttempt) -> str:
    """What the history tells of the end of a pod from outside; empty if that is not likely."""
    if DISRUPTED in failed.message:
        return "its pod was drained, preempted or evicted"
    if failed.failed_job and not failed.pod and failed.message.startswith(FAILED_PODS):
        return "its failed pod was gone by then, as one that is drained, preempted, evicted or deleted"
    return ""


def disruption_of_pod(pod: SeenPod) -> str:
    """`EvictionByEvictionAPI: Eviction API: evicting`; empty for a pod that nothing from outside has ended."""
    found = pod.status.condition(_CONDITION)
    if found is None or found.status != "True":
        return ""
    return ": ".join(filter(None, [found.reason, found.message]))


def not_counted(js: JobSet, where: str = f" {IN_A_NEW}") -> str:
    """How ends of pods from outside do not count against maxRestarts; empty for a set that has a rule of that kind."""
    rules = js.spec.failure_policy.rules if js.spec.failure_policy is not None else ()
    if any(rule.action.endswith("IgnoreMaxRestarts") for rule in rules):
        return ""
    return (
        f"so that it does not count against maxRestarts (what somebody deletes by hand always does), write{where}"
        " podFailurePolicy: {rules: [{action: FailJob,"
        f" onPodConditions: [{{type: {_CONDITION}}}]}}]}} into the spec of the Jobs and the rule {{name: disrupted,"
        " action: RestartJobSetAndIgnoreMaxRestarts, onJobFailureReasons: [PodFailurePolicy],"
        f" onJobFailureMessagePatterns: [{DISRUPTED}]}} into failurePolicy.rules"
    )
