"""How a spare gives way: in which order it is written, and what is left where that cannot be."""

from dataclasses import replace

import msgspec
import pytest

from api import keys
from api.pod import DetailedPod
from api.spare_pods import PoolPod, pool_pod
from api.spares import counted_place_note
from controllers.jobset.memory import Memory
from controllers.jobset.pod_writes import PodWrites
from controllers.jobset.spare_pods import BY_JOBSET, with_read_spare_pods
from controllers.planning.actions import DeleteJob, GivePlace, LiftGate, PoolQuery
from controllers.planning.plan import plan
from kube.client import Client
from kube.decode import convert
from kube.errors import Forbidden
from kube.store import Store
from tests.controllers.test_spare_places import running
from tests.support.model.memory_api import MemoryApi, refuse

LABELS = {keys.JOBSET_NAME: "js", keys.JOBSET_UID: "u", keys.SPARES: "w"}
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": True}
ACTION = GivePlace("new", "uid-new", "old", "uid-old", "n1", gated=True)


@pytest.fixture
def api() -> MemoryApi:
    api = MemoryApi()
    gates = [{"name": "other"}, {"name": keys.SPARE_GATE}]
    _put(api, "new", "w", spec={"schedulingGates": gates}, status={"phase": "Pending"})
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    _put(api, "old", "s", spec={"nodeName": "n1"}, status=ready, finalizers=[keys.JOB_TRACKING])
    return api


def _put(api: MemoryApi, name: str, group: str, finalizers: list[str] | None = None, **fields) -> None:
    labels = LABELS | {keys.REPLICATED_JOB_NAME: group}
    meta = {"uid": f"uid-{name}", "labels": labels, "ownerReferences": [OWNER], "finalizers": finalizers or []}
    api.put("pods", name, metadata=meta, **fields)


def cache(api: MemoryApi) -> Store[PoolPod]:
    store: Store[PoolPod] = Store()
    for body in api.objects("pods").values():
        pod = pool_pod(convert(DetailedPod, body))
        assert pod is not None
        store.apply(pod)
    return store


def writes(api: MemoryApi) -> list[tuple[str, str]]:
    return [(request.method, request.path.partition("/pods/")[2]) for request in api.requests]


async def delete_job(action: DeleteJob) -> None:
    raise AssertionError(f"{action.name} stays")


async def test_the_pod_is_nominated_before_the_spare_goes_and_let_go_after_that(api: MemoryApi):
    store = cache(api)
    await PodWrites(Client(api), "ns").give_place(store, ACTION, delete_job)
    assert writes(api) == [("PATCH", "new/status"), ("DELETE", "old"), ("PATCH", "old"), ("PATCH", "new")]
    [pod] = api.objects("pods").values()
    assert pod["status"]["nominatedNodeName"] == "n1"
    assert pod["spec"]["schedulingGates"] == [{"name": "other"}]
    [seen] = store.list()
    assert (seen.name, seen.nominated, seen.gated) == ("new", "n1", False)


async def test_the_job_of_the_spare_goes_before_it_so_that_the_next_process_goes_on(api: MemoryApi):
    found: list[tuple[str, list[tuple[str, str]]]] = []

    async def note(action: DeleteJob) -> None:
        found.append((action.name, writes(api)))

    action = replace(ACTION, ended_job=DeleteJob("js-spare-0", "job-uid"))
    await PodWrites(Client(api), "ns").give_place(cache(api), action, note)
    assert found == [("js-spare-0", [("PATCH", "new/status")])]


async def test_the_spare_stays_if_the_pod_is_another_one_by_now(api: MemoryApi):
    store = cache(api)
    _put(api, "new", "w", spec={}, status={})
    api.drop("pods", "new")
    await PodWrites(Client(api), "ns").give_place(store, ACTION, delete_job)
    assert [name for _, name in api.objects("pods")] == ["old"]
    assert len(store.list()) == 2, "the watch will tell"


async def test_a_refusal_is_raised_and_the_next_plan_goes_on(api: MemoryApi):
    api.answering = refuse(403, verb="delete")
    with pytest.raises(Forbidden):
        await PodWrites(Client(api), "ns").give_place(cache(api), ACTION, delete_job)
    assert len(api.objects("pods")) == 2


async def test_a_pod_that_is_gone_needs_no_release(api: MemoryApi):
    api.drop("pods", "new")
    await PodWrites(Client(api), "ns").lift_gate(Store(), LiftGate("new", "uid-new"))


class TestANewProcess:
    """Its watch of pods may be behind: an earlier process may have given a place that it does not know."""

    def test_it_reads_the_pods_before_its_first_place(self):
        world = running(spares=1)
        world.add("js-workers-1")
        observed = replace(world.observe(), spare_pods_are_read=False)
        asking = plan(observed, world.gates)
        assert (asking.pod_query, asking.actions) == (PoolQuery(), ())
        [given] = [action for action in world.plan().actions if isinstance(action, GivePlace)]
        assert given.pod.startswith("js-workers-1")

    def test_it_reads_the_pods_before_it_ends_a_note_of_a_counted_place(self):
        world = running(spares=2)
        world.since_status_write = 0.0
        pod = world.add("js-workers-1")
        world.settle()
        assert world.entry == (1, (counted_place_note(pod),))
        asking = plan(replace(world.observe(), spare_pods_are_read=False), world.gates)
        assert (asking.pod_query, asking.actions) == (PoolQuery(), ())

    async def test_what_it_has_read_replaces_what_was_watched(self, api: MemoryApi):
        store = Store[PoolPod](indexes={BY_JOBSET: lambda pod: [pod.jobset_uid]})
        for pod in cache(api).list():
            store.apply(pod)
        _put(api, "new", "w", spec={}, status={"phase": "Pending", "nominatedNodeName": "n1"})
        api.drop("pods", "old")
        world, memory = running(), Memory("u")
        js = world.observe().jobset
        js = msgspec.structs.replace(js, metadata=msgspec.structs.replace(js.metadata, uid="u"))
        observed = replace(world.observe(), jobset=js, spare_pods_are_read=False)
        found = await with_read_spare_pods(Client(api), observed, store, memory)
        assert [(pod.name, pod.nominated) for pod in found.spare_pods] == [("new", "n1")]
        assert (found.spare_pods_are_read, found.served_pods) == (True, {"uid-new"})
