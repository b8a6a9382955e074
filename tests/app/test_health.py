"""Probes: what kubelet and people see, and what a taken port looks like."""

import asyncio
import contextlib
import socket
import ssl

import pytest

from app.health import Health, fails, passes, webhook_check
from certs.renewal import self_signed
from certs.tls import install, server_context
from httpserver.address import BindError, bind
from httpserver.limits import ENDPOINT_LIMITS
from httpserver.server import Server
from tests.support.serving import LOCAL, fetch, serving
from tests.support.tls import until


async def test_ready_and_not_ready_and_ready_again() -> None:
    health = Health()
    health.set_readiness("certificates", fails("certificates are not ready"))
    health.set_readiness("other", passes)
    async with serving(health.server(LOCAL)) as port:
        url = f"http://127.0.0.1:{port}"
        assert await fetch(f"{url}/healthz") == (200, "ok")
        assert await fetch(f"{url}/readyz") == (
            500,
            "[-]certificates failed: certificates are not ready\n[+]other ok\nreadyz check failed\n",
        )
        assert await fetch(f"{url}/readyz/other") == (200, "ok")
        assert (await fetch(f"{url}/readyz/certificates"))[0] == 500
        health.set_readiness("certificates", passes)
        assert await fetch(f"{url}/readyz") == (200, "ok")
        assert await fetch(f"{url}/readyz/") == (200, "ok")
        assert await fetch(f"{url}/readyz/certificates") == (200, "ok")
        assert await fetch(f"{url}/readyz?verbose") == (200, "[+]certificates ok\n[+]other ok\nreadyz check passed\n")
        health.set_readiness("certificates", fails("certificates are not ready"))
        assert (await fetch(f"{url}/readyz"))[0] == 500
        assert (await fetch(f"{url}/healthz"))[0] == 200


async def test_liveness_has_ping_until_checks_are_added() -> None:
    health = Health()
    async with serving(health.server(LOCAL)) as port:
        url = f"http://127.0.0.1:{port}"
        assert await fetch(f"{url}/healthz?verbose=1") == (200, "[+]ping ok\nhealthz check passed\n")
        assert await fetch(f"{url}/healthz/ping") == (200, "ok")
        for path in ("/", "/metrics", "/healthz/nope", "/readyz/certificates/x"):
            assert (await fetch(url + path))[0] == 404, path


async def test_paths_come_from_the_settings() -> None:
    health = Health(liveness_path="live", readiness_path="/probes/ready")
    health.set_readiness("x", passes)
    async with serving(health.server(LOCAL)) as port:
        url = f"http://127.0.0.1:{port}"
        assert [(await fetch(url + path))[0] for path in ("/live", "/probes/ready", "/probes/ready/x", "/healthz")] == [
            *(200, 200, 200, 404)
        ]


async def test_a_check_that_breaks_or_hangs_fails_with_its_reason() -> None:
    async def breaks() -> None:
        raise RuntimeError("lost\nthe thread")

    async def hangs() -> None:
        await asyncio.Event().wait()

    health = Health(timeout=0.05)
    health.set_readiness("breaks", breaks)
    health.set_readiness("hangs", hangs)
    async with serving(health.server(LOCAL)) as port:
        assert await fetch(f"http://127.0.0.1:{port}/readyz") == (
            500,
            "[-]breaks failed: lost the thread\n[-]hangs failed: no answer in 0.05 s\nreadyz check failed\n",
        )


async def test_webhook_check_wants_a_tls_handshake() -> None:
    context = server_context()
    install(context, *self_signed())
    async with serving(Server(Health(), bind(LOCAL, "a test"), tls=context)) as port:
        check = webhook_check(("127.0.0.1", port))
        assert await check() is None
        assert await webhook_check(("", port))() is None, "every interface is this machine too"
    fault = await check()
    assert fault is not None
    assert fault.startswith("webhook server is not reachable: ")

    async with serving(Health().server(LOCAL)) as port:
        fault = await webhook_check(("127.0.0.1", port))()
        assert fault is not None
        assert fault.startswith("webhook server is not reachable: "), "plain HTTP is no webhook server"

    with contextlib.closing(socket.create_server(LOCAL)) as silent:
        fault = await webhook_check(silent.getsockname(), timeout=0.05)()
        assert fault is not None
        assert "no TLS handshake" in fault


def test_an_unknown_host_is_one_clear_line() -> None:
    with pytest.raises(BindError, match=r"cannot listen on no-such-host\.invalid:0 for health probes: ."):
        Health().server(("no-such-host.invalid", 0))


async def test_cancelling_frees_the_port_and_drops_open_connections() -> None:
    server = Health().server(LOCAL)
    task = asyncio.create_task(server.run())
    await server.started.wait()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with contextlib.suppress(ConnectionError):
        await asyncio.wait_for(reader.read(), 5)
    writer.close()
    bind(("127.0.0.1", server.port), "the next one").close()


async def test_tls_options_are_honoured() -> None:
    context = server_context("VersionTLS13")
    install(context, *self_signed())
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    async with serving(Server(Health(), bind(LOCAL, "a test"), tls=context)) as port:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection("127.0.0.1", port, ssl=old)


async def test_a_probe_that_the_stop_cuts_off_leaves_no_traceback(caplog: pytest.LogCaptureFixture) -> None:
    asked = asyncio.Event()

    async def hangs() -> None:
        asked.set()
        await asyncio.Event().wait()

    health = Health(timeout=0.5)
    health.set_readiness("hangs", hangs)
    server = health.server(LOCAL)
    task = asyncio.create_task(server.run())
    await server.started.wait()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n")
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with contextlib.suppress(ConnectionError):
        assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    assert not others or not (await asyncio.wait(others, timeout=5))[1], "the probe has ended"
    assert caplog.messages == []


async def test_liveness_is_answered_while_strangers_hold_every_connection() -> None:
    health = Health()
    health.set_readiness("hangs", asyncio.Event().wait)  # type: ignore[arg-type] # it gives no outcome
    server = health.server(LOCAL)
    async with serving(server) as port, contextlib.AsyncExitStack() as stack:
        for _ in range(ENDPOINT_LIMITS.max_connections):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            stack.callback(lambda kept: kept.transport.abort(), writer)
            writer.write(b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n")
        working = server._server.server_state.tasks
        await until(lambda: len(working) == ENDPOINT_LIMITS.max_connections)
        assert (await fetch(f"http://127.0.0.1:{port}/readyz"))[0] == 503
        for path in ("healthz", "healthz/", "healthz?verbose"):
            assert (await fetch(f"http://127.0.0.1:{port}/{path}"))[0] == 200


@pytest.mark.looptime
async def test_readiness_is_checked_once_a_second_for_all_who_ask() -> None:
    checked: list[float] = []

    async def check() -> str | None:
        checked.append(asyncio.get_running_loop().time())
        await asyncio.sleep(0.1)
        return f"fault {len(checked)}"

    health = Health()
    health.set_readiness("x", check)
    gone = [asyncio.create_task(health.unready()) for _ in range(50)]
    await asyncio.sleep(0.05)
    for task in gone:
        task.cancel()
    for number in (1, 1, 1, 2):
        assert await health.unready() == {"x": f"fault {number}"}
        await asyncio.sleep(0.35)
    assert len(checked) == 2
    health.set_readiness("x", passes)
    assert await health.unready() == {}
