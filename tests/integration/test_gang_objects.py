"""The real API server takes the groups of every shape as they are sent, and refuses or drops what our code counts on."""

import copy
import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from api.features import FeatureGates
from api.gang_api import Served, missing_api
from api.gang_objects import build_group, build_workload, dropped_fields
from api.gangs import forest
from api.jobset import JobSet
from controllers.gang.execute import RESOURCES
from controllers.gang.watches import GroupWatches
from dev.cluster.cluster import Cluster
from dev.cluster.spec import ClusterSpec
from kube.client import Client
from kube.errors import AlreadyExists, ApiError, Invalid
from kube.model.jsontree import without_nulls
from kube.model.versions import parse_version
from tests.support.cluster.kube_client import connected
from tests.support.cluster.requests import OwnCluster, drop_namespace, new_namespace, request
from tests.support.objects.gang_trees import entry
from tests.support.objects.stored_sets import jobset, rjob

JSON = dict[str, Any]
ON = FeatureGates({"JobSetWorkloadAwareSchedulingAPI": True, "JobSetGangOfGangs": True})


def topology(key: str) -> JSON:
    return {"schedulingConstraints": {"topology": [{"key": key}]}}


GANG = {"schedulingPolicy": {"gang": {}}}
BASIC = {"schedulingPolicy": {"basic": {}}}
ALL = {"disruptionMode": {"all": {}}}
SINGLE = {"disruptionMode": {"single": {}}}
SHAPES = {
    "A, whole set": {},
    "A, basic": {**BASIC, **topology("zone"), **SINGLE},
    "B, an entry each": {"replicatedJobs": [entry("a", **ALL), entry("b", "c", **topology("rack"))]},
    "C, a Job each": {"replicatedJobs": [entry("a", "b", "c", job=topology("rack"))]},
    "D, Jobs under an entry": {"replicatedJobs": [entry("a", "b", "c", **GANG, **topology("zone"), job=ALL)]},
    "E, both levels": {**GANG, **topology("zone"), **ALL, "replicatedJobs": [entry("b", job={}), entry("c")]},
    "E, merged": {**GANG, "replicatedJobs": [entry("a", "b", "c", **topology("zone"), job=topology("rack"))]},
    "F, side by side": {"replicatedJobs": [entry("a"), entry("b", job={}), entry("c", **GANG, job={})]},
}
"""`spec.scheduling` by shape."""


def a_set(scheduling: JSON, namespace: str, *, replicas: int = 2) -> JobSet:
    rjobs = [rjob(name, replicas, parallelism=2, completions=2) for name in "abc"]
    js = jobset(*rjobs, scheduling=scheduling)
    return replace(js, metadata=replace(js.metadata, namespace=namespace))


def bodies(js: JobSet) -> Iterator[JSON]:
    """The Workload, then every group, parents first."""
    found = forest(js)
    assert found is not None
    yield build_workload(js, found)
    for root in found.roots:
        for group, parent in root.with_parents():
            yield build_group(js, found, group, parent, group.gang_size)


async def create(client: Client, body: JSON) -> JSON:
    return await client.create(RESOURCES[body["kind"]], body, namespace=body["metadata"]["namespace"])


async def patch(client: Client, stored: JSON, spec: JSON) -> JSON:
    meta = stored["metadata"]
    body = {"spec": spec, "metadata": {"uid": meta["uid"]}}
    return await client.patch(RESOURCES[stored["kind"]], meta["name"], body, namespace=meta["namespace"])


async def made(client: Client, js: JobSet) -> list[JSON]:
    return [await create(client, body) for body in bodies(js)]


