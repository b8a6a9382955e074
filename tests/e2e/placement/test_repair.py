"""Leaders that go, come back or find their node elsewhere: their followers are with them in the end, and no others go."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from api import keys
from tests.support.cluster import request
from tests.support.racks import (
    LITTLE,
    Room,
    condition,
    exclusive,
    gates,
    index,
    pending_because,
    uids,
)

PATIENT = {
    "backoffLimit": 20,
    "podFailurePolicy": {
        "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
    },
}
"""Of a Job that makes lost pods anew, and disrupted ones without the back-off of 10 s and more."""
KEPT = "example.com/kept-to-be-read"


def delete(room: Room, pod: dict) -> None:
    room.delete_pod(pod)


def evict(room: Room, pod: dict) -> None:
    name = pod["metadata"]["name"]
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": room.namespace}}
    status, answer = request(room.cluster, "POST", f"{room.url('pods', name)}/eviction", body)
    assert status == 201, answer


@pytest.mark.parametrize("ended_by", [delete, evict])
def test_a_leader_that_is_made_anew_comes_back_to_its_followers(
    room: Room, ended_by: Callable[[Room, dict], None]
) -> None:
    room.apply(exclusive(pods=3, job=PATIENT))
    (rack,) = room.runs(pods=3).values()
    (leader,), followers = room.leaders(), uids(room.followers())
    room.nodes.cordon(leader["spec"]["nodeName"])
    ended_by(room, leader)
    room.until(lambda: uids(room.leaders()) not in ({*()}, uids([leader])), "a new leader")
    assert room.runs(pods=3) == {"js-w-0": rack}
    assert uids(room.followers()) == followers
    assert room.status().get("restarts", 0) == 0


def test_a_job_whose_leader_has_lost_its_node_gives_followers_no_domain_until_it_is_back(room: Room) -> None:
    room.apply(exclusive(pods=3, job=PATIENT))
    (rack,) = room.runs(pods=3).values()
    (leader,), (stays, goes) = room.leaders(), room.followers()
    room.nodes.delete(leader["spec"]["nodeName"])
    evict(room, goes)

    def newcomer() -> dict | None:
        return next((pod for pod in room.followers() if uids([pod]) != uids([stays])), None)

    made = room.until(lambda: (pod := newcomer()) and uids([pod]) != uids([goes]) and pod, "the follower made anew")
    assert gates(made) == [keys.PLACEMENT_GATE]
    event = room.until(lambda: room.jobset_events("js", "ExclusivePlacementPending"), "an event")[0]
    assert leader["spec"]["nodeName"] in event["note"]
    assert "does not exist" in event["note"]

    room.delete_pod(leader, gracePeriodSeconds=0)  # as the controller manager does after a minute
    assert room.runs(pods=3) == {"js-w-0": rack}
    assert uids(room.followers()) == uids([stays, made])
    assert room.refused_pods() == 0


def test_followers_are_moved_after_a_leader_whose_node_changes_its_domain(room: Room) -> None:
    room.apply(exclusive(pods=3, job=PATIENT))
    (rack,) = room.runs(pods=3).values()
    (leader,), followers = room.leaders(), room.followers()
    watched = followers[0]
    room.patch_pod(watched, {"metadata": {"finalizers": [*watched["metadata"]["finalizers"], KEPT]}})
    room.nodes.patch(leader["spec"]["nodeName"], labels={"rack": other(rack)})

    room.until(lambda: "deletionTimestamp" in now(room, watched)["metadata"], "the follower to be deleted")
    mark = condition(now(room, watched), "DisruptionTarget")
    assert (mark["status"], mark["reason"], mark["message"]) == (
        "True",
        "ExclusivePlacementViolation",
        "Pod violated JobSet exclusive placement policy",
    )
    room.patch_pod(watched, {"metadata": {"finalizers": None}})
    room.until(lambda: not uids(followers) & uids(room.followers()), "both followers replaced")
    assert room.runs(pods=3) == {"js-w-0": other(rack)}
    assert uids(room.leaders()) == uids([leader])
    assert room.status().get("restarts", 0) == 0


def other(rack: str) -> str:
    """A rack that is free."""
    return "rack-0" if rack != "rack-0" else "rack-1"


def now(room: Room, pod: dict) -> dict:
    found = room.pod(pod)
    assert found is not None
    return found


def test_a_follower_whose_node_changes_its_domain_is_the_only_one_moved(room: Room) -> None:
    room.apply(exclusive(pods=3, job=PATIENT))
    (rack,) = room.runs(pods=3).values()
    (leader,), (stays, goes) = room.leaders(), room.followers()
    room.nodes.patch(goes["spec"]["nodeName"], labels={"rack": other(rack)})
    room.until(lambda: index_1_and_2(room) and uids([goes]).isdisjoint(uids(room.pods())), "the follower replaced")
    assert room.runs(pods=3) == {"js-w-0": rack}
    assert uids([leader, stays]) < uids(room.pods())


def index_1_and_2(room: Room) -> bool:
    return [index(pod) for pod in room.followers()] == ["1", "2"]


def test_a_leader_made_anew_while_followers_are_in_two_domains_ends_it(room: Room) -> None:
    room.apply(exclusive(pods=3, job=PATIENT))
    (rack,) = room.runs(pods=3).values()
    (leader,), followers = room.leaders(), room.followers()
    everywhere = [*room.nodes.racks()]
    room.nodes.cordon(*everywhere)
    evict(room, leader)
    room.waits()
    room.nodes.patch(followers[1]["spec"]["nodeName"], labels={"rack": other(rack)})
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
    room.nodes.patch(leader["spec"]["nodeName"], labels={"rack": other(rack)})
    room.manager.start()
    room.until(lambda: not uids(followers) & uids(room.followers()), "both followers replaced")
    assert room.runs(pods=3) == {"js-w-0": other(rack)}
    assert uids(room.leaders()) == uids([leader])


def test_followers_go_after_the_leader_of_the_flavor_that_a_set_was_resumed_with(room: Room) -> None:
    room.apply(exclusive(pods=3, nodeSelector={"flavor": "flavor-0"}))
    assert room.runs(pods=3)["js-w-0"] in {"rack-0", "rack-1"}
    stale = room.leaders()[0]
    room.patch_pod(stale, {"metadata": {"annotations": {"kwok.jobset.dev/grace-seconds": "4"}}})
    room.patch({"suspend": True})
    room.until(lambda: "deletionTimestamp" in now(room, stale)["metadata"], "the suspended set's leader to end")

    room.flavor("flavor-1")
    room.patch({"suspend": False})
    pods = room.until(lambda: len(found := room.pods()) == 3 and found, "the pods of the resumed set")
    assert room.pod(stale) is not None, "the old leader has to be there still, or this shows nothing"
    assert all("rack" not in pod["spec"]["nodeSelector"] for pod in pods)
    assert room.runs(pods=3)["js-w-0"] in {"rack-2", "rack-3"}
    assert uids(room.pods()) == uids(pods)
    assert room.refused_pods() == 0


def test_pods_of_the_node_selector_strategy_are_never_moved(room: Room) -> None:
    """Their nodes are given to them by hand, whatever domain they are in."""
    mine = {keys.NAMESPACED_JOB: f"{room.namespace}_fixed-w-0"}
    nodes = [room.nodes.of(rack)[0] for rack in ("rack-0", "rack-0", "rack-1")]
    for node in {*nodes}:
        room.nodes.patch(node, labels=mine)
    fixed = exclusive("fixed", pods=4, cpu=LITTLE, job=PATIENT)
    fixed["metadata"]["annotations"][keys.NODE_SELECTOR_STRATEGY] = "true"
    room.apply(fixed)
    room.until(lambda: [p["status"].get("phase") for p in room.pods("fixed")] == ["Running"] * 4, "4 running pods")
    before = uids(room.pods("fixed"))

    leader_node = room.leaders("fixed")[0]["spec"]["nodeName"]
    room.apply(exclusive(pods=2, cpu=LITTLE, job=PATIENT, nodeSelector={"kubernetes.io/os": "linux"}))
    (rack,) = room.runs(pods=2).values()
    followers = room.followers()
    room.nodes.patch(leader_node, labels={"rack": other(rack)})
    room.nodes.patch(room.leaders()[0]["spec"]["nodeName"], labels={"rack": other(rack)})
    room.until(lambda: not uids(followers) & uids(room.followers()), "what is placed by affinity to be moved")
    assert room.runs(pods=2) == {"js-w-0": other(rack)}
    assert uids(room.pods("fixed")) == before
    assert all(not pending_because(pod) for pod in room.pods("fixed"))
