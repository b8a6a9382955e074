"""A replica whose machine answers no connection is taken out of the Service of the webhooks; one that answers stays."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from api.keys import MANAGER_SELECTOR
from kube.client import Client
from kube.peers import CHECK_PERIOD, LIST_PERIOD, MAX_MISSED_ANSWERS, is_reachable, watch_peers
from tests.support.beside import beside
from tests.support.model.memory_api import MemoryApi, refuse

LABEL, _, VALUE = MANAGER_SELECTOR.partition("=")


def replica(api: MemoryApi, name: str, address: str, ready: str = "True", labels: dict[str, str] | None = None) -> None:
    status = {"podIP": address, "conditions": [{"type": "Ready", "status": ready}]}
    api.put("pods", name, status=status, metadata={"labels": {LABEL: VALUE} if labels is None else labels})


def ready_of(api: MemoryApi, name: str) -> Any:
    [pod] = [pod for (_, found), pod in api.objects("pods").items() if found == name]
    return next(each for each in pod["status"]["conditions"] if each["type"] == "Ready")


@contextlib.asynccontextmanager
async def watching(api: MemoryApi, answering: set[str], silence: float = 0) -> AsyncIterator[list[str]]:
    """Looks at the replicas for the length of the block; gives the addresses that are asked.

    So many seconds pass until it is clear that one does not answer.
    """
    asked = []

    async def probe(address: str) -> bool:
        asked.append(address)
        if address not in answering:
            await asyncio.sleep(silence)
        return address in answering

    async with beside(watch_peers(Client(api), "ns", MANAGER_SELECTOR, probe)):
        yield asked


@pytest.mark.looptime
async def test_a_replica_that_answers_no_more_is_marked_and_one_that_answers_is_not():
    api, answering = MemoryApi(), {"10.0.0.1", "10.0.0.2"}
    replica(api, "gone", "10.0.0.1")
    replica(api, "well", "10.0.0.2")
    async with watching(api, answering):
        await asyncio.sleep(2 * CHECK_PERIOD + 1)
        answering.remove("10.0.0.1")
        await asyncio.sleep((MAX_MISSED_ANSWERS - 1) * CHECK_PERIOD)
        assert ready_of(api, "gone")["status"] == "True", "a lost packet is nothing"
        await asyncio.sleep(CHECK_PERIOD)
    assert (ready_of(api, "gone")["status"], ready_of(api, "gone")["reason"]) == ("False", "NoAnswer")
    assert ready_of(api, "well")["status"] == "True"


@pytest.mark.looptime
@pytest.mark.parametrize("code", [403, 503])
async def test_a_list_that_fails_leaves_the_missed_answers_of_the_known_replicas(code):
    api, answering = MemoryApi(), {"10.0.0.1"}
    replica(api, "gone", "10.0.0.1")
    async with watching(api, answering):
        await asyncio.sleep(LIST_PERIOD - CHECK_PERIOD - 1)
        answering.clear()
        api.answering = refuse(code, verb="list")
        await asyncio.sleep(2 * LIST_PERIOD)
    assert ready_of(api, "gone")["status"] == "False"


@pytest.mark.looptime
async def test_where_a_network_policy_keeps_replicas_apart_none_is_marked():
    api = MemoryApi()
    replica(api, "other", "10.0.0.1")
    async with watching(api, set()):
        await asyncio.sleep(10 * LIST_PERIOD)
    assert ready_of(api, "other")["status"] == "True"


@pytest.mark.looptime
async def test_other_pods_this_one_and_those_that_are_not_ready_are_left_alone():
    api = MemoryApi()
    replica(api, socket.gethostname(), "10.0.0.1")
    replica(api, "starts", "10.0.0.2", ready="False")
    replica(api, "stranger", "10.0.0.3", labels={})
    async with watching(api, set()) as asked:
        await asyncio.sleep(LIST_PERIOD)
    assert asked == []


@pytest.mark.looptime
async def test_it_asks_the_api_server_every_ten_seconds_while_all_is_well():
    api = MemoryApi()
    replica(api, "well", "10.0.0.2")
    async with watching(api, {"10.0.0.2"}):
        await asyncio.sleep(10 * LIST_PERIOD - 1)
    assert [request.verb for request in api.requests] == ["list"] * 10


@pytest.mark.looptime
async def test_a_new_replica_is_asked_in_time_beside_one_that_never_answers():
    """As after a rollout: pods that have just ended are still listed, and nothing answers at their addresses."""
    api = MemoryApi()
    replica(api, "ended", "10.0.0.1")
    async with watching(api, {"10.0.0.2"}, silence=CHECK_PERIOD) as asked:
        await asyncio.sleep(1)
        replica(api, "new", "10.0.0.2")
        await asyncio.sleep(LIST_PERIOD + 2 * CHECK_PERIOD)
        assert "10.0.0.2" in asked


async def test_a_port_that_refuses_connections_is_an_answer():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        assert await is_reachable("127.0.0.1", free.getsockname()[1])


async def test_a_port_that_takes_connections_is_an_answer():
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert await is_reachable("127.0.0.1", server.getsockname()[1])