class TestAllServed:
    """All gates are on, as in the demo."""

    @pytest.mark.parametrize("scheduling", SHAPES.values(), ids=SHAPES)
    async def test_what_is_sent_is_stored(self, jobset_server: Cluster, namespace: str, scheduling: JSON):
        async with connected(jobset_server.kubeconfig) as (client, _):
            for body in bodies(a_set(scheduling, namespace)):
                stored = await create(client, body)
                assert dropped_fields(body, stored) == []
                defaults = {"priority": 0} if body["kind"] != "Workload" else {}
                if body["kind"] != "Workload":
                    defaults["disruptionMode"] = {"single": {}}
                assert without_nulls(stored["spec"]) == {**defaults, **body["spec"]}
                assert body["metadata"]["labels"].items() <= stored["metadata"]["labels"].items()

    async def test_names_of_the_longest_set(self, jobset_server: Cluster, namespace: str):
        js = a_set(SHAPES["E, both levels"], namespace)
        named = replace(js, metadata=replace(js.metadata, name="x" * 60))
        async with connected(jobset_server.kubeconfig) as (client, _):
            assert len(await made(client, named)) == 7

    async def test_counts_change_in_place_but_for_composites(self, jobset_server: Cluster, namespace: str):
        async with connected(jobset_server.kubeconfig) as (client, _):
            workload, root, *others = await made(client, a_set(SHAPES["D, Jobs under an entry"], namespace))
            changed = copy.deepcopy(workload["spec"]["compositePodGroupTemplates"])
            changed[0]["schedulingPolicy"]["gang"]["minGroupCount"] = 1
            changed[0]["podGroupTemplates"][0]["schedulingPolicy"]["gang"]["minCount"] = 1
            assert (await patch(client, workload, {"compositePodGroupTemplates": changed}))["metadata"]["uid"]
            pods = {"schedulingPolicy": {"gang": {"minCount": 1}}}
            assert (await patch(client, others[0], pods))["spec"]["schedulingPolicy"] == pods["schedulingPolicy"]
            with pytest.raises(Invalid, match="immutable"):
                await patch(client, root, {"schedulingPolicy": {"gang": {"minGroupCount": 1}}})

    async def test_nothing_else_does(self, jobset_server: Cluster, namespace: str):
        """So groups that say something else are deleted, and a Workload that has other templates is replaced."""
        async with connected(jobset_server.kubeconfig) as (client, _):
            workload, *groups = await made(client, a_set(SHAPES["B, an entry each"], namespace))
            for spec in (topology("zone"), ALL, BASIC, {"parentCompositePodGroupName": "other"}):
                with pytest.raises(Invalid):
                    await patch(client, groups[1], spec)
            templates = workload["spec"]["podGroupTemplates"]
            with pytest.raises(Invalid):
                await patch(client, workload, {"podGroupTemplates": templates[:1]})
            more = {**templates[0], "name": "more"}
            with pytest.raises(Invalid, match="may not be added"):
                await patch(client, workload, {"podGroupTemplates": [*templates, more]})
            other = {**templates[0], **topology("zone")}
            with pytest.raises(Invalid):
                await patch(client, workload, {"podGroupTemplates": [other, *templates[1:]]})

    async def test_a_workload_has_templates_of_one_kind_and_at_least_one(self, jobset_server: Cluster, namespace: str):
        flat = next(bodies(a_set(SHAPES["A, whole set"], namespace)))
        nested = next(bodies(a_set(SHAPES["D, Jobs under an entry"], namespace)))
        for lists in ({}, {**flat["spec"], **nested["spec"]}):
            spec = {"controllerRef": flat["spec"]["controllerRef"], **lists}
            async with connected(jobset_server.kubeconfig) as (client, _):
                with pytest.raises(Invalid):
                    await create(client, {**flat, "spec": spec})

    async def test_a_pod_group_that_ends_keeps_its_name(self, jobset_server: Cluster, namespace: str):
        """Nobody takes its finalizer away here: it is as if its pods ran for ever."""
        (_, body), kind = [*bodies(a_set({}, namespace))], RESOURCES["PodGroup"]
        async with connected(jobset_server.kubeconfig) as (client, _):
            stored = await create(client, body)
            name, uid = stored["metadata"]["name"], stored["metadata"]["uid"]
            left = await client.delete(kind, name, namespace=namespace, uid=uid)
            assert left is not None
            assert left["metadata"]["deletionTimestamp"]
            with pytest.raises(AlreadyExists):
                await create(client, body)
            await client.patch(kind, name, {"metadata": {"finalizers": None}}, namespace=namespace)
            assert (await create(client, body))["metadata"]["uid"] != uid

    async def test_a_composite_goes_at_once(self, jobset_server: Cluster, namespace: str):
        async with connected(jobset_server.kubeconfig) as (client, _):
            _, root, *_ = await made(client, a_set(SHAPES["D, Jobs under an entry"], namespace))
            kind, name = RESOURCES["CompositePodGroup"], root["metadata"]["name"]
            await client.delete(kind, name, namespace=namespace, uid=root["metadata"]["uid"])
            sent = {k: root[k] for k in ("apiVersion", "kind", "spec")} | {
                "metadata": {"name": name, "namespace": namespace}
            }
            assert (await create(client, sent))["metadata"]["uid"] != root["metadata"]["uid"]

    async def test_it_is_found_out_that_all_is_served(self, jobset_server: Cluster):
        assert await look(jobset_server) == Served(groups=True, composites=True, topology=True)


