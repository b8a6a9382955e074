"""How long the manager waits for its caches."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from api import keys
from api.features import FeatureGates
from app.health import Health
from app.manager.admission import with_placement_watch
from app.manager.caches import SYNC_TIMEOUT, fill_caches, start_placement_watches
from app.manager.options import Deps, Options
from app.manager.supervisor import Supervisor, supervise
from app.metrics import Metrics
from app.settings import Settings
from controllers.placement.watches import PlacementWatches
from kube.client import Client
from kube.errors import from_response
from kube.informer import SyncTimeoutError
from kube.model.meta import JSON
from kube.transport import Request, Response
from tests.support.asgi import post
from tests.support.model.memory_api import MemoryApi
from webhooks.review import AdmissionRequest, AdmissionResponse

EXCLUSIVE = {keys.JOBSET_NAME: "js", keys.EXCLUSIVE_TOPOLOGY: "rack"}
"""Annotations of pods that are placed exclusively."""


class SlowApi(MemoryApi):
    """Lists Jobs and leaders shortly before the time is up, and nodes never."""

    async def send(self, request: Request) -> Response:
        if request.path.endswith(("/jobs", "/pods")):
            await asyncio.sleep(SYNC_TIMEOUT - 1)
        if request.path.endswith("/nodes"):
            await asyncio.Event().wait()
        return await super().send(request)


def exclusive_job(api: MemoryApi) -> None:
    api.put(
        "jobs",
        "js-workers-0",
        metadata={"labels": {keys.JOBSET_NAME: "js"}},
        spec={"template": {"metadata": {"annotations": EXCLUSIVE}, "spec": {}}},
    )


@pytest.mark.looptime
async def test_all_caches_together_have_one_time_to_fill_and_those_of_pods_another() -> None:
    api, health = SlowApi(streaming=False), Health()
    exclusive_job(api)

    async def stage(supervisor: Supervisor) -> None:
        deps = Deps(Options(Settings(), FeatureGates()), Client(api), Metrics(), supervisor)
        await fill_caches(deps, health, start_placement_watches(deps))

    async def probe(seconds: float) -> str:
        await asyncio.sleep(seconds)
        return (await post(health, "/readyz/caches", b"", method="GET")).body.decode().splitlines()[0]

    early, later = (asyncio.create_task(probe(seconds)) for seconds in (SYNC_TIMEOUT - 2, SYNC_TIMEOUT))
    late = pytest.RaisesExc(SyncTimeoutError, match=r"^nodes: not listed after 120 s")
    begun = asyncio.get_running_loop().time()
    with pytest.RaisesGroup(late, flatten_subgroups=True, allow_unwrapped=True):
        await supervise(stage, asyncio.Event())
    assert asyncio.get_running_loop().time() - begun < 2 * SYNC_TIMEOUT
    assert (await early).startswith("[-]caches failed: jobs.batch not listed yet: ")
    faults = [fault.partition(":")[0] for fault in (await later).removeprefix("[-]caches failed: ").split("; ")]
    assert faults == ["pods not listed yet", "nodes not listed yet"], "watches of one kind fail for one reason"


@pytest.mark.looptime
async def test_pods_and_nodes_are_watched_from_the_first_exclusive_job_on() -> None:
    """Every pod of a set of Jobs with one pod each is a leader: that is most of what there is to watch."""
    api = MemoryApi()

    def watched() -> set[str]:
        return {request.path.rpartition("/")[2] for request in api.requests} & {"pods", "nodes"}

    async def stage(supervisor: Supervisor) -> None:
        deps = Deps(Options(Settings(), FeatureGates()), Client(api), Metrics(), supervisor)
        await fill_caches(deps, Health(), start_placement_watches(deps))
        api.put("jobs", "js-others-0", metadata={"labels": {keys.JOBSET_NAME: "js"}}, spec={})
        await asyncio.sleep(5)
        assert not watched()
        exclusive_job(api)
        await asyncio.sleep(5)
        assert watched() == {"pods", "nodes"}

    await supervise(stage, asyncio.Event())


BY_NODE_SELECTOR = {**EXCLUSIVE, keys.NODE_SELECTOR_STRATEGY: "true"}


def set_of(annotations: dict[str, str], *on_jobs: dict[str, str]) -> JSON:
    templates = [{"template": {"metadata": {"annotations": each}}} for each in on_jobs]
    return {"metadata": {"annotations": annotations}, "spec": {"replicatedJobs": templates}}


@pytest.mark.parametrize(
    ("obj", "begins"),
    [
        (set_of(EXCLUSIVE, {}), True),
        (set_of({}, {}, EXCLUSIVE), True),
        ({"spec": {"replicatedJobs": [{"template": {"spec": {"template": set_of(EXCLUSIVE)}}}]}}, True),
        ({"metadata": {"annotations": EXCLUSIVE}, "spec": {"containers": []}}, True),
        (set_of({}, {}), False),
        (set_of(BY_NODE_SELECTOR, BY_NODE_SELECTOR), False),
        ({"metadata": {"annotations": "text"}, "spec": {"replicatedJobs": [None, {"template": 1}]}}, False),
        (None, False),
    ],
    ids=["set", "job", "pod template", "pod", "plain", "node-selector", "unreadable", "deleted"],
)
async def test_admission_watches_from_the_first_review_of_an_exclusive_set_or_pod_on(
    obj: JSON | None, begins: bool
) -> None:
    """So the leaders and nodes are listed by the time that the first follower is reviewed."""
    placement = PlacementWatches(Client(MemoryApi()))
    allowed = AdmissionResponse()
    handler = with_placement_watch(lambda _: allowed, placement)
    review = AdmissionRequest(uid="u", operation="CREATE", object=obj)
    answers = [await asyncio.to_thread(handler, review), handler(review)]
    await asyncio.sleep(0)
    assert answers == [allowed, allowed]
    assert placement.has_begun == begins


class WithoutJobSets(MemoryApi):
    """Answers for JobSets as after their CRD was deleted, while `deleted`."""

    deleted = False

    def stream(self, request: Request) -> contextlib.AbstractAsyncContextManager[AsyncIterator[bytes]]:
        if self.deleted and "jobsets" in request.path:
            raise from_response(404, {}, b"404 page not found", request.call)
        return super().stream(request)


@pytest.mark.looptime
async def test_a_crd_that_is_deleted_while_the_manager_runs_fails_readiness() -> None:
    api, health = WithoutJobSets(), Health()

    async def crd() -> str:
        return (await post(health, "/readyz/crd", b"", method="GET")).body.decode()

    async def stage(supervisor: Supervisor) -> None:
        deps = Deps(Options(Settings(), FeatureGates()), Client(api), Metrics(), supervisor)
        await fill_caches(deps, health, start_placement_watches(deps))
        assert await crd() == "ok"
        api.deleted = True
        api.cut_streams()
        await asyncio.sleep(5)
        assert (await crd()).startswith(
            "[-]crd failed: the cluster does not serve jobsets (/apis/jobset.x-k8s.io/v1alpha2)"
        )
        api.deleted = False
        await asyncio.sleep(60)
        assert await crd() == "ok"

    await supervise(stage, asyncio.Event())
