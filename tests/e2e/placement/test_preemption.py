"""Which Jobs may take a domain from which others, on the real scheduler: preemption by priority, Job by Job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from api import keys
from tests.support.cluster import finish_pod, request
from tests.support.racks import (
    CLASSES,
    LITTLE,
    PER_RACK,
    RACKS,
    Room,
    create_class,
    exclusive,
    gates,
    label,
    pending_because,
    pod_spec,
    uids,
)

EVERYWHERE = RACKS * PER_RACK
ALL_RACKS = {f"rack-{i}" for i in range(RACKS)}
ANTI_AFFINITY = "didn't match pod anti-affinity rules"


def one_pod_on(rack: str, name: str = "js", *, topology: str | None = "rack", priority: str = "high"):
    """A JobSet of one little pod that fits nowhere but on this rack."""
    return exclusive(name, pods=1, cpu=LITTLE, topology=topology, priority=priority, nodeSelector={"rack": rack})


def test_a_training_of_higher_priority_takes_a_domain_and_gives_it_back(room: Room) -> None:
    room.apply(exclusive("low", jobs=RACKS, priority="low"))
    assert {*room.runs("low", pods=EVERYWHERE).values()} == ALL_RACKS
    room.apply(exclusive("high", priority="high"))

    taken = room.runs("high", pods=PER_RACK)["high-w-0"]
    rest = ALL_RACKS - {taken}

    def low_has_the_rest() -> bool:
        attempt = room.status("low").get("restarts", 0)
        bound = Counter(rack for racks in room.racks("low").values() for rack in racks.elements())
        settled = len(room.pods("low", attempt=attempt)) == len(room.pods("low")) == EVERYWHERE
        return attempt > 0 and settled and bound == Counter(dict.fromkeys(rest, PER_RACK))

    room.until(low_has_the_rest, "the next attempt of low priority on the other racks")
    waiting = room.waits("low")
    followers = [pod for pod in room.followers("low") if label(pod, "job-name") == label(waiting, "job-name")]
    assert [gates(pod) for pod in followers] == [[keys.PLACEMENT_GATE]] * (PER_RACK - 1)
    event = room.until(lambda: room.jobset_events("low", "ExclusivePlacementPending"), "an event")[0]
    assert event["type"] == "Warning"
    assert waiting["metadata"]["name"] in event["note"]
    assert {*room.runs("high", pods=PER_RACK).values()} == {taken}
    restarts = room.status("low")["restarts"]

    room.finish("high")
    assert {*room.runs("low", pods=EVERYWHERE).values()} == ALL_RACKS
    assert room.status("low")["restarts"] == restarts
    assert room.refused_pods() == 0


@pytest.mark.parametrize("priority", ["high", None])
def test_equal_priority_shares_no_domain_that_has_free_capacity(room: Room, priority: str | None) -> None:
    room.apply(exclusive("first", jobs=RACKS, pods=1, cpu=LITTLE, priority=priority))
    held = room.runs("first", pods=RACKS)
    assert {*held.values()} == ALL_RACKS
    room.apply(exclusive("second", pods=2, cpu=LITTLE, priority=priority))
    assert ANTI_AFFINITY in pending_because(room.waits("second"))

    freed = "first-w-2"
    ended = next(pod for pod in room.pods("first") if label(pod, "job-name") == freed)
    finish_pod(room.cluster, room.namespace, ended["metadata"]["name"])
    assert room.runs("second", pods=2) == {"second-w-0": held[freed]}


@pytest.mark.parametrize("newcomer", ["low", "high"])
def test_equal_or_lower_priority_preempts_no_pod(room: Room, newcomer: str) -> None:
    room.apply(exclusive("held", jobs=RACKS, priority="high"))
    room.runs("held", pods=EVERYWHERE)
    held = uids(room.pods("held"))
    room.apply(exclusive("new", priority=newcomer))
    assert "preemption: 0/" in pending_because(room.waits("new"))
    assert uids(room.pods("held")) == held
    assert room.status("held").get("restarts", 0) == 0


def test_a_priority_that_never_preempts_waits_for_a_domain(room: Room) -> None:
    room.apply(exclusive("held", jobs=RACKS, priority="low"))
    room.runs("held", pods=EVERYWHERE)
    held = uids(room.pods("held"))
    room.apply(exclusive("patient", priority="patient"))
    assert "preemptionPolicy=Never" in pending_because(room.waits("patient"))
    assert uids(room.pods("held")) == held

    room.finish("held")
    assert len(room.runs("patient", pods=PER_RACK)) == 1


@pytest.mark.parametrize("to_be_had", [1, 2])
def test_two_that_race_never_take_half_a_domain_each(room: Room, to_be_had: int) -> None:
    room.apply(exclusive("top", jobs=RACKS - to_be_had, priority="top"))
    out_of_reach = {*room.runs("top", pods=(RACKS - to_be_had) * PER_RACK).values()}
    room.apply(exclusive("low", jobs=to_be_had, priority="low"))
    contested = {*room.runs("low", pods=to_be_had * PER_RACK).values()}
    assert contested == ALL_RACKS - out_of_reach
    for name in ("one", "two"):
        room.apply(exclusive(name, priority="high"))

    def winners() -> list[str]:
        return [name for name in ("one", "two") if sum(c.total() for c in room.racks(name).values()) == PER_RACK]

    room.until(lambda: len(winners()) == to_be_had, f"{to_be_had} of the two run")
    won = winners()
    assert {rack for name in won for rack in room.runs(name, pods=PER_RACK).values()} == contested
    for loser in {"one", "two"} - {*won}:
        room.waits(loser)
        followers = room.until(
            lambda name=loser: room.followers(name)[PER_RACK - 2 :] and room.followers(name), "its followers"
        )
        assert [gates(pod) for pod in followers] == [[keys.PLACEMENT_GATE]] * (PER_RACK - 1)
        assert room.ever_scheduled(loser) == []
    assert {*room.runs("top", pods=(RACKS - to_be_had) * PER_RACK).values()} == out_of_reach


def test_the_next_attempt_has_the_priority_that_its_class_has_by_then(room: Room) -> None:
    name = f"shifting-{room.namespace}"
    path = f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}"
    create_class(room.cluster, name, 500)
    room.until(lambda: resolved(room, name) == 500, "the API server knows the class")
    room.apply(exclusive(pods=2, priority=name))
    room.runs(pods=2, attempt=0)
    assert {(priority, mark) for priority, mark, _ in priorities(room)} == {(500, "500")}

    request(room.cluster, "DELETE", path)
    create_class(room.cluster, name, 700)
    try:
        room.until(lambda: resolved(room, name) == 700, "the API server knows the new value")
        finish_pod(room.cluster, room.namespace, room.pods()[1]["metadata"]["name"], 1)
        room.runs(pods=2, attempt=1)
        assert priorities(room) == [(700, "700", ["700"]), (700, "700", None)]
    finally:
        request(room.cluster, "DELETE", path)


def resolved(room: Room, name: str) -> int | None:
    """The priority that the API server would give to a pod of this class."""
    body = {"metadata": {"name": "probe"}, "spec": pod_spec(priorityClassName=name)}
    status, answer = request(room.cluster, "POST", f"{room.url('pods')}?dryRun=All", body)
    return answer["spec"]["priority"] if status == 201 else None


def priorities(room: Room) -> list[tuple[int, str, list[str] | None]]:
    """Of each pod: its priority, its label, and the priorities that it keeps away from."""
    return [(pod["spec"]["priority"], label(pod, keys.PRIORITY), spared(pod)) for pod in room.pods()]


def spared(pod: dict) -> list[str] | None:
    affinity = pod["spec"].get("affinity", {}).get("podAntiAffinity", {})
    for term in affinity.get("requiredDuringSchedulingIgnoredDuringExecution", []):
        for expression in term["labelSelector"]["matchExpressions"]:
            if expression["key"] == keys.PRIORITY:
                return expression["values"]
    return None


def test_jobsets_of_different_namespaces_exclude_each_other(rooms: Callable[[], Room]) -> None:
    here, there = rooms(), rooms()
    here.apply(exclusive(jobs=RACKS, pods=1, cpu=LITTLE))
    held = here.runs(pods=RACKS)
    there.apply(exclusive(pods=2, cpu=LITTLE))
    assert ANTI_AFFINITY in pending_because(there.waits())

    ended = here.pods()[1]
    finish_pod(here.cluster, here.namespace, ended["metadata"]["name"])
    assert there.runs(pods=2) == {"js-w-0": held[label(ended, "job-name")]}


class TestBesideOtherPods:
    """What an exclusive Job has a domain to itself from: pods of JobSets of its priority."""

    @pytest.mark.parametrize("first_is_exclusive", [True, False])
    def test_a_jobset_of_equal_priority_without_exclusivity_keeps_out(
        self, room: Room, first_is_exclusive: bool
    ) -> None:
        topologies = ["rack", None] if first_is_exclusive else [None, "rack"]
        room.apply(one_pod_on("rack-1", "first", topology=topologies[0]))
        room.runs("first", pods=1)
        room.apply(one_pod_on("rack-1", "second", topology=topologies[1]))
        second = room.waits("second")
        assert "anti-affinity" in pending_because(second)
        room.finish("first")
        assert room.runs("second", pods=1) == {"second-w-0": "rack-1"}

    @pytest.mark.parametrize("first_is_exclusive", [True, False])
    def test_a_jobset_of_another_priority_may_share(self, room: Room, first_is_exclusive: bool) -> None:
        topologies = ["rack", None] if first_is_exclusive else [None, "rack"]
        room.apply(one_pod_on("rack-1", "first", topology=topologies[0], priority="low"))
        room.runs("first", pods=1)
        room.apply(one_pod_on("rack-1", "second", topology=topologies[1], priority="high"))
        assert room.runs("second", pods=1) == {"second-w-0": "rack-1"}
        assert room.status("first").get("restarts", 0) == 0

    def test_exclusive_jobs_of_different_priorities_may_share(self, room: Room) -> None:
        room.apply(one_pod_on("rack-2", "first", priority="high"))
        room.runs("first", pods=1)
        room.apply(one_pod_on("rack-2", "second", priority="low"))
        assert room.runs("second", pods=1) == {"second-w-0": "rack-2"}

    def test_jobs_and_pods_of_no_jobset_may_share(self, room: Room) -> None:
        selector = {"rack": "rack-3"}
        spec = pod_spec(priorityClassName="high", nodeSelector=selector)
        room.create("pods", {"metadata": {"name": "alone"}, "spec": spec})
        room.apply(one_pod_on("rack-3"))
        assert room.runs(pods=1) == {"js-w-0": "rack-3"}
        job = {"metadata": {"name": "plain"}, "spec": {"template": {"spec": spec}}}
        room.create("jobs", job, group="/apis/batch/v1")

        def strangers() -> list[dict]:
            return [pod for pod in room.all_pods() if not label(pod, keys.JOBSET_NAME)]

        room.until(lambda: [p["status"].get("phase") for p in strangers()] == ["Running"] * 2, "both run")
        racks = room.nodes.racks()
        assert {racks[pod["spec"]["nodeName"]] for pod in strangers()} == {"rack-3"}

    def test_pods_of_the_node_selector_strategy_may_share(self, room: Room) -> None:
        """They have no priority label; the taint of their nodes is what keeps others out."""
        room.nodes.patch(room.nodes.of("rack-2")[0], labels={keys.NAMESPACED_JOB: f"{room.namespace}_fixed-w-0"})
        fixed = exclusive("fixed", pods=1, cpu=LITTLE, priority="high")
        fixed["metadata"]["annotations"][keys.NODE_SELECTOR_STRATEGY] = "true"
        room.apply(fixed)
        assert room.runs("fixed", pods=1) == {"fixed-w-0": "rack-2"}
        room.apply(one_pod_on("rack-2"))
        assert room.runs(pods=1) == {"js-w-0": "rack-2"}

    def test_a_job_whose_leader_has_succeeded_excludes_exclusive_jobs_only(self, room: Room) -> None:
        room.apply(exclusive("first", pods=2, cpu=LITTLE, priority="high", nodeSelector={"rack": "rack-1"}))
        room.runs("first", pods=2)
        finish_pod(room.cluster, room.namespace, room.leaders("first")[0]["metadata"]["name"])
        room.runs("first", pods=1)
        room.apply(one_pod_on("rack-1", "second"))
        assert ANTI_AFFINITY in pending_because(room.waits("second"))
        room.apply(one_pod_on("rack-1", "free", topology=None))
        assert room.runs("free", pods=1) == {"free-w-0": "rack-1"}

    def test_the_priority_label_is_in_the_template_of_the_job(self, room: Room) -> None:
        room.apply(exclusive(pods=1, topology=None, priority="high"))
        room.runs(pods=1)
        job = request(room.cluster, "GET", room.url("jobs", "js-w-0", "/apis/batch/v1"))[1]
        assert job["spec"]["template"]["metadata"]["labels"][keys.PRIORITY] == str(CLASSES["high"])
        assert [label(pod, keys.PRIORITY) for pod in room.pods()] == [str(CLASSES["high"])]
