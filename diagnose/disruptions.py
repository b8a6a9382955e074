"""Finds pods that were drained, preempted, evicted or deleted, from the attempt history of the status. Pure.

A disrupted pod is often gone when its Job has failed. The history then has no pod, node or exit code.
"""

from api.jobset import JobSet, ReplicatedJob
from api.jobset_status import FailedAttempt
from api.names import job_name_prefix
from diagnose.fixes import IN_NEW_JOBSET
from diagnose.wording import BACKOFF_LIMIT_EXCEEDED, DISRUPTED


def rjob_of(js: JobSet, job_name: str) -> ReplicatedJob | None:
    """The ReplicatedJob that a Job of this name belongs to."""
    prefix = job_name.rstrip("0123456789")
    rjobs = (rjob for rjob in js.spec.replicated_jobs if job_name_prefix(js.metadata.name, rjob.name) == prefix)
    return next(rjobs, None)


def disruption_in_history(js: JobSet, failed: FailedAttempt) -> str:
    """A clause that says how the pod of a failed attempt was disrupted; empty if a disruption is not likely."""
    if DISRUPTED in failed.message:
        return "its pod was drained, preempted or evicted"
    if failed.failed_job and not failed.pod and failed.message.startswith(BACKOFF_LIMIT_EXCEEDED):
        disruptions = "drained, preempted, evicted or deleted"
        if _restarts_containers(js, failed.failed_job):
            return (
                f"its pod is gone: its containers failed more often than backoffLimit allows, or it was {disruptions}"
                " (with restartPolicy OnFailure Kubernetes deletes the pods of a Job that fails)"
            )
        return f"its failed pod was gone by then, as one that is {disruptions}"
    return ""


def _restarts_containers(js: JobSet, job_name: str) -> bool:
    """Whether the kubelet restarts failed containers of this Job in their pod."""
    rjob = rjob_of(js, job_name)
    return rjob is not None and rjob.pod_spec.get("restartPolicy") == "OnFailure"


def disruption_fix(js: JobSet, job_name: str, location: str = f" {IN_NEW_JOBSET}") -> str:
    """How to write a JobSet in which disrupted pods of this Job do not count against maxRestarts.

    Empty for a JobSet with a rule whose action ignores maxRestarts. Kubernetes allows podFailurePolicy only with
    restartPolicy Never. `location` says where to write it.
    """
    if any(rule.action.endswith("IgnoreMaxRestarts") for rule in js.failure_policy.rules):
        return ""
    if _restarts_containers(js, job_name):
        return f"restartPolicy: Never{location} keeps failed pods, with their logs and exit codes"
    return (
        f"so that it does not count against maxRestarts (what somebody deletes by hand always does), write{location}"
        " podFailurePolicy: {rules: [{action: FailJob,"
        f" onPodConditions: [{{type: DisruptionTarget}}]}}]}} into the spec of the Jobs and the rule {{name: disrupted,"
        " action: RestartJobSetAndIgnoreMaxRestarts, onJobFailureReasons: [PodFailurePolicy],"
        f" onJobFailureMessagePatterns: [{DISRUPTED}]}} into failurePolicy.rules"
    )
