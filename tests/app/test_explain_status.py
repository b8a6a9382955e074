"""What `jobset explain` says where the status does not tell what has happened, from facts made by hand."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.support.explained import NOW, at, causes, explanation_of, facts, job_of, lease, made
from tests.support.jobsets import JSON, jobset, rjob, stored


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
