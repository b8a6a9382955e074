"""Sets that are scheduled as gangs, on the real kube-scheduler: which pods are bound where, and which are not."""

from __future__ import annotations

from typing import Any

from tests.support.gangs import CUBE, CUBES_IN_A_SUPERSLICE, SUPERSLICE, ZONE, Yard, slices, topology

JSON = dict[str, Any]


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


def test_some_of_the_jobs_are_enough_where_the_user_says_so(yard: Yard) -> None:
    two_of_three = {**CUBES_IN_A_SUPERSLICE, "schedulingPolicy": {"gang": {"minGroupCount": 2}}}
    yard.gang(slices(jobs=3), scheduling=two_of_three)
    yard.wait_refused(2)
    assert len(yard.bound()) == 4
    assert sorted(len(cubes) for cubes in yard.domains(CUBE).values()) == [1, 1], "two whole Jobs"
    assert len(set.union(*yard.domains(SUPERSLICE).values())) == 1


class TestThreeLevels:
    """A leader and workers of one gang in a zone, the workers in a superslice, each of their Jobs in a cube."""

    WORKERS = {
        "targetReplicatedJobs": ["workers"],
        "schedulingPolicy": {"gang": {}},
        "schedulingConstraints": topology(SUPERSLICE),
        "disruptionMode": {"all": {}},
        "job": {"schedulingConstraints": topology(CUBE), "disruptionMode": {"all": {}}},
    }
    ZONAL = {
        "schedulingPolicy": {"gang": {}},
        "schedulingConstraints": topology(ZONE),
        "disruptionMode": {"single": {}},
        "replicatedJobs": [{"targetReplicatedJobs": ["leader"], "disruptionMode": {"all": {}}}, WORKERS],
    }
    HIGH: JSON = {"pod": {"priorityClassName": "high"}}

    def test_the_groups_that_are_made(self, yard: Yard) -> None:
        leader, workers = slices("leader", jobs=1, pods=1, tpus=0, **self.HIGH), slices("workers", **self.HIGH)
        yard.gang(leader, workers, scheduling=self.ZONAL)
        yard.wait_bound(5)
        assert tree(yard) == {
            **node("jobset", {"gang": {"minGroupCount": 2}}, ZONE, "single"),
            "rj-leader": node("rj-leader", {"gang": {"minCount": 1}}, "", "all"),
            "rj-workers": {
                **node("rj-workers", {"gang": {"minGroupCount": 2}}, SUPERSLICE, "all"),
                "job-workers": node("job-workers", {"gang": {"minCount": 2}}, CUBE, "all"),
            },
        }
        self.check_placed(yard)

    def test_with_a_driver_beside_the_gang(self, yard: Yard) -> None:
        """Under a basic root the driver shares the zone, not the gang: it runs when the gang cannot."""
        together = {**self.WORKERS, "targetReplicatedJobs": ["leader", "workers"]}
        scheduling = {
            "schedulingPolicy": {"basic": {}},
            "schedulingConstraints": topology(ZONE),
            "replicatedJobs": [{"targetReplicatedJobs": ["driver"], "schedulingPolicy": {"basic": {}}}, together],
        }
        driver = slices("driver", jobs=1, pods=1, tpus=0, pod={"nodeSelector": {ZONE: "zone-1"}})
        taken = yard.nodes(zone="zone-1", superslice="superslice-2")[:1] + yard.nodes(superslice="superslice-3")[:1]
        yard.fill(*taken)
        yard.gang(driver, slices("leader", jobs=1, pods=1, tpus=0), slices("workers"), scheduling=scheduling)
        yard.wait_refused(5)
        assert [pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] for pod in yard.bound()] == ["js-driver-0"]
        yard.free(taken[1])
        yard.wait_bound(6)
        assert yard.where(ZONE) == "zone-1"
        self.check_placed(yard)

    def check_placed(self, yard: Yard) -> None:
        """All in one zone, the workers in one superslice, each of their Jobs in a cube of its own."""
        assert len(set.union(*yard.domains(ZONE).values())) == 1
        workers = {job: found for job, found in yard.domains(CUBE).items() if "workers" in job}
        assert [len(cubes) for cubes in workers.values()] == [1, 1]
        assert len(set.union(*workers.values())) == 2
        slices_of = [found for job, found in yard.domains(SUPERSLICE).items() if "workers" in job]
        assert len(set.union(*slices_of)) == 1


def test_trees_of_their_own_do_not_wait_for_each_other(yard: Yard) -> None:
    scheduling = {
        "replicatedJobs": [
            {"targetReplicatedJobs": ["driver"], "schedulingPolicy": {"basic": {}}},
            {"targetReplicatedJobs": ["slice"], "schedulingPolicy": {"gang": {}}, "job": {}},
        ]
    }
    yard.gang(slices("driver", jobs=1, pods=1, tpus=0), slices(jobs=9), scheduling=scheduling)
    yard.wait_refused(18)
    assert [pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] for pod in yard.bound()] == ["js-driver-0"]
    roots = [of for of in yard.groups("compositepodgroups") if not of["spec"].get("parentCompositePodGroupName")]
    assert len(roots) == 2


def test_one_group_for_all_pods_of_a_set(yard: Yard) -> None:
    """Room for 16 pods, and no more: 17 wait, 16 do not."""
    gang = {"schedulingPolicy": {"gang": {}}}
    yard.gang(slices(jobs=1, pods=15), slices("more", jobs=1), name="large", scheduling=gang)
    yard.wait_refused(17, "large")
    assert yard.bound("large") == []
    assert [of["spec"]["schedulingPolicy"] for of in yard.groups("podgroups")] == [{"gang": {"minCount": 17}}]
    yard.gang(slices(jobs=1, pods=15), slices("more", jobs=1, pods=1), scheduling=gang)
    yard.wait_bound(16)
    assert yard.bound("large") == []


def node(template: str, policy: JSON, key: str, mode: str) -> JSON:
    """What a group says, as `tree` tells it."""
    return {"": (template, policy, key, mode)}


def tree(yard: Yard) -> JSON:
    """The one tree of groups by the names of templates, children below their parents."""
    objects = yard.groups("compositepodgroups") + yard.groups("podgroups")
    [workload] = yard.groups("workloads")
    told: dict[str, JSON] = {}
    for of in objects:
        spec = of["spec"]
        assert spec["workloadRef"]["workloadName"] == workload["metadata"]["name"]
        assert spec["priorityClassName"] == "high"
        key = "".join(of["key"] for of in (spec.get("schedulingConstraints") or {}).get("topology", []))
        [mode] = spec["disruptionMode"]
        told[of["metadata"]["name"]] = node(spec["workloadRef"]["templateName"], spec["schedulingPolicy"], key, mode)
    top: JSON = {}
    for of in objects:
        parent, name = of["spec"].get("parentCompositePodGroupName"), of["spec"]["workloadRef"]["templateName"]
        into = told[parent] if parent else top
        into[name] = told[of["metadata"]["name"]]
    [root] = top.values()
    return dict(root)
