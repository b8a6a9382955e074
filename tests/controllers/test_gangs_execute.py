"""What writing a group does when the API server answers otherwise than hoped for."""

from functools import partial

import pytest

from api.features import FeatureGates
from api.gang_objects import build_group, build_workload
from api.gangs import forest
from controllers.gang.execute import GroupWriteError, GroupWriter
from controllers.gang.watches import GroupWatches
from controllers.planning.actions import CreateGroup, DeleteGroup, PatchGroup
from kube.errors import AlreadyExists, Call, Conflict, Invalid, NotFound, Status
from kube.watcher import Init, InitDone
from tests.support.objects.stored_sets import jobset, rjob

ON = FeatureGates({"JobSetWorkloadAwareSchedulingAPI": True})
JS = jobset(
    rjob(parallelism=2),
    scheduling={"schedulingPolicy": {"gang": {}}, "replicatedJobs": [{"targetReplicatedJobs": ["workers"], "job": {}}]},
)
FOREST = forest(JS)
ROOT = FOREST.roots[0]
PLACES = [(group, parent) for group, parent in ROOT.with_parents()]


def error(kind, code):
    return kind(code, Status(kind="Status", message="no"), call=Call("create", "/"))


class Api:
    """Objects by name. `loses`: fields of the spec that are dropped."""

    def __init__(self, *loses):
        self.objects, self.loses, self.uids, self.verbs = {}, loses, 0, []
        self.immutable = False

    async def create(self, _resource, body, **_):
        name = body["metadata"]["name"]
        self.verbs.append(("create", name))
        if name in self.objects:
            raise error(AlreadyExists, 409)
        self.uids += 1
        spec = {k: v for k, v in body["spec"].items() if k not in self.loses}
        self.objects[name] = {
            **body,
            "spec": spec,
            "metadata": {**body["metadata"], "uid": f"uid-{self.uids}", "resourceVersion": str(self.uids)},
        }
        return self.objects[name]

    async def get(self, _resource, name, **_):
        return self.objects[name]

    async def delete(self, _resource, name, *, uid, **_):
        self.verbs.append(("delete", name))
        if name not in self.objects:
            raise error(NotFound, 404)
        assert self.objects[name]["metadata"]["uid"] == uid
        del self.objects[name]

    async def patch(self, _resource, name, body, **_):
        named = body["metadata"].get("resourceVersion")
        if named and named != self.objects[name]["metadata"]["resourceVersion"]:
            raise error(Conflict, 409)
        if self.immutable:
            raise error(Invalid, 422)
        return self.objects[name]


def creations():
    made = [CreateGroup("Workload", FOREST.workload, lambda: build_workload(JS, FOREST), 0)]
    for number, (group, parent) in enumerate(PLACES, 1):
        build = partial(build_group, JS, FOREST, group, parent, group.gang_size)
        made.append(CreateGroup(group.kind, group.name, build, number))
    return made


def writer(api):
    watches = GroupWatches(api, ON)
    for informer in watches.by_kind.values():
        informer._receive(Init())
        informer._receive(InitDone(0))
    return GroupWriter(api, watches), watches


async def test_what_is_made_is_known_at_once():
    make, watches = writer(Api())
    assert await make.write(JS, creations()) == []
    known = watches.known_groups(JS, None)
    assert [len(of) for of in (known.workloads, known.composites, known.pod_groups)] == [1, 1, 1]


async def test_parents_first_whatever_the_order_of_the_plan():
    api = Api()
    await writer(api)[0].write(JS, creations()[::-1])
    assert [name for _, name in api.verbs] == [FOREST.workload, *(group.name for group, _ in PLACES)]


async def test_a_group_that_lost_a_field_is_deleted_again():
    api = Api("parentCompositePodGroupName")
    make, watches = writer(api)
    [failure] = await make.write(JS, creations())
    assert isinstance(failure.error, GroupWriteError)
    assert failure.error.reason == "FieldDropped"
    assert "parentCompositePodGroupName" in str(failure.error)
    assert PLACES[1][0].name not in api.objects
    assert watches.known_groups(JS, None).pod_groups == ()


