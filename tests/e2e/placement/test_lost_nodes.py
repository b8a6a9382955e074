"""In place, a node of an exclusive Job is lost: its pod comes back in the same rack, or the Job moves as a whole."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cluster.racks import PER_RACK, RackNamespace, exclusive, pending_because
from tests.support.cluster.requests import uids
from tests.support.played.agents import GATES, JOB, POLICY, Lose, PlayedAgents, played

JSON = dict[str, Any]
MOVES = {**GATES, "JobSetStartTimeout": True, "JobSetAvoidNodes": True, "RestartJob": True}
pytestmark = pytest.mark.manager(featureGates=GATES)

MOVE = {
    "startTimeoutSeconds": 15,
    "avoidNodes": {"scope": "Domain"},
    "rules": [{"name": "move", "action": "RestartJob", "onJobFailureReasons": ["StartTimeout"]}],
}


@pytest.fixture
def agents(rack_namespace: RackNamespace) -> Iterator[PlayedAgents]:
    with played(rack_namespace) as of_set:
        yield of_set


def apply(rack_namespace: RackNamespace, *, pods: int, **policy: Any) -> None:
    """Two Jobs in a rack each, whose pods have a node each and restart in place."""
    body = exclusive(jobs=2, pods=pods, job=JOB, restartPolicy="OnFailure")
    body["spec"]["failurePolicy"] = {**POLICY, **policy}
    rack_namespace.apply(body)


def runs(rack_namespace: RackNamespace, agents: PlayedAgents, attempt: int, *, pods: int) -> dict[str, str]:
    """Wait until so many pods run in this attempt; gives the rack of each Job."""

    def look() -> bool:
        here = rack_namespace.pods()
        return len(here) == pods and agents.all_in(attempt, here)

    rack_namespace.until(look, f"{pods} workers in attempt {attempt}")
    return rack_namespace.runs(pods=pods)


def test_a_lost_follower_and_a_lost_leader_come_back_in_their_racks(
    rack_namespace: RackNamespace, agents: PlayedAgents, lose: Lose
) -> None:
    apply(rack_namespace, pods=3)
    before = runs(rack_namespace, agents, 0, pods=6)
    jobs, pods = uids(rack_namespace.jobs()), rack_namespace.pods()
    lost = [rack_namespace.of_job("js-w-0")[1], rack_namespace.of_job("js-w-1")[0]]
    lose(*lost)
    assert runs(rack_namespace, agents, 1, pods=6) == before
    assert uids(rack_namespace.jobs()) == jobs
    assert uids(pods) & uids(rack_namespace.pods()) == uids(pods) - uids(lost)
    assert rack_namespace.status()["restarts"] == 0
    said = "".join(event["note"] for event in rack_namespace.jobset_events("js", "LostPodsReplaced"))
    assert all(f"pod {pod['metadata']['name']} is on node {pod['spec']['nodeName']}" in said for pod in lost)


@pytest.mark.slow
@pytest.mark.manager(featureGates=MOVES)
@pytest.mark.parametrize("index", [0, 1], ids=["leader", "follower"])
def test_where_the_rack_has_no_room_the_job_alone_moves_as_a_whole(
    rack_namespace: RackNamespace, agents: PlayedAgents, lose: Lose, index: int
) -> None:
    apply(rack_namespace, pods=PER_RACK, **MOVE)
    before = runs(rack_namespace, agents, 0, pods=8)
    jobs, moved, stay = rack_namespace.jobs(), rack_namespace.of_job("js-w-0"), rack_namespace.of_job("js-w-1")
    lose(moved[index])

    def waits() -> JSON | None:
        found = (pod for pod in rack_namespace.of_job("js-w-0") if pending_because(pod).startswith("Unschedulable"))
        return next(found, None)

    rack_namespace.until(waits, "the new pod, which finds no node")
    assert uids(moved) - uids(rack_namespace.of_job("js-w-0")) == uids([moved[index]]), "the others wait for it"
    rack_namespace.wait_explained(f"rack {before['js-w-0']}, where its Job is", "Insufficient cpu")

    after = runs(rack_namespace, agents, 1, pods=8)
    assert after["js-w-0"] not in before.values()
    assert after["js-w-1"] == before["js-w-1"]
    assert uids(rack_namespace.of_job("js-w-1")) == uids(stay)
    assert len(uids(jobs) & uids(rack_namespace.jobs())) == 1
    assert rack_namespace.status()["restarts"] == 0
