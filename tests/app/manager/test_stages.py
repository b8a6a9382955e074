"""The start order and the stop, with the real stages on a model of the API server; and what a stage says that fails."""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from api.features import FeatureGates
from app.health import passes
from app.manager.endpoints import start_endpoints
from app.manager.options import Deps, Options, StartError
from app.manager.run import stages
from app.manager.supervisor import DEFAULT, Supervisor, supervise
from app.metrics import Metrics
from app.settings_file import parse
from certs.renewal import self_signed
from dev.local import free_port
from kube.client import Client
from kube.errors import from_response
from kube.transport import Request, Response
from tests.support.cluster.requests import eventually
from tests.support.model.faults import status_body
from tests.support.model.memory_api import MemoryApi
from tests.support.objects.jobsets import jobset, stored
from tests.support.serving import fetch, unverified
from tests.support.tls import until

NO_CRD = "[-]crd failed: the CRD of JobSets has not been found yet\n"
NO_CACHES = "[-]caches failed: the caches are not filled yet\n"
NO_RIGHTS = "[-]rights failed: the manager's rights are not known yet\n"
NOT_READY = (
    "[-]certificates failed: certificates are not ready\n[-]webhook failed: webhook server has not been started yet\n"
)


FORBIDDEN = status_body(403, "Forbidden", "services is forbidden: nobody may list them")


