"""Gangs (spec.scheduling): what is refused, what is warned about, and what may change. More manifests are in the corpus."""

import copy
import time
from typing import Any

import pytest
from hypothesis import given, settings

from api.features import FeatureGates
from app.engine import engine
from tests.support.corpus.mutations import mutated
from tests.support.objects.gang_trees import BASIC, GANG, at_least, entry
from tests.support.objects.jobsets import JSON, jobset, rjob, stored
from tests.support.objects.updates import changed, errors
from webhooks.jobset.answers import MAX_WARNING_LENGTH, warning_texts

ALL = FeatureGates({"AllAlpha": True})
FLAT = FeatureGates({"JobSetWorkloadAwareSchedulingAPI": True})
ENTRY = "spec.scheduling.replicatedJobs[{}]"
IN_ORDER = {"startupPolicy": {"startupPolicyOrder": "InOrder"}}


def topology(name: str) -> JSON:
    return {"topology": [{"key": f"example.com/{name}"}]}


def gangs(*rjobs: JSON, scheduling: JSON, **spec: Any) -> JSON:
    return stored(jobset(*(rjobs or (rjob("a"), rjob("b"))), scheduling=scheduling, **spec))


def after(name: str, *others: str) -> JSON:
    return rjob(name, dependsOn=[{"name": other, "status": "Complete"} for other in others])


def found(js: JSON, gates: FeatureGates = ALL) -> list[tuple[str, str]]:
    """Place and rule of each fault."""
    return [(str(error.path), error.rule.id) for error in engine(gates).findings_about_new(js, defaults=False).errors]


GOOD: dict[str, JSON] = {
    "all pods": gangs(scheduling={}),
    "all pods of what starts in order, each ReplicatedJob for itself": gangs(scheduling={}, **IN_ORDER),
    "one domain for what starts in order": gangs(scheduling={"schedulingConstraints": topology("zone")}, **IN_ORDER),
    "stages below a basic root": gangs(
        rjob("a"), after("b", "a"), scheduling={"schedulingPolicy": BASIC, "replicatedJobs": [entry("a"), entry("b")]}
    ),
    "a gang of Jobs whose ReplicatedJob waits for one outside": gangs(
        rjob("a"), after("b", "a"), after("c", "a"), scheduling={"replicatedJobs": [entry("a"), entry("b", "c", job={})]}
    ),
    "the last stage together": gangs(
        rjob("a"), rjob("b"), rjob("c"),
        scheduling={"replicatedJobs": [entry("a"), entry("b", "c")]},
        executionPolicy={"executionPolicyOrder": "InOrder", "sequentialReplicatedJobs": 1},
    ),
    "a gang of one ReplicatedJob that has pods, and of one that has none": gangs(
        rjob("a", replicas=0), after("b", "a"), scheduling={"schedulingPolicy": GANG}
    ),
    "a minimum of Jobs": gangs(
        rjob("a", replicas=8), scheduling={"replicatedJobs": [entry("a", schedulingPolicy=at_least(8), job={})]}
    ),
    "a minimum of Jobs, said of the set": gangs(
        rjob("a", replicas=8), scheduling={"schedulingPolicy": at_least(8), "replicatedJobs": [entry("a", job={})]}
    ),
    "ReplicatedJobs that no entry has count below the set": gangs(
        rjob("a", replicas=8), rjob("b"), rjob("c"),
        scheduling={"schedulingPolicy": at_least(3), "replicatedJobs": [entry("a", job={})]},
    ),
    "minima of what has no pods": gangs(
        rjob("a", replicas=0), scheduling={"replicatedJobs": [entry("a", schedulingPolicy=at_least(2), job={})]}
    ),
    "composites that are basic and preempted as one": gangs(
        scheduling={"schedulingPolicy": BASIC, "disruptionMode": {"all": {}}, "replicatedJobs": [entry("a")]}
    ),
    "schedulers of trees that have nothing in common": gangs(
        rjob("a"), rjob("b", pod={"schedulerName": "other"}), scheduling={"replicatedJobs": [entry("a"), entry("b")]}
    ),
    "exclusive Jobs of one pod": gangs(
        rjob("a", replicas=4, job={"template": {
            "metadata": {"annotations": {"alpha.jobset.sigs.k8s.io/exclusive-topology": "example.com/rack"}},
            "spec": {"containers": [{"name": "main", "image": "busybox"}]},
        }}),
        scheduling={},
    ),
    "restart in place": gangs(
        rjob("a", job={"backoffLimit": 2**31 - 1, "podReplacementPolicy": "Failed"}),
        scheduling={}, failurePolicy={"restartStrategy": "InPlaceRestart"},
    ),
    "as many Jobs as there may be": gangs(rjob("a", replicas=9_999), rjob("b"), scheduling={}),
    "groups of one's own": stored(jobset(rjob(pod={"schedulingGroup": {"podGroupName": "mine"}}))),
}  # fmt: skip


