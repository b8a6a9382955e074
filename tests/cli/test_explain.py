"""What `jobset explain` says of a set as a whole and of its Jobs, from facts made by hand."""

from datetime import timedelta
from typing import Any

import pytest

from controllers.planning.limits import DEFAULT_LIMITS
from diagnose.times import age
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
    lease,
    made,
    running,
    walk,
)
from tests.support.objects.jobsets import rjob

IN_QUEUE = {"kueue.x-k8s.io/queue-name": "gpus"}
QUEUED_JOBS = DEFAULT_LIMITS.queued_jobs

JSON = dict[str, Any]


def test_a_failed_set_shows_its_attempts_newest_first():
    attempt = {"failedJob": "train-workers-0", "reason": "DefaultFailurePolicy", "time": at(MOMENT)}
    history = [
        {**attempt, "attempt": 0, "message": "PodFailurePolicy: too often"},
        {**attempt, "attempt": 1, "message": "again", "pod": "train-workers-0-0-x", "node": "node-3", "exitCode": 137},
        {**attempt, "attempt": 2, "message": "no", "pod": "p", "node": "n", "container": "main", "exitCode": 3},
    ]
    why = condition("Failed", "ReachedMaxRestarts", "jobset failed due to reaching max number of restarts")
    status = {"terminalState": "Failed", "conditions": [why], "attemptHistory": history}
    text, body = explanation_of(facts(a_set(status=status), None))
    assert (body["state"], body["level"]) == ("failed", "fault")
    assert "ReachedMaxRestarts: jobset failed due to reaching max number of restarts" in text
    last, unnamed, first = body["because"][0]["because"]
    assert last["what"] == "attempt 2: Job train-workers-0, container main of pod p on node n, exit code 3: no"
    assert (
        unnamed["what"]
        == "attempt 1: Job train-workers-0, pod train-workers-0-0-x on node node-3, exit code 137: again"
    )
    assert first["what"] == "attempt 0: Job train-workers-0: PodFailurePolicy: too often"


@pytest.mark.parametrize(
    ("labels", "kueue", "fix"),
    [
        ({}, True, "(since 14:05:03Z, 12 min)"),
        ({}, True, "to fix: jobset resume train -n team-a"),
        (IN_QUEUE, True, "Kueue resumes it when queue gpus admits it"),
        (IN_QUEUE, False, "gpus, and there is no Kueue here"),
        (IN_QUEUE, False, "to fix: jobset resume train -n team-a"),
    ],
)
def test_a_suspended_set_and_who_resumes_it(labels: JSON, kueue: bool, fix: str):
    js = a_set(labels=labels, suspend=True, status={"conditions": [condition("Suspended", "SuspendedJobs", "")]})
    text, body = explanation_of(facts(js, [running(js, 0)], has_kueue=kueue))
    assert (body["state"], causes(body)) == ("is suspended", ["suspended", "ending"])
    assert fix in text


def test_a_restart_that_waits_for_all_old_jobs():
    policy = {"maxRestarts": 3, "restartStrategy": "BlockingRecreate"}
    last = {"reason": "DefaultFailurePolicy", "startTime": at(MOMENT)}
    status = {"restarts": 1, "restartsCountTowardsMax": 1, "lastRestart": last}
    js = a_set(rjob(replicas=3), failurePolicy=policy, status=status)
    old = running(js, 1)
    old["metadata"]["deletionTimestamp"] = at(MOMENT)
    text, body = explained(js, [old])
    assert (body["state"], causes(body)) == ("restarts", ["restarting"]), "the missing Jobs need no further word"
    assert "1 Job of an earlier attempt still exists, 1 in deletion (train-workers-1)" in text
    assert "(1 of at most 3 restarts counted)" in text
    assert "none is created before all of those are gone (BlockingRecreate)" in text


