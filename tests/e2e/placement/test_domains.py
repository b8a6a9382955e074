"""Which pods go where, and which are left alone, while nothing goes wrong."""

from __future__ import annotations

import pytest

from api import keys
from tests.support.racks import (
    LITTLE,
    PER_RACK,
    RACKS,
    Room,
    exclusive,
    gates,
    label,
    pending_because,
    uids,
    worker,
)

EVERYWHERE = RACKS * PER_RACK
MINE = "example.com/data-is-there"


@pytest.mark.parametrize("attempts", [2])
def test_every_job_has_a_rack_to_itself_and_again_after_a_restart(room: Room, attempts: int) -> None:
    room.apply(exclusive(jobs=RACKS))
    for attempt in range(attempts):
        assert len(room.runs(pods=EVERYWHERE, attempt=attempt)) == RACKS
        assert all(pod["spec"]["nodeSelector"] == {"rack": room.rack(pod)} for pod in room.followers())
        if attempt + 1 < attempts:
            room.fail(room.pods()[-1])
    assert room.refused_pods() == 0


def test_a_replicated_job_may_be_exclusive_alone(room: Room) -> None:
    js = exclusive(topology=None, jobs=2, pods=2, cpu=LITTLE)
    marked = worker("x", jobs=2, pods=2, cpu=LITTLE, priority="high")
    marked["template"]["metadata"] = {"annotations": {keys.EXCLUSIVE_TOPOLOGY: "rack"}}
    js["spec"]["replicatedJobs"].append(marked)
    room.apply(js)
    room.until(lambda: [p["status"].get("phase") for p in room.pods()] == ["Running"] * 8, "8 pods run")
    racks = {job: {*found} for job, found in room.racks().items() if job.startswith("js-x-")}
    assert [len(found) for found in racks.values()] == [1, 1]
    assert len(set.union(*racks.values())) == 2
    others = [pod for pod in room.pods() if label(pod, "job-name").startswith("js-w-")]
    assert all("nodeSelector" not in pod["spec"] and "affinity" not in pod["spec"] for pod in others)


def test_followers_are_created_once_and_wait_for_a_leader_that_is_slow_to_schedule(room: Room) -> None:
    room.apply(exclusive("held", jobs=RACKS))
    held = room.runs("held", pods=EVERYWHERE)
    room.apply(exclusive("late", topology="rack"))
    leader = room.waits("late")
    pods = room.until(lambda: len(found := room.pods("late")) == PER_RACK and found, "all pods of the late one")
    assert [gates(pod) for pod in pods] == [[], *[[keys.PLACEMENT_GATE]] * (PER_RACK - 1)]

    event = room.until(lambda: room.jobset_events("late", "ExclusivePlacementPending"), "an event")[0]
    assert leader["metadata"]["name"] in event["note"]
    assert pending_because(leader).removeprefix("Unschedulable: ") in event["note"]

    room.finish("held")
    (rack,) = room.runs("late", pods=PER_RACK).values()
    assert rack in held.values()
    assert uids(room.pods("late")) == uids(pods)
    assert all(pod["spec"]["nodeSelector"] == {"rack": rack} for pod in room.followers("late"))
    assert all(keys.AWAITS_LEADER not in pod["metadata"]["labels"] for pod in room.pods("late"))
    assert room.refused_pods() == 0


def test_a_scheduling_gate_of_the_users_own_stays(room: Room) -> None:
    room.apply(exclusive(pods=3, schedulingGates=[{"name": MINE}]))
    followers = room.until(lambda: len(found := room.followers()) == 2 and found, "both followers")
    assert all(sorted(gates(pod)) == sorted([MINE, keys.PLACEMENT_GATE]) for pod in followers)
    (leader,) = room.leaders()
    assert gates(leader) == [MINE]

    room.patch_pod(leader, {"spec": {"schedulingGates": None}})
    room.until(lambda: [gates(pod) for pod in room.followers()] == [[MINE]] * 2, "our gate to be lifted")
    rack = room.rack(room.leaders()[0])
    assert [pod["spec"]["nodeSelector"] for pod in room.followers()] == [{"rack": rack}] * 2

    for pod in room.followers():
        room.patch_pod(pod, {"spec": {"schedulingGates": None}})
    assert room.runs(pods=3) == {"js-w-0": rack}
    assert uids(room.followers()) == uids(followers)


def test_the_node_selector_strategy_needs_nothing_of_pods(room: Room) -> None:
    """An administrator labels and taints nodes for the Jobs by hand (docs/concepts/exclusive-placement.md#the-node-selector-strategy)."""
    racks = ["rack-3", "rack-1"]
    for job, rack in enumerate(racks):
        for node in room.nodes.of(rack):
            mine = {keys.NAMESPACED_JOB: f"{room.namespace}_js-w-{job}"}
            room.nodes.patch(
                node, labels=mine, taints=[{"key": keys.NO_SCHEDULE_TAINT, "value": "true", "effect": "NoSchedule"}]
            )
    js = exclusive(jobs=2)
    js["metadata"]["annotations"][keys.NODE_SELECTOR_STRATEGY] = "true"
    room.apply(js)
    assert room.runs(pods=2 * PER_RACK) == {"js-w-0": "rack-3", "js-w-1": "rack-1"}
    for pod in room.pods():
        assert "affinity" not in pod["spec"]
        assert {*pod["spec"]["nodeSelector"]} == {keys.NAMESPACED_JOB}
        assert gates(pod) == []
        assert keys.PRIORITY not in pod["metadata"]["labels"]


def test_a_later_stage_takes_the_racks_that_an_earlier_one_has_left(room: Room) -> None:
    """Each stage asks for all racks: nothing of the second one may stand in the way of the first."""
    js = exclusive(jobs=RACKS)
    js["spec"]["replicatedJobs"].append(worker("x", jobs=RACKS))
    js["spec"]["executionPolicy"] = {"executionPolicyOrder": "InOrder"}
    room.apply(js)
    first = room.runs(pods=EVERYWHERE)
    assert len(first) == RACKS
    room.finish()
    room.until(lambda: room.status().get("currentStage") == "x (2/2)", "the second stage")
    room.until(lambda: [p["status"].get("phase") for p in room.pods()] == ["Running"] * EVERYWHERE, "all pods run")
    racks = {job: {*found} for job, found in room.racks().items()}
    assert {job.rsplit("-", 1)[0] for job in racks} == {"js-x"}
    assert [len(found) for found in racks.values()] == [1] * RACKS
    assert len(set.union(*racks.values())) == RACKS
    assert room.refused_pods() == 0
