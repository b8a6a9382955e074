"""Which tree of groups each way of writing `spec.scheduling` means."""

import pytest

from api.gangs import forest
from tests.support.objects.gang_trees import (
    ALL,
    BASIC,
    GANG,
    SINGLE,
    a_set,
    at_least,
    entry,
    picture,
    topology,
    workers,
)
from tests.support.objects.stored_sets import jobset


class TestShapes:
    """Shapes A to F, and what decides between them."""

    def test_no_scheduling_is_no_tree(self):
        assert forest(jobset(workers())) is None

    @pytest.mark.parametrize("scheduling", [{}, {"schedulingPolicy": GANG}])
    def test_a_one_group_for_all_pods(self, scheduling):
        js = a_set(workers("leader", 1, 1), workers(), scheduling=scheduling)
        assert picture(js) == ["PG jobset gang 5: leader-0 workers-0 workers-1"]

    def test_a_basic(self):
        js = a_set(workers(), scheduling={"schedulingPolicy": BASIC, "schedulingConstraints": topology("zone")})
        assert picture(js) == ["PG jobset basic zone: workers-0 workers-1"]

    def test_a_set_with_depends_on_has_a_group_for_each_replicated_job(self):
        waits = workers(dependsOn=[{"name": "first", "status": "Ready"}])
        js = a_set(workers("first", 1, 1), waits, scheduling={})
        assert picture(js) == ["PG rj-first gang 1: first-0", "PG rj-workers gang 4: workers-0 workers-1"]

    def test_set_level_fields_of_an_ordered_set_go_on_a_basic_root(self):
        waits = workers(dependsOn=[{"name": "first", "status": "Ready"}])
        scheduling = {"schedulingConstraints": topology("zone"), "disruptionMode": ALL}
        js = a_set(workers("first", 1, 1), waits, scheduling=scheduling)
        assert picture(js) == [
            "CPG jobset basic zone all",
            "  PG rj-first gang 1 all: first-0",
            "  PG rj-workers gang 4 all: workers-0 workers-1",
        ]

    @pytest.mark.parametrize(
        ("field", "root"),
        [
            ({"schedulingPolicy": GANG}, "gang 2"),
            ({"schedulingPolicy": BASIC}, "basic"),
            ({"schedulingPolicy": at_least(1)}, "gang 1"),
            ({"schedulingConstraints": topology("zone")}, "gang 2 zone"),
            ({"disruptionMode": SINGLE}, "gang 2 single"),
        ],
    )
    def test_d_a_composite_of_jobs(self, field, root):
        scheduling = {"replicatedJobs": [entry("workers", job={}, **field)]}
        assert picture(a_set(workers(), scheduling=scheduling)) == [
            f"CPG rj-workers {root}",
            "  PG job-workers gang 2: workers-0",
            "  PG job-workers gang 2: workers-1",
        ]

    def test_e_without_a_policy_the_root_is_basic_and_so_is_what_no_entry_has(self):
        scheduling = {"schedulingConstraints": topology("zone"), "replicatedJobs": [entry("a")]}
        js = a_set(workers("a", 1, 1), workers("b", 1, 1), scheduling=scheduling)
        assert picture(js) == ["CPG jobset basic zone", "  PG rj-a gang 1: a-0", "  PG rj-b basic: b-0"]

    def test_f_a_group_beside_composites_gets_one_around_it(self):
        scheduling = {
            "replicatedJobs": [entry("driver", schedulingPolicy=BASIC), entry("workers", schedulingPolicy=GANG, job={})]
        }
        assert picture(a_set(workers("driver", 1, 1), workers(), scheduling=scheduling)) == [
            "CPG root-rj-driver basic",
            "  PG rj-driver basic: driver-0",
            "CPG rj-workers gang 2",
            "  PG job-workers gang 2: workers-0",
            "  PG job-workers gang 2: workers-1",
        ]


class TestOneCompositeForTwoLevels:
    """One entry with every Job of the set, and no field on both levels."""

    @pytest.mark.parametrize(
        ("whole", "one", "root"),
        [
            ({"schedulingPolicy": GANG}, {"schedulingConstraints": topology("zone")}, "gang 2 zone"),
            ({"schedulingConstraints": topology("zone")}, {}, "gang 2 zone"),
            ({"schedulingPolicy": at_least(1), "disruptionMode": ALL}, {}, "gang 1 all"),
            ({"schedulingConstraints": topology("zone")}, {"schedulingPolicy": at_least(1)}, "gang 1 zone"),
            ({"schedulingPolicy": BASIC}, {"disruptionMode": SINGLE}, "basic single"),
        ],
    )
    def test_merged(self, whole, one, root):
        scheduling = {**whole, "replicatedJobs": [entry("workers", job={"disruptionMode": ALL}, **one)]}
        assert picture(a_set(workers(), scheduling=scheduling)) == [
            f"CPG jobset {root}",
            "  PG job-workers gang 2 all: workers-0",
            "  PG job-workers gang 2 all: workers-1",
        ]

    def test_not_merged_without_a_group_for_each_job(self):
        scheduling = {"schedulingPolicy": GANG, "replicatedJobs": [entry("workers", disruptionMode=ALL)]}
        assert picture(a_set(workers(), scheduling=scheduling)) == [
            "CPG jobset gang 1",
            "  PG rj-workers gang 4 all: workers-0 workers-1",
        ]


class TestTypicalNeeds:
    def test_six_of_eight_replicas(self):
        scheduling = {"replicatedJobs": [entry("workers", schedulingPolicy=at_least(6), job={})]}
        drawn = picture(a_set(workers(jobs=8), scheduling=scheduling))
        assert drawn[0] == "CPG rj-workers gang 6"
        assert len(drawn) == 9
