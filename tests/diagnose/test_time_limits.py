"""What `jobset explain` says of sets, Jobs and pods with a time limit, and of nodes that it keeps away from."""

from datetime import timedelta
from typing import Any

import pytest

from api.keys import PLACEHOLDER
from tests.support.explain.objects import (
    MOMENT,
    NOW,
    a_set,
    at,
    causes,
    condition,
    event,
    explained,
    explanation_of,
    facts,
    job_of,
    leader_of,
    lease,
    made,
    running,
)
from tests.support.explain.stuck import failed
from tests.support.objects.jobsets import rjob

JSON = dict[str, Any]


def with_deadline(start: str, seconds: int = 3600, **status: Any) -> tuple[str, JSON]:
    count = {"name": "workers", "ready": 1, "succeeded": 0, "failed": 0, "active": 1, "suspended": 0}
    begun = {"replicatedJobsStatus": [count], "readyJobs": "1/1", "startTime": start}
    js = a_set(activeDeadlineSeconds=seconds, status={**begun, **status})
    return explained(js, [running(js, 0)])


def test_how_much_time_is_left():
    text, body = with_deadline(at(MOMENT))
    assert (body["state"], body["level"], causes(body)) == ("runs", "note", ["active-deadline"])
    assert "it fails in 48 min unless it completes before: spec.activeDeadlineSeconds is 3600 (since 14:05" in text


def test_one_that_is_over():
    text, body = with_deadline(at(MOMENT), 600)
    assert causes(body) == ["active-deadline"]
    assert "it has run for longer than spec.activeDeadlineSeconds, which is 600: the manager ends it" in text


def test_one_that_nobody_counts():
    text, body = with_deadline("")
    assert causes(body) == ["active-deadline"]
    assert "spec.activeDeadlineSeconds is 3600, and no manager counts them" in text
    assert "to fix: start the manager with --feature-gates=JobSetActiveDeadlineSeconds=true" in text


def test_a_set_that_has_failed_by_it():
    why = condition("Failed", "DeadlineExceeded", "JobSet was active for longer than ...")
    attempt = {"attempt": 2, "reason": "DeadlineExceeded", "message": "it took too long", "time": at(MOMENT)}
    text, body = with_deadline(at(MOMENT), terminalState="Failed", conditions=[why], attemptHistory=[attempt])
    assert causes(body) == ["failed", "attempt"]
    assert "attempt 2: it took too long" in text
    assert "to fix: find out what took so long, delete the JobSet and create it again, if need be with more" in text


def with_start_timeout(seconds: int | None, **changes: Any) -> tuple[str, JSON]:
    policy = {} if seconds is None else {"startTimeoutSeconds": seconds}
    js = a_set(failurePolicy={"maxRestarts": 1, **policy})
    job = running(js, 0, ready=0)
    waiting = made(leader_of(job, **changes))
    return explained(js, [job], pods=[waiting])


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (3600, "fails its Job in 48 min unless it runs before: spec.failurePolicy.startTimeoutSeconds is 3600"),
        (719, "has not run in time, and the failure policy decides"),
        (600, "has not run in time, and no manager acts on that"),
    ],
)
def test_how_long_a_pod_may_still_take(seconds, said):
    text, body = with_start_timeout(seconds)
    assert "start-timeout" in causes(body)
    assert said in text
    assert ("--feature-gates=JobSetStartTimeout=true" in text) == (seconds == 600)


def test_nothing_of_a_limit_that_has_no_effect():
    """The manager's warning says that its gate is off."""
    note = "spec.failurePolicy.startTimeoutSeconds has no effect without the feature gate JobSetStartTimeout: start"
    js = a_set(failurePolicy={"maxRestarts": 1, "startTimeoutSeconds": 3600})
    job = running(js, 0, ready=0)
    given = facts(js, [job], [made(leader_of(job))], warnings=[event("FeatureGateDisabled", note)], lease=lease())
    text, body = explanation_of(given)
    assert "start-timeout" not in causes(body)
    assert note in text


def test_nothing_of_sets_without_it():
    assert "start-timeout" not in causes(with_start_timeout(None)[1])


def test_a_pod_with_a_scheduling_gate_has_all_the_time():
    assert "start-timeout" not in causes(with_start_timeout(600, gates=("kueue.x-k8s.io/topology",))[1])


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
        text, _ = explained(js, [job], [])
        assert f"{SAYS} in a new JobSet" in text


def test_jobs_that_fail_otherwise_are_not_told_of_seconds():
    js = slow(3, failed(0, 1, message="BackoffLimitExceeded: too often"), restarts=1, restartsCountTowardsMax=1)
    job = made(job_of(js, 0, attempt=1), active=1, ready=1)
    assert "activeDeadlineSeconds" not in explained(js, [job], [])[0]


