"""Failure policy rules by the reason of the failed pod: what its kubelet says of it, or how its containers ended."""

import msgspec
import pytest

from api.pod import DetailedPod
from controllers.jobset.failed_pods import failed_pod
from controllers.planning.observed import Ended, FailedPod
from tests.support.model.lives import started
from tests.support.model.world import World
from tests.support.objects.exit_codes import at
from tests.support.objects.stored_sets import rjob

REFUSED = "UnexpectedAdmissionError"
FREE = {"action": "RestartJobSetAndIgnoreMaxRestarts", "onPodReasons": [REFUSED]}
SAID = "Allocate failed due to requested number of devices unavailable"


def refused(name: str, seen: int = 1) -> FailedPod:
    """A pod as its kubelet leaves it when it refuses it: no container of it was ever created."""
    status = {"phase": "Failed", "reason": REFUSED, "message": f"{SAID}.", "startTime": at(seen)}
    body = {"metadata": {"name": name, "uid": name}, "spec": {"nodeName": "n1"}, "status": status}
    return failed_pod(msgspec.convert(body, DetailedPod))


def crashed(name: str, seconds: int, why: str = "") -> FailedPod:
    reasons = (why,) if why else ()
    return FailedPod(name, "n2", (Ended("main", 137, at(seconds), reason=why),), at(seconds), reasons=reasons)


def failed(*pods: FailedPod, **rule: object) -> World:
    world = started(rjob("workers", backoffLimit=0), failurePolicy={"maxRestarts": 3, "rules": [{**FREE, **rule}]})
    world.fail("js-workers-0")
    world.failed_pods["js-workers-0"] = pods
    world.settle()
    return world


@pytest.mark.parametrize(
    ("pods", "rule", "matches"),
    [
        ([refused("p")], {}, True),
        ([refused("p")], {"onPodReasons": ["Evicted", REFUSED]}, True),
        ([refused("p")], {"onPodReasons": ["Evicted"]}, False),
        ([crashed("p", 1, "OOMKilled")], {"onPodReasons": ["OOMKilled"]}, True),
        ([crashed("p", 1)], {}, False),
        ([], {}, False),
        ([refused("p")], {"onExitCodes": {"operator": "In", "values": [137]}}, False),
        ([crashed("p", 1, REFUSED)], {"onExitCodes": {"operator": "In", "values": [137]}}, True),
        ([refused("p")], {"onJobFailureReasons": ["DeadlineExceeded"]}, False),
        ([refused("late", 5), crashed("first", 2)], {}, False),
        ([refused("first", 2), crashed("late", 5)], {}, True),
    ],
)
def test_a_rule_matches_by_the_reason_of_the_decisive_pod(pods, rule, matches):
    world = failed(*pods, **rule)
    assert (world.status.restarts, world.status.restarts_count_towards_max) == (1, 0 if matches else 1)


def test_the_messages_and_the_history_name_pod_node_and_reason():
    world = failed(refused("p"), action="FailJobSet")
    [condition] = [c for c in world.status.conditions if c.type == "Failed"]
    assert f"pod p on node n1 has failed: {REFUSED}: {SAID}" in condition.message
    [attempt] = world.status.attempt_history
    assert (attempt.pod, attempt.node, attempt.pod_reason) == ("p", "n1", f"{REFUSED}: {SAID}")


def test_the_message_says_how_the_container_ended():
    world = failed(crashed("p", 1, "OOMKilled"), action="FailJobSet", onPodReasons=["OOMKilled"])
    [condition] = [c for c in world.status.conditions if c.type == "Failed"]
    assert "container main of pod p on node n2 ended with exit code 137 (OOMKilled)" in condition.message
