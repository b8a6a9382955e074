"""What the Job controller writes into the status of a Job. Pure: each function gives a new status for a Job as JSON.

`now` is a time as the API server writes it. None of these asks whether the Job could get there: `may_run` does.
"""

from dev.simulator.patches import JSON

ENDS = frozenset({"Complete", "Failed"})


def condition(kind: str, now: str, reason: str = "", message: str = "") -> JSON:
    """A condition that holds."""
    return {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now}


def has(job: JSON, *kinds: str) -> bool:
    """Whether a condition of one of these types is True."""
    return any(c["type"] in kinds and c["status"] == "True" for c in _conditions(job))


def finished(job: JSON) -> bool:
    """Whether it has completed or failed."""
    return has(job, *ENDS)


def suspended(job: JSON) -> bool:
    """Whether the Job controller has said that its pods are gone for now."""
    return has(job, "Suspended")


def may_run(job: JSON) -> bool:
    """Whether there may be pods of it."""
    return not job["spec"].get("suspend") and not finished(job) and "deletionTimestamp" not in job["metadata"]


def sizes(spec: JSON) -> tuple[int, int | None]:
    """Parallelism and completions of a Job's spec, with the defaults of batch/v1 (SetDefaults_Job).

    If both are unset, both are 1. If only completions are unset, they stay unset (None): the Job is a work queue. Zero
    stays zero.
    """
    parallelism, completions = spec.get("parallelism"), spec.get("completions")
    if parallelism is None:
        return 1, 1 if completions is None else completions
    return parallelism, completions


def pods_wanted(job: JSON) -> int:
    """How many pods run at once: the parallelism, and never more than have to succeed."""
    parallelism, completions = sizes(job["spec"])
    return parallelism if completions is None else min(parallelism, completions)


def next_status(job: JSON, now: str) -> JSON | None:
    """The next status that the controller would write if all goes well; None when it is content."""
    if finished(job):
        return None
    if job["spec"].get("suspend"):
        return None if suspended(job) else halted(job, now)
    status, wanted = job.get("status") or {}, pods_wanted(job)
    active, ready = status.get("active", 0), status.get("ready", 0)
    if suspended(job) or "startTime" not in status:
        return started(job, now, ready=0)
    if active != wanted:
        return {**status, "active": wanted, "ready": min(ready, wanted)}
    return {**status, "ready": active} if ready < active else None


def taken_up(job: JSON, now: str) -> JSON:
    """The controller has come to it. A Job that is resumed starts again."""
    status = job.get("status") or {}
    if not suspended(job):
        return {**status, "startTime": status.get("startTime", now)}
    resumed = {**condition("Suspended", now, "JobResumed"), "status": "False"}
    return {**status, "startTime": now, "conditions": [*_without(job, "Suspended"), resumed]}


def started(job: JSON, now: str, *, ready: int) -> JSON:
    """All its pods run, so many of them are ready. With no completions it is Complete at once."""
    status = taken_up(job, now)
    if sizes(job["spec"])[1] == 0:
        return ended({**job, "status": status}, now, "Complete", "CompletionsReached")
    return {**status, "active": pods_wanted(job), "ready": ready}


def halted(job: JSON, now: str) -> JSON:
    """It is suspended, and its pods are gone."""
    said = [*_without(job, "Suspended"), condition("Suspended", now, "JobSuspended")]
    return {**(job.get("status") or {}), "active": 0, "ready": 0, "conditions": said}


def doomed(job: JSON, now: str, reason: str, message: str) -> JSON:
    """It is bound to fail, and its pods are being ended."""
    said = [*_conditions(job), condition("FailureTarget", now, reason, message)]
    return {**(job.get("status") or {}), "ready": 0, "conditions": said}


def ended(job: JSON, now: str, kind: str, reason: str = "", message: str = "") -> JSON:
    """It is Complete, with all completions (a work queue: all its pods), or Failed, with one failed pod."""
    parallelism, completions = sizes(job["spec"])
    succeeded = parallelism if completions is None else completions
    counts = {"succeeded": succeeded} if kind == "Complete" else {"failed": 1, "succeeded": 0}
    since = (job.get("status") or {}).get("startTime", now)
    said = [*_conditions(job), condition(kind, now, reason, message)]
    return {**counts, "active": 0, "ready": 0, "terminating": 0, "startTime": since, "conditions": said}


def _conditions(job: JSON) -> list[JSON]:
    return (job.get("status") or {}).get("conditions") or []


def _without(job: JSON, kind: str) -> list[JSON]:
    return [c for c in _conditions(job) if c["type"] != kind]