class Api(MemoryApi):
    """With a version, and discovery of JobSets if they are `installed`, answered while `discovery` is set.

    Jobs are created while `release` is set.
    """

    installed = True
    forbidden = ""
    """End of the paths that the manager has no right to."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.discovery = asyncio.Event()
        self.discovery.set()
        self.creating, self.release, self.cancelled = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.release.set()

    async def send(self, request: Request) -> Response:
        if request.path == "/version":
            return Response(200, {}, b'{"major": "1", "minor": "37"}')
        if request.path == "/apis/jobset.x-k8s.io/v1alpha2":
            await self.discovery.wait()
            names = [{"name": "jobsets"}] if self.installed else []
            return Response(200, {}, json.dumps({"resources": names}).encode())
        if self.forbidden and request.path.endswith(self.forbidden):
            return Response(403, {}, FORBIDDEN)
        if request.method == "POST" and request.path.endswith("/jobs"):
            self.creating.set()
            try:
                await self.release.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
        return await super().send(request)

    @contextlib.asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        if self.forbidden and request.path.endswith(self.forbidden):
            raise from_response(403, {}, FORBIDDEN, request.call)
        async with super().stream(request) as lines:
            yield lines


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    folder = tmp_path / "certs"
    folder.mkdir()
    return folder


def mount(folder: Path) -> None:
    for name, pem in zip(("tls.crt", "tls.key"), self_signed(), strict=True):
        (folder / name).write_bytes(pem)


def options(folder: Path, **more: Any) -> tuple[Options, int]:
    """Of a manager on the loopback interface, and the port of its probes."""
    port = free_port()
    given = {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "webhook": {"host": "127.0.0.1", "port": free_port(), "certDir": str(folder)},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{port}"},
        "metrics": {"bindAddress": "0"},
        "internalCertManagement": {"enable": False},
    }
    return Options(parse(json.dumps(given)), FeatureGates(), **more), port


@contextlib.asynccontextmanager
async def living(api: Api, options: Options) -> AsyncIterator[asyncio.Event]:
    """A manager, from its first stage to its end; the event stops it, at the latest at the end of the block."""
    stop = asyncio.Event()
    client, metrics = Client(api), Metrics()
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(supervise(lambda supervisor: stages(Deps(options, client, metrics, supervisor)), stop))
        try:
            yield stop
        finally:
            stop.set()


async def answer(port: int, status: int, path: str = "readyz") -> str:
    """What a probe says, once it answers with this status."""

    async def answered() -> str:
        with contextlib.suppress(aiohttp.ClientConnectionError):
            found, text = await fetch(f"http://127.0.0.1:{port}/{path}")
            return text if found == status else ""
        return ""

    return await eventually(answered)


def holder(api: Api) -> str:
    """Who has the lease."""
    leases = list(api.objects("leases").values())
    return leases[0]["spec"]["holderIdentity"] if leases else ""


async def test_from_the_first_probe_to_the_release_of_the_lease(
    api: Api, certificates: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    chosen, port = options(certificates)
    async with living(api, chosen) as stop:
        await answer(port, 200, "healthz")
        await answer(port, 200, "readyz/rights")
        ready = "[+]shutdown ok\n[+]crd ok\n"
        assert await answer(port, 500) == f"{ready}{NOT_READY}[+]rights ok\n{NO_CACHES}readyz check failed\n"
        assert holder(api) == "", "nobody leads who does not serve yet"
        mount(certificates)
        await answer(port, 200)
        api.put("jobsets", "train", **stored(jobset()))
        await until(lambda: bool(api.objects("jobs")))
        assert holder(api) != ""
        stop.set()
    assert holder(api) == ""
    order = ["webhooks serve on port", "caches are synced", "leads (lease", "reconciling with 8 workers", "stopping"]
    logged = [next(part for part in order if part in text) for text in caplog.messages if any(p in text for p in order)]
    assert logged == order


async def test_a_reconcile_that_runs_at_the_stop_ends(api: Api, certificates: Path) -> None:
    chosen, _ = options(certificates, webhooks=False)
    api.put("jobsets", "train", **stored(jobset()))
    api.release.clear()
    async with living(api, chosen) as stop:
        await api.creating.wait()
        stop.set()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(api.cancelled.wait(), 0.1)
        assert holder(api) != "", "it is held for as long as something runs"
        api.release.set()
    assert api.objects("jobs")
    assert not api.cancelled.is_set()
    assert holder(api) == ""


async def dialled(port: int) -> bool:
    """Whether the webhooks take a new connection and answer on it."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=unverified())
    except OSError:
        return False
    writer.write(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    head = await asyncio.wait_for(reader.read(), 5)
    writer.transport.abort()
    return head.startswith(b"HTTP/1.1 404 ")


async def kept(port: int) -> bool:
    """Whether the webhooks keep a new connection after an answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=unverified())
    writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
    writer.transport.abort()
    return b"connection: close" not in head


async def test_webhooks_still_accept_when_readiness_fails_and_then_no_more(api: Api, certificates: Path) -> None:
    mount(certificates)
    chosen, port = options(certificates)
    webhooks = chosen.settings.webhook.port
    async with living(api, chosen) as stop:
        await answer(port, 200)
        await until(lambda: holder(api) != "")
        assert await dialled(webhooks)
        assert await kept(webhooks)
        begun = time.monotonic()
        stop.set()
        await answer(port, 500)
        await until(lambda: holder(api) == "")
        while time.monotonic() - begun < DEFAULT.shutdown_delay / 2:
            assert await dialled(webhooks), "the API server may not know yet that this endpoint is gone"
            assert not await kept(webhooks), "nothing may be on its way on a connection when it is closed"
    assert time.monotonic() - begun < DEFAULT.shutdown_delay + DEFAULT.drain, "nothing had to be waited for"
    assert not await dialled(webhooks)


async def test_requests_are_counted_for_the_end_of_a_burst(
    api: Api, certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[Callable[[], int]] = []

    async def watch(requests: Callable[[], int]) -> None:
        counts.append(requests)
        await asyncio.Event().wait()

    monkeypatch.setattr("app.manager.admission.return_pages_after_bursts", watch)
    mount(certificates)
    chosen, port = options(certificates)
    async with living(api, chosen):
        await answer(port, 200)
        before = counts[0]()
        assert await kept(chosen.settings.webhook.port)
        assert counts[0]() == before + 1


async def test_a_stop_before_there_is_a_certificate_waits_for_nothing(api: Api, certificates: Path) -> None:
    chosen, port = options(certificates)
    async with living(api, chosen) as stop:
        await answer(port, 200, "healthz")
        begun = time.monotonic()
        stop.set()
    assert time.monotonic() - begun < DEFAULT.shutdown_delay


async def test_webhooks_only_fill_no_caches_and_want_no_lease(api: Api, certificates: Path) -> None:
    mount(certificates)
    chosen, port = options(certificates, controllers=False)
    async with living(api, chosen):
        await answer(port, 200)
    assert api.objects("leases") == {}
    assert not [request for request in api.requests if request.path.endswith("/jobs")]


async def test_controllers_only_are_ready_without_webhooks(api: Api, certificates: Path) -> None:
    chosen, port = options(certificates, webhooks=False)
    async with living(api, chosen):
        await until(lambda: holder(api) != "")
        assert (
            await answer(port, 200, "readyz?verbose")
            == "[+]shutdown ok\n[+]crd ok\n[+]rights ok\n[+]caches ok\nreadyz check passed\n"
        )


async def test_a_missing_right_to_list_keeps_it_from_being_ready_and_is_named(api: Api, certificates: Path) -> None:
    mount(certificates)
    api.forbidden = "/services"
    chosen, port = options(certificates)

    async def named() -> str:
        said = await answer(port, 500, "readyz/caches")
        return said if "services is forbidden" in said else ""

    async with living(api, chosen):
        said = await eventually(named)
        assert said.startswith("[-]caches failed: services not listed yet: ")
        api.forbidden = ""
        await answer(port, 200)


async def test_probes_say_that_the_manager_stops() -> None:
    chosen, port = options(Path("/nowhere"), webhooks=False)
    stop, stopping = asyncio.Event(), asyncio.Event()

    async def stage(supervisor: Supervisor) -> None:
        health = start_endpoints(Deps(chosen, Client(Api()), Metrics(), supervisor))
        for check in ("crd", "rights", "caches"):
            health.set_readiness(check, passes)
        supervisor.on_stop(lambda: None, ends_stages=True)
        await stopping.wait()

    async with asyncio.TaskGroup() as group:
        group.create_task(supervise(stage, stop))
        await answer(port, 200)
        stop.set()
        stopping_line = "[-]shutdown failed: the manager is stopping\n"
        assert await answer(port, 500) == f"{stopping_line}[+]crd ok\n[+]rights ok\n[+]caches ok\nreadyz check failed\n"
        stopping.set()


async def test_probes_answer_before_the_crd_is_looked_for(api: Api, certificates: Path) -> None:
    api.discovery.clear()
    chosen, port = options(certificates)
    async with living(api, chosen):
        await answer(port, 200, "healthz")
        assert (
            await answer(port, 500) == f"[+]shutdown ok\n{NO_CRD}{NOT_READY}{NO_RIGHTS}{NO_CACHES}readyz check failed\n"
        )


async def test_controllers_only_are_not_ready_before_the_crd_is_found(api: Api, certificates: Path) -> None:
    api.discovery.clear()
    chosen, port = options(certificates, webhooks=False)
    async with living(api, chosen):
        assert await answer(port, 500) == f"[+]shutdown ok\n{NO_CRD}{NO_RIGHTS}{NO_CACHES}readyz check failed\n"
        api.discovery.set()
        await answer(port, 200)


async def test_without_the_crd_it_says_what_to_apply(api: Api, certificates: Path) -> None:
    api.installed = False
    missing = pytest.RaisesExc(StartError, match=r"-k manifests/crd")
    with pytest.RaisesGroup(missing, flatten_subgroups=True):
        async with living(api, options(certificates)[0]):
            await asyncio.Event().wait()
