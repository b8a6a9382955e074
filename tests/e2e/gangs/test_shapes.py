"""Sets that are scheduled as gangs, on the real kube-scheduler: which pods are bound where, and which are not."""

from typing import Any

from tests.support.cluster.gangs import (
    CUBE,
    CUBES_IN_A_SUPERSLICE,
    GANG,
    SUPERSLICE,
    ZONE,
    GangNamespace,
    slices,
    topology,
)

JSON = dict[str, Any]


def test_a_cube_for_each_job_inside_one_superslice(gang_namespace: GangNamespace) -> None:
    gang_namespace.gang(slices(), scheduling=CUBES_IN_A_SUPERSLICE)
    gang_namespace.until(lambda: len(gang_namespace.bound()) == 4, "all four pods bound")
    assert len(set.union(*gang_namespace.domains(SUPERSLICE).values())) == 1
    cubes = gang_namespace.domains(CUBE)
    assert [len(found) for found in cubes.values()] == [1, 1]
    assert len(set.union(*cubes.values())) == 2
    [workload] = gang_namespace.groups("workloads")
    [root] = gang_namespace.groups("compositepodgroups")
    assert root["spec"]["schedulingPolicy"] == {"gang": {"minGroupCount": 2}}
    assert root["spec"]["workloadRef"]["workloadName"] == workload["metadata"]["name"]
    for of in gang_namespace.groups("podgroups"):
        assert of["spec"]["parentCompositePodGroupName"] == root["metadata"]["name"]
        assert of["spec"]["disruptionMode"] == {"all": {}}
        assert [c["status"] for c in of["status"]["conditions"]] == ["True"]
    gang_namespace.until(
        lambda: (gang_namespace.condition("PodGroupsInitiallyScheduled") or {}).get("status") == "True", "the condition"
    )
    assert gang_namespace.condition("SchedulingObjectsReady")["message"] == "the Workload and 3 groups are there"


def test_some_of_the_jobs_are_enough_where_the_user_says_so(gang_namespace: GangNamespace) -> None:
    two_of_three = {**CUBES_IN_A_SUPERSLICE, "schedulingPolicy": {"gang": {"minGroupCount": 2}}}
    gang_namespace.gang(slices(jobs=3), scheduling=two_of_three)
    # First, since the scheduler refuses Jobs whose pods are there before those of the others.
    gang_namespace.wait_bound(4)
    gang_namespace.wait_refused(2)
    assert sorted(len(cubes) for cubes in gang_namespace.domains(CUBE).values()) == [1, 1], "two whole Jobs"
    assert len(set.union(*gang_namespace.domains(SUPERSLICE).values())) == 1


class TestThreeLevels:
    """A leader and workers of one gang in a zone, the workers in a superslice, each of their Jobs in a cube."""

    WORKERS = {
        "targetReplicatedJobs": ["workers"],
        "schedulingPolicy": {"gang": {}},
        "schedulingConstraints": topology(SUPERSLICE),
        "disruptionMode": {"all": {}},
        "job": {"schedulingConstraints": topology(CUBE), "disruptionMode": {"all": {}}},
    }

    def test_with_a_driver_beside_the_gang(self, gang_namespace: GangNamespace) -> None:
        """Under a basic root the driver shares the zone, not the gang: it runs when the gang cannot."""
        together = {**self.WORKERS, "targetReplicatedJobs": ["leader", "workers"]}
        scheduling = {
            "schedulingPolicy": {"basic": {}},
            "schedulingConstraints": topology(ZONE),
            "replicatedJobs": [{"targetReplicatedJobs": ["driver"], "schedulingPolicy": {"basic": {}}}, together],
        }
        driver = slices("driver", jobs=1, pods=1, tpus=0, pod={"nodeSelector": {ZONE: "zone-1"}})
        taken = (
            gang_namespace.nodes(zone="zone-1", superslice="superslice-2")[:1]
            + gang_namespace.nodes(superslice="superslice-3")[:1]
        )
        gang_namespace.fill(*taken)
        gang_namespace.gang(driver, slices("leader", jobs=1, pods=1, tpus=0), slices("workers"), scheduling=scheduling)
        # The scheduler may refuse the gang before it has bound the driver.
        gang_namespace.wait_refused(5)
        [driver] = gang_namespace.wait_bound(1)
        assert driver["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "js-driver-0"
        gang_namespace.free(taken[1])
        gang_namespace.wait_bound(6)
        assert gang_namespace.where(ZONE) == "zone-1"
        self.check_placed(gang_namespace)

    def check_placed(self, gang_namespace: GangNamespace) -> None:
        """All in one zone, the workers in one superslice, each of their Jobs in a cube of its own."""
        assert len(set.union(*gang_namespace.domains(ZONE).values())) == 1
        workers = {job: found for job, found in gang_namespace.domains(CUBE).items() if "workers" in job}
        assert [len(cubes) for cubes in workers.values()] == [1, 1]
        assert len(set.union(*workers.values())) == 2
        slices_of = [found for job, found in gang_namespace.domains(SUPERSLICE).items() if "workers" in job]
        assert len(set.union(*slices_of)) == 1


def test_trees_of_their_own_do_not_wait_for_each_other(gang_namespace: GangNamespace) -> None:
    scheduling = {
        "replicatedJobs": [
            {"targetReplicatedJobs": ["driver"], "schedulingPolicy": {"basic": {}}},
            {"targetReplicatedJobs": ["slice"], "schedulingPolicy": {"gang": {}}, "job": {}},
        ]
    }
    gang_namespace.gang(slices("driver", jobs=1, pods=1, tpus=0), slices(jobs=9), scheduling=scheduling)
    # The scheduler may refuse the gang before it has bound the driver.
    gang_namespace.wait_refused(18)
    [driver] = gang_namespace.wait_bound(1)
    assert driver["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "js-driver-0"
    assert len(gang_namespace.roots()) == 2


def test_one_group_for_all_pods_of_a_set(gang_namespace: GangNamespace) -> None:
    """16 pods fit and no more: 17 wait, 16 do not."""
    gang_namespace.gang(slices(jobs=1, pods=15), slices("more", jobs=1), name="large", scheduling=GANG)
    gang_namespace.wait_refused(17, "large")
    assert gang_namespace.bound("large") == []
    assert [of["spec"]["schedulingPolicy"] for of in gang_namespace.groups("podgroups")] == [{"gang": {"minCount": 17}}]
    gang_namespace.gang(slices(jobs=1, pods=15), slices("more", jobs=1, pods=1), scheduling=GANG)
    gang_namespace.wait_bound(16)
    assert gang_namespace.bound("large") == []
