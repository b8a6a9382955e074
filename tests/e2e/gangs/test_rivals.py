"""Gangs that want the same nodes: which one gets them, which is preempted, and which pods are preempted together."""

from __future__ import annotations

from typing import Any

from tests.support.cluster import history, version_now
from tests.support.gangs import CUBE, CUBES_IN_A_SUPERSLICE, SUPERSLICE, Yard, slices, topology

JSON = dict[str, Any]
ALL = {"schedulingPolicy": {"gang": {}}}


def of_priority(name: str, **more: Any) -> JSON:
    return slices(pod={"priorityClassName": name}, **more)


def uids(pods: list[JSON]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods}


class Victims:
    """Pods that were preempted since now, by UID."""

    def __init__(self, yard: Yard) -> None:
        self._yard = yard
        self._path = yard.url("pods", "/api/v1")
        self._since = version_now(yard.cluster, self._path)

    def found(self) -> set[str]:
        pods = [change["object"] for change in history(self._yard.cluster, self._path, self._since)]
        return uids([pod for pod in pods if any(preempted(c) for c in pod["status"].get("conditions") or [])])


def preempted(condition: JSON) -> bool:
    return condition["type"] == "DisruptionTarget" and condition.get("reason") == "PreemptionByScheduler"


def test_of_two_gangs_one_gets_all_and_the_other_nothing(yard: Yard) -> None:
    for name in ("one", "two"):
        yard.gang(slices(jobs=2, pods=5), name=name, scheduling=ALL)

    def settled() -> tuple[str, str] | None:
        here = {name: len(yard.bound(name)) for name in ("one", "two")}
        by_pods = sorted(here, key=lambda name: here[name])
        return (by_pods[0], by_pods[1]) if sorted(here.values()) == [0, 10] else None

    loser, winner = yard.until(settled, "one of both bound") or ("", "")
    yard.wait_refused(10, loser)
    assert (len(yard.bound(winner)), yard.bound(loser)) == (10, [])
    status, _ = yard.delete(winner)
    assert status == 200
    yard.wait_bound(10, loser)


class TestPreemption:
    def low_set(self, yard: Yard, scheduling: JSON, policy: JSON) -> list[JSON]:
        """A set of low priority on four nodes; all other nodes are full."""
        home = yard.nodes(superslice="superslice-1")
        yard.fill(*set(yard.nodes()) - {*home}, priority="high")
        yard.gang(of_priority("low"), scheduling=scheduling, failurePolicy={"maxRestarts": 3, **policy})
        return yard.wait_bound(4)

    def test_a_set_that_is_disrupted_as_one_goes_as_one(self, yard):
        old = self.low_set(yard, CUBES_IN_A_SUPERSLICE, {})
        victims = Victims(yard)
        yard.lone_pod("urgent", priority="high")
        yard.until(lambda: yard.lone()["urgent"], "the urgent pod is bound")
        new = yard.wait_refused(4)
        assert yard.bound() == [], "three nodes are left, four are needed"
        assert victims.found() == uids(old)
        assert not uids(new) & uids(old)
        assert yard.status()["restarts"] == 1
        yard.drop_pod("urgent")
        yard.wait_bound(4)

    def test_where_each_job_is_one_only_that_job_goes(self, yard):
        scheduling = {
            "schedulingPolicy": {"gang": {}},
            "schedulingConstraints": topology(SUPERSLICE),
            "disruptionMode": {"single": {}},
            "replicatedJobs": [
                {
                    "targetReplicatedJobs": ["slice"],
                    "job": {"schedulingConstraints": topology(CUBE), "disruptionMode": {"all": {}}},
                }
            ],
        }
        old = self.low_set(yard, scheduling, {"rules": [{"name": "alone", "action": "RestartJob"}]})
        victims = Victims(yard)
        yard.lone_pod("urgent", priority="high")
        yard.until(lambda: yard.lone()["urgent"], "the urgent pod is bound")
        yard.wait_refused(2)
        lost = victims.found()
        assert {pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] for pod in yard.bound()} == {
            pod["metadata"]["labels"]["batch.kubernetes.io/job-name"]
            for pod in old
            if pod["metadata"]["uid"] not in lost
        }
        assert len(lost) == 2
        assert uids(yard.bound()) == uids(old) - lost
        assert yard.status()["restarts"] == 0
        yard.drop_pod("urgent")
        yard.wait_bound(4)

    def test_a_gang_takes_no_more_than_its_own_domain(self, yard):
        yard.fill(*yard.nodes(), priority="low")
        before = yard.lone()
        yard.gang(of_priority("high"), scheduling=CUBES_IN_A_SUPERSLICE)
        yard.wait_bound(4)
        gone = {before[name] for name in before.keys() - yard.lone().keys()}
        assert gone == yard.at()
        assert gone == {*yard.nodes(superslice=yard.where(SUPERSLICE))}

    def test_no_pod_is_preempted_for_a_gang_that_would_not_fit_anyway(self, yard):
        yard.fill(*yard.nodes(), priority="low")
        before = yard.lone()
        yard.gang(of_priority("high", jobs=3), scheduling=CUBES_IN_A_SUPERSLICE)
        yard.wait_refused(6)
        assert yard.lone() == before