async def look(cluster: Cluster) -> Served:
    async with connected(cluster.kubeconfig) as (client, _):
        return await GroupWatches(client, ON)._look_up()


OFF = {"TopologyAwareWorkloadScheduling": False, "CompositePodGroup": False}
PARTS = {
    "flat": (
        ClusterSpec(name="flat", profile="api", feature_gates=OFF),
        Served(groups=True, composites=False, topology=False),
    ),
    "topology": (
        ClusterSpec(name="topology", profile="api", feature_gates={"CompositePodGroup": False}),
        Served(groups=True, composites=False, topology=True),
    ),
    "off": (ClusterSpec(name="off", profile="api", gang=False), Served(groups=False, composites=False, topology=False)),
}
"""API servers with some of the gates, and what they serve; their version is looked up where they serve no groups."""
WITH_GROUPS = [part for part, (_, served) in PARTS.items() if served.groups]


@pytest.fixture(scope="module", params=PARTS)
def partly(request: pytest.FixtureRequest, own_cluster: OwnCluster) -> Iterator[tuple[str, Cluster]]:
    """(which of `PARTS`, its API server)."""
    with own_cluster(PARTS[request.param][0]) as cluster:
        yield request.param, cluster


async def test_what_an_api_server_does_not_take_is_noticed(partly: tuple[str, Cluster]):
    part, cluster = partly
    served = PARTS[part][1]
    if not served.groups:
        version = parse_version(json.dumps(request(cluster, "GET", "/version")[1]).encode())
        assert version is not None
        served = dataclasses.replace(served, version=version)
    assert await look(cluster) == served
    namespace = new_namespace(cluster)
    async with connected(cluster.kubeconfig) as (client, _):
        for number, scheduling in enumerate(SHAPES.values()):
            js = a_set(scheduling, namespace)
            js = replace(js, metadata=replace(js.metadata, uid=f"uid-{number}"))
            found = forest(js)
            assert found is not None
            lack = missing_api(found, served)
            if lack is None:
                for body in bodies(js):
                    assert dropped_fields(body, await create(client, body)) == []
            else:
                assert await _goes_wrong(client, js), f"{lack.problem}, and nothing is lost"
        drop_namespace(cluster, namespace)


async def _goes_wrong(client: Client, js: JobSet) -> bool:
    """Whether the API server refuses some group of a set or stores it without something."""
    for body in bodies(js):
        try:
            stored = await create(client, body)
        except ApiError:
            return True
        if dropped_fields(body, stored):
            return True
    return False


@pytest.mark.parametrize("partly", WITH_GROUPS, indirect=True)
async def test_a_group_loses_its_parent_where_there_are_no_composites(partly: tuple[str, Cluster]):
    """It would be a tree of its own, and of a set some would run without the others."""
    _, cluster = partly
    namespace = new_namespace(cluster)
    *_, body = bodies(a_set(SHAPES["D, Jobs under an entry"], namespace))
    async with connected(cluster.kubeconfig) as (client, _):
        assert "parentCompositePodGroupName" in dropped_fields(body, await create(client, body))
    drop_namespace(cluster, namespace)
