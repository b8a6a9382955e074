"""What becomes of gangs while a set lives: restarts, suspension, other sizes, members that end early."""

from __future__ import annotations

from typing import Any

from tests.support.cluster import history, version_now
from tests.support.gangs import CUBE, CUBES_IN_A_SUPERSLICE, SUPERSLICE, Yard, slices, topology

JSON = dict[str, Any]

ALONE = {"maxRestarts": 5, "rules": [{"name": "alone", "action": "RestartJob"}]}


def uids(objects: list[JSON]) -> set[str]:
    return {of["metadata"]["uid"] for of in objects}


def cubes_of(yard: Yard) -> set[str]:
    found = yard.domains(CUBE).values()
    assert [len(cubes) for cubes in found] == [1] * len(found), "each Job in one cube"
    return set.union(*found)


def end_first(yard: Yard, job: str, code: int = 1) -> None:
    """End a running pod of a Job."""

    def running() -> list[JSON]:
        return [pod for pod in yard.of_job(job) if pod["status"]["phase"] == "Running"]

    yard.end(yard.until(running, f"{job} runs")[0], code)


def replaced(yard: Yard, old: list[JSON], number: int) -> None:
    """Until so many pods are bound, one of which is new."""

    def found() -> bool:
        here = uids(yard.bound())
        return len(here) == number and len(here - uids(old)) == 1

    yard.until(found, f"{number} pods bound, one of them new")


class TestRestart:
    def leftover_pods(self, yard: Yard) -> list[JSON]:
        """Restart a set of two Jobs; gives the old pods of the second one, which stay until they are let go."""
        yard.gang(slices(), scheduling=CUBES_IN_A_SUPERSLICE, failurePolicy={"maxRestarts": 1})
        yard.wait_bound(4)
        old = yard.of_job("js-slice-1")
        yard.keep_ending(old)
        end_first(yard, "js-slice-0")
        yard.until(lambda: yard.status().get("restarts") == 1, "the restart")
        yard.until(lambda: {p["metadata"]["name"] for p in yard.pods()} == {p["metadata"]["name"] for p in old}, "old")
        return old

    def test_no_new_job_before_the_last_old_one_is_gone(self, yard):
        pods, jobs = yard.url("pods", "/api/v1"), yard.url("jobs", "/apis/batch/v1")
        since = {path: version_now(yard.cluster, path) for path in (pods, jobs)}
        old = self.leftover_pods(yard)
        assert yard.jobs() == [], "the Job of the failed pod is gone, but not yet that of the others"
        groups = yard.all_stored()
        yard.let_go(old)
        new = yard.wait_bound(4)
        assert not uids(new) & uids(old)
        assert len(cubes_of(yard)) == 2
        assert yard.all_stored() == groups, "the same objects"
        gone = [e["object"] for e in history(yard.cluster, pods, since[pods]) if e["type"] == "DELETED"]
        made = [e["object"] for e in history(yard.cluster, jobs, since[jobs]) if e["type"] == "ADDED"]
        again = [job for job in made if job["metadata"]["labels"]["jobset.sigs.k8s.io/restart-attempt"] == "1"]
        assert (len(gone), len(again)) == (4, 2)
        last_gone = max(int(pod["metadata"]["resourceVersion"]) for pod in gone)
        assert last_gone < min(int(job["metadata"]["resourceVersion"]) for job in again)

    def test_all_or_nothing_again(self, yard):
        old = self.leftover_pods(yard)
        home = yard.labels()[old[0]["spec"]["nodeName"]][SUPERSLICE]
        yard.fill(*set(yard.nodes()) - set(yard.nodes(superslice=home)))
        yard.cordon(old[0]["spec"]["nodeName"])
        yard.let_go(old)
        yard.wait_refused(4)
        assert yard.bound() == [], "three nodes are free, four are needed"
        yard.uncordon()
        yard.wait_bound(4)
        assert yard.where(SUPERSLICE) == home

    def test_a_restarted_set_is_not_held_to_where_it_was(self, yard):
        """Pods that are ending pin their superslice: a new pod beside them could go nowhere else."""
        old = self.leftover_pods(yard)
        home = yard.labels()[old[0]["spec"]["nodeName"]][SUPERSLICE]
        yard.cordon(*yard.nodes(superslice=home))
        yard.let_go(old)
        yard.wait_bound(4)
        assert yard.where(SUPERSLICE) != home
        assert len(cubes_of(yard)) == 2

    def test_one_job_alone_goes_back_into_its_superslice(self, yard):
        yard.gang(slices(), scheduling=CUBES_IN_A_SUPERSLICE, failurePolicy=ALONE)
        yard.wait_bound(4)
        home, groups = yard.where(SUPERSLICE), yard.all_stored()
        stay, moved = yard.of_job("js-slice-0"), yard.of_job("js-slice-1")
        yard.cordon(moved[0]["spec"]["nodeName"])
        end_first(yard, "js-slice-1")
        pending = yard.wait_refused(2)
        assert not uids(pending) & uids(moved)
        assert uids(yard.bound()) == uids(stay), "twelve free nodes elsewhere are of no use"
        yard.uncordon()
        yard.wait_bound(4)
        assert yard.where(SUPERSLICE) == home
        assert uids(yard.of_job("js-slice-0")) == uids(stay)
        assert uids(yard.of_job("js-slice-1")) == uids(pending)
        assert (yard.status()["restarts"], yard.all_stored()) == (0, groups)


