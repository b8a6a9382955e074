"""Make the statuses that the Job controller writes. The functions return new statuses, and change no argument.

A Job is JSON, and `now` is a time as the API server writes it. The functions do not check whether a transition is
valid. Callers check `may_run` before.
"""

from kube.model.meta import JSON

TERMINAL_CONDITIONS = frozenset({"Complete", "Failed"})


def condition(kind: str, now: str, reason: str = "", message: str = "") -> JSON:
    return {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now}


def has_condition(job: JSON, *kinds: str) -> bool:
    """Whether a condition of one of these types is True."""
    return any(c["type"] in kinds and c["status"] == "True" for c in _conditions(job))


def is_finished(job: JSON) -> bool:
    return has_condition(job, *TERMINAL_CONDITIONS)


def is_suspended(job: JSON) -> bool:
    return has_condition(job, "Suspended")


def may_run(job: JSON) -> bool:
    """Whether the Job may have pods, since it is neither suspended, finished nor being deleted."""
    return not job["spec"].get("suspend") and not is_finished(job) and "deletionTimestamp" not in job["metadata"]


def sizes(spec: JSON) -> tuple[int, int | None]:
    """Return parallelism and completions of a Job's spec, with the defaults of batch/v1 (SetDefaults_Job).

    If both are unset, both are 1. If only completions are unset, they stay unset (None), and the Job is a work queue.
    Zero stays zero.
    """
    parallelism, completions = spec.get("parallelism"), spec.get("completions")
    if parallelism is None:
        return 1, 1 if completions is None else completions
    return parallelism, completions


def pods_wanted(job: JSON) -> int:
    """Return the number of pods that run at the same time (the parallelism, but no more than the completions)."""
    parallelism, completions = sizes(job["spec"])
    return parallelism if completions is None else min(parallelism, completions)


def next_status(job: JSON, now: str) -> JSON | None:
    """Return the next status that the controller writes if nothing fails; None if the status is up to date."""
    if is_finished(job):
        return None
    if job["spec"].get("suspend"):
        return None if is_suspended(job) else suspended_status(job, now)
    status, pods = job.get("status") or {}, pods_wanted(job)
    active, ready = status.get("active", 0), status.get("ready", 0)
    if is_suspended(job) or "startTime" not in status:
        return start_status(job, now, ready=0)
    if active != pods:
        return {**status, "active": pods, "ready": min(ready, pods)}
    return {**status, "ready": active} if ready < active else None


def with_start_time(job: JSON, now: str) -> JSON:
    """Return the status with a start time. A Job that is resumed gets a new start time."""
    status = job.get("status") or {}
    if not is_suspended(job):
        return {**status, "startTime": status.get("startTime", now)}
    resumed = {**condition("Suspended", now, "JobResumed"), "status": "False"}
    return {**status, "startTime": now, "conditions": [*_conditions_without(job, "Suspended"), resumed]}


def start_status(job: JSON, now: str, *, ready: int) -> JSON:
    """Return the status when all pods run and `ready` of them are ready. Zero completions are Complete at once."""
    status = with_start_time(job, now)
    if sizes(job["spec"])[1] == 0:
        return end_status({**job, "status": status}, now, "Complete", "CompletionsReached")
    return {**status, "active": pods_wanted(job), "ready": ready}


def suspended_status(job: JSON, now: str) -> JSON:
    """Return the status of a suspended Job whose pods are gone."""
    conditions = [*_conditions_without(job, "Suspended"), condition("Suspended", now, "JobSuspended")]
    return {**(job.get("status") or {}), "active": 0, "ready": 0, "conditions": conditions}


def failing_status(job: JSON, now: str, reason: str, message: str) -> JSON:
    """Return the status with FailureTarget, with which the Job fails as soon as its pods have terminated."""
    conditions = [*_conditions(job), condition("FailureTarget", now, reason, message)]
    return {**(job.get("status") or {}), "ready": 0, "conditions": conditions}


def end_status(job: JSON, now: str, kind: str, reason: str = "", message: str = "") -> JSON:
    """Return the final status. `kind` is Complete, with all completions, or Failed, with one failed pod.

    In a work queue, which has no completions, all pods have succeeded.
    """
    parallelism, completions = sizes(job["spec"])
    succeeded = parallelism if completions is None else completions
    counts = {"succeeded": succeeded} if kind == "Complete" else {"failed": 1, "succeeded": 0}
    start_time = (job.get("status") or {}).get("startTime", now)
    conditions = [*_conditions(job), condition(kind, now, reason, message)]
    return {**counts, "active": 0, "ready": 0, "terminating": 0, "startTime": start_time, "conditions": conditions}


def _conditions(job: JSON) -> list[JSON]:
    return (job.get("status") or {}).get("conditions") or []


def _conditions_without(job: JSON, kind: str) -> list[JSON]:
    return [c for c in _conditions(job) if c["type"] != kind]
