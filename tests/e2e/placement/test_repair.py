"""Leaders that go, come back or find their node elsewhere: their followers are with them in the end, and no others go."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from api import keys
from tests.support.cluster import request
from tests.support.racks import (
    RACKS,
    Room,
    condition,
    exclusive,
    gates,
    label,
    pending_because,
    uids,
)

PATIENT = {"backoffLimit": 20}
"""Of a Job that creates lost pods again, 10 s after the first, 20 s after the second that is lost, and so on."""
KEPT = "example.com/kept-to-be-read"
BY_HAND = ("rack-2", "rack-3")
"""Racks of which the first node is taken by pods that are placed by hand."""


def test_a_recreated_leader_comes_back_to_its_followers(room: Room) -> None:
    """Even if it has to wait for that while other domains are free. One is deleted, one is evicted."""
    room.apply(exclusive(jobs=2, pods=3, job=PATIENT))
    before = room.runs(pods=6)
    leaders, followers = room.leaders(), room.followers()
    theirs = [node for rack in before.values() for node in room.nodes.of(rack)]
    room.nodes.cordon(*theirs)
    for leader, end in zip(leaders, (room.delete_pod, evictor(room)), strict=True):
        end(leader)

    def both_wait() -> bool:
        return [pending_because(pod)[:13] for pod in room.leaders()] == ["Unschedulable"] * 2

    room.until(both_wait, "new leaders that find no node")
    room.nodes.cordon(*{*theirs} - {leader["spec"]["nodeName"] for leader in leaders}, on=False)
    assert room.runs(pods=6) == before
    assert uids(room.followers()) == uids(followers)
    assert room.status().get("restarts", 0) == 0


def test_a_job_whose_leader_has_lost_its_node_has_no_domain_until_it_is_back(room: Room) -> None:
    room.apply(exclusive(pods=2, job=PATIENT))
    (rack,) = room.runs(pods=2).values()
    (leader,), (stays,) = room.leaders(), room.followers()
    room.nodes.delete(leader["spec"]["nodeName"])
    room.patch_job("js-w-0", {"completions": 3, "parallelism": 3})
    made = room.until(lambda: room.followers()[1:], "one more follower")[0]
    assert gates(made) == [keys.PLACEMENT_GATE]
    event = room.until(lambda: room.jobset_events("js", "ExclusivePlacementPending"), "an event")[0]
    assert leader["spec"]["nodeName"] in event["note"]
    assert "does not exist" in event["note"]

    room.delete_pod(leader, gracePeriodSeconds=0)  # as the controller manager does after a minute
    assert room.runs(pods=3) == {"js-w-0": rack}
    assert uids(room.followers()) == uids([stays, made])
    assert room.refused_pods() == 0


def test_only_followers_that_are_elsewhere_than_their_leader_are_moved(room: Room) -> None:
    """The leader of one Job changes its domain, a follower of another does, and so do pods that are placed by hand."""
    fixed = place_by_hand(room)
    crowded = [node for rack in BY_HAND for node in room.nodes.of(rack)]
    room.nodes.cordon(*crowded)  # a Job that has lost a node of its rack would not fit there
    room.apply(exclusive(jobs=2, pods=3, job=PATIENT))
    before = room.runs(pods=6)
    room.nodes.cordon(*crowded, on=False)
    moved, kept = ([pod for pod in room.pods() if label(pod, "job-name") == job] for job in ("js-w-0", "js-w-1"))
    watched = moved[1]
    room.patch_pod(watched, {"metadata": {"finalizers": [*watched["metadata"]["finalizers"], KEPT]}})
    there = other(before.values())
    room.nodes.patch(moved[0]["spec"]["nodeName"], labels={"rack": there})
    room.nodes.patch(kept[2]["spec"]["nodeName"], labels={"rack": there})
    room.nodes.patch(fixed[0]["spec"]["nodeName"], labels={"rack": there})

    room.until(lambda: "deletionTimestamp" in now(room, watched)["metadata"], "the follower to be deleted")
    mark = condition(now(room, watched), "DisruptionTarget")
    assert (mark["status"], mark["reason"], mark["message"]) == (
        "True",
        "ExclusivePlacementViolation",
        "Pod violated JobSet exclusive placement policy",
    )
    room.patch_pod(watched, {"metadata": {"finalizers": None}})
    lost = uids([*moved[1:], kept[2]])
    room.until(lambda: not lost & uids(room.followers()), "the three misplaced followers to go")
    assert room.runs(pods=6) == {"js-w-0": there, "js-w-1": before["js-w-1"]}
    assert uids(room.pods()) >= uids([moved[0], *kept[:2]])
    assert room.status().get("restarts", 0) == 0
    assert uids(room.pods("fixed")) == uids(fixed)


def place_by_hand(room: Room) -> list[dict]:
    """The pods of a set of the node-selector strategy, on nodes of two racks; its leader is the first."""
    for rack in BY_HAND:
        room.nodes.patch(room.nodes.of(rack)[0], labels={keys.NAMESPACED_JOB: f"{room.namespace}_fixed-w-0"})
    fixed = exclusive("fixed", pods=4, cpu="10", job=PATIENT)
    fixed["metadata"]["annotations"][keys.NODE_SELECTOR_STRATEGY] = "true"
    room.apply(fixed)
    room.until(lambda: [p["status"].get("phase") for p in room.pods("fixed")] == ["Running"] * 4, "4 running pods")
    pods = room.pods("fixed")
    assert {room.rack(pod) for pod in pods} == {*BY_HAND}
    return pods


def other(racks: Iterable[str]) -> str:
    """A rack that is free."""
    return min({f"rack-{i}" for i in range(RACKS)} - {*racks})


def now(room: Room, pod: dict) -> dict:
    found = room.pod(pod)
    assert found is not None
    return found


def test_a_recreated_leader_brings_followers_of_two_domains_together(room: Room) -> None:
    room.apply(exclusive(pods=3, job=PATIENT))
    (rack,) = room.runs(pods=3).values()
    (leader,), followers = room.leaders(), room.followers()
    everywhere = [*room.nodes.racks()]
    room.nodes.cordon(*everywhere)
    evictor(room)(leader)
    room.waits()
    room.nodes.patch(followers[1]["spec"]["nodeName"], labels={"rack": other([rack])})
    room.nodes.cordon(*everywhere, on=False)

    def together() -> bool:
        racks = room.racks().get("js-w-0", {})
        return len(racks) == 1 and sum(racks.values()) == 3

    room.until(together, "all three in one rack")
    (leads,) = room.runs(pods=3).values()
    stays = followers[0] if leads == rack else followers[1]
    assert uids(room.followers()) & uids(followers) == uids([stays])


def test_what_moved_while_no_manager_ran_is_repaired_by_the_next(room: Room) -> None:
    room.apply(exclusive(pods=3, job=PATIENT))
    (rack,) = room.runs(pods=3).values()
    (leader,), followers = room.leaders(), room.followers()
    room.manager.kill()
    room.nodes.patch(leader["spec"]["nodeName"], labels={"rack": other([rack])})
    room.manager.start()
    room.until(lambda: not uids(followers) & uids(room.followers()), "both followers replaced")
    assert room.runs(pods=3) == {"js-w-0": other([rack])}
    assert uids(room.leaders()) == uids([leader])


def test_followers_go_after_the_leader_of_the_flavor_that_a_set_was_resumed_with(room: Room) -> None:
    room.apply(exclusive(pods=3, nodeSelector={"flavor": "flavor-0"}))
    assert room.runs(pods=3)["js-w-0"] in {"rack-0", "rack-1"}
    stale = room.leaders()[0]
    room.patch_pod(stale, {"metadata": {"annotations": {"kwok.jobset.dev/grace-seconds": "4"}}})
    room.patch({"suspend": True})
    room.until(lambda: "deletionTimestamp" in now(room, stale)["metadata"], "the suspended set's leader to end")

    room.flavor("flavor-1")
    assert "deletionTimestamp" in now(room, stale)["metadata"], "the old leader has to end still, or this shows nothing"
    room.patch({"suspend": False})
    assert room.runs(pods=3)["js-w-0"] in {"rack-2", "rack-3"}
    assert all(
        pod["spec"]["nodeSelector"] == {"flavor": "flavor-1", "rack": room.rack(pod)} for pod in room.followers()
    )
    assert room.refused_pods() == 0


def evictor(room: Room) -> Callable[[dict], None]:
    """Evicts a pod as a drain does."""

    def evict(pod: dict) -> None:
        name = pod["metadata"]["name"]
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": room.namespace}}
        status, answer = request(room.cluster, "POST", f"{room.url('pods', name)}/eviction", body)
        assert status == 201, answer

    return evict
