"""Gangs that want the same nodes: which one gets them, which is preempted, and which pods are preempted together."""

from typing import Any

from tests.support.cluster.gangs import CUBE, CUBES_IN_A_SUPERSLICE, GANG, SUPERSLICE, GangNamespace, slices, topology
from tests.support.cluster.requests import history, uids, version_now

JSON = dict[str, Any]


def of_priority(name: str, **more: Any) -> JSON:
    return slices(pod={"priorityClassName": name}, **more)


class Victims:
    """Pods that were preempted since now, by UID."""

    def __init__(self, gang_namespace: GangNamespace) -> None:
        self._namespace = gang_namespace
        self._path = gang_namespace.url("pods", "/api/v1")
        self._since = version_now(gang_namespace.cluster, self._path)

    def found(self) -> set[str]:
        pods = [change["object"] for change in history(self._namespace.cluster, self._path, self._since)]
        return uids([pod for pod in pods if any(preempted(c) for c in pod["status"].get("conditions") or [])])


def preempted(condition: JSON) -> bool:
    return condition["type"] == "DisruptionTarget" and condition.get("reason") == "PreemptionByScheduler"


def test_of_two_gangs_one_gets_all_and_the_other_nothing(gang_namespace: GangNamespace) -> None:
    for name in ("one", "two"):
        gang_namespace.gang(slices(jobs=2, pods=5), name=name, scheduling=GANG)

    def settled() -> tuple[str, str] | None:
        here = {name: len(gang_namespace.bound(name)) for name in ("one", "two")}
        by_pods = sorted(here, key=lambda name: here[name])
        return (by_pods[0], by_pods[1]) if sorted(here.values()) == [0, 10] else None

    loser, winner = gang_namespace.until(settled, "one of both bound") or ("", "")
    gang_namespace.wait_refused(10, loser)
    assert (len(gang_namespace.bound(winner)), gang_namespace.bound(loser)) == (10, [])
    status, _ = gang_namespace.delete(winner)
    assert status == 200
    gang_namespace.wait_bound(10, loser)


class TestPreemption:
    def low_set(self, gang_namespace: GangNamespace, scheduling: JSON, policy: JSON) -> list[JSON]:
        """A set of low priority on four nodes; all other nodes are full."""
        home = gang_namespace.nodes(superslice="superslice-1")
        gang_namespace.fill(*set(gang_namespace.nodes()) - {*home}, priority="high")
        gang_namespace.gang(of_priority("low"), scheduling=scheduling, failurePolicy={"maxRestarts": 3, **policy})
        return gang_namespace.wait_bound(4)

    def test_a_set_with_disruption_mode_all_is_preempted_as_a_whole(self, gang_namespace):
        old = self.low_set(gang_namespace, CUBES_IN_A_SUPERSLICE, {})
        victims = Victims(gang_namespace)
        gang_namespace.lone_pod("urgent", priority="high")
        gang_namespace.until(lambda: gang_namespace.lone()["urgent"], "the urgent pod is bound")
        new = gang_namespace.wait_refused(4)
        assert gang_namespace.bound() == [], "three nodes are left, four are needed"
        assert victims.found() == uids(old)
        assert not uids(new) & uids(old)
        assert gang_namespace.status()["restarts"] == 1
        gang_namespace.drop_pod("urgent")
        gang_namespace.wait_bound(4)

    def test_where_each_job_has_disruption_mode_all_one_job_is_preempted(self, gang_namespace):
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
        old = self.low_set(gang_namespace, scheduling, {"rules": [{"name": "alone", "action": "RestartJob"}]})
        victims = Victims(gang_namespace)
        gang_namespace.lone_pod("urgent", priority="high")
        gang_namespace.until(lambda: gang_namespace.lone()["urgent"], "the urgent pod is bound")
        gang_namespace.wait_refused(2)
        lost = victims.found()
        assert {pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] for pod in gang_namespace.bound()} == {
            pod["metadata"]["labels"]["batch.kubernetes.io/job-name"]
            for pod in old
            if pod["metadata"]["uid"] not in lost
        }
        assert len(lost) == 2
        assert uids(gang_namespace.bound()) == uids(old) - lost
        assert gang_namespace.status()["restarts"] == 0
        gang_namespace.drop_pod("urgent")
        gang_namespace.wait_bound(4)

    def test_a_gang_takes_no_more_than_its_own_domain(self, gang_namespace):
        gang_namespace.fill(*gang_namespace.nodes(), priority="low")
        before = gang_namespace.lone()
        gang_namespace.gang(of_priority("high"), scheduling=CUBES_IN_A_SUPERSLICE)
        gang_namespace.wait_bound(4)
        gone = {before[name] for name in before.keys() - gang_namespace.lone().keys()}
        assert gone == gang_namespace.at()
        assert gone == {*gang_namespace.nodes(superslice=gang_namespace.where(SUPERSLICE))}

    def test_no_pod_is_preempted_for_a_gang_that_would_not_fit_anyway(self, gang_namespace):
        gang_namespace.fill(*gang_namespace.nodes(), priority="low")
        before = gang_namespace.lone()
        gang_namespace.gang(of_priority("high", jobs=3), scheduling=CUBES_IN_A_SUPERSLICE)
        gang_namespace.wait_refused(6)
        assert gang_namespace.lone() == before
