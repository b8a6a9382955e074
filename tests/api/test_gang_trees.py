"""What holds of the tree of groups of any JobSet."""

import re

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from api.batch import pods_at_once
from api.gang_objects import build_workload
from api.gangs import Forest, Group, forest
from tests.support.objects.gang_trees import ALL, BASIC, GANG, SINGLE, at_least, entry, topology
from tests.support.objects.stored_sets import jobset, rjob

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
# Every tree
SPARE = jobset(rjob("spare", 2, spareFor="a")).spec.replicated_jobs

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
        assert group.is_composite != bool(group.jobs)
        assert group.pods > 0
        if group.gang_size is not None:
            assert 1 <= group.gang_size <= (len(group.children) if group.is_composite else group.pods)
    assert len({root.is_composite for root in found.roots}) <= 1


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


@given(sets(), st.booleans())
def test_spares_are_in_no_group(js, first):
    rjobs = js.spec.replicated_jobs
    both = (*SPARE, *rjobs) if first else (*rjobs, *SPARE)
    assert forest(replace(js, spec=replace(js.spec, replicated_jobs=both))) == forest(js)
