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

    @pytest.mark.parametrize(
        "order",
        [
            {"startupPolicy": {"startupPolicyOrder": "InOrder"}},
            {"executionPolicy": {"executionPolicyOrder": "InOrder", "replicatedJobsStatus": "Succeeded"}},
        ],
    )
    def test_a_set_that_starts_in_order_has_a_group_for_each_replicated_job(self, order):
        js = a_set(workers("first", 1, 1), workers(), scheduling={}, **order)
        assert picture(js) == ["PG rj-first gang 1: first-0", "PG rj-workers gang 4: workers-0 workers-1"]

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

    def test_b_a_group_for_each_entry(self):
        scheduling = {
            "replicatedJobs": [
                entry("a", schedulingConstraints=topology("rack"), disruptionMode=ALL),
                entry("b", "c", schedulingPolicy=GANG),
            ]
        }
        js = a_set(workers("a"), workers("b", 1, 1), workers("c", 1, 3), scheduling=scheduling)
        hashed = forest(js).roots[1].template
        assert picture(js) == ["PG rj-a gang 4 rack all: a-0 a-1", f"PG {hashed} gang 4: b-0 c-0"]
        assert hashed.startswith("rj-b-c-")

    def test_c_a_group_for_each_job(self):
        scheduling = {"replicatedJobs": [entry("workers", job={"schedulingConstraints": topology("rack")})]}
        assert picture(a_set(workers(jobs=3), scheduling=scheduling)) == [
            "PG job-workers gang 2 rack: workers-0",
            "PG job-workers gang 2 rack: workers-1",
            "PG job-workers gang 2 rack: workers-2",
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

    def test_e_a_root_over_entries_and_what_no_entry_has(self):
        scheduling = {
            "schedulingPolicy": GANG,
            "replicatedJobs": [entry("c", job={}), entry("a", schedulingPolicy=BASIC)],
        }
        js = a_set(workers("a", 1, 1), workers("b", 1, 1), workers("c"), scheduling=scheduling)
        assert picture(js) == [
            "CPG jobset gang 3",
            "  PG rj-a basic: a-0",
            "  PG rj-b gang 1: b-0",
            "  CPG rj-c gang 2",
            "    PG job-c gang 2: c-0",
            "    PG job-c gang 2: c-1",
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

    def test_f_each_job_beside_composites_gets_one_of_its_own(self):
        scheduling = {"replicatedJobs": [entry("a", job={}), entry("b", schedulingPolicy=GANG, job={})]}
        js = a_set(workers("a"), workers("b", 1), scheduling=scheduling)
        assert picture(js) == [
            "CPG root-job-a basic",
            "  PG job-a gang 2: a-0",
            "CPG root-job-a basic",
            "  PG job-a gang 2: a-1",
            "CPG rj-b gang 1",
            "  PG job-b gang 2: b-0",
        ]
        names = [group.name for group in forest(js).groups()]
        assert len(set(names)) == len(names)


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

    def test_not_merged_with_a_field_on_both_levels(self):
        one = entry("workers", schedulingConstraints=topology("rack"), job={})
        scheduling = {"schedulingConstraints": topology("zone"), "replicatedJobs": [one]}
        assert picture(a_set(workers(jobs=1), scheduling=scheduling)) == [
            "CPG jobset basic zone",
            "  CPG rj-workers gang 1 rack",
            "    PG job-workers gang 2: workers-0",
        ]

    def test_not_merged_beside_another_replicated_job(self):
        scheduling = {"schedulingPolicy": GANG, "replicatedJobs": [entry("workers", job={})]}
        js = a_set(workers("driver", 1, 1), workers(jobs=1), scheduling=scheduling)
        assert picture(js) == [
            "CPG jobset gang 2",
            "  PG rj-driver gang 1: driver-0",
            "  CPG rj-workers gang 1",
            "    PG job-workers gang 2: workers-0",
        ]

    def test_not_merged_without_a_group_for_each_job(self):
        scheduling = {"schedulingPolicy": GANG, "replicatedJobs": [entry("workers", disruptionMode=ALL)]}
        assert picture(a_set(workers(), scheduling=scheduling)) == [
            "CPG jobset gang 1",
            "  PG rj-workers gang 4 all: workers-0 workers-1",
        ]


class TestTypicalNeeds:
    def test_a_superslice_for_the_set_and_a_cube_for_each_job(self):
        scheduling = {
            "schedulingPolicy": GANG,
            "schedulingConstraints": topology("superslice"),
            "disruptionMode": ALL,
            "replicatedJobs": [entry("slice", job={"schedulingConstraints": topology("cube")})],
        }
        drawn = picture(a_set(workers("slice", 16, 16), scheduling=scheduling))
        assert drawn[0] == "CPG jobset gang 16 superslice all"
        assert drawn[1:] == [f"  PG job-slice gang 16 cube all: slice-{index}" for index in range(16)]

    def test_a_zone_around_a_leader_and_superslices(self):
        scheduling = {
            "schedulingPolicy": GANG,
            "schedulingConstraints": topology("zone"),
            "replicatedJobs": [
                entry(
                    "workers",
                    schedulingConstraints=topology("superslice"),
                    disruptionMode=ALL,
                    job={"schedulingConstraints": topology("cube")},
                )
            ],
        }
        assert picture(a_set(workers("leader", 1, 1), workers(), scheduling=scheduling)) == [
            "CPG jobset gang 2 zone",
            "  PG rj-leader gang 1: leader-0",
            "  CPG rj-workers gang 2 superslice all",
            "    PG job-workers gang 2 cube all: workers-0",
            "    PG job-workers gang 2 cube all: workers-1",
        ]

    @pytest.mark.parametrize("zone", [False, True])
    def test_leader_and_workers_together_and_a_driver_of_its_own(self, zone):
        entries = [entry("driver", schedulingPolicy=BASIC), entry("leader", "workers", schedulingPolicy=GANG, job={})]
        whole = {"schedulingPolicy": BASIC, "schedulingConstraints": topology("zone")} if zone else {}
        js = a_set(
            workers("driver", 1, 1), workers("leader", 1, 1), workers(), scheduling={**whole, "replicatedJobs": entries}
        )
        drawn = picture(js)
        name = next(line.split()[1] for line in drawn if "rj-leader-workers" in line)
        gang = [
            f"CPG {name} gang 3",
            "  PG job-leader gang 1: leader-0",
            "  PG job-workers gang 2: workers-0",
            "  PG job-workers gang 2: workers-1",
        ]
        if zone:
            assert drawn == ["CPG jobset basic zone", "  PG rj-driver basic: driver-0", *(f"  {line}" for line in gang)]
        else:
            assert drawn == ["CPG root-rj-driver basic", "  PG rj-driver basic: driver-0", *gang]

    def test_six_of_eight_replicas(self):
        scheduling = {"replicatedJobs": [entry("workers", schedulingPolicy=at_least(6), job={})]}
        drawn = picture(a_set(workers(jobs=8), scheduling=scheduling))
        assert drawn[0] == "CPG rj-workers gang 6"
        assert len(drawn) == 9

    def test_stages_under_a_basic_root(self):
        scheduling = {
            "schedulingPolicy": BASIC,
            "schedulingConstraints": topology("zone"),
            "replicatedJobs": [
                entry("initializer", schedulingPolicy=BASIC),
                entry(
                    "trainer",
                    schedulingPolicy=GANG,
                    disruptionMode=ALL,
                    job={"schedulingConstraints": topology("cube")},
                ),
                entry("post", schedulingPolicy=BASIC),
            ],
        }
        js = a_set(
            workers("initializer", 1, 1),
            workers("trainer", 2, 2, dependsOn=[{"name": "initializer", "status": "Complete"}]),
            workers("post", 1, 1, dependsOn=[{"name": "trainer", "status": "Complete"}]),
            scheduling=scheduling,
        )
        assert picture(js) == [
            "CPG jobset basic zone",
            "  PG rj-initializer basic: initializer-0",
            "  CPG rj-trainer gang 2 all",
            "    PG job-trainer gang 2 cube all: trainer-0",
            "    PG job-trainer gang 2 cube all: trainer-1",
            "  PG rj-post basic: post-0",
        ]
