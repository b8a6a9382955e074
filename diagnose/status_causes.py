"""Causes that are about a status which does not say what has happened. Pure."""

from collections.abc import Iterable

from api import keys
from api.batch import Job
from diagnose.case import Case
from diagnose.finding import Finding, Found, Level, age, pluralize, seconds_since
from diagnose.manager_causes import RIGHTS, missing_manager
from diagnose.survey import Survey

WRITTEN = 30.0
"""Seconds within which a manager writes that a set has ended."""
_LOGS = f"kubectl logs -n {keys.MANAGER_NAMESPACE} deployment/jobset-controller-manager says why it does not write it"


def all_completed(survey: Survey, jobs: Iterable[Job]) -> str:
    """When the last Job of a set of which all have completed did so, as RFC 3339; empty for other sets."""
    ends = [_completion_time(job) for job in jobs]
    return max(ends) if survey.total and not survey.waiting and all(ends) and len(ends) >= survey.total else ""


def _completion_time(job: Job) -> str:
    ended = next(
        (
            condition
            for condition in job.status.conditions
            if condition.type == "Complete" and condition.status == "True"
        ),
        None,
    )
    return (ended.last_transition_time or "") if ended is not None else ""


def unwritten_status(case: Case, _left: frozenset[str]) -> list[Found]:
    """All Jobs have completed, and no manager has written that into the status."""
    survey, jobs = case.survey, case.facts.jobs or ()
    since = all_completed(survey, jobs) if survey is not None else ""
    ago = seconds_since(since, case.facts.now)
    if survey is None or ago is None or ago < WRITTEN:
        return []
    missing = (
        missing_manager(case.facts.lease, case.facts.managers, case.facts.now, since) if case.manager_missing else None
    )
    completed = pluralize(survey.total, "Job", "has completed", "have completed")
    finding = Finding(
        Level.FAULT,
        "status-not-written",
        f"its {completed} {age(ago)} ago, and no manager has written that into its status",
        because=() if missing is None else (missing,),
        fix="" if missing is not None else f"{_LOGS}; if it lacks a right: {RIGHTS}",
        since=since,
    )
    return [Found(finding, state="waits")]
