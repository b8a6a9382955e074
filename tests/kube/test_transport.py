"""The real transport against a local HTTP server: limits, timeouts, credentials, lines."""

import asyncio
import base64
import contextlib

import pytest
from aiohttp import web
from multidict import CIMultiDict

from kube.client import Client
from kube.config import load
from kube.errors import ApiError, Forbidden, ServerError, TransportError, Unauthorized
from kube.resources import PODS
from kube.transport import MAX_IN_FLIGHT, HttpTransport, Request, RequestLimits
from tests.kube.test_config import write
from tests.support.tls import context_with, material


class Metrics:
    def __init__(self):
        self.reported = []

    def on_request(self, code, method, host):
        self.reported.append((code, method, host.split(":")[0]))


@contextlib.asynccontextmanager
async def serving(tmp_path, handler, *, user=None, cluster=None, tls=None, **options):
    """A server that answers every request with `handler`, and a transport to it."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]
    server = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    config = write(tmp_path / "config", server=server, user=user, cluster=cluster)
    transport = HttpTransport(await load(str(config)), user_agent="jobset/test", **options)
    try:
        yield transport
    finally:
        await transport.close()
        await runner.cleanup()


async def read(transport, got, **fields) -> None:
    """Read a stream to its end into `got`."""
    async with transport.stream(get(**fields)) as lines:
        async for line in lines:
            got.append(line)


def get(path="/x", **fields) -> Request:
    return Request(method="GET", path=path, verb="get", **fields)


async def test_what_goes_on_the_wire(tmp_path):
    seen = {}

    async def handler(request):
        seen.update(request.headers)
        seen.update(target=request.path_qs, body=await request.read(), method=request.method)
        return web.Response(status=201, body=b"{}", headers={"Retry-After": "3"})

    metrics = Metrics()
    async with serving(tmp_path, handler, metrics=metrics) as transport:
        request = Request(
            method="PATCH",
            path="/a/b",
            verb="patch",
            query=(("labelSelector", "a in (b, c),d!=e/f"), ("x", "1")),
            body=b'{"raw": 1e2}',
            content_type="application/merge-patch+json",
        )
        response = await transport.send(request)
    assert (response.status, response.body, response.headers["retry-after"]) == (201, b"{}", "3")
    assert (seen["method"], seen["body"]) == ("PATCH", b'{"raw": 1e2}'), "the body is passed through untouched"
    assert seen["Content-Type"] == "application/merge-patch+json"
    assert seen["User-Agent"] == "jobset/test"
    assert seen["Authorization"] == "Bearer abc"
    assert metrics.reported == [("201", "PATCH", "127.0.0.1")]


async def test_no_answer_in_time_leaves_the_outcome_unknown(tmp_path):
    async def handler(_):
        await asyncio.sleep(30)

    metrics = Metrics()
    async with serving(tmp_path, handler, metrics=metrics) as transport:
        with pytest.raises(TransportError, match=r"get /x: no answer in 0\.05 s") as caught:
            await transport.send(get(timeout=0.05))
    assert caught.value.sent
    assert metrics.reported == [("<error>", "GET", "127.0.0.1")]


async def test_a_refused_connection_was_never_sent(tmp_path):
    async def handler(_):
        return web.Response()

    async with serving(tmp_path, handler) as transport:
        pass
    config = write(tmp_path / "config", server="http://127.0.0.1:1")
    transport = HttpTransport(await load(str(config)), user_agent="x")
    with pytest.raises(TransportError) as caught:
        await transport.send(Request(method="POST", path="/x", verb="create", body=b"{}"))
    await transport.close()
    assert not caught.value.sent


async def test_a_connection_that_breaks_after_a_post_is_not_tried_again(tmp_path):
    seen = []

    async def handler(request):
        seen.append(request.method)
        request.transport.close()
        return web.Response()

    async with serving(tmp_path, handler) as transport:
        with pytest.raises(TransportError) as caught:
            await Client(transport).create(PODS, {}, namespace="ns")
    assert caught.value.sent
    assert seen == ["POST"]


async def test_a_401_renews_the_credentials_once(tmp_path):
    token = tmp_path / "token"
    token.write_text("old")
    seen = []

    async def handler(request):
        seen.append(request.headers["Authorization"])
        return web.Response(status=200 if seen[-1] == "Bearer new" else 401, body=b"{}")

    async with serving(tmp_path, handler, user={"tokenFile": str(token)}) as transport:
        token.write_text("new")
        assert (await transport.send(get())).status == 200
        assert seen == ["Bearer old", "Bearer new"]
        token.write_text("wrong")
        await transport._credentials.renew(transport._credentials.generation)
        with pytest.raises(Unauthorized):
            await Client(transport).get(PODS, "a", namespace="ns")
        assert seen[2:] == ["Bearer wrong", "Bearer wrong"]


async def test_requests_in_flight_are_bounded_and_neither_watches_nor_leases_wait(tmp_path):
    running, peak, release = 0, 0, asyncio.Event()

    async def handler(request):
        nonlocal running, peak
        if request.path in {"/watch", "/lease"}:
            return web.Response(body=b"line\n")
        running += 1
        peak = max(peak, running)
        await release.wait()
        running -= 1
        return web.Response(body=b"{}")

    async with serving(tmp_path, handler, qps=10_000, burst=10_000) as transport, asyncio.TaskGroup() as group:
        tasks = [group.create_task(transport.send(get())) for _ in range(MAX_IN_FLIGHT + 20)]
        async with asyncio.timeout(20):
            while running < MAX_IN_FLIGHT:  # noqa: ASYNC110 - the server's own count
                await asyncio.sleep(0.01)
            await transport.send(get("/lease", limited=False))
            assert not group.create_task(transport.send(get(limits=RequestLimits(1, 1)))).done()
            while running == MAX_IN_FLIGHT:  # noqa: ASYNC110 - the same
                await asyncio.sleep(0.01)
            async with transport.stream(get("/watch")) as lines:
                assert [line async for line in lines] == [b"line"]
        assert not any(task.done() for task in tasks)
        release.set()
    assert peak == MAX_IN_FLIGHT + 1, "one with limits of its own waited for none of the others"


class TestStream:
    async def test_lines_are_whole_however_they_were_cut(self, tmp_path):
        async def handler(request):
            response = web.StreamResponse()
            await response.prepare(request)
            for chunk in (b'{"a"', b":1}\n{", b'"b":2}\n\n{"c":3}\n{"half', b""):
                await response.write(chunk)
                await asyncio.sleep(0.01)
            return response

        async with serving(tmp_path, handler) as transport, transport.stream(get()) as lines:
            assert [line async for line in lines] == [b'{"a":1}', b'{"b":2}', b'{"c":3}'], "half a line is no line"

    async def test_a_log_is_given_whole_and_long_lines_in_pieces(self, tmp_path):
        async def handler(request):
            response = web.StreamResponse()
            await response.prepare(request)
            for chunk in (b"one\ntw", b"o\n", b"y" * 5000, b"z\nno end"):
                await response.write(chunk)
                await asyncio.sleep(0.01)
            return response

        async with serving(tmp_path, handler) as transport, transport.stream(get(break_after=4000)) as lines:
            got = [line async for line in lines]
        assert [got[:2], got[-1]] == [[b"one", b"two"], b"no end"]
        assert b"".join(got[2:-1]) == b"y" * 5000 + b"z"
        assert len(got[2:-1]) > 1

    async def test_a_long_line_is_fine_and_an_endless_one_is_not(self, tmp_path):
        async def handler(request):
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b"x" * 3_000_000 + b"\n")
            for _ in range(100):
                await response.write(b"y" * 100_000)
            return response

        got = []
        async with serving(tmp_path, handler, max_line=5_000_000) as transport:
            with pytest.raises(TransportError, match="longer than 5000000 bytes"):
                await read(transport, got)
        assert [len(line) for line in got] == [3_000_000]

    @pytest.mark.parametrize(
        ("cut", "said"),
        [
            pytest.param(False, r"no answer in 0\.1 s", id="without data it is ended"),
            pytest.param(True, "get /x", id="a broken connection is a transport error"),
        ],
    )
    async def test_a_stream_that_does_not_go_on(self, tmp_path, cut, said):
        async def handler(request):
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b"one\n")
            if cut:
                request.transport.close()
            else:
                await asyncio.sleep(30)
            return response

        got = []
        async with serving(tmp_path, handler) as transport:
            with pytest.raises(TransportError, match=said):
                await read(transport, got, timeout=0.1)
        assert cut or got == [b"one"]

    @pytest.mark.parametrize(("status", "kind"), [(403, Forbidden), (500, ServerError)])
    async def test_an_error_status_is_an_api_error(self, tmp_path, status, kind):
        async def handler(_):
            return web.json_response({"kind": "Status", "message": "no", "code": status}, status=status)

        async with serving(tmp_path, handler) as transport:
            with pytest.raises(kind, match=r"get /x: .*no"):
                await read(transport, [])


@pytest.mark.parametrize("code", [200, 422])
async def test_warnings_of_the_api_server_reach_the_caller(tmp_path, code):
    async def answer(_):
        sent = CIMultiDict()
        sent.add("Warning", '299 - "one, with a \\"quote\\" and a \\\\"')
        sent.add("Warning", '299 kube "two"')
        sent.add("Warning", '199 - "of a proxy"')
        return web.json_response({}, status=code, headers=sent)

    heard: list[str] = ["before"]
    async with serving(tmp_path, answer) as transport:
        client = Client(transport)
        with contextlib.nullcontext() if code == 200 else pytest.raises(ApiError):
            await client.create(PODS, {}, namespace="ns", dry_run=True, warnings=heard)
    assert heard == ["before", 'one, with a "quote" and a \\', "two"]


async def test_after_closing_no_connection_is_left_that_was_cut_off_in_the_middle(tmp_path):
    """A TLS connection is closed in two steps; the second needs the event loop, which may end with the caller."""

    async def endless(request):
        answer = web.StreamResponse()
        await answer.prepare(request)
        with contextlib.suppress(ConnectionError):
            while True:
                await answer.write(b"{}\n" * 1000)
                await asyncio.sleep(0)
        return answer

    pair = material()
    authority = base64.b64encode(pair.authorities).decode()
    async with serving(
        tmp_path, endless, tls=context_with(pair), cluster={"certificate-authority-data": authority}
    ) as t:
        async with t.stream(get()) as lines:
            await anext(lines)
            [opened] = t._sockets
        assert opened.fileno() >= 0
        await t.close()
        assert opened.fileno() == -1


async def test_a_guard_is_asked_when_a_write_is_sent_and_not_before(tmp_path):
    """A write that waits for its turn may become one that must not be sent any more."""
    seen, allowed = [], [True]

    async def handler(request):
        seen.append(request.method)
        return web.json_response({"metadata": {}})

    def guard() -> None:
        if not allowed[0]:
            raise PermissionError("not any more")

    async with serving(tmp_path, handler, qps=10, burst=1) as transport:
        client = Client(transport).with_guard(guard)
        await client.create(PODS, {"metadata": {"name": "a"}}, namespace="ns")
        waiting = asyncio.create_task(client.create(PODS, {"metadata": {"name": "b"}}, namespace="ns"))
        await asyncio.sleep(0)
        allowed[0] = False
        with pytest.raises(PermissionError, match="not any more"):
            await waiting
        await client.get(PODS, "a", namespace="ns")
    assert seen == ["POST", "GET"]
