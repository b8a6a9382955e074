"""An API server that is away when the manager starts: it is waited for, but not what only a person can put right."""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from api.features import FeatureGates
from app.manager.api_server import Waiting, await_jobsets
from app.manager.options import Options, StartError
from app.manager.run import run
from app.settings_file import parse
from dev.local import free_port
from kube.client import Client
from kube.config import load
from kube.errors import Forbidden, TransportError, Unauthorized
from kube.transport import HttpTransport
from tests.kube.test_config import write
from tests.support.cluster.requests import eventually
from tests.support.serving import fetch
from tests.support.tls import context_with, material, until

QUICK = Waiting(first_pause=0.01, longest_pause=0.05, log_every=60)
SERVED = {"resources": [{"name": "jobsets"}]}


@contextlib.asynccontextmanager
async def answering(port: int, *answers: int | dict[str, Any], tls: Any = None) -> AsyncIterator[None]:
    """A server that gives these answers in turn, a status or a body, and from then on the last one."""
    left = list(answers)

    async def answer(_request: web.Request) -> web.Response:
        found = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(found, int):
            return web.json_response({"kind": "Status", "code": found, "message": "as asked"}, status=found)
        return web.json_response(found)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls).start()
    try:
        yield
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def client(tmp_path: Path, port: int, scheme: str = "http") -> AsyncIterator[Client]:
    config = write(tmp_path / "kubeconfig", server=f"{scheme}://127.0.0.1:{port}")
    transport = HttpTransport(await load(str(config)), user_agent="jobset/test")
    try:
        yield Client(transport)
    finally:
        await transport.close()


async def test_a_server_that_comes_later_is_waited_for(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    port = free_port()
    async with client(tmp_path, port) as asking:
        waiting = asyncio.create_task(await_jobsets(asking, QUICK))
        await until(lambda: "waiting for the API server" in caplog.text)
        assert str(port) in caplog.text
        async with answering(port, 500, 503, 429, SERVED):
            await asyncio.wait_for(waiting, 30)
    assert caplog.text.count("waiting for the API server") == 1, "it is not said at each attempt"
    assert "the API server answers after" in caplog.text


async def test_while_it_waits_it_is_said_again_now_and_then(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    async with client(tmp_path, free_port()) as asking:
        waiting = asyncio.create_task(await_jobsets(asking, Waiting(0.01, 0.01, log_every=0.02)))
        await until(lambda: caplog.text.count("waiting for the API server") > 2)
        waiting.cancel()


@pytest.mark.parametrize("first", [401, 503, {"resources": []}])
async def test_a_process_of_admission_leaves_it_to_the_manager_to_say_what_is_wrong(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, first: Any
):
    port = free_port()
    async with answering(port, first, first, SERVED), client(tmp_path, port) as asking:
        await asyncio.wait_for(await_jobsets(asking, QUICK, is_worker=True), 30)
    assert "the API server" not in caplog.text


async def test_the_pauses_grow_up_to_a_bound():
    pauses = Waiting(first_pause=1, longest_pause=5).pauses()
    assert [next(pauses) for _ in range(5)] == [1, 2, 4, 5, 5]


@pytest.mark.parametrize(
    ("code", "error", "says"),
    [(401, Unauthorized, "401"), (403, Forbidden, "403"), (404, StartError, "does not serve jobsets")],
)
async def test_refused_credentials_and_a_server_without_jobsets_are_errors_at_once(
    tmp_path: Path, code: int, error: type[Exception], says: str
):
    port = free_port()
    async with answering(port, code), client(tmp_path, port) as asking:
        with pytest.raises(error, match=says):
            await asyncio.wait_for(await_jobsets(asking, QUICK), 30)


async def test_a_server_with_a_certificate_of_another_ca_is_an_error_at_once(tmp_path: Path):
    port = free_port()
    async with answering(port, SERVED, tls=context_with(material())), client(tmp_path, port, "https") as asking:
        with pytest.raises(TransportError, match="certificate"):
            await asyncio.wait_for(await_jobsets(asking, QUICK), 30)


async def test_a_manager_that_waits_is_alive_and_not_ready(tmp_path: Path):
    probes = free_port()
    given = {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"127.0.0.1:{probes}"},
        "metrics": {"bindAddress": "0"},
    }
    port = free_port()
    config = write(tmp_path / "kubeconfig", server=f"http://127.0.0.1:{port}")
    options = Options(parse(json.dumps(given)), FeatureGates(), kubeconfig=str(config), webhooks=False)

    async def says(path: str) -> str:
        with contextlib.suppress(OSError):
            return (await fetch(f"http://127.0.0.1:{probes}/{path}"))[1]
        return ""

    manager = asyncio.create_task(run(options, asyncio.Event()))
    async with asyncio.timeout(30):
        assert await eventually(partial(says, "healthz")) == "ok"
        assert "[-]crd failed" in await says("readyz")
        assert not manager.done()
        async with answering(port, 403):
            named = rf"as asked.*; this is http://127\.0\.0\.1:{port} \(kubeconfig {config}, context 'dev'\)"
            with pytest.raises(StartError, match=named):
                await manager
