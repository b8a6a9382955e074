"""Pods that do not run in time, on the full control plane (docs/concepts/deadlines.md)."""

from __future__ import annotations

from datetime import datetime

import pytest

from tests.support.cluster.jobs import group, manifest
from tests.support.cluster.requests import wait_for

pytestmark = pytest.mark.manager(featureGates={"JobSetStartTimeout": True})
SECONDS = 3
NOWHERE = {"nodeSelector": {"pool": "nowhere"}}


def test_a_pod_without_a_node_fails_its_attempt_in_the_words_of_the_scheduler(sets):
    policy = {"maxRestarts": 1, "startTimeoutSeconds": SECONDS}
    sets.apply(manifest(group("good"), group("bad", pod=NOWHERE), failurePolicy=policy))
    sets.wait_state("Failed")
    status, failed = sets.status(), sets.condition("Failed")
    assert (status["restarts"], failed["reason"]) == (1, "ReachedMaxRestarts")
    assert f"was not running {SECONDS} s after its creation: Unschedulable: 0/" in failed["message"]
    first, second = status["attemptHistory"]
    assert first["failedJob"] == second["failedJob"] == "js-bad-0"
    assert first["pod"].startswith("js-bad-0-0-")
    took = datetime.fromisoformat(second["time"]) - datetime.fromisoformat(first["time"])
    assert SECONDS - 1 <= took.total_seconds() <= SECONDS + 5
    wait_for(lambda: sets.pods() == [], what="no pods")
    wait_for(lambda: "RestartJobSetFailurePolicyAction" in {reason for _, reason, _ in sets.events()}, what="the event")
