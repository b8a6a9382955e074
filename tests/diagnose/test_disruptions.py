"""What `jobset explain` says of pods that were drained, preempted or evicted, where no event says so."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.explain.objects import NOW, at, explanation_of, facts, lease
from tests.support.explain.stuck import a_set, failed, gone, looping, replaced, started
from tests.support.explain.stuck_jobs import failed_pod

JSON = dict[str, Any]
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
    text, _ = explanation_of(facts(a_set(failurePolicy={"maxRestarts": 1}, status=status), None))
    assert "its failed pod was gone by then" in text
    assert RULE in text


def test_a_set_that_does_not_count_such_ends_is_not_told_how():
    by = {"name": "urgent", "namespace": "team-b"}
    preempted = gone("Preempted", "Preempted by pod 1 on node n", related=by)
    assert RULE in explanation_of(replaced(preempted))[0]
    rules = [{"name": "free", "action": "RestartJobSetAndIgnoreMaxRestarts"}]
    js = a_set(failurePolicy={"maxRestarts": 3, "rules": rules})
    text, _ = explanation_of(facts(js, [started(js)], [], ends=[preempted], lease=lease()))
    assert "a higher priorityClassName" in text
    assert RULE not in text


def test_a_failed_pod_says_that_it_was_evicted():
    js = a_set()
    pod = failed_pod(job := started(js, active=0, failed=1), code=143)
    target = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "evicting"}
    pod["status"]["conditions"].append(target)
    text, _ = explanation_of(facts(js, [job], [pod], lease=lease()))
    assert "has failed: ended from outside: EvictionByEvictionAPI: evicting" in text
