"""What `jobset explain` says of a time limit for the start of pods. They were created at `MOMENT`, 12 minutes ago."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.explain.objects import a_set, causes, event, explanation_of, facts, leader_of, lease, made, running

JSON = dict[str, Any]


def of(seconds: int | None, **changes: Any) -> tuple[str, JSON]:
    policy = {} if seconds is None else {"startTimeoutSeconds": seconds}
    js = a_set(failurePolicy={"maxRestarts": 1, **policy})
    job = running(js, 0, ready=0)
    waiting = made(leader_of(job, **changes))
    return explanation_of(facts(js, [job], pods=[waiting], lease=lease()))


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (3600, "fails its Job in 48 min unless it runs before: spec.failurePolicy.startTimeoutSeconds is 3600"),
        (719, "has not run in time, and the failure policy decides"),
        (600, "has not run in time, and no manager acts on that"),
    ],
)
def test_how_long_a_pod_may_still_take(seconds, said):
    text, body = of(seconds)
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
    assert "start-timeout" not in causes(of(None)[1])


def test_a_pod_with_a_scheduling_gate_has_all_the_time():
    assert "start-timeout" not in causes(of(600, gates=("kueue.x-k8s.io/topology",))[1])
