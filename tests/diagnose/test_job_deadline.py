"""What `jobset explain` says of Jobs that were active for longer than their own activeDeadlineSeconds."""

from __future__ import annotations

from typing import Any

from tests.support.explain.objects import NOW, at, explanation_of, facts, job_of, lease, made
from tests.support.explain.stuck import a_set, failed
from tests.support.objects.jobsets import rjob

JSON = dict[str, Any]
TOO_SLOW = "DeadlineExceeded: Job was active longer than specified deadline"
SAYS = (
    "Jobs of workers may be active for 5 s, by activeDeadlineSeconds in the spec of their template: find out what takes so"
    " long, or write more seconds"
)


def slow(most: int, *history: JSON, **status: Any) -> JSON:
    policy = {"maxRestarts": most} if most else {}
    body = rjob()
    body["template"]["spec"]["activeDeadlineSeconds"] = 5
    return a_set(body, failurePolicy=policy, status={"attemptHistory": list(history), **status})


def test_a_set_that_has_failed_names_the_seconds_of_its_jobs():
    why = {"type": "Failed", "status": "True", "reason": "FailedJobs", "lastTransitionTime": at(NOW)}
    for most in (0, 1):
        js = slow(most, failed(0, 1, message=TOO_SLOW), terminalState="Failed", conditions=[why])
        text, _ = explanation_of(facts(js, None))
        assert (
            f"to fix: {SAYS}; jobset logs train -n team-a --job train-workers-0 shows what the failed pod wrote" in text
        )
        assert "retries" not in text, "each would take as long"


def test_a_set_that_restarts_names_the_seconds_of_its_jobs():
    for times in (1, 2):
        history = [failed(attempt, 10 - attempt, message=TOO_SLOW) for attempt in range(times)]
        js = slow(3, *history, restarts=times, restartsCountTowardsMax=times)
        job = made(job_of(js, 0, attempt=times), active=1, ready=1)
        text, _ = explanation_of(facts(js, [job], [], lease=lease()))
        assert f"{SAYS} in a new JobSet" in text


def test_jobs_that_fail_otherwise_are_not_told_of_seconds():
    js = slow(3, failed(0, 1, message="BackoffLimitExceeded: too often"), restarts=1, restartsCountTowardsMax=1)
    job = made(job_of(js, 0, attempt=1), active=1, ready=1)
    assert "activeDeadlineSeconds" not in explanation_of(facts(js, [job], [], lease=lease()))[0]
