"""Sets that are scheduled as gangs, on the real kube-scheduler: which pods are bound where, and which are not."""

from __future__ import annotations

from tests.support.gangs import CUBE, SUPERSLICE, Yard, slices, topology

CUBES_IN_A_SUPERSLICE = {
    "schedulingPolicy": {"gang": {}},
    "schedulingConstraints": topology(SUPERSLICE),
    "disruptionMode": {"all": {}},
    "replicatedJobs": [{"targetReplicatedJobs": ["slice"], "job": {"schedulingConstraints": topology(CUBE)}}],
}


def test_a_cube_for_each_job_inside_one_superslice(yard: Yard) -> None:
    yard.gang(slices(), scheduling=CUBES_IN_A_SUPERSLICE)
    yard.until(lambda: len(yard.bound()) == 4, "all four pods bound")
    assert len(set.union(*yard.domains(SUPERSLICE).values())) == 1
    cubes = yard.domains(CUBE)
    assert [len(found) for found in cubes.values()] == [1, 1]
    assert len(set.union(*cubes.values())) == 2
    [workload] = yard.groups("workloads")
    [root] = yard.groups("compositepodgroups")
    assert root["spec"]["schedulingPolicy"] == {"gang": {"minGroupCount": 2}}
    assert root["spec"]["workloadRef"]["workloadName"] == workload["metadata"]["name"]
    for of in yard.groups("podgroups"):
        assert of["spec"]["parentCompositePodGroupName"] == root["metadata"]["name"]
        assert of["spec"]["disruptionMode"] == {"all": {}}
        assert [c["status"] for c in of["status"]["conditions"]] == ["True"]
    yard.until(lambda: (yard.condition("PodGroupsInitiallyScheduled") or {}).get("status") == "True", "told of it")
    assert yard.condition("SchedulingObjectsReady")["message"] == "the Workload and 3 groups are there"


def test_nothing_is_bound_where_not_all_fit(yard: Yard) -> None:
    yard.gang(slices(jobs=3), scheduling=CUBES_IN_A_SUPERSLICE)

    def told() -> bool:
        conditions = [c for of in yard.groups("podgroups") for c in of.get("status", {}).get("conditions") or []]
        return any("minCount" in c["message"] or "minGroupCount" in c["message"] for c in conditions)

    yard.until(told, "the scheduler's message")
    assert yard.bound() == []
