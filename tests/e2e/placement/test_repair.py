"""Leaders that go, come back or find their node elsewhere: their followers are with them in the end, and no others go."""

from collections.abc import Callable, Iterable

import pytest

from api import keys
from tests.support.cluster.racks import RACKS, RackNamespace, condition, exclusive, gates, pending_because
from tests.support.cluster.requests import request, uids

MANY_RETRIES = {"backoffLimit": 20}
"""Of a Job that creates lost pods again, 10 s after the first, 20 s after the second that is lost, and so on."""
KEPT = "example.com/kept-to-be-read"
BY_HAND = ("rack-2", "rack-3")
"""Racks of which the first node is taken by pods that are placed by hand."""


def test_a_recreated_leader_comes_back_to_its_followers(rack_namespace: RackNamespace) -> None:
    """Even if it has to wait for that while other domains are free. One is deleted, one is evicted."""
    rack_namespace.apply(exclusive(jobs=2, pods=3, job=MANY_RETRIES))
    before = rack_namespace.runs(pods=6)
    leaders, followers = rack_namespace.leaders(), rack_namespace.followers()
    theirs = [node for rack in before.values() for node in rack_namespace.nodes.of(rack)]
    rack_namespace.nodes.cordon(*theirs)
    for leader, end in zip(leaders, (rack_namespace.delete_pod, evictor(rack_namespace)), strict=True):
        end(leader)

    def both_wait() -> bool:
        return [pending_because(pod)[:13] for pod in rack_namespace.leaders()] == ["Unschedulable"] * 2

    rack_namespace.until(both_wait, "new leaders that find no node")
    rack_namespace.nodes.cordon(*{*theirs} - {leader["spec"]["nodeName"] for leader in leaders}, on=False)
    assert rack_namespace.runs(pods=6) == before
    assert uids(rack_namespace.followers()) == uids(followers)
    assert rack_namespace.status().get("restarts", 0) == 0


@pytest.mark.slow
def test_a_job_whose_leader_has_lost_its_node_has_no_domain_until_it_is_back(rack_namespace: RackNamespace) -> None:
    rack_namespace.apply(exclusive(pods=2, job=MANY_RETRIES))
    (rack,) = rack_namespace.runs(pods=2).values()
    (leader,), (stays,) = rack_namespace.leaders(), rack_namespace.followers()
    rack_namespace.nodes.delete(leader["spec"]["nodeName"])
    rack_namespace.patch_job("js-w-0", {"completions": 3, "parallelism": 3})
    made = rack_namespace.until(lambda: rack_namespace.followers()[1:], "one more follower")[0]
    assert gates(made) == [keys.PLACEMENT_GATE]
    event = rack_namespace.until(lambda: rack_namespace.jobset_events("js", "ExclusivePlacementPending"), "an event")[0]
    assert leader["spec"]["nodeName"] in event["note"]
    assert "does not exist" in event["note"]

    rack_namespace.delete_pod(leader, gracePeriodSeconds=0)  # as the controller manager does after a minute
    assert rack_namespace.runs(pods=3) == {"js-w-0": rack}
    assert uids(rack_namespace.followers()) == uids([stays, made])
    assert rack_namespace.refused_pods() == 0


