"""Pods that do not run in time, on the full control plane (docs/concepts/deadlines.md)."""

from datetime import datetime

import pytest

from tests.support.cluster.jobs import group, manifest
from tests.support.cluster.requests import wait_for
from tests.support.explain.world import World

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


def test_a_pod_without_its_volume_fails_its_attempt_in_the_words_of_its_kubelet(sets):
    silent = group(annotations={"kwok.jobset.dev/silent": "true"})
    sets.apply(manifest(silent, failurePolicy={"maxRestarts": 0, "startTimeoutSeconds": 2 * SECONDS}))
    [pod] = wait_for(lambda: [pod for pod in sets.pods() if pod["spec"].get("nodeName")], what="a pod with a node")
    note = 'MountVolume.SetUp failed for volume "data" : secret "nope" not found'
    World(sets.cluster, sets.namespace).warning({"apiVersion": "v1", "kind": "Pod", **pod}, "FailedMount", note)
    sets.wait_state("Failed")
    assert f"(node {pod['spec']['nodeName']}); FailedMount: {note}" in sets.condition("Failed")["message"]
