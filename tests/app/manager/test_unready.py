"""A manager that is not ready says why at its lease, as often as is needed, and not while another one leads."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from api.keys import NOT_READY
from app.health import Health, fails, passes
from app.manager.unready import CHECK_PERIOD, MAX_CHARACTERS, REWRITE_SECONDS, note_unready
from kube import clock
from kube.client import Client
from kube.leader import LeaderElector, LeaseConfig
from tests.support.model.memory_api import MemoryApi

pytestmark = pytest.mark.looptime

LEASE = LeaseConfig(namespace="ns", name="lock")


def said(api: MemoryApi) -> str:
    found = [lease["metadata"].get("annotations") or {} for lease in api.objects("leases").values()]
    return found[0].get(NOT_READY, "") if found else ""


def writes(api: MemoryApi) -> int:
    return sum(request.verb in {"create", "patch"} for request in api.requests)


@asynccontextmanager
async def noting(api: MemoryApi, fault: str) -> AsyncIterator[Health]:
    health = Health()
    health.set_readiness("caches", fails(fault))
    health.set_readiness("rights", fails(fault))
    task = asyncio.create_task(note_unready(Client(api), health, LEASE))
    try:
        yield health
    finally:
        task.cancel()


async def test_the_reason_is_noted_every_half_minute_until_it_is_ready():
    api = MemoryApi()
    async with noting(api, "pods not listed yet") as health:
        await asyncio.sleep(CHECK_PERIOD - 1)
        assert writes(api) == 0, "most managers are ready by then"
        await asyncio.sleep(2)
        assert said(api).endswith(": pods not listed yet"), "what two checks say stands there once"
        before = writes(api)
        await asyncio.sleep(REWRITE_SECONDS - CHECK_PERIOD)
        assert writes(api) == before
        await asyncio.sleep(2 * CHECK_PERIOD)
        assert writes(api) == before + 1, "a new time"
        health.set_readiness("caches", passes)
        health.set_readiness("rights", passes)
        await asyncio.sleep(2 * REWRITE_SECONDS)
        assert writes(api) == before + 2
        assert said(api) == "", "it takes it away"
        api.put("leases", "lock", metadata={"annotations": {NOT_READY: "of a manager that is gone"}}, spec={})
        elector = LeaderElector(Client(api), replace(LEASE, cleared_annotations=(NOT_READY,)), identity="me")
        leading = asyncio.create_task(elector.lead(asyncio.Event().wait))
        await asyncio.sleep(LEASE.retry_period)
        assert said(api) == "", "who leads takes it away"
        leading.cancel()


@pytest.mark.parametrize(("holder", "noted"), [("other", False), ("", True)])
async def test_a_leader_is_not_disturbed(holder: str, noted: bool):
    api = MemoryApi()
    api.put("leases", "lock", spec={"holderIdentity": holder, "renewTime": clock.micro_time(clock.now())})
    async with noting(api, "pods not listed yet"):
        await asyncio.sleep(CHECK_PERIOD + 1)
        assert bool(said(api)) is noted


async def test_what_is_noted_is_bounded():
    api = MemoryApi()
    async with noting(api, "x" * 10_000):
        await asyncio.sleep(CHECK_PERIOD + 1)
        assert MAX_CHARACTERS < len(said(api)) < MAX_CHARACTERS + 100