def test_with_blocking_all_jobs_wait_for_the_last_old_pod():
    policy = {"maxRestarts": 3, "restartStrategy": "BlockingRecreate"}
    js = a_set(rjob(replicas=3), failurePolicy=policy, status={"restarts": 1})
    _, body = explained(js, [], leftover_pods={"train-workers-1": ("train-workers-1-0-abcde",)})
    assert causes(body) == ["old-pods"]
    assert "none is created before all of those are gone" in body["because"][0]["what"]


def test_jobs_of_a_large_set_come_as_the_job_controller_comes_to_those_before():
    js = a_set(rjob(replicas=QUEUED_JOBS + 3))
    text, body = explained(js, [job_of(js, index) for index in range(QUEUED_JOBS)])
    assert set(causes(body)) == {"behind", "no-pods"}
    assert f"3 Jobs come after {QUEUED_JOBS} that the Job controller has not come to yet" in text
    _, body = explained(js, [job_of(js, index) for index in range(QUEUED_JOBS - 1)])
    assert set(causes(body)) == {"missing", "no-pods"}


def test_stages_in_order():
    js = a_set(rjob("a"), rjob("b"), rjob("c"), startupPolicy={"startupPolicyOrder": "InOrder"})
    text, body = explained(js, [running(js, 0, "a"), running(js, 0, "b", ready=0)], [])
    assert causes(body) == ["not-ready", "later-stage"]
    assert "ReplicatedJob c (1 Job): waits for b to be ready (0 of 1)" in text


@pytest.mark.parametrize(
    ("state", "jobs", "why"),
    [
        ("Succeeded", {"ready": 0}, "a to have succeeded (0 of 2)"),
        ("Ready", {"ready": 0}, "a to be ready (1 of 2)"),
        ("Active", {"active": 0, "ready": 0}, "a to be active (1 of 2)"),
    ],
)
def test_stages_of_the_execution_policy(state, jobs, why):
    policy = {"executionPolicyOrder": "InOrder", "replicatedJobsStatus": state}
    js = a_set(rjob("a", replicas=2), rjob("b"), rjob("c"), executionPolicy=policy)
    text, body = explained(js, [running(js, 0, "a"), running(js, 1, "a", **jobs)], [])
    waiting = [of["what"] for of in body["because"] if of["cause"] == "later-stage"]
    assert waiting == [
        f"ReplicatedJob b (1 Job): waits for {why}",
        f"ReplicatedJob c (1 Job): waits for b to {'have' if state == 'Succeeded' else 'be'} {state.lower()} (0 of 1)",
    ]
    assert "executionPolicy, dependsOn or startupPolicy of the spec sets the order" in text


def test_an_old_warning_is_no_reason():
    js = a_set()
    _, body = explained(js, warnings=[event("JobCreationFailed", "long ago", ago=7200)])
    assert causes(body) == ["missing", "manager-idle"]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (lease(ago=10800), "no manager holds the lease in namespace jobset-system"),
        (lease(ago=1, holder=""), "no manager holds the lease in namespace jobset-system"),
        ({"spec": {}}, "no manager has ever taken the lease in namespace jobset-system"),
    ],
)
def test_no_manager_runs(given: JSON, says: str):
    js = a_set()
    text, body = explanation_of(facts(js, lease=given))
    [since] = [found["since"] for found in walk(body) if found["cause"] == "no-manager"]
    assert not since or since >= js["metadata"]["creationTimestamp"], "no set has waited longer than it is there"
    assert (body["level"], causes(body)) == ("fault", ["no-manager", "missing"])
    assert says in text


def test_a_manager_without_leader_election_is_known_by_what_it_does():
    js = a_set(rjob(replicas=2))
    for jobs, missing in (([], True), ([running(js, 0, active=1)], False)):
        _, body = explanation_of(facts(js, jobs=jobs, lease={"spec": {}}))
        assert ("no-manager" in causes(body)) == missing