def test_only_followers_that_are_elsewhere_than_their_leader_are_moved(rack_namespace: RackNamespace) -> None:
    """The leader of one Job changes its domain, a follower of another does, and so do pods that are placed by hand."""
    fixed = place_by_hand(rack_namespace)
    crowded = [node for rack in BY_HAND for node in rack_namespace.nodes.of(rack)]
    rack_namespace.nodes.cordon(*crowded)  # a Job that has lost a node of its rack would not fit there
    rack_namespace.apply(exclusive(jobs=2, pods=3, job=MANY_RETRIES))
    before = rack_namespace.runs(pods=6)
    rack_namespace.nodes.cordon(*crowded, on=False)
    moved, kept = rack_namespace.of_job("js-w-0"), rack_namespace.of_job("js-w-1")
    watched = moved[1]
    rack_namespace.patch_pod(watched, {"metadata": {"finalizers": [*watched["metadata"]["finalizers"], KEPT]}})
    there = other(before.values())
    rack_namespace.nodes.patch(moved[0]["spec"]["nodeName"], labels={"rack": there})
    rack_namespace.nodes.patch(kept[2]["spec"]["nodeName"], labels={"rack": there})
    rack_namespace.nodes.patch(fixed[0]["spec"]["nodeName"], labels={"rack": there})

    rack_namespace.until(
        lambda: "deletionTimestamp" in now(rack_namespace, watched)["metadata"], "the follower to be deleted"
    )
    mark = condition(now(rack_namespace, watched), "DisruptionTarget")
    assert (mark["status"], mark["reason"], mark["message"]) == (
        "True",
        "ExclusivePlacementViolation",
        "Pod violated JobSet exclusive placement policy",
    )
    rack_namespace.patch_pod(watched, {"metadata": {"finalizers": None}})
    lost = uids([*moved[1:], kept[2]])
    rack_namespace.until(lambda: not lost & uids(rack_namespace.followers()), "the three misplaced followers to go")
    assert rack_namespace.runs(pods=6) == {"js-w-0": there, "js-w-1": before["js-w-1"]}
    assert uids(rack_namespace.pods()) >= uids([moved[0], *kept[:2]])
    assert rack_namespace.status().get("restarts", 0) == 0
    assert uids(rack_namespace.pods("fixed")) == uids(fixed)


def place_by_hand(rack_namespace: RackNamespace) -> list[dict]:
    """The pods of a set of the node-selector strategy, on nodes of two racks; its leader is the first."""
    for rack in BY_HAND:
        rack_namespace.nodes.patch(
            rack_namespace.nodes.of(rack)[0], labels={keys.NAMESPACED_JOB: f"{rack_namespace.namespace}_fixed-w-0"}
        )
    fixed = exclusive("fixed", pods=4, cpu="10", job=MANY_RETRIES)
    fixed["metadata"]["annotations"][keys.NODE_SELECTOR_STRATEGY] = "true"
    rack_namespace.apply(fixed)
    rack_namespace.until(
        lambda: [p["status"].get("phase") for p in rack_namespace.pods("fixed")] == ["Running"] * 4, "4 running pods"
    )
    pods = rack_namespace.pods("fixed")
    assert {rack_namespace.rack(pod) for pod in pods} == {*BY_HAND}
    return pods


def other(racks: Iterable[str]) -> str:
    """A rack that is free."""
    return min({f"rack-{i}" for i in range(RACKS)} - {*racks})


def now(rack_namespace: RackNamespace, pod: dict) -> dict:
    found = rack_namespace.pod(pod)
    assert found is not None
    return found


def test_followers_go_after_the_leader_of_the_flavor_that_a_set_was_resumed_with(rack_namespace: RackNamespace) -> None:
    rack_namespace.apply(exclusive(pods=3, nodeSelector={"flavor": "flavor-0"}))
    assert rack_namespace.runs(pods=3)["js-w-0"] in {"rack-0", "rack-1"}
    stale = rack_namespace.leaders()[0]
    rack_namespace.patch_pod(stale, {"metadata": {"annotations": {"kwok.jobset.dev/grace-seconds": "4"}}})
    rack_namespace.patch({"suspend": True})
    rack_namespace.until(
        lambda: "deletionTimestamp" in now(rack_namespace, stale)["metadata"], "the suspended set's leader to end"
    )

    rack_namespace.flavor("flavor-1")
    assert "deletionTimestamp" in now(rack_namespace, stale)["metadata"], (
        "the old leader has to end still, or this shows nothing"
    )
    rack_namespace.patch({"suspend": False})
    assert rack_namespace.runs(pods=3)["js-w-0"] in {"rack-2", "rack-3"}
    assert all(
        pod["spec"]["nodeSelector"] == {"flavor": "flavor-1", "rack": rack_namespace.rack(pod)}
        for pod in rack_namespace.followers()
    )
    assert rack_namespace.refused_pods() == 0


def evictor(rack_namespace: RackNamespace) -> Callable[[dict], None]:
    """Evicts a pod as a drain does."""

    def evict(pod: dict) -> None:
        name = pod["metadata"]["name"]
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": rack_namespace.namespace},
        }
        status, answer = request(rack_namespace.cluster, "POST", f"{rack_namespace.url('pods', name)}/eviction", body)
        assert status == 201, answer

    return evict
