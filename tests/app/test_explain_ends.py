"""What `jobset explain` says of pods that were ended from outside, and of nodes that failed, from facts made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.explained import NOW, at, event, explanation_of, walk
from tests.support.stuck import JSON, POD, gone, on_node, replaced, silent_node


@pytest.mark.parametrize(
    ("ago", "policy", "says", "fix"),
    [
        (300, None, "spec.failurePolicy.nodeFailure is not set: nothing is done about it", ""),
        (60, 120, "its Job fails in 1 min: spec.failurePolicy.nodeFailure.afterSeconds is 120", ""),
        (150, 120, "the failure policy decides: spec.failurePolicy.nodeFailure.afterSeconds is 120", ""),
        (300, 120, "no manager has acted on it: ", "--feature-gates=JobSetNodeFailure=true"),
    ],
)
def test_what_the_failure_policy_does_about_a_failed_node(ago: float, policy: int | None, says: str, fix: str):
    spec = {} if policy is None else {"failurePolicy": {"nodeFailure": {"afterSeconds": policy}}}
    text, body = explanation_of(on_node(silent_node(ago), **spec))
    assert says in text
    assert fix in next(finding["wayOut"] for finding in walk(body) if finding["cause"] == "node-failure-policy")


def test_a_pod_of_a_set_that_restarts_in_place_may_be_replaced():
    policy = {"restartStrategy": "InPlaceRestart", "nodeFailure": {"afterSeconds": 120}}
    text, _ = explanation_of(on_node(silent_node(60), failurePolicy=policy))
    assert "its Job fails, or in place the pod is replaced, in 1 min" in text


def test_pods_that_were_ended_in_the_same_way_share_one_line():
    ends = [gone("Evicted", "low on memory"), gone("Evicted", "low on memory")]
    ends[1]["regarding"] = {"name": f"{POD}-y", "namespace": "team-a"}
    text, _ = explanation_of(replaced(*ends, ends[0]))
    assert f"pod {POD}-x and 1 more were evicted: low on memory" in text


@pytest.mark.parametrize(
    "other",
    [
        gone("TaintManagerEviction", "Cancelling deletion of Pod team-a/x"),
        {**gone("Evicted", "low on memory"), "eventTime": at(NOW.replace(hour=NOW.hour - 3))},
        {**event("Evicted", "low on memory"), "regarding": {"name": "other-0", "namespace": "team-a"}},
    ],
)
def test_what_is_no_end_of_a_pod_of_the_set_is_left_out(other: JSON):
    assert "evicted" not in explanation_of(replaced(other))[0]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (gone("Preempted", "Preempted by pod 1234 on node n"), "was preempted: Preempted by pod 1234 on node n"),
        (gone("Evicted", ""), "was evicted (since "),
        (gone("NodeNotReady", "Node is not ready"), "was marked as not ready, because its node is not ready"),
    ],
)
def test_how_a_pod_was_ended(given: dict[str, Any], says: str):
    assert says in f"{explanation_of(replaced(given))[0]}\n"
