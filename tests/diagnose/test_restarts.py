"""What `jobset explain` says of sets and Jobs that fail again and again, of why, and of what the last recovery took."""

from datetime import timedelta
from typing import Any

import pytest
import yaml

from tests.support.explain.objects import (
    MOMENT,
    NOW,
    a_set,
    at,
    causes,
    condition,
    explained,
    explanation_of,
    facts,
    job_of,
    made,
    running,
)
from tests.support.explain.stuck import failed, gone, looping, started
from tests.support.explain.stuck_restarts import restarted_for_free
from tests.support.objects.jobsets import jobset, rjob, stored

JSON = dict[str, Any]


def restarted(*history: JSON, ready: int = 1, most: int = 20, **status: Any) -> tuple[str, JSON]:
    """A set of two Jobs that has been restarted after each attempt of `history`."""
    restarts = {"restarts": len(history), "restartsCountTowardsMax": len(history), **status}
    status = {"attemptHistory": list(history), **restarts}
    js = a_set(rjob(replicas=2), failurePolicy={"maxRestarts": most}, status=status)
    jobs = [running(js, index, ready=ready, attempt=len(history)) for index in range(2)]
    return explained(js, jobs, [])


FIX = (
    "exit code 137: killed, SIGKILL; the kubelet does not say OOMKilled; jobset logs train -n team-a --job train-workers-0 shows"
    " what the present attempt writes"
)
PLACE = {"pod": "train-workers-0-0-x", "node": "node-3", "container": "main", "exitCode": 137}


def test_a_set_that_keeps_failing_says_so_though_all_its_jobs_are_ready():
    text, body = restarted(failed(0, 30), failed(1, 20), failed(2, 10, **PLACE))
    last = "attempt 2: Job train-workers-0, container main of pod train-workers-0-0-x on node node-3, exit code 137"
    counts = "2 of 2 Jobs ready or done (since 13:47:03Z, 30 min)"
    assert text.splitlines() == [
        f"JobSet team-a/train: keeps failing: restarted 3 times, 17 of 20 restarts left; {last}; {counts}",
        "└ 3 attempts failed within the last hour, last: too often",
        f"  ├ {last}: too often (since 14:07:03Z, 10 min)",
        "  ├ attempt 1: Job train-workers-0: too often (since 13:57:03Z, 20 min)",
        "  └ attempt 0: Job train-workers-0: too often",
        f"  to fix: {FIX}",
    ]
    assert (body["state"], body["level"]) == ("keeps failing", "fault")
    assert causes(body) == ["keeps-failing", "attempt", "attempt", "attempt"]


@pytest.mark.parametrize(
    ("history", "says"),
    [
        ([failed(0, 10, **PLACE)], "restarted once, 19 of 20 restarts left; attempt 0: Job train-workers-0, container"),
        ([failed(0, 3000), failed(1, 10)], "restarted 2 times, 18 of 20 restarts left; attempt 1: Job train-workers-0"),
        ([failed(0, 10, failedJob="", message="deadline")], "19 of 20 restarts left; attempt 0: deadline"),
    ],
)
def test_a_single_failure_of_the_last_hour_is_a_note(history: list[JSON], says: str):
    text, body = restarted(*history)
    assert (body["state"], body["level"], causes(body)) == ("runs", "note", ["restarted"])
    assert says in text


def test_attempts_that_failed_long_ago_are_not_reported():
    text, _ = restarted(failed(0, 300), failed(1, 61))
    assert text == "JobSet team-a/train: runs, 2 of 2 Jobs ready or done"


def test_restarts_that_do_not_count_leave_all():
    text, _ = restarted(failed(0, 20), failed(1, 10), restartsCountTowardsMax=0, most=1)
    assert "restarted 2 times, 1 of 1 restart left" in text


