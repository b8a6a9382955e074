"""Pods of JobSets at the real API server: one table (tests/support/corpus/exclusive_pods.py) for webhooks and policies."""

import asyncio
import concurrent.futures
import contextlib
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import pytest

from api.exclusive import NoDomain, TermForm
from dev.cluster.spec import ClusterSpec
from httpserver.address import bind
from httpserver.server import Server
from manifests import webhook_configurations
from manifests.policies import pod_policies
from tests.support.cluster.requests import kubectl, wait_for
from tests.support.cluster.requests import request as send
from tests.support.corpus.exclusive_pods import (
    BY_NAME,
    NAMESPACES,
    PRIORITY_CLASSES,
    ROWS,
    Row,
    Shown,
    agrees,
    shown,
    without_manager,
)
from tests.support.tls import context_with, material
from webhooks.pod.handlers import pod_handlers
from webhooks.router import create_app


def stored(name, shows):
    return name, lambda seen: isinstance(seen, Shown) and bool(shows(seen))


def refused(name):
    return name, lambda seen: isinstance(seen, str)


LED = stored("leader", lambda seen: seen.spread)
HELD = stored("follower", lambda seen: seen.gates or seen.gather)
LABELLED = stored("not exclusive, wrong label", lambda seen: seen.priority == "0")


@dataclass(frozen=True, kw_only=True)
class Mode:
    """Objects to install, and what is expected of a row while they are in force.

    `probes`: for each policy or webhook a row by name, and what is seen of it only where that one is in force.
    """

    objects: list[dict[str, Any]]
    probes: tuple[tuple[str, Callable[[Shown | str], bool]], ...]
    expected: Callable[[Row], Shown] = attrgetter("shown")


class NoLeaderYet:
    def find(self, namespace, job_uid, topology):
        return NoDomain("there is no leader pod yet")

    async def wait_for_domain(self, namespace, job_uid, topology):
        return self.find(namespace, job_uid, topology)


@contextlib.contextmanager
def webhooks(form):
    """The handlers of pods, served beside the test; the objects by which the API server finds them."""
    listener = bind(("127.0.0.1", 0), "webhooks")
    certificate = material()
    ready: concurrent.futures.Future = concurrent.futures.Future()

    async def serve():
        server = Server(create_app(pod_handlers(NoLeaderYet(), lambda: form)), listener, context_with(certificate))
        async with asyncio.TaskGroup() as group:
            group.create_task(server.run())
            await server.started.wait()
            ready.set_result((asyncio.get_running_loop(), server))

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    loop, server = ready.result(timeout=30)
    try:
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        yield Mode(
            objects=webhook_configurations(url_base=url, ca_bundle=certificate.authorities),
            probes=(LED, HELD, LABELLED, refused("follower bound by its template")),
        )
    finally:
        loop.call_soon_threadsafe(server.stop)
        thread.join(30)


@contextlib.contextmanager
def policies(followers, **more):
    yield Mode(objects=pod_policies(followers), probes=(LED, HELD, LABELLED, refused("no completion index")), **more)


@contextlib.contextmanager
def both():
    """As it is for a moment while a cluster changes over."""
    with webhooks(TermForm.EXPRESSIONS) as before, policies("gate") as after:
        yield Mode(objects=[*before.objects, *after.objects], probes=(*before.probes, *after.probes))


MODES = {
    "webhooks": lambda: webhooks(TermForm.LABEL_KEYS),
    "webhooks, terms written out": lambda: webhooks(TermForm.EXPRESSIONS),
    "policies": lambda: policies("gate"),
    "both at once": both,
    "policies without manager": lambda: policies("affinity", expected=without_manager),
}


@pytest.fixture(scope="module")
def server(own_cluster):
    """An API server of its own: what is installed here concerns the pods of every namespace."""
    with own_cluster(ClusterSpec(name="policies", profile="api")) as cluster:
        for name in NAMESPACES:
            send(cluster, "POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        for name, value in PRIORITY_CLASSES.items():
            body = {"metadata": {"name": name}, "value": value}
            status, answer = send(cluster, "POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body)
            assert status == 201, answer
        yield cluster


@pytest.fixture(scope="module", params=MODES)
def mode(server, request):
    """One way of admission in force, for the tests of it and no longer."""
    with MODES[request.param]() as mode:
        probes = [(BY_NAME[name], holds) for name, holds in mode.probes]
        untouched = [shown(server, row) for row, _ in probes]
        listing = json.dumps({"apiVersion": "v1", "kind": "List", "items": mode.objects})
        kubectl(server, "apply", "--server-side", "-f", "-", stdin=listing)
        try:
            # What is installed takes a moment to reach the admission chain. Whether it does right is for the tests.
            wait_for(lambda: all(holds(shown(server, row)) for row, holds in probes), what=f"{request.param} in force")
            yield mode
        finally:
            kubectl(server, "delete", "-f", "-", stdin=listing)
            wait_for(lambda: [shown(server, row) for row, _ in probes] == untouched, what=f"{request.param} gone")


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_a_pod_is_stored_as_the_table_says(server, mode, row):
    seen, expected = shown(server, row), mode.expected(row)
    assert agrees(seen, expected), f"expected {expected}\nbut saw {seen}"
