"""Which Jobs may take a domain from which others, on the real scheduler: preemption by priority, Job by Job."""

from collections import Counter
from collections.abc import Callable

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
    pod_spec,
)
from tests.support.cluster.requests import finish_pod, uids

EVERYWHERE = RACKS * PER_RACK
ALL_RACKS = {f"rack-{i}" for i in range(RACKS)}
ANTI_AFFINITY = "didn't match pod anti-affinity rules"


def one_pod_on(rack: str, name: str = "js", *, topology: str | None = "rack", priority: str = "high"):
    """A JobSet of one little pod that fits nowhere but on this rack."""
    return exclusive(name, pods=1, cpu=LITTLE, topology=topology, priority=priority, nodeSelector={"rack": rack})


def test_a_training_of_higher_priority_takes_a_domain_and_gives_it_back(rack_namespace: RackNamespace) -> None:
    rack_namespace.apply(exclusive("low", jobs=RACKS, priority="low"))
    assert {*rack_namespace.runs("low", pods=EVERYWHERE).values()} == ALL_RACKS
    rack_namespace.apply(exclusive("high", priority="high"))

    taken = rack_namespace.runs("high", pods=PER_RACK)["high-w-0"]
    rest = ALL_RACKS - {taken}

    def low_has_the_rest() -> bool:
        attempt = rack_namespace.status("low").get("restarts", 0)
        bound = Counter(rack for racks in rack_namespace.racks("low").values() for rack in racks.elements())
        settled = len(rack_namespace.pods("low", attempt=attempt)) == len(rack_namespace.pods("low")) == EVERYWHERE
        return attempt > 0 and settled and bound == Counter(dict.fromkeys(rest, PER_RACK))

    rack_namespace.until(low_has_the_rest, "the next attempt of low priority on the other racks")
    waiting = rack_namespace.waits("low")
    followers = [pod for pod in rack_namespace.followers("low") if label(pod, "job-name") == label(waiting, "job-name")]
    assert [gates(pod) for pod in followers] == [[keys.PLACEMENT_GATE]] * (PER_RACK - 1)
    event = rack_namespace.until(lambda: rack_namespace.jobset_events("low", "ExclusivePlacementPending"), "an event")[
        0
    ]
    assert event["type"] == "Warning"
    assert waiting["metadata"]["name"] in event["note"]
    assert {*rack_namespace.runs("high", pods=PER_RACK).values()} == {taken}
    restarts = rack_namespace.status("low")["restarts"]

    rack_namespace.finish("high")
    assert {*rack_namespace.runs("low", pods=EVERYWHERE).values()} == ALL_RACKS
    assert rack_namespace.status("low")["restarts"] == restarts
    assert rack_namespace.refused_pods() == 0


@pytest.mark.parametrize("priority", ["high", None])
def test_equal_priority_shares_no_domain_that_has_free_capacity(
    rack_namespace: RackNamespace, priority: str | None
) -> None:
    rack_namespace.apply(exclusive("first", jobs=RACKS, pods=1, cpu=LITTLE, priority=priority))
    held = rack_namespace.runs("first", pods=RACKS)
    assert {*held.values()} == ALL_RACKS
    rack_namespace.apply(exclusive("second", pods=2, cpu=LITTLE, priority=priority))
    assert ANTI_AFFINITY in pending_because(rack_namespace.waits("second"))

    freed = "first-w-2"
    ended = next(pod for pod in rack_namespace.pods("first") if label(pod, "job-name") == freed)
    finish_pod(rack_namespace.cluster, rack_namespace.namespace, ended["metadata"]["name"])
    assert rack_namespace.runs("second", pods=2) == {"second-w-0": held[freed]}


def test_equal_priority_preempts_no_pod(rack_namespace: RackNamespace) -> None:
    rack_namespace.apply(exclusive("held", jobs=RACKS, priority="high"))
    rack_namespace.runs("held", pods=EVERYWHERE)
    held = uids(rack_namespace.pods("held"))
    rack_namespace.apply(exclusive("new", priority="high"))
    assert "preemption: 0/" in pending_because(rack_namespace.waits("new"))
    assert uids(rack_namespace.pods("held")) == held
    assert rack_namespace.status("held").get("restarts", 0) == 0


