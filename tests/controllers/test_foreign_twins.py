"""No object of strangers changes what the manager does: neither one of another namespace nor one with another owner.

Each kind that is watched gets twins that say what does most harm: the same names, labels and UID of the owner in another
namespace; and in the same namespace the same labels with another owner. Kinds and indexes are found by reflection.
"""

import ast
import copy
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import controllers
import webhooks
from api import keys
from dev.simulator.patches import merge
from kube.indexes import Indexes, IndexKey
from tests.support.model.twins import JSON, Scene, informers_of, play
from tests.support.objects.exit_codes import ENDED
from tests.support.objects.placement import moment

ELSEWHERE = {
    "controllers.jobset.leftover_pods": "a watch for each set that restarts: `play` has one, of pods",
    "webhooks.policy.watches": "policies and exceptions have no owner; tests/webhooks looks at those of one namespace",
}
"""Modules that watch and have no class of watches in the scene, each with the reason."""

_FAILED = {"state": {"terminated": {"exitCode": 3, "finishedAt": moment(0)}}, "name": "main", "restartCount": 9}
_UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "of a stranger"}
_LEADS = {"labels": {keys.COMPLETION_INDEX: "0"}, "annotations": {keys.COMPLETION_INDEX: "0"}}
_FOLLOWS = {"labels": {keys.COMPLETION_INDEX: "1", keys.AWAITS_LEADER: "true"}}
_ENDING = {"deletionTimestamp": moment(0), "deletionGracePeriodSeconds": 30, "finalizers": ["example.com/mine"]}
_ENDS_THERE: JSON = {"spec": {"nodeName": "bad"}, "metadata": _ENDING}
HARM: dict[str, list[JSON]] = {
    "jobsets": [{}, {"status": {"restarts": 7}}],
    "jobs": [
        {},
        {"status": ENDED},
        {"status": {"conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": moment(0)}]}},
        {"metadata": {"labels": {keys.RESTART_ATTEMPT: "-1"}}},
        {"metadata": {"labels": {keys.RESTART_ATTEMPT: "9"}, "creationTimestamp": "2099-01-01T00:00:00Z"}},
        {"spec": {"suspend": True}},
        {"metadata": {"name": "restarted-w-1", "labels": {keys.JOBSET_NAME: "restarted"}}},
    ],
    "services": [{}, {"spec": {"clusterIP": "10.0.0.1"}}],
    "persistentvolumeclaims": [{}],
    "pods": [
        {},
        {"metadata": {"annotations": {keys.IN_PLACE_RESTART_ATTEMPT: "7"}}},
        {"metadata": {"annotations": {keys.IN_PLACE_RESTART_ATTEMPT: "x"}}},
        {"status": {"containerStatuses": [_FAILED]}},
        {"status": {"phase": "Failed", "containerStatuses": [_FAILED]}},
        {"spec": {"nodeName": None}, "status": {"phase": "Pending", "conditions": [_UNSCHEDULABLE]}},
        {"spec": {"nodeName": "bad"}},
        _ENDS_THERE,
        {"spec": {"nodeName": "n2"}, "metadata": _LEADS | {"creationTimestamp": moment(99)}},
        {"spec": {"nodeName": None}, "metadata": _LEADS | {"creationTimestamp": moment(-9)}},
        {"metadata": _FOLLOWS},
        {"spec": {"nodeName": "n2"}, "metadata": {"labels": {keys.AWAITS_LEADER: None}}},
        {"metadata": {"labels": {keys.RESTART_ATTEMPT: "-1"}}},
        {"metadata": _ENDING},
    ],
    "workloads": [{}, {"spec": {"podGroupTemplates": []}}, {"metadata": _ENDING}],
    "podgroups": [
        {},
        {"spec": {"schedulingPolicy": {"basic": {}}}},
        {"metadata": _ENDING},
        {"status": {"conditions": [{"type": "PodGroupInitiallyScheduled", "status": "False", "reason": "Unschedulable"}]}},
    ],
    "compositepodgroups": [{}, {"spec": {"schedulingPolicy": {"basic": {}}}}, {"metadata": _ENDING}],
}  # fmt: skip
"""By kind, what twins have that the real ones have not. A kind that is new here needs an entry."""


def in_another_namespace(body: JSON) -> JSON:
    """Everything as it is, also the UIDs of its owners."""
    return merge(body, {"metadata": {"namespace": "other"}})


def with_owners(*owners: JSON) -> Any:
    return lambda body: merge(
        body, {"metadata": {"name": f"{body['metadata']['name']}-twin", "ownerReferences": [*owners]}}
    )


def not_controlled(body: JSON) -> JSON:
    owners = [{**owner, "controller": False} for owner in body["metadata"].get("ownerReferences", [])]
    return with_owners(*owners)(body)


