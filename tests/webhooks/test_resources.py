"""Requests and limits of the containers of a suspended JobSet, with gate MutablePodResourcesForSuspendedJobSets (KEP-1150)."""

import copy
from typing import Any

import pytest

from api.features import FeatureGates
from app.engine import engine
from tests.support.objects.jobsets import JSON, jobset, rjob, stored
from tests.support.objects.updates import DEFAULT, POD, changed, errors

NAME = "MutablePodResourcesForSuspendedJobSets"
GATE = FeatureGates({NAME: True})
SPEC = "spec.replicatedJobs[0].template.spec.template.spec"
CONTAINERS = [
    {
        "name": "main",
        "image": "i",
        "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}, "claims": [{"name": "gpu"}]},
    },
    {"name": "side", "image": "i"},
]
INIT = [{"name": "init", "image": "i", "resources": {"limits": {"memory": "1Gi"}}}]
OLD = stored(jobset(rjob("a", pod={"containers": CONTAINERS, "initContainers": INIT}), rjob("b"), suspend=True))

AMOUNTS: dict[str, tuple[tuple[str | int, ...], Any]] = {
    "a request": (("containers", 0, "resources", "requests", "cpu"), "500m"),
    "another resource": (("containers", 0, "resources", "limits"), {"cpu": "2", "memory": "1Gi"}),
    "no requests": (("containers", 0, "resources", "requests"), None),
    "the first of a container": (("containers", 1, "resources"), {"requests": {"cpu": "1"}}),
    "of an init container": (("initContainers", 0, "resources", "limits", "memory"), "2Gi"),
    "none at all of an init container": (("initContainers", 0, "resources"), {}),
}


def suspended(js: JSON, value: bool) -> JSON:
    return changed(js, "suspend", to=value)


@pytest.mark.parametrize("what", AMOUNTS)
@pytest.mark.parametrize(("before", "after"), [(True, True), (True, False), (False, True)])
def test_amounts_may_change_while_old_or_new_is_suspended(what, before, after):
    keys, value = AMOUNTS[what]
    new = changed(OLD, *POD, *keys, to=value)
    assert errors(suspended(OLD, before), suspended(new, after), GATE) == []


@pytest.mark.parametrize("what", AMOUNTS)
def test_amounts_do_not_change_while_it_runs(what):
    keys, value = AMOUNTS[what]
    found = (
        engine(GATE)
        .findings_about_update(suspended(OLD, False), suspended(changed(OLD, *POD, *keys, to=value), False))
        .errors
    )
    assert found
    for error in found:
        assert (error.rule.id, error.detail) == ("immutable-while-running", "field is immutable")
        assert str(error.path).startswith(f"{SPEC}.{keys[0]}[{keys[1]}].resources.")
        assert "set spec.suspend to true" in error.fix


@pytest.mark.parametrize("what", AMOUNTS)
@pytest.mark.parametrize("value", [True, False])
def test_without_the_gate_the_answer_names_it(what, value):
    keys, amount = AMOUNTS[what]
    old = suspended(OLD, value)
    found = engine(DEFAULT).findings_about_update(old, changed(old, *POD, *keys, to=amount)).errors
    assert found
    for error in found:
        assert (error.rule.id, error.detail) == ("immutable-resources", "field is immutable")
        assert f"--feature-gates={NAME}=true" in error.fix


def test_several_containers_of_several_replicated_jobs_change_at_once():
    new = changed(OLD, *POD, "containers", 0, "resources", "limits", "cpu", to="8")
    new = changed(new, *POD, "initContainers", 0, "resources", "limits", "memory", to="8Gi")
    pod = ("replicatedJobs", 1, "template", "spec", "template", "spec")
    new = changed(new, *pod, "containers", 0, "resources", to={"requests": {"cpu": "3"}})
    assert errors(OLD, changed(new, *POD, "nodeSelector", to={"a": "b"}), GATE) == []


FIXED: dict[str, tuple[tuple[str | int, ...], Any, list[str]]] = {
    "claims": (("containers", 0, "resources", "claims"), None, ["containers[0].resources.claims"]),
    "a claim's name": (("containers", 0, "resources", "claims", 0, "name"), "x", ["containers[0].resources.claims[0].name"]),
    "the image": (("containers", 0, "image"), "j", ["containers[0].image"]),
    "a name": (("initContainers", 0, "name"), "x", ["initContainers[0].name"]),
    "the order": (("containers",), [*CONTAINERS[::-1]], ["containers[0].name", "containers[0].resources.claims", "containers[1].name", "containers[1].resources.claims"]),
    "fewer": (("containers",), CONTAINERS[:1], ["containers"]),
    "more": (("initContainers",), [*INIT, {"name": "x", "image": "i"}], ["initContainers"]),
    "none": (("initContainers",), None, ["initContainers"]),
    "the pod's": (("resources",), {"limits": {"cpu": "9"}}, ["resources.limits.cpu"]),
    "overhead": (("overhead",), {"cpu": "9"}, ["overhead.cpu"]),
}  # fmt: skip


@pytest.mark.parametrize("what", FIXED)
def test_everything_else_stays(what):
    keys, value, places = FIXED[what]
    new = changed(copy.deepcopy(OLD), *POD, *keys, to=value)
    found = engine(GATE).findings_about_update(OLD, new).errors
    assert [str(error.path) for error in found] == [f"{SPEC}.{place}" for place in places]
    assert {error.rule.id for error in found} == {"immutable-replicated-job"}


def test_the_amounts_are_put_aside_and_the_rest_is_still_compared():
    new = changed(changed(OLD, *POD, *AMOUNTS["a request"][0], to="3"), *POD, "containers", 0, "image", to="j")
    assert errors(OLD, new, GATE) == [f"{SPEC}.containers[0].image: field is immutable"]


def test_what_is_no_quantity_is_explained():
    [error] = engine(GATE).findings_about_update(OLD, changed(OLD, *POD, *AMOUNTS["a request"][0], to="1 core")).errors
    assert str(error.path) == f"{SPEC}.containers[0].resources.requests.cpu"
    assert "is not a quantity" in str(error)