@pytest.mark.parametrize("to_be_had", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_two_that_race_never_take_half_a_domain_each(rack_namespace: RackNamespace, to_be_had: int) -> None:
    rack_namespace.apply(exclusive("top", jobs=RACKS - to_be_had, priority="top"))
    out_of_reach = {*rack_namespace.runs("top", pods=(RACKS - to_be_had) * PER_RACK).values()}
    rack_namespace.apply(exclusive("low", jobs=to_be_had, priority="low"))
    contested = {*rack_namespace.runs("low", pods=to_be_had * PER_RACK).values()}
    assert contested == ALL_RACKS - out_of_reach
    for name in ("one", "two"):
        rack_namespace.apply(exclusive(name, priority="high"))

    def winners() -> list[str]:
        return [
            name for name in ("one", "two") if sum(c.total() for c in rack_namespace.racks(name).values()) == PER_RACK
        ]

    rack_namespace.until(lambda: len(winners()) == to_be_had, f"{to_be_had} of the two run")
    won = winners()
    assert {rack for name in won for rack in rack_namespace.runs(name, pods=PER_RACK).values()} == contested
    for loser in {"one", "two"} - {*won}:
        rack_namespace.waits(loser)
        followers = rack_namespace.until(
            lambda name=loser: rack_namespace.followers(name)[PER_RACK - 2 :] and rack_namespace.followers(name),
            "its followers",
        )
        assert [gates(pod) for pod in followers] == [[keys.PLACEMENT_GATE]] * (PER_RACK - 1)
        assert rack_namespace.ever_scheduled(loser) == []
    assert {*rack_namespace.runs("top", pods=(RACKS - to_be_had) * PER_RACK).values()} == out_of_reach


def test_jobsets_of_different_namespaces_exclude_each_other(rack_namespaces: Callable[[], RackNamespace]) -> None:
    here, there = rack_namespaces(), rack_namespaces()
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
        self, rack_namespace: RackNamespace, first_is_exclusive: bool
    ) -> None:
        topologies = ["rack", None] if first_is_exclusive else [None, "rack"]
        rack_namespace.apply(one_pod_on("rack-1", "first", topology=topologies[0]))
        rack_namespace.runs("first", pods=1)
        rack_namespace.apply(one_pod_on("rack-1", "second", topology=topologies[1]))
        second = rack_namespace.waits("second")
        assert "anti-affinity" in pending_because(second)
        rack_namespace.finish("first")
        assert rack_namespace.runs("second", pods=1) == {"second-w-0": "rack-1"}

    @pytest.mark.parametrize("first_is_exclusive", [True, False])
    def test_a_jobset_of_another_priority_may_share(
        self, rack_namespace: RackNamespace, first_is_exclusive: bool
    ) -> None:
        topologies = ["rack", None] if first_is_exclusive else [None, "rack"]
        rack_namespace.apply(one_pod_on("rack-1", "first", topology=topologies[0], priority="low"))
        rack_namespace.runs("first", pods=1)
        rack_namespace.apply(one_pod_on("rack-1", "second", topology=topologies[1], priority="high"))
        assert rack_namespace.runs("second", pods=1) == {"second-w-0": "rack-1"}
        assert rack_namespace.status("first").get("restarts", 0) == 0

    def test_exclusive_jobs_of_different_priorities_may_share(self, rack_namespace: RackNamespace) -> None:
        rack_namespace.apply(one_pod_on("rack-2", "first", priority="high"))
        rack_namespace.runs("first", pods=1)
        rack_namespace.apply(one_pod_on("rack-2", "second", priority="low"))
        assert rack_namespace.runs("second", pods=1) == {"second-w-0": "rack-2"}

    def test_jobs_and_pods_of_no_jobset_may_share(self, rack_namespace: RackNamespace) -> None:
        selector = {"rack": "rack-3"}
        spec = pod_spec(priorityClassName="high", nodeSelector=selector)
        rack_namespace.create("pods", {"metadata": {"name": "alone"}, "spec": spec})
        rack_namespace.apply(one_pod_on("rack-3"))
        assert rack_namespace.runs(pods=1) == {"js-w-0": "rack-3"}
        job = {"metadata": {"name": "plain"}, "spec": {"template": {"spec": spec}}}
        rack_namespace.create("jobs", job, group="/apis/batch/v1")

        def strangers() -> list[dict]:
            return [pod for pod in rack_namespace.all_pods() if not label(pod, keys.JOBSET_NAME)]

        rack_namespace.until(lambda: [p["status"].get("phase") for p in strangers()] == ["Running"] * 2, "both run")
        racks = rack_namespace.nodes.racks()
        assert {racks[pod["spec"]["nodeName"]] for pod in strangers()} == {"rack-3"}

    def test_pods_of_the_node_selector_strategy_may_share(self, rack_namespace: RackNamespace) -> None:
        """They have no priority label; the taint of their nodes is what keeps others out."""
        rack_namespace.nodes.patch(
            rack_namespace.nodes.of("rack-2")[0], labels={keys.NAMESPACED_JOB: f"{rack_namespace.namespace}_fixed-w-0"}
        )
        fixed = exclusive("fixed", pods=1, cpu=LITTLE, priority="high")
        fixed["metadata"]["annotations"][keys.NODE_SELECTOR_STRATEGY] = "true"
        rack_namespace.apply(fixed)
        assert rack_namespace.runs("fixed", pods=1) == {"fixed-w-0": "rack-2"}
        rack_namespace.apply(one_pod_on("rack-2"))
        assert rack_namespace.runs(pods=1) == {"js-w-0": "rack-2"}

    def test_a_job_whose_leader_has_succeeded_excludes_exclusive_jobs_only(self, rack_namespace: RackNamespace) -> None:
        rack_namespace.apply(exclusive("first", pods=2, cpu=LITTLE, priority="high", nodeSelector={"rack": "rack-1"}))
        rack_namespace.runs("first", pods=2)
        finish_pod(
            rack_namespace.cluster, rack_namespace.namespace, rack_namespace.leaders("first")[0]["metadata"]["name"]
        )
        rack_namespace.runs("first", pods=1)
        rack_namespace.apply(one_pod_on("rack-1", "second"))
        assert ANTI_AFFINITY in pending_because(rack_namespace.waits("second"))
        rack_namespace.apply(one_pod_on("rack-1", "free", topology=None))
        assert rack_namespace.runs("free", pods=1) == {"free-w-0": "rack-1"}
