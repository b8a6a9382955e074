"""Causes that are about a status which does not say what has happened. Pure."""

from collections.abc import Iterable, Iterator

from api import keys
from api.batch import Job
from diagnose.case import Case
from diagnose.finding import Answer, Finding, Level, pluralize
from diagnose.manager_causes import RIGHTS, missing_manager
from diagnose.states import State
from diagnose.survey import Survey
from diagnose.times import age, seconds_since
from kube.model.meta import find

WRITTEN = 30.0
"""Seconds within which a manager writes that a set has ended."""
_LOGS = f"kubectl logs -n {keys.MANAGER_NAMESPACE} deployment/jobset-controller-manager says why it does not write it"


def all_completed(survey: Survey, jobs: Iterable[Job]) -> str:
    """When the last Job of a set of which all have completed did so, as RFC 3339; empty for other sets."""
    ends = [_completion_time(job) for job in jobs]
    return max(ends) if survey.total and not survey.waiting and all(ends) and len(ends) >= survey.total else ""


def _completion_time(job: Job) -> str:
    complete = find(job.status.conditions, keys.JOB_COMPLETE)
    return complete.last_transition_time or "" if complete is not None and complete.status == "True" else ""


def unwritten_status(case: Case, _left: frozenset[str]) -> Iterator[Answer]:
    """All Jobs have completed, and no manager has written that into the status."""
    survey, jobs = case.survey, case.facts.jobs or ()
    since = all_completed(survey, jobs)
    ago = seconds_since(since, case.facts.now)
    if ago is None or ago < WRITTEN:
        return
    because: tuple[Finding, ...] = ()
    if case.manager_missing:
        because = (missing_manager(case.facts.lease, case.facts.managers, case.facts.now, since),)
    completed = pluralize(survey.total, "Job", "has completed", "have completed")
    finding = Finding(
        Level.FAULT,
        "status-not-written",
        f"its {completed} {age(ago)} ago, and no manager has written that into its status",
        because=because,
        fix="" if because else f"{_LOGS}; if it lacks a right: {RIGHTS}",
        since=since,
    )
    yield Answer(finding, state=State.WAITING)
