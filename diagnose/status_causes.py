"""Causes that are about a status which does not say what has happened. Pure."""

from collections.abc import Iterable

from api import keys
from api.batch import Job
from diagnose.case import Case
from diagnose.finding import Finding, Found, Level, age, counted, seconds_since
from diagnose.manager_causes import RIGHTS, unmanaged
from diagnose.survey import Survey

WRITTEN = 30.0
"""Seconds within which a manager writes that a set has ended."""
_LOGS = f"kubectl logs -n {keys.MANAGER_NAMESPACE} deployment/jobset-controller-manager says why it does not write it"


def all_completed(of: Survey, jobs: Iterable[Job]) -> str:
    """When the last Job of a set of which all have completed did so, as RFC 3339; empty for other sets."""
    ends = [_completed(job) for job in jobs]
    return max(ends) if of.total and not of.waiting and all(ends) and len(ends) >= of.total else ""


def _completed(job: Job) -> str:
    ended = next((one for one in job.status.conditions if one.type == "Complete" and one.status == "True"), None)
    return (ended.last_transition_time or "") if ended is not None else ""


def unreported(case: Case, _left: frozenset[str]) -> list[Found]:
    """All Jobs have completed, and no manager has written that into the status."""
    of, jobs = case.survey, case.facts.jobs or ()
    since = all_completed(of, jobs) if of is not None else ""
    ago = seconds_since(since, case.facts.now)
    if of is None or ago is None or ago < WRITTEN:
        return []
    missing = unmanaged(case.facts.lease, case.facts.managers, case.facts.now, since) if case.manager_missing else None
    completed = counted(of.total, "Job", "has completed", "have completed")
    finding = Finding(
        level=Level.FAULT,
        cause="status-not-written",
        what=f"its {completed} {age(ago)} ago, and no manager has written that into its status",
        because=() if missing is None else (missing,),
        fix="" if missing is not None else f"{_LOGS}; if it lacks a right: {RIGHTS}",
        since=since,
    )
    return [Found(finding, state="waits")]