def test_jobs_that_are_restarted_by_themselves():
    counts = {"ready": 3, "succeeded": 0, "failed": 0, "active": 3, "suspended": 0}
    status = {"name": "workers", **counts, "jobRestarts": [2, 0, 5], "jobRestartsCountTowardsMax": [2, 0, 5]}
    js = made(stored(jobset(rjob(replicas=3), namespace="team-a")), replicatedJobsStatus=[status])
    jobs = [made(job_of(js, index), active=1, ready=1) for index in range(3)]
    text, body = explained(js, jobs, [])
    said = "2 Jobs were restarted more than once: train-workers-2 5 times, train-workers-0 2 times"
    assert text.splitlines()[0].startswith(f"JobSet team-a/train: keeps failing: {said}; ")
    assert (body["level"], causes(body)[0]) == ("fault", "job-keeps-failing")
    assert "jobset logs train -n team-a --job train-workers-2 shows what it writes" in text


SECOND = "RestartJobSet, step 2 of 3, after 2 restarts by RestartJob within 3600 s"


@pytest.mark.parametrize(
    ("step", "says"),
    [
        (
            {"restarts": 1, "times": [at(NOW)]},
            "takes RestartJob, step 1 of 3; RestartJobSet comes after 2 restarts within 3600 s, 1 so far",
        ),
        (
            {"step": 2, "restarts": 1},
            f"takes {SECOND}; FailJobSet comes after 3 restarts, 1 so far",
        ),
        ({"step": 3}, "takes FailJobSet, step 3 of 3, after 3 restarts by RestartJobSet"),
    ],
)
def test_a_rule_that_goes_up_says_where_it_is(step: JSON, says: str):
    then = [
        {"afterRestarts": 2, "withinSeconds": 3600, "action": "RestartJobSet"},
        {"afterRestarts": 3, "action": "FailJobSet"},
    ]
    rules = [{"name": "hardware", "action": "RestartJob", "then": then}, {"name": "other", "action": "RestartJobSet"}]
    given = jobset(rjob(replicas=2), namespace="team-a", failurePolicy={"maxRestarts": 9, "rules": rules})
    js = made(stored(given), failurePolicySteps=[{"name": "hardware", **step}])
    text, body = explained(js, [made(job_of(js, i), active=1, ready=1) for i in range(2)])
    assert causes(body) == ["escalation"]
    assert text.splitlines()[1] == f"└ failure policy rule hardware {says}"


@pytest.mark.parametrize(
    ("policy", "reason", "retries"),
    [
        ({}, "FailedJobs", "; spec.failurePolicy.maxRestarts allows retries"),
        (
            {"failurePolicy": {"maxRestarts": 3}},
            "ReachedMaxRestarts",
            "; a spec.failurePolicy.maxRestarts above 3 allows more retries",
        ),
        ({"failurePolicy": {"maxRestarts": 3}}, "FailJobSetFailurePolicyAction", ""),
    ],
)
@pytest.mark.parametrize("history", [[], [failed(3, 1, **PLACE)]])
def test_a_set_that_has_failed_shows_its_logs_and_how_to_run_it_again(
    policy: JSON, reason: str, retries: str, history: list[JSON]
):
    why = {"type": "Failed", "status": "True", "reason": reason, "message": "m", "lastTransitionTime": at(NOW)}
    given = stored(jobset(rjob(), namespace="team-a", **policy))
    js = made(given, terminalState="Failed", conditions=[why], attemptHistory=history)
    text, _ = explanation_of(facts(js, None))
    job = " --job train-workers-0" if history else ""
    again = "kubectl get jobset train -n team-a -o yaml | sed '/^  resourceVersion:/d' > train-new.yaml, change train-new.yaml, and kubectl replace --force"
    fix = f"jobset logs train -n team-a{job} shows what the failed pod wrote; fix it and run it again: {again}"
    assert f"to fix: {fix} -f train-new.yaml deletes the JobSet and creates it again{retries}\n" in f"{text}\n"


START = {"attempt": 0, "since": at(MOMENT - timedelta(hours=1)), "createdAfterSeconds": 1, "readyAfterSeconds": 9}
PHASES = {
    "attempt": 1,
    "since": at(MOMENT),
    "detectedAfterSeconds": 2,
    "drainedAfterSeconds": 12,
    "createdAfterSeconds": 13,
    "readyAfterSeconds": 64,
}
GOODPUT = "goodput 98.2%: 4127 s running, 73 s lost"
FAILED = {
    "attempt": 0,
    "failedJob": "train-workers-0",
    "reason": "DefaultFailurePolicy",
    "message": "boom",
    "time": at(MOMENT - timedelta(hours=2)),
}


