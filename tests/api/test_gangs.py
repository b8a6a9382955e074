"""Which tree of groups each way of writing `spec.scheduling` means, and what holds of every tree."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from api.batch import pods_at_once
from api.gang_objects import build_workload
from api.gangs import Forest, Group, forest
from api.jobset import JobSet
from api.jsontree import without_nulls
from tests.support.world import jobset, rjob

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
ALL, SINGLE, BASIC, GANG = {"all": {}}, {"single": {}}, {"basic": {}}, {"gang": {}}


def topology(key):
    return {"topology": [{"key": key}]}


def at_least(groups):
    return {"gang": {"minGroupCount": groups}}


def entry(*targets, **fields):
    return {"targetReplicatedJobs": list(targets), **fields}


def a_set(*rjobs, scheduling, **spec):
    return jobset(*rjobs, scheduling=scheduling, **spec)


def workers(name="workers", jobs=2, pods=2, **more):
    return rjob(name, jobs, parallelism=pods, completions=pods, **more)


def picture(js: JobSet) -> list[str]:
    """The trees, a group a line: two spaces a level, kind, template, number, topology, mode, and the Jobs it has."""
    found = forest(js)
    assert found is not None
    lines: list[str] = []

    def draw(group: Group, depth: int) -> None:
        jobs = " ".join(name.removeprefix("js-") for name, _ in group.jobs)
        words = [
            "CPG" if group.composite else "PG",
            group.template,
            "basic" if group.gang is None else f"gang {group.gang}",
            group.topology,
            group.mode,
        ]
        lines.append("  " * depth + " ".join(filter(None, words)) + (f": {jobs}" if jobs else ""))
        for child in group.children:
            draw(child, depth + 1)

    for root in found.roots:
        draw(root, 0)
    return lines


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

    def test_so_has_one_with_depends_on(self):
        waits = workers(dependsOn=[{"name": "first", "status": "Ready"}])
        js = a_set(workers("first", 1, 1), waits, scheduling={})
        assert picture(js) == ["PG rj-first gang 1: first-0", "PG rj-workers gang 4: workers-0 workers-1"]

    def test_what_such_a_set_says_of_the_whole_goes_on_a_basic_root(self):
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

    def test_not_with_a_field_on_both(self):
        one = entry("workers", schedulingConstraints=topology("rack"), job={})
        scheduling = {"schedulingConstraints": topology("zone"), "replicatedJobs": [one]}
        assert picture(a_set(workers(jobs=1), scheduling=scheduling)) == [
            "CPG jobset basic zone",
            "  CPG rj-workers gang 1 rack",
            "    PG job-workers gang 2: workers-0",
        ]

    def test_not_where_another_replicated_job_is_left(self):
        scheduling = {"schedulingPolicy": GANG, "replicatedJobs": [entry("workers", job={})]}
        js = a_set(workers("driver", 1, 1), workers(jobs=1), scheduling=scheduling)
        assert picture(js) == [
            "CPG jobset gang 2",
            "  PG rj-driver gang 1: driver-0",
            "  CPG rj-workers gang 1",
            "    PG job-workers gang 2: workers-0",
        ]

    def test_not_without_a_group_for_each_job(self):
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

    def test_and_a_zone_with_a_leader_around_it(self):
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


class TestCounts:
    @pytest.mark.parametrize(
        ("size", "pods"),
        [
            ({"parallelism": 4, "completions": 4}, 4),
            ({"parallelism": 4, "completions": 2}, 2),
            ({"parallelism": 2, "completions": 9}, 2),
            ({"parallelism": 3}, 3),
            ({}, 1),
        ],
    )
    def test_pods_that_a_job_has_at_once(self, size, pods):
        js = a_set(rjob("a", 2, **size), scheduling={})
        assert pods_at_once(js.spec.replicated_jobs[0]) == pods
        assert picture(js) == [f"PG jobset gang {2 * pods}: a-0 a-1"]

    def test_a_number_of_the_user(self):
        job = {"schedulingPolicy": {"gang": {"minCount": 1}}}
        scheduling = {"replicatedJobs": [entry("workers", schedulingPolicy=at_least(1), job=job)]}
        js = a_set(workers(), scheduling=scheduling)
        assert picture(js)[:2] == ["CPG rj-workers gang 1", "  PG job-workers gang 1: workers-0"]

    def test_nothing_is_made_for_no_pods(self):
        entries = [entry("none", job={}, disruptionMode=ALL), entry("zero"), entry("workers")]
        js = a_set(
            workers("none", 0),
            rjob("zero", 2, parallelism=0),
            workers(),
            scheduling={"schedulingPolicy": GANG, "replicatedJobs": entries},
        )
        assert picture(js) == ["CPG jobset gang 1", "  PG rj-workers gang 4: workers-0 workers-1"]

    def test_a_set_of_no_pods_has_no_tree(self):
        found = forest(a_set(workers(jobs=0), scheduling={"replicatedJobs": [entry("workers", job={})]}))
        assert found is not None
        assert found.roots == ()


class TestModes:
    def test_all_goes_down_to_whoever_says_nothing(self):
        job = {"disruptionMode": SINGLE}
        entries = [entry("a", job={}), entry("b", job=job), entry("c", disruptionMode=SINGLE, job={})]
        js = a_set(*(workers(name, 1) for name in "abc"), scheduling={"disruptionMode": ALL, "replicatedJobs": entries})
        assert picture(js) == [
            "CPG jobset basic all",
            "  CPG rj-a gang 1 all",
            "    PG job-a gang 2 all: a-0",
            "  CPG rj-b gang 1 all",
            "    PG job-b gang 2 single: b-0",
            "  CPG rj-c gang 1 single",
            "    PG job-c gang 2: c-0",
        ]

    def test_single_does_not(self):
        scheduling = {"replicatedJobs": [entry("workers", disruptionMode=SINGLE, job={})]}
        assert picture(a_set(workers(jobs=1), scheduling=scheduling)) == [
            "CPG rj-workers gang 1 single",
            "  PG job-workers gang 2: workers-0",
        ]


def test_claims_go_to_the_pod_groups_that_ask_for_them():
    claims = [{"name": "gpus", "resourceClaimTemplateName": "t"}]
    entries = [entry("a", resourceClaims=claims), entry("b", disruptionMode=ALL, job={"resourceClaims": claims})]
    groups = [*forest(a_set(workers("a"), workers("b"), scheduling={"replicatedJobs": entries})).groups()]
    having = {group.template for group in groups if group.claims}
    assert having == {"rj-a", "job-b"}


def test_the_class_of_the_pods_is_that_of_the_groups():
    js = a_set(workers(pod={"priorityClassName": "training"}), scheduling={})
    assert forest(js).priority_class == "training"


# Every tree

MODES = st.sampled_from([None, None, ALL, SINGLE])
CONSTRAINTS = st.sampled_from([None, None, topology("zone"), topology("example.com/rack")])
GROUPS_POLICIES = st.sampled_from([None, BASIC, GANG, at_least(1)])
PODS_POLICIES = st.sampled_from([None, BASIC, GANG, {"gang": {"minCount": 1}}])


def _given(**fields):
    return st.fixed_dictionaries(fields).map(lambda f: {k: v for k, v in f.items() if v is not None})


JOBS = _given(schedulingPolicy=PODS_POLICIES, schedulingConstraints=CONSTRAINTS, disruptionMode=MODES)
LEVEL = {"schedulingPolicy": GROUPS_POLICIES, "schedulingConstraints": CONSTRAINTS, "disruptionMode": MODES}
WORDS = st.from_regex(r"[a-z]([-a-z0-9]{0,6}[a-z0-9])?", fullmatch=True)


@st.composite
def sets(draw):
    """JobSets that admission could let through, of names that look alike."""
    alike = ["a", "a-1", "a-1-0", "b", "job-a", "rj-a", "jobset"]
    names = draw(st.lists(st.sampled_from(alike) | WORDS, min_size=1, max_size=5, unique=True))
    rjobs = [
        rjob(
            name,
            draw(st.sampled_from([0, 1, 2, 3])),
            parallelism=draw(st.sampled_from([0, 1, 2, 4])),
            completions=draw(st.sampled_from([1, 2, 4])),
        )
        for name in names
    ]
    scheduling = draw(_given(**LEVEL))
    left = draw(st.permutations(names))
    entries = []
    while left and len(entries) < draw(st.integers(0, 4)):
        count = draw(st.integers(1, len(left)))
        entries.append(entry(*left[:count], **draw(_given(**LEVEL, job=st.none() | JOBS))))
        left = left[count:]
    if entries:
        scheduling["replicatedJobs"] = entries
    name = draw(st.just("js") | WORDS | st.sampled_from(["x" * 60, "my.training.set", "a." * 26 + "a"]))
    return jobset(*rjobs, name=name, scheduling=scheduling)


def _all(found: Forest) -> list[tuple[Group, str]]:
    return [pair for root in found.roots for pair in root.with_parents()]


@given(sets())
def test_every_tree_is_one_that_the_api_takes(js):
    found = forest(js)
    assert found == forest(js)
    pairs = _all(found)
    names = [group.name for group, _ in pairs]
    assert len({*names, found.workload}) == len(names) + 1
    seen: set[str] = set()
    for group, parent in pairs:
        assert len(group.name) <= 63
        assert all(LABEL.fullmatch(part) for part in group.name.split("."))
        assert len(group.template) <= 63
        assert LABEL.fullmatch(group.template)
        assert not parent or parent in seen
        seen.add(group.name)
        assert group.composite != bool(group.jobs)
        assert group.pods > 0
        if group.gang is not None:
            assert 1 <= group.gang <= (len(group.children) if group.composite else group.pods)
    assert len({root.composite for root in found.roots}) <= 1


@given(sets())
def test_every_job_with_pods_is_in_one_leaf_if_an_entry_or_the_set_covers_it(js):
    found = forest(js)
    leaves = [job for group in found.groups() for job, _ in group.jobs]
    assert len(set(leaves)) == len(leaves)
    scheduling = js.spec.scheduling
    whole = scheduling.scheduling_policy or scheduling.scheduling_constraints or scheduling.disruption_mode
    covered = {name for of in scheduling.replicated_jobs for name in of.target_replicated_jobs}
    if whole or not covered:
        covered = {rjob_.name for rjob_ in js.spec.replicated_jobs}
    wanted = {
        f"{js.metadata.name}-{r.name}-{index}": pods_at_once(r)
        for r in js.spec.replicated_jobs
        for index in range(r.replicas)
        if r.name in covered and pods_at_once(r)
    }
    assert {job: pods for group in found.groups() for job, pods in group.jobs} == wanted


@given(sets())
def test_templates_of_the_workload_are_those_of_the_groups_each_once(js):
    found = forest(js)
    spec = build_workload(js, found)["spec"]
    assert ("podGroupTemplates" in spec) + ("compositePodGroupTemplates" in spec) == (1 if found.roots else 0)
    names = _names(spec)
    assert len(set(names)) == len(names)
    assert set(names) == {group.template for group in found.groups()}


def _names(spec):
    below = [*spec.get("podGroupTemplates", []), *spec.get("compositePodGroupTemplates", [])]
    return [name for of in below for name in (of["name"], *_names(of))]


@given(sets())
def test_another_set_of_the_name_has_groups_of_other_names(js):
    later = replace(js, metadata=replace(js.metadata, uid="another"))
    one, other = forest(js), forest(later)
    assert {g.name for g in one.groups()}.isdisjoint(g.name for g in other.groups())
    assert one.workload != other.workload


def test_nulls_of_an_answer_are_nothing():
    assert without_nulls({"a": None, "b": [{"c": None, "d": 1}], "e": {}}) == {"b": [{"d": 1}], "e": {}}
