"""What `jobset explain` says where the status does not tell what has happened, from facts made by hand."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.support.explain.objects import NOW, at, causes, event, explanation_of, facts, job_of, lease, made
from tests.support.objects.jobsets import JSON, jobset, rjob, stored


def ended(ago: float, *, jobs: int = 2, failed: bool = False, holder: str = "somebody") -> tuple[str, JSON]:
    """The explanation of a set of two Jobs, so many of which have ended, the last one so many seconds ago."""
    js = made(stored(jobset(rjob(replicas=2))))
    moment = at(NOW - timedelta(seconds=ago))
    end = {"type": "Failed" if failed else "Complete", "status": "True", "reason": "R", "lastTransitionTime": moment}
    there = [made(job_of(js, index), succeeded=1, conditions=[end]) for index in range(jobs)]
    return explanation_of(facts(js, there, lease=lease(holder=holder)))


def test_a_set_whose_jobs_have_completed_while_nobody_writes_that():
    text, body = ended(120)
    assert (body["state"], body["level"], causes(body)) == ("waits", "fault", ["status-not-written"])
    assert "its 2 Jobs have completed 2 min ago, and no manager has written that into its status" in text
    assert "kubectl logs -n jobset-system deployment/jobset-controller-manager" in text
    assert "-k manifests/rbac" in text


def test_without_a_manager_that_is_the_cause():
    text, body = ended(120, holder="")
    assert causes(body) == ["status-not-written", "no-manager"]
    assert "deployment/jobset-controller-manager says" not in text


@pytest.mark.parametrize("case", [{"ago": 10}, {"ago": 120, "jobs": 1}, {"ago": 120, "failed": True}])
def test_what_a_manager_may_still_have_to_do_is_no_fault_of_the_status(case):
    assert "status-not-written" not in causes(ended(**case)[1])


def refused(number: int, user: str = "m") -> str:
    said = f'jobs.batch is forbidden: User "{user}" cannot create resource "jobs"'
    return f'job "train-workers-{number}" creation failed with error: {said}'


def test_what_is_refused_to_many_jobs_for_one_reason_is_said_once():
    note = "\n".join([*map(refused, range(3)), refused(3, "somebody else"), "and 4 more"])
    js = made(stored(jobset(rjob(replicas=8))))
    text, _ = explanation_of(facts(js, warnings=[event("JobCreationFailed", note)], lease=lease()))
    assert f"{refused(0)} (and 2 more alike); {refused(3, 'somebody else')}; and 4 more" in text


@pytest.mark.parametrize(("note", "named"), [("a Service exists already and belongs to nobody", False), ("no", True)])
def test_a_service_of_somebody_else_keeps_no_job_from_being_created(note: str, named: bool):
    js = made(stored(jobset(rjob())))
    _, body = explanation_of(facts(js, warnings=[event("HeadlessServiceCreationFailed", note)], lease=lease()))
    assert ("refused" in causes(body), "warning" in causes(body)) == (named, not named)