def recovered(*attempts: JSON, ran: bool = True, spare_seconds: int = 0, **status: Any) -> tuple[str, JSON]:
    """A set that has run for an hour without 73 s, and for 10 minutes more."""
    counted = {"runningSeconds": 3527, "lostSeconds": 73, "running": ran, "since": at(NOW - timedelta(minutes=10))}
    recovery = {**counted, "spareSeconds": spare_seconds, "attempts": list(attempts)}
    js = a_set(status={"restarts": 0, "recovery": recovery, "attemptHistory": [FAILED], **status})
    return explained(js, [running(js, 0)])


def test_a_recovery_is_a_time_line():
    text, body = recovered(START, PHASES)
    assert text.splitlines()[1:] == [
        f"└ last recovery, of attempt 1: 64 s from the failure until all Jobs were ready; {GOODPUT}",
        "  ├ 14:05:03Z +0 s: failure: Job train-workers-0: boom",
        "  ├ 14:05:05Z +2 s: restart decided",
        "  ├ 14:05:15Z +12 s: old Jobs and pods gone",
        "  ├ 14:05:16Z +13 s: all Jobs created",
        "  └ 14:06:07Z +64 s: all Jobs ready",
    ]
    assert (body["state"], body["level"]) == ("runs", "fine")
    assert causes(body) == ["recovery"] + ["recovery-phase"] * 5


def test_a_set_that_has_ended_shows_it_too():
    done = condition("Completed", "AllJobsCompleted", "jobset completed successfully")
    _, body = recovered(START, PHASES, terminalState="Completed", conditions=[done])
    assert causes(body)[:2] == ["completed", "recovery"]


def test_seconds_of_spares_are_counted_until_now():
    text, _ = recovered(START, PHASES, spare_seconds=100, spares=[{"name": "spare", "ready": 2}])
    assert f"{GOODPUT}, 1300 s held by spares" in text


@pytest.mark.parametrize("attempts", [[], [START]])
def test_a_start_is_no_recovery(attempts):
    assert causes(recovered(*attempts)[1]) == []


def test_a_time_that_cannot_be_read_is_left_out():
    text, _ = recovered({**PHASES, "since": "x"})
    assert "  ├ +2 s: restart decided" in text


RULE = "action: RestartJobSetAndIgnoreMaxRestarts, onJobFailureReasons: [PodFailurePolicy]"
BY_POLICY = "PodFailurePolicy: Pod a/b has condition DisruptionTarget matching FailJob rule at index 0"
LIMIT = "BackoffLimitExceeded: Job has reached the specified backoff limit"


@pytest.mark.parametrize(
    ("attempt", "says"),
    [
        ({"message": LIMIT}, "its failed pod was gone by then, as one that is drained, preempted, evicted or deleted"),
        ({"message": BY_POLICY}, "its pod was drained, preempted or evicted"),
        ({"message": LIMIT, "pod": "train-workers-0-0-x", "exitCode": 1}, ""),
        ({"message": "DeadlineExceeded: too long"}, ""),
    ],
)
def test_the_end_of_a_pod_from_outside_is_a_reason_of_an_attempt(attempt: JSON, says: str):
    text, _ = explanation_of(looping(failed(0, 10, **attempt)))
    assert (f"attempt 0: Job train-workers-0; {says}" in text) is bool(says)
    assert (RULE in text) is bool(says)
    assert ("\na new JobSet: kubectl get jobset train" in text) is bool(says)