@pytest.mark.parametrize(
    "owners", [[], [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "x", "controller": True}]]
)
async def test_a_foreign_group_is_left_alone_and_nothing_is_made_below_it(owners):
    api = Api()
    foreign = {"metadata": {"name": ROOT.name, "namespace": "ns", "uid": "theirs", "ownerReferences": owners}}
    api.objects[ROOT.name] = {**foreign, "spec": {}}
    [failure] = await writer(api)[0].write(JS, creations())
    assert failure.error.reason == "NameConflict"
    assert api.objects[ROOT.name] == {**foreign, "spec": {}}
    assert PLACES[1][0].name not in api.objects


async def test_one_of_ours_that_was_not_seen_yet_is_taken_as_it_is():
    api = Api()
    await writer(api)[0].write(JS, creations())
    make, watches = writer(api)
    assert await make.write(JS, creations()) == []
    assert len(watches.known_groups(JS, None).pod_groups) == 1


async def test_one_to_be_deleted_that_has_gone_is_no_failure():
    api = Api()
    make, _ = writer(api)
    assert await make.write(JS, [DeleteGroup("PodGroup", "gone", "uid-0")]) == []
    assert api.verbs == [("delete", "gone")]


@pytest.mark.parametrize("held", [True, False])
async def test_a_deleted_group_is_known_only_while_a_finalizer_holds_it(held, monkeypatch):
    api = Api()
    make, watches = writer(api)
    await make.write(JS, creations())
    [group] = watches.known_groups(JS, None).pod_groups
    stored = api.objects[group.metadata.name]
    left = {
        **stored,
        "metadata": {**stored["metadata"], **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if held else {})},
    }

    async def delete(*_args, **_options):
        return left

    monkeypatch.setattr(api, "delete", delete)
    assert await make.write(JS, [DeleteGroup("PodGroup", group.metadata.name, group.metadata.uid)]) == []
    assert len(watches.known_groups(JS, None).pod_groups) == held


async def test_a_patch_that_lost_a_field_is_reported_and_the_stored_object_is_known():
    api = Api("podGroupTemplates", "compositePodGroupTemplates")
    make, watches = writer(api)
    body = build_workload(JS, FOREST)
    stored = await api.create(None, body)
    change = PatchGroup("Workload", FOREST.workload, stored["metadata"]["uid"], "", {"spec": body["spec"]}, body)
    [failure] = await make.write(JS, [change])
    assert failure.error.reason == "FieldDropped"
    assert FOREST.workload in api.objects
    assert len(watches.known_groups(JS, None).workloads) == 1


async def test_a_patch_is_refused_if_the_group_has_changed_since_the_plan():
    api = Api()
    make, _ = writer(api)
    uid = (await api.create(None, build_workload(JS, FOREST)))["metadata"]["uid"]
    api.objects[FOREST.workload]["metadata"]["resourceVersion"] = "7"
    [failure] = await make.write(JS, [PatchGroup("Workload", FOREST.workload, uid, "1", {"spec": {}})])
    assert isinstance(failure.error, Conflict)
    assert await make.write(JS, [PatchGroup("Workload", FOREST.workload, uid, "7", {"spec": {}})]) == []


@pytest.mark.parametrize("replaced", [False, True])
async def test_what_may_not_change_is_replaced_under_its_name(replaced):
    api = Api()
    make, _ = writer(api)
    await make.write(JS, creations())
    uid = api.objects[ROOT.name]["metadata"]["uid"]
    api.immutable = True
    body = build_group(JS, FOREST, ROOT, "", 1) if replaced else None
    failed = await make.write(JS, [PatchGroup("CompositePodGroup", ROOT.name, uid, "", {"spec": {}}, body)])
    assert bool(failed) != replaced
    assert (api.objects[ROOT.name]["metadata"]["uid"] != uid) == replaced
