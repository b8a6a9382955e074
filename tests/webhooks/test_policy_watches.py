"""When admission comes to know policies and namespaces, what it asks for that, and what it does without an answer."""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kube.client import Client
from kube.errors import KubeError, NotFound
from kube.informer import SyncTimeoutError
from kube.transport import Request, Response
from policy.judged import Namespace
from tests.support.beside import beside
from tests.support.model.faults import status_body
from tests.support.model.memory_api import MemoryApi
from tests.support.objects.policies import exception, manifest
from tests.support.tls import until
from webhooks.policy.watches import PAUSES, Companion, Pauses, PolicyWatches

GROUP = "/apis/policy.jobset.x-k8s.io/v1alpha1"
SHORT = Pauses(
    after_no_answer=0.01, while_absent=0.02, while_served=0.02, between_failure_logs=0.02, between_count_logs=0.02
)
TEAM = {"example.com/team": "a"}


class Cluster(MemoryApi):
    """An API server with one namespace, which serves policies if the test says so; `lists` False: it lists none."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.serves = False
        self.serves_exceptions = False
        self.lists = True
        self.down = False
        annotations = {"example.com/gpus": "8", "example.com/pods": "4", "example.com/long": "x" * 1000}
        self.put("namespaces", "team-a", "", metadata={"namespace": "", "labels": TEAM, "annotations": annotations})

    async def send(self, request: Request) -> Response:
        if request.path == GROUP:
            self.requests.append(request)
            if self.down:
                return Response(500, {}, status_body(500))
            names = [{"name": "jobsetpolicies"}, *[{"name": "jobsetpolicyexceptions"}] * self.serves_exceptions]
            if self.serves:
                return Response(200, {}, json.dumps({"resources": names}).encode())
            return Response(404, {}, status_body(404))
        if not self.lists and request.path.endswith("/jobsetpolicies"):
            return Response(403, {}, status_body(403))
        return await super().send(request)

    def add(self, name: str, **rules: Any) -> None:
        body = manifest(name, **(rules or {"maxJobs": {"max": 1}}))
        self.put("jobsetpolicies", name, "", metadata={"namespace": ""}, spec=body["spec"])

    def asked(self, path: str) -> int:
        return len([request for request in self.requests if request.path == path])


@contextlib.asynccontextmanager
async def running(cluster: Cluster, *others: Companion) -> AsyncIterator[PolicyWatches]:
    watches = PolicyWatches(Client(cluster), companions=others, pauses=SHORT)
    async with beside(watches.run()):
        yield watches


def names(watches: PolicyWatches) -> list[str]:
    return [policy.metadata.name for policy in watches.in_force]


async def from_cache(cluster: Cluster, watches: PolicyWatches) -> Namespace:
    """The namespace, once it is read without a request."""
    async with asyncio.timeout(5):
        while True:
            before = len(cluster.requests)
            found = await watches.namespace("team-a")
            if len(cluster.requests) == before:
                return found
            await asyncio.sleep(0.005)


async def test_without_the_crd_nothing_is_watched():
    cluster = Cluster()
    async with running(cluster) as watches:
        await watches.wait_settled(5)
        await until(lambda: cluster.asked(GROUP) > 3)
        assert names(watches) == []
    assert {request.path for request in cluster.requests} == {GROUP}


async def test_a_crd_that_is_installed_and_removed_later_is_noticed():
    cluster, alongside = Cluster(), []

    async def beside() -> None:
        alongside.append("runs")
        try:
            await asyncio.Event().wait()
        finally:
            alongside.append("ends")

    async with running(cluster, beside) as watches:
        await watches.wait_settled(5)
        cluster.add("b")
        cluster.add("a")
        cluster.serves = True
        await until(lambda: names(watches) == ["a", "b"])
        assert alongside == ["runs"]
        cluster.serves = False
        await until(lambda: alongside == ["runs", "ends"] and names(watches) == [])
        quiet = cluster.asked("/api/v1/namespaces")
        await until(lambda: cluster.asked(GROUP) > 20)
        assert cluster.asked("/api/v1/namespaces") == quiet


async def test_policies_that_are_created_changed_and_deleted_are_in_force_and_out_again():
    cluster = Cluster()
    cluster.serves = True
    async with running(cluster) as watches:
        await watches.wait_settled(5)
        cluster.add("a")
        await until(lambda: names(watches) == ["a"])
        cluster.add("a", maxJobs={"max": 7})
        await until(lambda: [policy.spec.rules.max_jobs.max for policy in watches.in_force] == [7])
        cluster.drop("jobsetpolicies", "a", "")
        await until(lambda: names(watches) == [])


async def test_a_start_without_an_answer_or_without_the_right_to_list_ends_with_the_reason():
    cluster = Cluster()
    cluster.down = True
    async with running(cluster) as watches:
        with pytest.raises(SyncTimeoutError, match=r"jobsetpolicies\.policy\.jobset\.x-k8s\.io: not known .*: "):
            await watches.wait_settled(0.1)
        cluster.lists, cluster.streaming, cluster.serves, cluster.down = False, False, True, False
        with pytest.raises(SyncTimeoutError, match="not listed after"):
            await watches.wait_settled(0.3)
        cluster.serves = False
        await watches.wait_settled(5)


async def test_of_annotations_only_those_are_kept_that_policies_read():
    cluster = Cluster()
    cluster.serves = True
    async with running(cluster) as watches:
        await watches.wait_settled(5)
        assert await watches.namespace("team-a") == Namespace("team-a", TEAM)
        cluster.add("a", maxTotals={"resources": [{"name": "gpus", "fromNamespaceAnnotation": "example.com/gpus"}]})
        await until(lambda: names(watches) == ["a"])
        assert await watches.namespace("team-a") == Namespace("team-a", TEAM, {"example.com/gpus": "8"})
        assert (await from_cache(cluster, watches)).annotations == {"example.com/gpus": "8"}
        cluster.add("b", maxJobs={"fromNamespaceAnnotation": "example.com/pods"})
        await until(lambda: names(watches) == ["a", "b"])
        both = {"example.com/gpus": "8", "example.com/pods": "4"}
        assert (await watches.namespace("team-a")).annotations == both
        assert (await from_cache(cluster, watches)).annotations == both
        assert cluster.asked("/api/v1/namespaces") == 3  # one more for each new annotation


async def test_exceptions_are_known_by_namespace_while_they_are_served():
    cluster = Cluster()
    cluster.serves = True
    cluster.add("a")
    cluster.put("jobsetpolicyexceptions", "big", "team-a", spec=exception()["spec"])
    cluster.put("jobsetpolicyexceptions", "other", "team-b", spec=exception()["spec"])
    async with running(cluster) as watches:
        await watches.wait_settled(5)
        assert watches.exceptions("team-a") == []
        cluster.serves_exceptions = True
        await until(lambda: [each.metadata.name for each in watches.exceptions("team-a")] == ["big"])
        assert names(watches) == ["a"]
        cluster.drop("jobsetpolicyexceptions", "big", "team-a")
        await until(lambda: watches.exceptions("team-a") == [])
        cluster.serves = False
        await until(lambda: watches.exceptions("team-b") == [] and names(watches) == [])


async def test_a_start_waits_for_exceptions_too():
    cluster = Cluster()
    cluster.serves = cluster.serves_exceptions = True
    cluster.put("jobsetpolicyexceptions", "big", "team-a", spec=exception()["spec"])
    async with running(cluster) as watches:
        await watches.wait_settled(5)
        assert len(watches.exceptions("team-a")) == 1


async def test_a_namespace_that_is_too_new_for_the_cache_is_read():
    cluster = Cluster()
    watches = PolicyWatches(Client(cluster), pauses=SHORT)
    assert await watches.namespace("team-a") == Namespace("team-a", TEAM)
    with pytest.raises(NotFound):
        await watches.namespace("nowhere")
    assert issubclass(NotFound, KubeError)


@pytest.mark.looptime
async def test_the_log_says_how_many_are_in_force_when_that_changes(caplog):
    caplog.set_level(logging.INFO, "webhooks.policy.watches")
    cluster = Cluster()
    cluster.serves = True
    cluster.add("one")
    watches = [PolicyWatches(Client(cluster)), PolicyWatches(Client(cluster), logs_policy_count=False)]
    running = [asyncio.create_task(each.run()) for each in watches]
    await watches[0].wait_settled(5)
    await asyncio.sleep(0.1)

    def said() -> list[str]:
        return [record.getMessage() for record in caplog.records if "in force" in record.getMessage()]

    assert said() == ["policies are in force: 1"]
    for name in ("two", "three", "four"):
        cluster.add(name)
        await asyncio.sleep(0.1)
    await asyncio.sleep(PAUSES.between_count_logs)
    assert said()[1:] == ["policies are in force: 4"], "a change of many is one line"
    cluster.add("four", maxJobs={"max": 2})
    await asyncio.sleep(3 * PAUSES.between_count_logs)
    assert len(said()) == 2, "the number is the same"
    cluster.drop("jobsetpolicies", "four", "")
    await asyncio.sleep(PAUSES.between_count_logs)
    assert said()[2:] == ["policies are in force: 3"]
    for task in running:
        task.cancel()
