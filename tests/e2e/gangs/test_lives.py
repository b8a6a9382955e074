"""Gangs during the life of a set: restarts, suspension, changes of size, pods that end early."""

from typing import Any

import pytest

from tests.support.cluster.gangs import CUBE, CUBES_IN_A_SUPERSLICE, SUPERSLICE, GangNamespace, slices, topology
from tests.support.cluster.requests import uids

JSON = dict[str, Any]

ALONE = {"maxRestarts": 5, "rules": [{"name": "alone", "action": "RestartJob"}]}


def cubes_of(gang_namespace: GangNamespace) -> set[str]:
    found = gang_namespace.domains(CUBE).values()
    assert [len(cubes) for cubes in found] == [1] * len(found), "each Job in one cube"
    return set.union(*found)


def end_first(gang_namespace: GangNamespace, job: str, code: int = 1) -> None:
    """End a running pod of a Job."""

    def running() -> list[JSON]:
        return [pod for pod in gang_namespace.of_job(job) if pod["status"]["phase"] == "Running"]

    gang_namespace.end(gang_namespace.until(running, f"{job} runs")[0], code)


def replaced(gang_namespace: GangNamespace, old: list[JSON], number: int) -> None:
    """Until so many pods are bound, one of which is new."""

    def found() -> bool:
        here = uids(gang_namespace.bound())
        return len(here) == number and len(here - uids(old)) == 1

    gang_namespace.until(found, f"{number} pods bound, one of them new")


class TestRestart:
    def leftover_pods(self, gang_namespace: GangNamespace) -> list[JSON]:
        """Restart a set of two Jobs; gives the old pods of the second one, which stay until they are let go."""
        gang_namespace.gang(slices(), scheduling=CUBES_IN_A_SUPERSLICE, failurePolicy={"maxRestarts": 1})
        gang_namespace.wait_bound(4)
        old = gang_namespace.of_job("js-slice-1")
        gang_namespace.keep_ending(old)
        end_first(gang_namespace, "js-slice-0")
        gang_namespace.until(lambda: gang_namespace.status().get("restarts") == 1, "the restart")
        gang_namespace.until(
            lambda: {p["metadata"]["name"] for p in gang_namespace.pods()} == {p["metadata"]["name"] for p in old},
            "only the old pods",
        )
        return old

    def test_a_restarted_gang_is_placed_as_a_whole(self, gang_namespace):
        old = self.leftover_pods(gang_namespace)
        home = gang_namespace.labels()[old[0]["spec"]["nodeName"]][SUPERSLICE]
        gang_namespace.fill(*set(gang_namespace.nodes()) - set(gang_namespace.nodes(superslice=home)))
        gang_namespace.cordon(old[0]["spec"]["nodeName"])
        gang_namespace.let_go(old)
        gang_namespace.wait_refused(4)
        assert gang_namespace.bound() == [], "three nodes are free, four are needed"
        gang_namespace.uncordon()
        gang_namespace.wait_bound(4)
        assert gang_namespace.where(SUPERSLICE) == home

    @pytest.mark.slow
    def test_a_restarted_set_is_not_held_to_where_it_was(self, gang_namespace):
        """Pods that are ending pin their superslice: a new pod beside them could go nowhere else."""
        old = self.leftover_pods(gang_namespace)
        home = gang_namespace.labels()[old[0]["spec"]["nodeName"]][SUPERSLICE]
        gang_namespace.cordon(*gang_namespace.nodes(superslice=home))
        gang_namespace.let_go(old)
        gang_namespace.wait_bound(4)
        assert gang_namespace.where(SUPERSLICE) != home
        assert len(cubes_of(gang_namespace)) == 2

    def test_one_job_alone_goes_back_into_its_superslice(self, gang_namespace):
        gang_namespace.gang(slices(), scheduling=CUBES_IN_A_SUPERSLICE, failurePolicy=ALONE)
        gang_namespace.wait_bound(4)
        home, groups = gang_namespace.where(SUPERSLICE), gang_namespace.all_stored()
        stay, moved = gang_namespace.of_job("js-slice-0"), gang_namespace.of_job("js-slice-1")
        gang_namespace.cordon(moved[0]["spec"]["nodeName"])
        end_first(gang_namespace, "js-slice-1")
        pending = gang_namespace.wait_refused(2)
        assert not uids(pending) & uids(moved)
        assert uids(gang_namespace.bound()) == uids(stay), "twelve free nodes elsewhere are of no use"
        gang_namespace.uncordon()
        gang_namespace.wait_bound(4)
        assert gang_namespace.where(SUPERSLICE) == home
        assert uids(gang_namespace.of_job("js-slice-0")) == uids(stay)
        assert uids(gang_namespace.of_job("js-slice-1")) == uids(pending)
        assert (gang_namespace.status()["restarts"], gang_namespace.all_stored()) == (0, groups)