class TestSuspension:
    def test_groups_go_and_come_with_it(self, yard):
        yard.gang(slices(), scheduling=CUBES_IN_A_SUPERSLICE)
        yard.wait_bound(4)
        before = yard.all_stored()
        assert len(before) == 4
        yard.patch({"suspend": True})
        yard.until(lambda: not yard.all_stored(), "no groups")
        assert yard.pods() == []
        assert yard.condition("SchedulingObjectsReady")["reason"] == "Suspended"
        yard.patch({"suspend": False})
        yard.wait_bound(4)
        after = yard.all_stored()
        assert after.keys() == before.keys()
        assert not {*after.values()} & {*before.values()}
        assert len(cubes_of(yard)) == 2
        yard.until(lambda: yard.condition("SchedulingObjectsReady")["reason"] == "Created", "the condition")

    def test_resumed_while_old_pods_hold_their_groups(self, yard):
        yard.gang(slices(), scheduling=CUBES_IN_A_SUPERSLICE)
        old = yard.wait_bound(4)
        before = yard.stored("podgroups")
        yard.keep_ending(old[:1])
        yard.patch({"suspend": True})
        yard.until(lambda: len(yard.stored("podgroups")) == 1 and not yard.stored("workloads"), "one group left")
        yard.patch({"suspend": False})
        yard.until(lambda: yard.condition("SchedulingObjectsReady")["reason"] == "WaitingForOldGroups", "the condition")
        assert all(job["spec"]["suspend"] for job in yard.jobs())
        assert yard.counts()["suspended"] == 2
        yard.let_go(old[:1])
        yard.wait_bound(4)
        assert not {*yard.stored("podgroups").values()} & {*before.values()}

    def test_created_suspended_it_has_no_groups(self, yard):
        yard.gang(slices(), scheduling=CUBES_IN_A_SUPERSLICE, suspend=True)
        yard.until(lambda: yard.counts().get("suspended") == 2, "two suspended Jobs")
        assert yard.condition("SchedulingObjectsReady")["reason"] == "Suspended"
        assert (yard.all_stored(), yard.pods()) == ({}, [])
        yard.patch({"suspend": False})
        yard.wait_bound(4)
        assert len(cubes_of(yard)) == 2


class TestSize:
    SCHEDULING = {"replicatedJobs": [{"targetReplicatedJobs": ["slice"], "job": {}}]}

    def of_size(self, pods: int) -> JSON:
        return slices(jobs=1, pods=pods, job={"completionMode": "Indexed"})

    def counted(self, yard: Yard) -> int:
        [group] = yard.groups("podgroups")
        return int(group["spec"]["schedulingPolicy"]["gang"]["minCount"])

    def test_the_minimum_follows_the_pods_of_a_job(self, yard):
        yard.gang(self.of_size(2), scheduling=self.SCHEDULING)
        first = yard.wait_bound(2)
        groups = yard.all_stored()
        for pods in (4, 2):
            yard.patch({"replicatedJobs": [self.of_size(pods)]})
            yard.wait_bound(pods)
            yard.until(lambda: self.counted(yard) == pods, f"minCount {pods}")  # noqa: B023 - called at once
            assert yard.all_stored() == groups
            assert uids(first) <= uids(yard.bound()), "who was there stays"

    def test_new_pods_come_together_or_wait(self, yard):
        yard.gang(self.of_size(2), scheduling=self.SCHEDULING)
        first = yard.wait_bound(2)
        nodes = sorted(set(yard.nodes()) - yard.at())
        yard.fill(*nodes[1:])
        yard.patch({"replicatedJobs": [self.of_size(4)]})
        yard.wait_refused(2)
        assert uids(yard.bound()) == uids(first)
        yard.free(nodes[1])
        yard.wait_bound(4)


