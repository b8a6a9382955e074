"""Informers against a real API server: streaming lists, pages, versions that it has forgotten."""

import asyncio
import contextlib
import dataclasses
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kube.client import Client
from kube.errors import KubeError
from kube.informer import Informer, SyncTimeoutError
from kube.resources import CONFIG_MAPS, CRDS, NODES, Resource
from tests.integration.test_kube_client import config_map
from tests.support.cluster.kube_client import connected, synced
from tests.support.cluster.requests import eventually
from tests.support.model.faults import Cut, FaultyTransport
from tests.support.objects.kube_objects import Thing


def names(informer: Informer[Any]) -> set[str]:
    return {obj.metadata.name for obj in informer.store.list()}


async def shows(informer: Informer[Any], wanted: set[str]) -> None:
    async def probe() -> bool:
        return names(informer) == wanted

    await eventually(probe, timeout=20, what=f"the cache shows {wanted}")


async def test_the_server_offers_a_streaming_list_and_then_events(jobset_server, namespace):
    async with connected(jobset_server.kubeconfig) as (client, transport):
        await client.create(CONFIG_MAPS, config_map("before"), namespace=namespace)
        informer = Informer(client, CONFIG_MAPS, Thing, namespace=namespace)
        async with synced(informer):
            assert names(informer) == {"before"}
            await client.create(CONFIG_MAPS, config_map("after"), namespace=namespace)
            await shows(informer, {"before", "after"})
            await client.delete(CONFIG_MAPS, "before", namespace=namespace)
            await shows(informer, {"after"})
        assert not [call for call in transport.calls if call.verb == "list"]


async def test_pages_where_streaming_is_not_wanted(jobset_server, namespace):
    async with connected(jobset_server.kubeconfig) as (client, transport):
        async with asyncio.TaskGroup() as group:
            for number in range(25):
                group.create_task(client.create(CONFIG_MAPS, config_map(f"m{number}"), namespace=namespace))
        informer = Informer(client, CONFIG_MAPS, Thing, namespace=namespace, streaming=False, page=10)
        async with synced(informer):
            assert names(informer) == {f"m{number}" for number in range(25)}
            await client.create(CONFIG_MAPS, config_map("one-more"), namespace=namespace)
            await shows(informer, {f"m{number}" for number in range(25)} | {"one-more"})
        assert len([call for call in transport.calls if call.verb == "list"]) == 3


class AncientWatch(FaultyTransport):
    """Asks to watch from version 1, which the server no longer holds, when `ancient` is set."""

    ancient = False
    asked = 0

    @contextlib.asynccontextmanager
    async def stream(self, request):
        query = dict(request.query)
        if self.ancient and "resourceVersion" in query:
            self.ancient, self.asked = False, self.asked + 1
            request = dataclasses.replace(request, query=tuple({**query, "resourceVersion": "1"}.items()))
        async with super().stream(request) as lines:
            yield lines


@contextlib.asynccontextmanager
async def new_resource(client: Client) -> AsyncIterator[Resource]:
    """A resource of its own: its watch cache begins now, so that the server has forgotten all earlier versions."""
    group = f"g{uuid.uuid4().hex[:8]}.test.dev"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "Thing", "plural": "things"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    await client.create(CRDS, definition)
    resource = Resource(group, "v1", "Thing", "things")

    async def served() -> bool:
        with contextlib.suppress(KubeError):
            await client.list(resource)
            return True
        return False

    await eventually(served, timeout=20, what="the new resource is served")
    try:
        yield resource
    finally:
        await client.delete(CRDS, f"things.{group}")


async def test_a_version_the_server_has_forgotten_lists_again(jobset_server, namespace):
    async with connected(jobset_server.kubeconfig) as (client, inner), new_resource(client) as resource:
        transport = AncientWatch(inner)
        for name in ("stays", "goes"):
            thing = {"apiVersion": resource.api_version, "kind": "Thing", "metadata": {"name": name}}
            await client.create(resource, thing, namespace=namespace)
        transport.inject(Cut(after=3), verb="watch")
        transport.ancient = True
        informer = Informer(Client(transport), resource, Thing, namespace=namespace)
        heard = []
        informer.on_event(lambda kind, old, new: heard.append((kind.value, (new or old).metadata.name)))
        async with synced(informer):
            await client.delete(resource, "goes", namespace=namespace)
            await shows(informer, {"stays"})
        assert transport.asked == 1
        watches = [call for call in transport.calls if call.verb == "watch"]
        assert len(watches) == 3, "list, refused resume, list again"
        assert heard == [("ADDED", "goes"), ("ADDED", "stays"), ("DELETED", "goes")]


async def test_a_cache_that_may_not_be_read_says_so(jobset_server):
    async with connected(jobset_server.kubeconfig_for("stranger")) as (client, _):
        informer = Informer(client, NODES, Thing)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(informer.run())
            with pytest.raises(SyncTimeoutError, match=r'nodes: not listed after 1 s: .*User "stranger" cannot'):
                await informer.wait_synced(1)
            task.cancel()
