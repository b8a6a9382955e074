"""Requests are counted for the work that they were sent for, and for no other."""

import asyncio

from aiohttp import web

from kube.calls import count_request, counting
from kube.client import Client
from kube.resources import PODS
from tests.kube.test_transport import get, serving


async def test_tasks_count_for_the_work_that_started_them():
    async def child() -> None:
        await asyncio.sleep(0)
        count_request()

    async def work(tasks: int) -> int:
        with counting() as calls:
            count_request()
            async with asyncio.TaskGroup() as group:
                for _ in range(tasks):
                    group.create_task(child())
        return calls.sent

    assert await asyncio.gather(work(0), work(3), work(50)) == [1, 4, 51]


async def test_requests_before_or_outside_the_counted_work_are_not_counted():
    go = asyncio.Event()

    async def background() -> None:
        await go.wait()
        count_request()

    async with asyncio.TaskGroup() as group:
        group.create_task(background())
        await asyncio.sleep(0)
        count_request()
        with counting() as calls:
            go.set()
            await asyncio.sleep(0)
        count_request()
    assert calls.sent == 0


async def test_work_inside_work_keeps_its_own_count():
    with counting() as outer:
        with counting() as inner:
            count_request()
        count_request()
        count_request()
    assert (outer.sent, inner.sent) == (2, 1)


async def test_every_request_on_the_wire_counts_retries_and_renewed_credentials_included(tmp_path):
    token = tmp_path / "token"
    token.write_text("old")
    seen = []

    async def handler(request):
        seen.append(request.headers["Authorization"])
        if len(seen) == 1:
            return web.Response(status=429, headers={"Retry-After": "0"}, body=b"{}")
        return web.Response(status=200 if seen[-1] == "Bearer new" else 401, body=b"{}")

    async with serving(tmp_path, handler, user={"tokenFile": str(token)}) as transport:
        token.write_text("new")
        with counting() as calls:
            await Client(transport).get(PODS, "a", namespace="ns")
        await transport.send(get())
    assert seen == ["Bearer old", "Bearer old", "Bearer new", "Bearer new"]
    assert calls.sent == 3


async def test_a_request_that_got_no_answer_counts_too(tmp_path):
    async def handler(request):
        request.transport.close()
        return web.Response()

    async with serving(tmp_path, handler) as transport:
        with counting() as calls:
            results = await asyncio.gather(
                *(transport.send(get(f"/{number}")) for number in range(5)), return_exceptions=True
            )
    assert all(isinstance(result, Exception) for result in results)
    assert calls.sent == 5