class TestSuspension:
    def test_groups_are_deleted_and_created_with_it(self, gang_namespace):
        gang_namespace.gang(slices(), scheduling=CUBES_IN_A_SUPERSLICE)
        gang_namespace.wait_bound(4)
        before = gang_namespace.all_stored()
        assert len(before) == 4
        gang_namespace.patch({"suspend": True})
        gang_namespace.until(lambda: not gang_namespace.all_stored(), "no groups")
        assert gang_namespace.pods() == []
        gang_namespace.until(  # written after the deletion of the groups
            lambda: gang_namespace.condition("SchedulingObjectsReady")["reason"] == "Suspended", "the condition"
        )
        gang_namespace.patch({"suspend": False})
        gang_namespace.wait_bound(4)
        after = gang_namespace.all_stored()
        assert after.keys() == before.keys()
        assert not {*after.values()} & {*before.values()}
        assert len(cubes_of(gang_namespace)) == 2
        gang_namespace.until(
            lambda: gang_namespace.condition("SchedulingObjectsReady")["reason"] == "Created", "the condition"
        )

    def test_resumed_while_old_pods_hold_their_groups(self, gang_namespace):
        gang_namespace.gang(slices(), scheduling=CUBES_IN_A_SUPERSLICE)
        old = gang_namespace.wait_bound(4)
        before = gang_namespace.stored("podgroups")
        gang_namespace.keep_ending(old[:1])
        gang_namespace.patch({"suspend": True})
        gang_namespace.until(
            lambda: len(gang_namespace.stored("podgroups")) == 1 and not gang_namespace.stored("workloads"),
            "one group left",
        )
        gang_namespace.patch({"suspend": False})
        gang_namespace.until(
            lambda: gang_namespace.condition("SchedulingObjectsReady")["reason"] == "WaitingForOldGroups",
            "the condition",
        )
        assert all(job["spec"]["suspend"] for job in gang_namespace.jobs())
        assert gang_namespace.counts()["suspended"] == 2
        gang_namespace.let_go(old[:1])
        gang_namespace.wait_bound(4)
        assert not {*gang_namespace.stored("podgroups").values()} & {*before.values()}


class TestSize:
    SCHEDULING = {"replicatedJobs": [{"targetReplicatedJobs": ["slice"], "job": {}}]}

    def of_size(self, pods: int) -> JSON:
        return slices(jobs=1, pods=pods, job={"completionMode": "Indexed"})

    def counted(self, gang_namespace: GangNamespace) -> int:
        [group] = gang_namespace.groups("podgroups")
        return int(group["spec"]["schedulingPolicy"]["gang"]["minCount"])

    def test_the_minimum_follows_the_pods_of_a_job(self, gang_namespace):
        gang_namespace.gang(self.of_size(2), scheduling=self.SCHEDULING)
        first = gang_namespace.wait_bound(2)
        groups = gang_namespace.all_stored()
        for pods in (4, 2):
            gang_namespace.patch({"replicatedJobs": [self.of_size(pods)]})
            gang_namespace.wait_bound(pods)
            gang_namespace.until(lambda: self.counted(gang_namespace) == pods, f"minCount {pods}")  # noqa: B023 - called at once
            assert gang_namespace.all_stored() == groups
            assert uids(first) <= uids(gang_namespace.bound()), "the old pods stay"

    def test_new_pods_come_together_or_wait(self, gang_namespace):
        gang_namespace.gang(self.of_size(2), scheduling=self.SCHEDULING)
        first = gang_namespace.wait_bound(2)
        nodes = sorted(set(gang_namespace.nodes()) - gang_namespace.at())
        gang_namespace.fill(*nodes[1:])
        gang_namespace.patch({"replicatedJobs": [self.of_size(4)]})
        gang_namespace.wait_refused(2)
        assert uids(gang_namespace.bound()) == uids(first)
        gang_namespace.free(nodes[1])
        gang_namespace.wait_bound(4)