class TestMembersThatEndEarly:
    """A pod that has ended is no member any more, and those that replace others would wait for it for ever."""

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

    def test_a_supervisor_that_is_done_does_not_hold_up_a_worker(self, yard):
        supervisor = slices("supervisor", jobs=1, pods=1, tpus=0)
        workers = slices(jobs=1, job={"backoffLimit": 3})
        yard.gang(workers, supervisor, scheduling=self.SUPERVISED, failurePolicy={"maxRestarts": 1})
        yard.wait_bound(3)
        root = self.root(yard)
        assert root["spec"]["schedulingPolicy"] == {"gang": {"minGroupCount": 2}}
        end_first(yard, "js-supervisor-0", 0)
        yard.until(lambda: yard.counts()["succeeded"] == 1, "the supervisor is done")
        pod_groups = yard.stored("podgroups")
        old = yard.of_job("js-slice-0")
        end_first(yard, "js-slice-0")
        replaced(yard, old, 2)
        assert yard.counts()["failed"] == 0
        assert self.root(yard)["spec"]["schedulingPolicy"] == {"gang": {"minGroupCount": 1}}
        assert yard.stored("podgroups") == pod_groups, "a composite is replaced without its groups"

    def test_a_restart_asks_for_all_of_them_again(self, yard):
        """Together with the one that was done: the count that was lowered is raised first."""
        supervisor = slices("supervisor", jobs=1, pods=1, tpus=4)
        workers = slices(jobs=1, job={"backoffLimit": 1})
        yard.gang(workers, supervisor, scheduling=self.SUPERVISED, failurePolicy={"maxRestarts": 1})
        yard.wait_bound(3)
        home = yard.where(SUPERSLICE)
        end_first(yard, "js-supervisor-0", 0)
        yard.until(lambda: yard.counts()["succeeded"] == 1, "the supervisor is done")
        old = yard.of_job("js-slice-0")
        end_first(yard, "js-slice-0")
        replaced(yard, old, 2)
        assert self.root(yard)["spec"]["schedulingPolicy"] == {"gang": {"minGroupCount": 1}}
        yard.cordon(*set(yard.nodes()) - set(yard.nodes(superslice=home)))
        taken = [node for node in yard.nodes(superslice=home) if node not in yard.at()]
        yard.fill(*taken)
        end_first(yard, "js-slice-0")
        yard.until(lambda: yard.status()["restarts"] == 1, "the restart")
        yard.wait_refused(3)
        assert yard.bound() == [], "the workers fit, the supervisor does not"
        yard.free(taken[0])
        yard.wait_bound(3)
        assert self.root(yard)["spec"]["schedulingPolicy"] == {"gang": {"minGroupCount": 2}}

    def test_a_pod_that_is_done_does_not_hold_up_another_of_its_job(self, yard):
        yard.gang(slices(jobs=1, job={"backoffLimit": 3}), scheduling={"schedulingPolicy": {"gang": {}}})
        old = yard.wait_bound(2)
        groups = yard.all_stored()
        yard.end(old[0])
        yard.until(lambda: yard.jobs()[0]["status"].get("succeeded") == 1, "one pod is done")
        yard.end(old[1], 1)
        replaced(yard, old, 1)
        [group] = yard.groups("podgroups")
        assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 1}}
        assert yard.all_stored() == groups

    def root(self, yard: Yard) -> JSON:
        """The composite above all; not there for a moment while it is replaced."""

        def roots() -> list[JSON]:
            return [of for of in yard.groups("compositepodgroups") if not of["spec"].get("parentCompositePodGroupName")]

        [root] = yard.until(roots, "the root")
        return root