def failed_node(name: str, minutes: int, failures: int = 2, **more: Any) -> dict[str, Any]:
    last = at(NOW - timedelta(minutes=minutes))
    return {"name": name, "failures": failures, "lastTime": last, "reason": "NodeFailure: it is off", **more}


def with_failed_nodes(*nodes: dict[str, Any], wanted: bool = True) -> tuple[str, dict[str, Any]]:
    policy = {"avoidNodes": {"afterFailures": 2}} if wanted else {}
    js = a_set(rjob(), status={"failedNodes": [*nodes]}, failurePolicy={"maxRestarts": 1, **policy})
    return explained(js, [running(js, 0)])


def test_avoided_nodes_are_named_with_why_and_for_how_long():
    text, body = with_failed_nodes(
        failed_node("n1", 70), failed_node("n2", 30, domain="r3", topologyKey="rack"), failed_node("n3", 10, failures=1)
    )
    assert "1 node is avoided by pods of Jobs that are created now" in text
    assert "node n2 and its domain r3: avoided for 30 min more, failed 2 times; NodeFailure: it is off" in text
    assert "node n3: not avoided, failed 1 time" in text
    assert "n1" not in text
    assert (body["state"], body["level"]) == ("runs", "note")


def test_nothing_is_said_where_nothing_is_avoided():
    assert "avoided-nodes" not in causes(with_failed_nodes()[1])
    assert "avoided-nodes" not in causes(with_failed_nodes(failed_node("n1", 70))[1])
    assert "avoided-nodes" not in causes(with_failed_nodes(failed_node("n1", 1), wanted=False)[1])


def test_nodes_that_the_set_is_about_to_leave_are_named_with_the_time():
    nodes = [{"name": "n1", "taint": "drain"}, {"name": "n2", "taint": "drain", "moved": True}]
    notice = {"noticeTime": at(NOW), "moveTime": at(NOW + timedelta(minutes=2)), "nodes": nodes}
    js = a_set(rjob(), status={"maintenance": notice}, failurePolicy={"maintenance": {"taintKeys": ["drain"]}})
    text, body = explained(js, [running(js, 0)])
    assert "it leaves 1 node at" in text
    assert "by a planned restart that does not count: n1 (drain)" in text
    assert (body["state"], body["level"]) == ("runs", "note")
    js["status"]["maintenance"] = {"nodes": nodes}
    assert "maintenance-notice" not in causes(explained(js, [running(js, 0)])[1])


def test_a_set_that_runs_with_fewer_jobs_than_wanted_says_so_and_lacks_none():
    fewer = [{"name": "workers", "replicas": 2, "since": at(NOW - timedelta(minutes=5))}]
    js = a_set(rjob(replicas=4, elastic={"min": 2, "max": 4}), status={"reducedReplicas": fewer})
    text, body = explained(js, [running(js, 0), running(js, 1)])
    assert "ReplicatedJob workers runs with 2 of 4 Jobs since" in text
    assert (body["state"], body["level"]) == ("runs", "note")
    fewer[0]["held"] = 1
    js["status"] |= {"reducedReplicas": fewer, "restarts": 1}
    placeholder = running(js, 2, ready=0)
    placeholder["metadata"]["labels"][PLACEHOLDER] = "true"
    text, body = explained(js, [running(js, 0, attempt=1), running(js, 1, attempt=1), placeholder])
    assert "placeholders hold it for 1 of them" in text
    assert (body["state"], body["level"], "js-workers-2" in text) == ("runs", "note", False)
    js["status"]["terminalState"] = "Completed"
    assert "reduced-replicas" not in causes(explained(js, [])[1])


def test_a_set_with_spares_counts_without_them_and_missing_ones_are_named():
    spares = [{"name": "spare", "ready": 1, "missing": 1, "used": 2}]
    js = a_set(rjob(), rjob("spare", replicas=2, spareFor="workers"), status={"spares": spares})
    text, body = explained(js, [running(js, 0)])
    assert "runs, 1 of 1 Job" in text
    assert "1 of 2 spares of ReplicatedJob spare for workers are ready" in text
    assert "2 places given so far" in text
    assert (body["state"], body["level"]) == ("runs", "note")
    js["status"]["spares"] = [{"name": "spare", "ready": 0, "missing": 1}]
    assert "0 of 1 spare of" in explained(js, [running(js, 0)])[0], "the Job of the other one has completed"
    js["status"]["spares"] = [{"name": "spare", "ready": 2}]
    assert "missing-spares" not in causes(explained(js, [running(js, 0)])[1])
    js["spec"]["replicatedJobs"][1]["template"]["spec"]["template"]["spec"]["nodeSelector"] = {"pool": "other"}
    assert "spares of ReplicatedJob spare hold no places for workers" in explained(js, [running(js, 0)])[0]