def test_a_set_that_has_failed_names_the_rule_that_does_not_count_drained_pods():
    why = {"type": "Failed", "status": "True", "reason": "ReachedMaxRestarts", "lastTransitionTime": at(NOW)}
    status = {"terminalState": "Failed", "conditions": [why], "attemptHistory": [failed(1, 1, message=LIMIT)]}
    never = rjob(pod={"restartPolicy": "Never"})
    text, _ = explanation_of(facts(a_set(never, failurePolicy={"maxRestarts": 1}, status=status), None))
    assert "its failed pod was gone by then" in text
    policy, rule = (text[text.index(start) :] for start in ("podFailurePolicy: {", "{name: disrupted"))
    condition = {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget"}]}
    assert yaml.safe_load(policy.partition(" into the spec")[0]) == {"podFailurePolicy": {"rules": [condition]}}
    assert yaml.safe_load(rule.partition(" into failurePolicy.rules")[0]) == {
        "name": "disrupted",
        "action": "RestartJobSetAndIgnoreMaxRestarts",
        "onJobFailureReasons": ["PodFailurePolicy"],
        "onJobFailureMessagePatterns": ["has condition DisruptionTarget"],
    }


def test_of_containers_that_run_again_in_their_pod_both_ends_are_named():
    js = a_set(status={"restarts": 1, "restartsCountTowardsMax": 1, "attemptHistory": [failed(0, 1, message=LIMIT)]})
    text, _ = explained(js, [started(js, ready=1)], [])
    assert "its containers failed more often than backoffLimit allows, or it was drained" in text
    assert "to fix: restartPolicy: Never in a new JobSet keeps failed pods, with their logs and exit codes" in text
    assert RULE not in text, "Kubernetes allows podFailurePolicy with restartPolicy Never only"


@pytest.mark.parametrize("ended", [False, True])
def test_the_words_of_the_kubelet_stand_in_the_history(ended: bool):
    why = "Evicted: Pod ephemeral local storage usage exceeds the total limit of containers 10Mi"
    place = {"pod": "p", "node": "n", "container": "main", "exitCode": 137, "podReason": why}
    history = [failed(attempt, 9 - attempt, message=LIMIT, **place) for attempt in range(2)]
    end = {"type": "Failed", "status": "True", "reason": "ReachedMaxRestarts", "lastTransitionTime": at(NOW)}
    more = {"terminalState": "Failed", "conditions": [end]} if ended else {}
    js = a_set(failurePolicy={"maxRestarts": 2}, status={"restarts": 2, "attemptHistory": history, **more})
    text, _ = explained(js, [started(js, ready=1)], [])
    assert f"container main of pod p on node n, exit code 137 ({why})" in text
    assert "raise resources.limits.ephemeral-storage" in text
    assert "lack of memory" not in text
    assert RULE not in text


def test_a_set_that_does_not_count_such_ends_is_not_told_how():
    by = {"name": "urgent", "namespace": "team-b"}
    preempted = gone("Preempted", "Preempted by pod 1 on node n", related=by)

    def advice(limit: int, **policy: Any) -> str:
        js = a_set(rjob(pod={"restartPolicy": "Never"}), failurePolicy={"maxRestarts": 3, **policy})
        job = started(js)
        job["spec"]["backoffLimit"] = limit
        return explained(js, [job], [], disruption_events=[preempted])[0]

    assert RULE in advice(0)
    assert RULE not in advice(1), "the Job makes another pod, and nothing is restarted"
    text = advice(0, rules=[{"name": "free", "action": "RestartJobSetAndIgnoreMaxRestarts"}])
    assert "a higher priorityClassName" in text
    assert RULE not in text


@pytest.mark.parametrize(
    ("given", "says", "endless"),
    [
        (
            {},
            "3 not counted towards maxRestarts by rule free (RestartJobSetAndIgnoreMaxRestarts, without a limit);",
            True,
        ),
        ({"maxRestarts": 5}, "by rule free (RestartJobSetAndIgnoreMaxRestarts, 2 of 5 left);", False),
        ({"counted": 1}, "2 not counted towards maxRestarts by rule free", True),
        ({"counted": 1}, "without a limit), 5 of 6 restarts left;", True),
        ({"action": "RestartJobSet"}, "restarted 3 times, 6 of 6 restarts left;", False),
        (
            {"action": "RestartJobSet", "then": [{"afterRestarts": 1, "action": "RestartJobSetAndIgnoreMaxRestarts"}]},
            "restarted 3 times, 6 of 6 restarts left;",
            False,
        ),
    ],
)
def test_restarts_that_a_rule_does_not_count_are_named_with_the_rule(given, says, endless):
    text, _ = explanation_of(restarted_for_free(**given))
    assert says in text
    assert ("restarts by rule free never end" in text) is endless
