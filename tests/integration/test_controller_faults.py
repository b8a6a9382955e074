"""The JobSet controller on a real API server through a client that fails one call in five, in every way there is.

The test plays the Job controller and the garbage collector, which an API server alone does not have.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from api.features import FeatureGates
from controllers.jobset.controller import JobSetReconciler
from controllers.jobset.endings import Endings
from controllers.jobset.watches import Watches
from controllers.resources import JOBSETS
from dev.cluster.cluster import Cluster
from kube.client import Client
from kube.config import load
from kube.controller import Controller, Request
from kube.resources import JOBS
from kube.transport import HttpTransport, Response
from kube.transport import Request as Call
from kube.workqueue import WorkQueue
from tests.support.cluster.jobs import group, manifest
from tests.support.cluster.requests import eventually
from tests.support.model.faults import Answer, Cut, Fault, FaultyTransport, LostAnswer, LostRequest, Refused
from tests.support.model.tally import Tally

NOW = "2026-01-01T00:00:00Z"
FAULTS: tuple[Fault, ...] = (
    Answer(409),
    Answer(429, retry_after=0),
    Answer(500),
    Answer(503),
    LostAnswer(),
    LostRequest(),
    Refused(),
)


class HastyTransport(FaultyTransport):
    """Gives up on an answer after a second, so that a lost one does not cost the test half a minute."""

    async def send(self, request: Call) -> Response:
        return await super().send(replace(request, timeout=1.0))


class Outcomes:
    """Events and outcomes are not what this is about; outcomes are counted."""

    def __init__(self) -> None:
        self.outcomes: list[str] = []

    def record(self, *_: Any, **__: Any) -> None:
        pass

    def forget(self, *_: str) -> None: ...
    def on_seconds(self, *_: int) -> None: ...

    def on_end(self, _namespace: str, _name: str, state: str) -> None:
        self.outcomes.append(state)


@asynccontextmanager
async def controller(transport: FaultyTransport) -> AsyncIterator[Outcomes]:
    """A JobSet controller over that transport for the length of the block."""
    client, silent = Client(transport), Outcomes()
    watches, queue = Watches(client, FeatureGates()), WorkQueue[Request]()
    reconciler = JobSetReconciler(client, watches.caches(), FeatureGates(), silent, Tally())
    loop = Controller("jobset", queue, reconciler.reconcile, workers=2)
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(watches.run())
        await watches.wait_synced(60)
        watches.jobsets.on_event(Endings(silent, reconciler.memories).on_event)
        watches.feed(queue)
        tasks.create_task(loop.run())
        yield silent
        queue.shutdown()
        watching.cancel()


class Bystander:
    """The test's own undisturbed view, and its part as Job controller and garbage collector."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace

    async def jobset(self) -> dict[str, Any]:
        return await self.client.get(JOBSETS, "js", namespace=self.namespace)

    async def jobs(self) -> list[dict[str, Any]]:
        """Living Jobs; those in deletion are collected on the way."""
        page = await self.client.list(JOBS, namespace=self.namespace)
        living = []
        for job in page.items or []:
            if "deletionTimestamp" in job["metadata"]:
                patch = {"metadata": {"finalizers": None}}
                await self.client.patch(JOBS, job["metadata"]["name"], patch, namespace=self.namespace)
            else:
                living.append(job)
        return living

    async def attempt(self, number: int, count: int) -> bool:
        """Whether exactly the Jobs of that attempt live, so many of them."""
        labels = [job["metadata"]["labels"]["jobset.sigs.k8s.io/restart-attempt"] for job in await self.jobs()]
        return labels == [str(number)] * count

    async def end(self, job: str, first: str, last: str, **status: Any) -> None:
        """Set the two conditions with which the Job controller ends a Job."""
        conditions = [
            {"type": kind, "status": "True", "reason": "Test", "lastTransitionTime": NOW} for kind in (first, last)
        ]
        body = {"status": {"startTime": NOW, "conditions": conditions, "uncountedTerminatedPods": {}, **status}}
        await self.client.patch(JOBS, job, body, namespace=self.namespace, subresource="status")


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
async def test_a_failing_client_changes_nothing_about_the_end(jobset_server: Cluster, namespace: str, seed: int):
    dice = random.Random(seed)  # noqa: S311 - reproducible on purpose

    def choose(call: Call) -> Fault | None:
        watching = call.verb == "watch"
        if dice.random() > (0.05 if watching else 0.2):
            return None
        if watching:
            return dice.choice([Cut(after=3), Cut(after=2, broken=True), Cut(after=1, expire=True)])
        return dice.choice(FAULTS)

    credentials = await load(str(jobset_server.kubeconfig))
    inner, own = (HttpTransport(credentials, user_agent="jobset/faults") for _ in range(2))
    test = Bystander(Client(own), namespace)
    faulty = HastyTransport(inner, choose=choose)
    try:
        async with controller(faulty) as seen:
            body = manifest(group(replicas=8), failurePolicy={"maxRestarts": 2}, network={"enableDNSHostnames": True})
            await test.client.create(JOBSETS, body, namespace=namespace)
            await eventually(lambda: test.attempt(0, 8), timeout=60, what="eight Jobs")
            await test.end("js-workers-3", "FailureTarget", "Failed")
            await eventually(lambda: test.attempt(1, 8), timeout=60, what="eight new Jobs")
            for job in await test.jobs():
                name = job["metadata"]["name"]
                await test.end(name, "SuccessCriteriaMet", "Complete", succeeded=1, completionTime=NOW)
            await eventually(
                lambda: _state(test, "Completed"), timeout=60, what=f"the end, after {len(faulty.calls)} calls"
            )
            await eventually(lambda: _counted(seen), timeout=60, what="the watch event of the end")
        status = (await test.jobset())["status"]
        assert (status["restarts"], status["restartsCountTowardsMax"]) == (1, 1)
        assert seen.outcomes == ["Completed"], "counted once, also when the answer was lost"
        assert await test.attempt(1, 8), "nothing was created or deleted after the end"
    finally:
        await faulty.close()
        await own.close()


async def _state(test: Bystander, state: str) -> bool:
    return (await test.jobset()).get("status", {}).get("terminalState") == state


async def _counted(seen: Outcomes) -> bool:
    return bool(seen.outcomes)