def test_a_lease_that_is_a_little_late_by_this_clock_is_held():
    _, body = explanation_of(facts(a_set(), lease=lease(ago=17)))
    assert causes(body) == ["missing", "manager-idle"]


def test_a_manager_has_a_minute_before_it_is_said_to_do_nothing():
    js = a_set()
    js["metadata"]["creationTimestamp"] = at(NOW - timedelta(seconds=30))
    _, body = explained(js)
    assert (body["level"], causes(body)) == ("waits", ["missing"])


def test_a_job_that_somebody_deletes():
    js = a_set()
    job = running(js, 0, ready=0)
    job["metadata"]["deletionTimestamp"] = at(MOMENT)
    _, body = explained(js, [job])
    assert causes(body) == ["job-deleted"]


def test_a_job_that_is_still_suspended():
    js = a_set()
    job = made(job_of(js, 0, suspend=True), active=1)
    text, body = explained(js, [job])
    assert causes(body) == ["halted"]
    assert "Job train-workers-0: is still suspended: 1 pod of the time before" in text


def test_a_failed_job_that_the_policy_has_not_judged():
    js = a_set()
    failed = running(js, 0, active=0, ready=0, conditions=[condition("Failed", "BackoffLimitExceeded", "too often")])
    warnings = [event("FeatureGateDisabled", "a rule asks for RestartJob")]
    text, body = explained(js, [failed], warnings=warnings)
    assert causes(body) == ["job-failed", "warning"]
    assert "BackoffLimitExceeded: too often" in text
    assert "FeatureGateDisabled" in text
    assert "a rule asks for RestartJob" in text


@pytest.mark.parametrize(
    ("reason", "lasts"),
    [
        ("ExclusivePlacementPending", False),
        ("PodsUnschedulable", False),
        ("RestartWaitsForNode", False),
        ("PVCCreationFailed", False),
        ("GangWaiting", False),
        ("FeatureGateDisabled", True),
    ],
)
def test_a_wait_that_is_over_is_not_reported(reason: str, lasts: bool):
    js = a_set(rjob(replicas=4))
    warnings = [event(reason, "pod x waits")]
    jobs = [running(js, index) for index in range(4)]
    assert causes(explanation_of(facts(js, jobs, None, warnings=warnings))[1]) == (["warning"] if lasts else [])


def test_jobs_that_may_not_be_read():
    counts = {"name": "workers", "ready": 1, "succeeded": 0, "failed": 0, "active": 2, "suspended": 0}
    js = a_set(rjob(replicas=2), status={"replicatedJobsStatus": [counts]})
    text, body = explanation_of(
        facts(js, None, None, unread_notes=("Jobs and pods: you may not list jobs in namespace team-a",))
    )
    assert (body["state"], causes(body)) == ("waits", ["status"])
    assert "ReplicatedJob workers: 1 of 2 Jobs ready or done, says the status; 2 active" in text
    assert text.endswith("not looked at: Jobs and pods: you may not list jobs in namespace team-a")
    assert body["notLookedAt"] == ["Jobs and pods: you may not list jobs in namespace team-a"]


def test_a_note_of_several_lines_stays_on_one():
    js = a_set()
    text, _ = explained(js, warnings=[event("JobCreationFailed", "one\n├ two")])
    assert "one; ├ two" in text


@pytest.mark.parametrize(
    ("seconds", "says"),
    [(-3, "0 s"), (0.4, "0 s"), (59, "59 s"), (725, "12 min"), (3900, "1 h 5 min"), (90000, "1 d 1 h"), (86400, "1 d")],
)
def test_ages(seconds: float, says: str):
    assert age(seconds) == says


def test_another_day_is_named():
    js = a_set(status={"terminalState": "Completed", "conditions": [condition("Completed", "a", "b")]})
    given = facts(js, None)
    later = NOW + timedelta(days=2)
    text, _ = explanation_of(type(given)(now=later, jobset=given.jobset))
    assert "(since 2026-11-21 14:05:03Z, 2 d)" in text
