"""Which pods go where, and which are left alone, while nothing goes wrong."""

import pytest

from api import keys
from tests.support.cluster.racks import (
    LITTLE,
    PER_RACK,
    RACKS,
    RackNamespace,
    exclusive,
    gates,
    label,
    pending_because,
    worker,
)
from tests.support.cluster.requests import uids

EVERYWHERE = RACKS * PER_RACK
MINE = "example.com/data-is-there"


def test_every_job_has_a_rack_to_itself_and_again_after_a_restart(rack_namespace: RackNamespace) -> None:
    rack_namespace.apply(exclusive(jobs=RACKS))
    for attempt in (0, 1):
        assert len(rack_namespace.runs(pods=EVERYWHERE, attempt=attempt)) == RACKS
        assert all(
            pod["spec"]["nodeSelector"] == {"rack": rack_namespace.rack(pod)} for pod in rack_namespace.followers()
        )
        if attempt == 0:
            rack_namespace.fail(rack_namespace.pods()[-1])
    assert rack_namespace.refused_pods() == 0


def test_a_replicated_job_may_be_exclusive_alone(rack_namespace: RackNamespace) -> None:
    js = exclusive(topology=None, jobs=2, pods=2, cpu=LITTLE)
    marked = worker("x", jobs=2, pods=2, cpu=LITTLE, priority="high")
    marked["template"]["metadata"] = {"annotations": {keys.EXCLUSIVE_TOPOLOGY: "rack"}}
    js["spec"]["replicatedJobs"].append(marked)
    rack_namespace.apply(js)
    rack_namespace.until(
        lambda: [p["status"].get("phase") for p in rack_namespace.pods()] == ["Running"] * 8, "8 pods run"
    )
    racks = {job: {*found} for job, found in rack_namespace.racks().items() if job.startswith("js-x-")}
    assert [len(found) for found in racks.values()] == [1, 1]
    assert len(set.union(*racks.values())) == 2
    others = [pod for pod in rack_namespace.pods() if label(pod, "job-name").startswith("js-w-")]
    assert all("nodeSelector" not in pod["spec"] and "affinity" not in pod["spec"] for pod in others)


def test_followers_are_created_once_and_wait_for_a_leader_that_is_slow_to_schedule(
    rack_namespace: RackNamespace,
) -> None:
    rack_namespace.apply(exclusive("held", jobs=RACKS))
    held = rack_namespace.runs("held", pods=EVERYWHERE)
    rack_namespace.apply(exclusive("late", topology="rack"))
    leader = rack_namespace.waits("late")
    pods = rack_namespace.until(
        lambda: len(found := rack_namespace.pods("late")) == PER_RACK and found, "all pods of the late one"
    )
    assert [gates(pod) for pod in pods] == [[], *[[keys.PLACEMENT_GATE]] * (PER_RACK - 1)]

    event = rack_namespace.until(lambda: rack_namespace.jobset_events("late", "ExclusivePlacementPending"), "an event")[
        0
    ]
    assert leader["metadata"]["name"] in event["note"]
    assert pending_because(leader).removeprefix("Unschedulable: ") in event["note"]

    rack_namespace.finish("held")
    (rack,) = rack_namespace.runs("late", pods=PER_RACK).values()
    assert rack in held.values()
    assert uids(rack_namespace.pods("late")) == uids(pods)
    assert all(pod["spec"]["nodeSelector"] == {"rack": rack} for pod in rack_namespace.followers("late"))
    assert all(keys.AWAITS_LEADER not in pod["metadata"]["labels"] for pod in rack_namespace.pods("late"))
    assert rack_namespace.refused_pods() == 0


def test_a_scheduling_gate_of_the_users_own_stays(rack_namespace: RackNamespace) -> None:
    rack_namespace.apply(exclusive(pods=3, schedulingGates=[{"name": MINE}]))
    followers = rack_namespace.until(lambda: len(found := rack_namespace.followers()) == 2 and found, "both followers")
    assert all(sorted(gates(pod)) == sorted([MINE, keys.PLACEMENT_GATE]) for pod in followers)
    (leader,) = rack_namespace.leaders()
    assert gates(leader) == [MINE]

    rack_namespace.patch_pod(leader, {"spec": {"schedulingGates": None}})
    rack_namespace.until(
        lambda: [gates(pod) for pod in rack_namespace.followers()] == [[MINE]] * 2, "our gate to be lifted"
    )
    rack = rack_namespace.rack(rack_namespace.leaders()[0])
    assert [pod["spec"]["nodeSelector"] for pod in rack_namespace.followers()] == [{"rack": rack}] * 2

    for pod in rack_namespace.followers():
        rack_namespace.patch_pod(pod, {"spec": {"schedulingGates": None}})
    assert rack_namespace.runs(pods=3) == {"js-w-0": rack}
    assert uids(rack_namespace.followers()) == uids(followers)


def test_the_node_selector_strategy_needs_nothing_of_pods(rack_namespace: RackNamespace) -> None:
    """An administrator labels and taints nodes for the Jobs by hand (docs/concepts/exclusive-placement.md#the-node-selector-strategy)."""
    racks = ["rack-3", "rack-1"]
    for job, rack in enumerate(racks):
        for node in rack_namespace.nodes.of(rack):
            mine = {keys.NAMESPACED_JOB: f"{rack_namespace.namespace}_js-w-{job}"}
            rack_namespace.nodes.patch(
                node, labels=mine, taints=[{"key": keys.NO_SCHEDULE_TAINT, "value": "true", "effect": "NoSchedule"}]
            )
    js = exclusive(jobs=2)
    js["metadata"]["annotations"][keys.NODE_SELECTOR_STRATEGY] = "true"
    rack_namespace.apply(js)
    assert rack_namespace.runs(pods=2 * PER_RACK) == {"js-w-0": "rack-3", "js-w-1": "rack-1"}
    for pod in rack_namespace.pods():
        assert "affinity" not in pod["spec"]
        assert {*pod["spec"]["nodeSelector"]} == {keys.NAMESPACED_JOB}
        assert gates(pod) == []
        assert keys.PRIORITY not in pod["metadata"]["labels"]


@pytest.mark.slow
def test_a_later_stage_takes_the_racks_that_an_earlier_one_has_left(rack_namespace: RackNamespace) -> None:
    """Each stage asks for all racks: nothing of the second one may stand in the way of the first."""
    js = exclusive(jobs=RACKS)
    js["spec"]["replicatedJobs"].append(worker("x", jobs=RACKS))
    js["spec"]["executionPolicy"] = {"executionPolicyOrder": "InOrder"}
    rack_namespace.apply(js)
    first = rack_namespace.runs(pods=EVERYWHERE)
    assert len(first) == RACKS
    rack_namespace.finish()
    rack_namespace.until(lambda: rack_namespace.status().get("currentStage") == "x (2/2)", "the second stage")
    rack_namespace.until(
        lambda: [p["status"].get("phase") for p in rack_namespace.pods()] == ["Running"] * EVERYWHERE, "all pods run"
    )
    racks = {job: {*found} for job, found in rack_namespace.racks().items()}
    assert {job.rsplit("-", 1)[0] for job in racks} == {"js-x"}
    assert [len(found) for found in racks.values()] == [1] * RACKS
    assert len(set.union(*racks.values())) == RACKS
    assert rack_namespace.refused_pods() == 0