class TestMembersThatEndEarly:
    """A pod that has ended no longer counts for its gang: else a pod that replaces another would wait for it for ever."""

    # The scheduler places groups by age and then by name, and does not go back: the workers, which need a whole cube,
    # have to come first, or the supervisor takes one of its nodes.
    SUPERVISED = {
        "schedulingPolicy": {"gang": {}},
        "schedulingConstraints": topology(SUPERSLICE),
        "replicatedJobs": [
            {"targetReplicatedJobs": ["slice"], "job": {"schedulingConstraints": topology(CUBE)}},
            {"targetReplicatedJobs": ["supervisor"]},
        ],
    }

    def test_a_supervisor_that_is_done_does_not_hold_up_a_worker(self, gang_namespace):
        supervisor = slices("supervisor", jobs=1, pods=1, tpus=0)
        workers = slices(jobs=1, job={"backoffLimit": 3})
        gang_namespace.gang(workers, supervisor, scheduling=self.SUPERVISED, failurePolicy={"maxRestarts": 1})
        gang_namespace.wait_bound(3)
        root = self.root(gang_namespace)
        assert root["spec"]["schedulingPolicy"] == {"gang": {"minGroupCount": 2}}
        end_first(gang_namespace, "js-supervisor-0", 0)
        gang_namespace.until(lambda: gang_namespace.counts()["succeeded"] == 1, "the supervisor is done")
        pod_groups = gang_namespace.stored("podgroups")
        old = gang_namespace.of_job("js-slice-0")
        end_first(gang_namespace, "js-slice-0")
        replaced(gang_namespace, old, 2)
        assert gang_namespace.counts()["failed"] == 0
        assert self.root(gang_namespace)["spec"]["schedulingPolicy"] == {"gang": {"minGroupCount": 1}}
        assert gang_namespace.stored("podgroups") == pod_groups, "a composite is replaced without its groups"

    @pytest.mark.slow
    def test_a_restart_asks_for_all_of_them_again(self, gang_namespace):
        """The supervisor that was done is counted again: the lowered minimum is raised first."""
        supervisor = slices("supervisor", jobs=1, pods=1, tpus=4)
        workers = slices(jobs=1, job={"backoffLimit": 1})
        gang_namespace.gang(workers, supervisor, scheduling=self.SUPERVISED, failurePolicy={"maxRestarts": 1})
        gang_namespace.wait_bound(3)
        home = gang_namespace.where(SUPERSLICE)
        end_first(gang_namespace, "js-supervisor-0", 0)
        gang_namespace.until(lambda: gang_namespace.counts()["succeeded"] == 1, "the supervisor is done")
        old = gang_namespace.of_job("js-slice-0")
        end_first(gang_namespace, "js-slice-0")
        replaced(gang_namespace, old, 2)
        assert self.root(gang_namespace)["spec"]["schedulingPolicy"] == {"gang": {"minGroupCount": 1}}
        gang_namespace.cordon(*set(gang_namespace.nodes()) - set(gang_namespace.nodes(superslice=home)))
        taken = [node for node in gang_namespace.nodes(superslice=home) if node not in gang_namespace.at()]
        gang_namespace.fill(*taken)
        end_first(gang_namespace, "js-slice-0")
        gang_namespace.until(lambda: gang_namespace.status()["restarts"] == 1, "the restart")
        gang_namespace.wait_refused(3)
        assert gang_namespace.bound() == [], "the workers fit, the supervisor does not"
        gang_namespace.free(taken[0])
        gang_namespace.wait_bound(3)
        assert self.root(gang_namespace)["spec"]["schedulingPolicy"] == {"gang": {"minGroupCount": 2}}

    def root(self, gang_namespace: GangNamespace) -> JSON:
        """The composite above all; not there for a moment while it is replaced."""
        [root] = gang_namespace.until(gang_namespace.roots, "the root")
        return root