def of_another_life(body: JSON) -> JSON:
    """Controlled by what has the names of its owners and is not they."""
    owners = [{**owner, "uid": "stranger"} for owner in body["metadata"].get("ownerReferences", [])]
    return with_owners(*owners)(body)


_STRANGER: JSON = {"name": "stranger", "uid": "stranger", "controller": True}
SORTS = {
    "in another namespace": in_another_namespace,
    "of another Job": with_owners({"apiVersion": "batch/v1", "kind": "Job", **_STRANGER}),
    "of another JobSet": with_owners({"apiVersion": keys.API_VERSION, "kind": keys.KIND, **_STRANGER}),
    "without an owner": with_owners(),
    "not controlled by the owner": not_controlled,
    "of an owner of the same name": of_another_life,
}


def add_twins(scene: Scene, plural: str, sort: str) -> None:
    """A twin of each object and for each harm, all at once: a scene takes a tenth of a second."""
    for body in [body for (namespace, _), body in scene.api.objects(plural).items() if namespace == "ns"]:
        for number, harm in enumerate(HARM[plural]):
            if harm is _ENDS_THERE and sort == "of an owner of the same name":
                continue  # it may be of an earlier attempt: it is deleted itself, and nothing else happens
            twin = SORTS[sort](merge(copy.deepcopy(body), harm))
            meta = twin["metadata"]
            meta["uid"] = f"twin-{number}-of-{body['metadata']['uid']}"
            alike = "namespace" if meta["namespace"] != "ns" else "name"
            meta[alike] = f"{meta[alike]}-{number}"
            scene.put(plural, twin)


def kinds() -> dict[str, bool]:
    """The kinds that are watched, and whether they are in namespaces."""
    resources = [informer.target.resource for informer in Scene().informers]
    return {resource.plural: resource.namespaced for resource in resources}


NAMESPACED = sorted(plural for plural, namespaced in kinds().items() if namespaced)


@pytest.fixture(scope="module")
def alone() -> list[str]:
    """What is done without strangers."""
    return play()


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("plural", NAMESPACED)
def test_twins_change_nothing(plural, sort, alone):
    assert play(lambda scene: add_twins(scene, plural, sort)) == alone


def indexes() -> Iterator[tuple[str, str]]:
    """Each index of the stores of namespaced kinds, with its kind."""
    for informer in Scene().informers:
        for name in informer.store._indexes._functions:
            yield informer.target.resource.plural, name


UNUSED_FOR_PLANS = {("jobsets", "subdomain"), ("pods", "node")}
"""Indexes that say only which sets a change wakes up."""


@pytest.mark.parametrize(("plural", "index"), sorted({*indexes()} - UNUSED_FOR_PLANS))
def test_an_index_by_value_alone_is_caught(plural, index, alone, monkeypatch):
    """Of every index: if it left out the namespace, twins would change something."""
    get, replace = Indexes.get, Indexes.replace
    monkeypatch.setattr(
        Indexes, "get", lambda self, name, key: get(self, name, IndexKey("", key.value) if name == index else key)
    )

    def planted(self: Indexes[Any], key: tuple[str, str], old: Any, new: Any) -> None:
        self._cluster_wide |= {index} & self._functions.keys()
        replace(self, key, old, new)

    monkeypatch.setattr(Indexes, "replace", planted)
    assert play() == alone, "without twins it makes no difference"
    assert play(lambda scene: add_twins(scene, plural, "in another namespace")) != alone


def test_the_scene_has_an_object_for_every_informer():
    """Else nothing could be seen of its twins."""
    empty: list[str] = []

    def look(scene: Scene) -> None:
        empty.extend(str(informer.target.resource) for informer in scene.informers if not len(informer.store))

    play(look)
    assert empty == []


def test_every_class_of_watches_is_in_the_scene():
    scene, found = Scene(), set()

    def walk(value: object) -> None:
        found.add(type(value).__module__)
        for inner in vars(value).values():
            if type(inner).__name__.endswith("Watches"):
                walk(inner)

    walk(scene.watches)
    walk(scene.placement)
    watching = set()
    for package in (controllers, webhooks):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            source = inspect.getsource(importlib.import_module(module.name))
            calls = (node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
            if any(isinstance(of, ast.Name) and of.id == "Informer" for of in calls):
                watching.add(module.name)
    assert watching == found | ELSEWHERE.keys()
    assert [*informers_of(scene.watches)]


def test_only_what_is_about_nodes_reads_all_namespaces_at_once():
    readers = {
        path.relative_to(Path(controllers.__path__[0]).parent).as_posix()
        for package in (controllers, webhooks)
        for path in Path(package.__path__[0]).rglob("*.py")
        if "cluster_index" in path.read_text()
    }
    assert readers == {"controllers/jobset/node_watches.py"}
