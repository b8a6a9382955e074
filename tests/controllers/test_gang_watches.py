"""When the manager comes to know what the API server serves of groups, and what it does until then."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from api.features import FeatureGates
from api.gang_api import Served
from controllers.gang.watches import GroupWatches, Pauses
from kube.client import Client
from tests.support.model.memory_api import MemoryApi, refuse, serve
from tests.support.objects.stored_sets import jobset, rjob
from tests.support.tls import until

ON = FeatureGates({"JobSetWorkloadAwareSchedulingAPI": True})
BETA, ALPHA = "scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha3"
GROUPS = ("workloads", "podgroups")
SHORT_PAUSES = Pauses(missing=0.02, complete=3600.0)
ALL = Served(groups=True, composites=True, topology=True)


def serving(*composites: str) -> dict[str, tuple[str, ...]]:
    return {BETA: GROUPS, **({ALPHA: composites} if composites else {})}


@contextlib.asynccontextmanager
async def running(cluster: MemoryApi, gates: FeatureGates = ON) -> AsyncIterator[GroupWatches]:
    of = GroupWatches(Client(cluster), gates, pauses=SHORT_PAUSES)
    task = asyncio.create_task(of.run())
    yield of
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_without_the_gate_nothing_is_asked():
    cluster = MemoryApi()
    async with running(cluster, FeatureGates({})) as of:
        await asyncio.sleep(0)
        assert of.served == Served(enabled=False)
    assert cluster.requests == []


async def test_an_api_that_comes_later_is_noticed_and_reported():
    cluster = MemoryApi()
    reported: list[Served] = []
    async with running(cluster) as of:
        of.on_change(lambda: reported.append(of.served))
        await until(lambda: of.served.groups is False)
        cluster.served = serving()
        await until(lambda: of.served.groups is True)
        assert of.served.composites is False
        cluster.served = serving("compositepodgroups")
        await until(lambda: of.served == ALL)
    assert [served.groups for served in reported] == [False, True, True]


async def test_what_is_served_counts_only_when_the_groups_that_there_are_are_known():
    cluster = MemoryApi(streaming=False, served=serving("compositepodgroups"))
    refused = refuse(403)
    cluster.answering = lambda call: refused(call) if call.verb == "list" else None
    owner = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "name": "js",
        "uid": "js-uid",
        "controller": True,
    }
    meta = {"ownerReferences": [owner], "labels": {"jobset.sigs.k8s.io/jobset-name": "js"}}
    cluster.put("podgroups", "of-before", metadata=meta, spec={"schedulingPolicy": {"basic": {}}})
    async with running(cluster) as of:
        looks = len(cluster.requests)
        await until(lambda: len(cluster.requests) > looks + 10)
        assert of.served.groups is None
        cluster.answering = serve
        await until(lambda: of.served == ALL)
        known = of.known_groups(jobset(rjob()), None)
    assert [group.metadata.name for group in known.pod_groups] == ["of-before"]


async def test_what_cannot_be_found_out_stays_unknown():
    cluster = MemoryApi(answering=refuse(500))
    async with running(cluster) as of:
        await until(lambda: len(cluster.requests) > 5)
        assert of.served.groups is None
        cluster.answering = serve
        await until(lambda: of.served.groups is False)


async def test_sets_without_scheduling_and_groups_are_ignored():
    async with running(MemoryApi()) as of:
        assert of.known_groups(jobset(rjob()), None) is None
        assert of.known_groups(jobset(rjob(), scheduling={}), None) is not None
