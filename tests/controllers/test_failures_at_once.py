"""Very many failed Jobs, rules and patterns: what one plan looks at, and that the others get their turn."""

from typing import Any

import pytest

from api import keys
from api.failure_actions import MAX_REPLICAS_TO_RESTART
from controllers.planning.limits import DEFAULT_LIMITS, Limits
from controllers.planning.plan import plan
from kube.model.patterns import MAX_PATTERNS
from tests.controllers.test_bounded_plans import FAILED, GATES, children, failed, observed
from tests.support.objects.stored_sets import jobset, rjob

ALONE = {"action": "RestartJob"}
JUDGED = DEFAULT_LIMITS.judged_jobs


@pytest.mark.parametrize("rule", [{"targetReplicatedJobs": ["other"]}, {"onJobFailureMessagePatterns": ["x"] * 9}])
def test_of_more_rules_fewer_jobs_are_looked_at(rule: dict[str, Any]):
    rules = 1 + 100 * (1 + len(rule.get("onJobFailureMessagePatterns", ())))
    status = plan(failed(JUDGED, *[rule] * 100, ALONE), GATES).status
    assert sum(status.replicated_jobs_status[0].job_restarts) == DEFAULT_LIMITS.judgements // (rules + 1)


def test_one_at_least_is_looked_at():
    limits = Limits(judgements=2)
    status = plan(failed(5, {"targetReplicatedJobs": ["other"]}, ALONE), GATES, limits).status
    assert status.replicated_jobs_status[0].job_restarts[:5] == (1, 0, 0, 0, 0)


@pytest.mark.parametrize(("place", "reason"), [(MAX_PATTERNS - 1, "late"), (MAX_PATTERNS, "DefaultFailurePolicy")])
def test_so_many_patterns_are_looked_at(place: int, reason: str):
    rules = [
        {"onJobFailureMessagePatterns": ["never"] * place},
        {"onJobFailureMessagePatterns": ["boom"], "name": "late"},
    ]
    decided = plan(failed(1, *rules), GATES)
    warned = [event for event in decided.warnings if event.reason == "TooManyPatterns"]
    assert len(warned) == (place == MAX_PATTERNS)
    assert decided.status.last_restart.reason == ("FailurePolicy_late" if reason == "late" else reason)


@pytest.mark.parametrize("action", ["RestartJob", "RestartReplicatedJob"])
def test_jobs_are_restarted_alone_where_they_can_be_counted(action: str):
    """Admission refuses larger ones; one may have been stored before."""
    policy = {"maxRestarts": 1, "rules": [{"name": "r", "action": action}]}
    js = jobset(rjob(replicas=MAX_REPLICAS_TO_RESTART + 1), failurePolicy=policy)
    decided = plan(observed(js, {}, children(js, 2, **FAILED)), GATES)
    [warning] = decided.warnings
    assert warning.reason == "TooManyReplicas"
    assert all(not of.job_restarts for of in decided.status.replicated_jobs_status)
    assert keys.FAILED not in {condition.type for condition in decided.status.conditions}