@pytest.mark.parametrize("case", GOOD)
def test_let_in(case: str):
    assert found(GOOD[case]) == []


BAD: dict[str, tuple[JSON, list[tuple[str, str]]]] = {
    "a gang of groups that wait, through one outside": (
        gangs(
            rjob("a"), after("b", "a"), after("c", "b"),
            scheduling={"replicatedJobs": [entry("b"), entry("a", "c", disruptionMode={"all": {}}, job={})]},
        ),
        [(f"{ENTRY.format(1)}.schedulingPolicy", "scheduling-gang-of-stages")],
    ),
    "an entry in a gang that waits": (
        gangs(rjob("a"), after("b", "a"), scheduling={"schedulingPolicy": GANG, "replicatedJobs": [entry("b", job={})]}),
        [("spec.scheduling.schedulingPolicy", "scheduling-gang-of-stages")],
    ),
    "more Jobs than the merged levels have": (
        gangs(
            rjob("a", replicas=8),
            scheduling={"schedulingPolicy": at_least(9), "replicatedJobs": [entry("a", job={})]},
        ),
        [("spec.scheduling.schedulingPolicy.gang.minGroupCount", "scheduling-min-group-count")],
    ),
    "more Jobs than have pods": (
        gangs(
            rjob("a", replicas=4), rjob("b", replicas=4, parallelism=0),
            scheduling={"replicatedJobs": [entry("a", "b", schedulingPolicy=at_least(5), job={})]},
        ),
        [(f"{ENTRY.format(0)}.schedulingPolicy.gang.minGroupCount", "scheduling-min-group-count")],
    ),
    "basic and all of the whole set": (
        gangs(scheduling={"schedulingPolicy": BASIC, "disruptionMode": {"all": {}}}),
        [("spec.scheduling.disruptionMode", "scheduling-basic-all")],
    ),
    "basic and all of an entry": (
        gangs(scheduling={"replicatedJobs": [entry("a", "b", schedulingPolicy=BASIC, disruptionMode={"all": {}})]}),
        [(f"{ENTRY.format(0)}.disruptionMode", "scheduling-basic-all")],
    ),
    "exclusive by the set's annotation": (
        gangs(
            rjob("a", parallelism=2, completions=2), rjob("b"), scheduling={"schedulingPolicy": BASIC},
        ) | {"metadata": {"name": "x", "annotations": {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}}},
        [("spec.replicatedJobs[0].template", "scheduling-exclusive")],
    ),
    "a Job too many": (
        gangs(rjob("a", replicas=9_999), rjob("b", replicas=2), scheduling={}),
        [("spec.scheduling", "scheduling-too-many-jobs")],
    ),
    "nine ReplicatedJobs that start in order": (
        gangs(*(rjob(f"r{n}") for n in range(9)), scheduling={}, **IN_ORDER),
        [("spec.scheduling", "scheduling-too-many-groups")],
    ),
    "nine below the set": (
        gangs(
            *(rjob(f"r{n}") for n in range(10)),
            scheduling={"schedulingPolicy": GANG, "replicatedJobs": [entry("r0", job={})]},
        ),
        [("spec.scheduling", "scheduling-too-many-groups")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_refused(case: str):
    js, expected = BAD[case]
    assert found(js) == expected


def test_the_node_selector_strategy_goes_with_groups():
    js = gangs(rjob("a", parallelism=2, completions=2), scheduling={})
    keys = ("alpha.jobset.sigs.k8s.io/exclusive-topology", "alpha.jobset.sigs.k8s.io/node-selector")
    js["metadata"]["annotations"] = dict.fromkeys(keys, "example.com/rack")
    assert found(js) == []


LEVELS: dict[str, tuple[JSON, list[str]]] = {
    "the set alone": (gangs(scheduling={"schedulingPolicy": GANG}), []),
    "entries alone": (gangs(scheduling={"replicatedJobs": [entry("a"), entry("b")]}), []),
    "Jobs alone": (gangs(scheduling={"replicatedJobs": [entry("a", job={}), entry("b", job={})]}), []),
    "the set and entries": (
        gangs(scheduling={"schedulingPolicy": BASIC, "replicatedJobs": [entry("a"), entry("b")]}),
        ["spec.scheduling.replicatedJobs"],
    ),
    "an entry and its Jobs": (
        gangs(scheduling={"replicatedJobs": [entry("a"), entry("b", schedulingPolicy=GANG, job={})]}),
        [f"{ENTRY.format(1)}.job"],
    ),
    "Jobs of several": (gangs(scheduling={"replicatedJobs": [entry("a", "b", job={})]}), [f"{ENTRY.format(0)}.job"]),
    "one domain for what starts in order": (GOOD["one domain for what starts in order"], ["spec.scheduling"]),
}


@pytest.mark.parametrize("case", LEVELS)
def test_without_the_second_gate_there_is_one_level_of_groups(case: str):
    js, places = LEVELS[case]
    assert found(js, FLAT) == [(place, "scheduling-levels") for place in places]
    assert found(js, ALL) == []
    for error in engine(FLAT).findings_about_new(js, defaults=False).errors:
        assert "--feature-gates=JobSetWorkloadAwareSchedulingAPI=true,JobSetGangOfGangs=true, or " in error.fix


@pytest.mark.parametrize("case", LEVELS)
def test_without_the_first_gate_nothing_is_let_in_and_all_gates_are_named(case: str):
    js, places = LEVELS[case]
    [error] = engine(FeatureGates()).findings_about_new(js, defaults=False).errors
    assert (str(error.path), error.rule.id) == ("spec.scheduling", "scheduling-gate")
    assert ("JobSetGangOfGangs" in error.fix) == bool(places)


def test_numbers_of_any_size_are_judged_at_once():
    workers = [rjob(f"r{n}", replicas=2**31 - 1) for n in range(3)]
    entries = [entry(*(f"r{n}" for n in range(3)), schedulingPolicy=at_least(2**31 - 1), job={})]
    js = gangs(*workers, scheduling={"schedulingPolicy": GANG, "replicatedJobs": entries})
    began = time.process_time()
    engine(ALL).findings_about_new(js, defaults=False)
    assert time.process_time() - began < 5


def test_warnings_fit():
    kueue = {"kueue.x-k8s.io/podset-required-topology": "block"}
    pod = {"metadata": {"annotations": kueue}, "spec": {"containers": [{"name": "main", "image": "busybox"}]}}
    js = gangs(
        rjob("a", job={"template": pod}), rjob("b"),
        scheduling={
            "schedulingConstraints": topology("rack"),
            "replicatedJobs": [entry("a", schedulingConstraints=topology("rack"), job={
                "schedulingConstraints": topology("rack")
            })],
        },
    )  # fmt: skip
    warnings = engine(ALL).findings_about_new(js, defaults=False).warnings
    assert [error.rule.id for error in warnings] == [
        "scheduling-kueue-topology", "scheduling-topology-again", "scheduling-topology-again",
    ]  # fmt: skip
    assert all(len(text) <= MAX_WARNING_LENGTH for text in warning_texts(warnings))


def suspended(js: JSON, *active: int) -> JSON:
    js = changed(js, "suspend", to=True)
    return js | {"status": {"replicatedJobsStatus": [{"name": str(n), "active": a} for n, a in enumerate(active)]}}


FREE = gangs(rjob("a", replicas=8, parallelism=2, completions=2), scheduling={})
LESS = changed(FREE, "scheduling", to={"schedulingPolicy": BASIC})
NONE = changed(FREE, "scheduling", to=None)


@pytest.mark.parametrize("new", [LESS, NONE])
@pytest.mark.parametrize("resumes", [True, False])
def test_groups_may_change_while_there_are_none(new: JSON, resumes: bool):
    new = changed(new, "suspend", to=not resumes)
    assert errors(suspended(FREE), new, ALL) == []
    assert errors(suspended(new), changed(FREE, "suspend", to=not resumes), ALL) == [], "and back"


@pytest.mark.parametrize("old", [FREE, suspended(FREE, 0, 3)])
@pytest.mark.parametrize("new", [LESS, NONE])
def test_groups_do_not_change_while_they_hold_pods(old: JSON, new: JSON):
    found = engine(ALL).findings_about_update(old, changed(new, "suspend", to=True)).errors
    assert {error.rule.id for error in found} == {"immutable-scheduling"}
    assert all("set spec.suspend to true" in error.fix for error in found)
    assert ("(3 Jobs are active)" in str(found[0])) == ("status" in old)


def test_what_is_stored_may_stay_where_the_gate_has_gone_off():
    assert errors(FREE, changed(FREE, "suspend", to=True), FeatureGates()) == []
    assert "needs the feature gate" in errors(suspended(NONE), suspended(FREE), FeatureGates())[0]


MINIMA = gangs(
    rjob("a", replicas=8, parallelism=4, completions=4),
    scheduling={"replicatedJobs": [
        entry("a", schedulingPolicy=at_least(6), job={"schedulingPolicy": {"gang": {"minCount": 3}}})
    ]},
)  # fmt: skip
SIZES = [
    ({"replicas": 6}, []),
    ({"replicas": 5}, ["5 are below it: the gang would never be complete"]),
    ({"parallelism": 3, "completions": 3}, []),
    ({"parallelism": 2, "completions": 2}, ['a Job of "a" has 2 pods at once: the gang would never be complete']),
]


@pytest.mark.parametrize(("size", "expected"), SIZES)
def test_elastic_updates_keep_minima_in_reach(size: dict[str, int], expected: list[str]):
    new = MINIMA
    for name, number in size.items():
        place = ("replicatedJobs", 0) if name == "replicas" else ("replicatedJobs", 0, "template", "spec")
        new = changed(new, *place, name, to=number)
    assert [text.partition(": ")[2] for text in errors(MINIMA, new, ALL)] == expected


def test_a_queue_may_change_scheduling_fields_on_resume():
    old = suspended(MINIMA)
    new = changed(old, "suspend", to=False)
    pod = ("replicatedJobs", 0, "template", "spec", "template")
    new = changed(new, *pod, "spec", "nodeSelector", to={"pool": "a"})
    new = changed(new, *pod, "spec", "tolerations", to=[{"key": "a", "operator": "Exists"}])
    new = changed(new, *pod, "spec", "schedulingGates", to=[{"name": "kueue.x-k8s.io/topology"}])
    new = changed(new, *pod, "metadata", to={"labels": {"a": "b"}, "annotations": {"c": "d"}})
    assert errors(old, new, ALL) == []


def most_of_it() -> JSON:
    level = {"schedulingConstraints": topology("rack"), "disruptionMode": {"all": {}}}
    claims = [{"name": "fabric", "resourceClaimTemplateName": "fabric"}]
    job = {"schedulingPolicy": {"gang": {"minCount": 1}}, "resourceClaims": claims, **level}
    entries = [entry("a", schedulingPolicy=BASIC, resourceClaims=claims), entry("b", "c", job=job, **level)]
    scheduling = {"schedulingPolicy": at_least(2), "replicatedJobs": entries, **level}
    return copy.deepcopy(gangs(rjob("a"), rjob("b", replicas=3), after("c", "a"), scheduling=scheduling))


@pytest.mark.no_cover
@settings(max_examples=400, deadline=None)
@given(new=mutated(changes=4, good=most_of_it), old=mutated(changes=2, good=most_of_it))
def test_whatever_is_written_gets_an_answer_and_nothing_is_hidden(new: JSON, old: JSON):
    judge = engine(ALL)
    found = judge.findings_about_new(new, defaults=False)
    assert judge.may_hide_other_faults(new) or not found.hides_other_faults
    judge.findings_about_update(judge.findings_about_new(old).object, new)
