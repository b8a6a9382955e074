"""Liveness and readiness over plain HTTP (docs/reference/manager.md#servers).

A probe runs all named checks of its endpoint, and succeeds if all of them pass. The manager adds the checks.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any
from urllib.parse import parse_qs

from httpserver.address import Address, bind
from httpserver.asgi import Message, Receive, Send, respond
from httpserver.limits import ENDPOINT_LIMITS
from httpserver.server import Server

Check = Callable[[], Awaitable[str | None]]
"""A check returns None if it passes, else what is wrong. An exception fails the check with its text."""

_SharedCheck = Callable[[], Coroutine[Any, Any, str | None]]

CHECK_TIMEOUT = 12.0
"""Seconds for one check: a little more than the longest time limit inside a check."""

SHARED_SECONDS = 1.0
"""Seconds from the start of a check in which all requests share its result, since any client may send any number."""

DIAL_TIMEOUT = 10.0
"""Seconds for a TLS handshake with our own webhook server."""


class Health:
    """An ASGI application: `<endpoint>`, `<endpoint>?verbose` and `<endpoint>/<check>` of each probe.

    It answers 200 `ok`, or 500 with one line per check. An endpoint without checks always answers 200.
    """

    def __init__(
        self, *, liveness_path: str = "/healthz", readiness_path: str = "/readyz", timeout: float = CHECK_TIMEOUT
    ) -> None:
        self._readiness: dict[str, _SharedCheck] = {}
        self._liveness_path = _normalized_path(liveness_path)
        self._endpoints: dict[str, dict[str, _SharedCheck]] = {
            self._liveness_path: {},
            _normalized_path(readiness_path): self._readiness,
        }
        self._timeout = timeout

    @property
    def paths(self) -> list[str]:
        """All paths that this application serves."""
        return [*self._endpoints, *(f"{path}/{name}" for path, checks in self._endpoints.items() for name in checks)]

    def set_readiness(self, name: str, check: Check) -> None:
        """Add a check of readiness, or replace the check of this name."""
        self._readiness[name] = _Shared(check, self._timeout)

    def server(self, address: Address) -> Server:
        """A server that is bound to `address`; its `run` serves. Raises `BindError`."""
        listener = bind(address, "health probes")
        return Server(self, listener, limits=ENDPOINT_LIMITS, is_exempt=self._is_liveness)

    def _is_liveness(self, path: str) -> bool:
        return _normalized_path(path) == self._liveness_path

    async def __call__(self, scope: Message, _receive: Receive, send: Send) -> None:
        path = _normalized_path(scope["path"])
        verbose = "verbose" in parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if path in self._endpoints:
            await self._answer(send, path.strip("/"), self._endpoints[path] or {"ping": passes}, verbose)
            return
        endpoint, _, name = path.rpartition("/")
        checks = self._endpoints.get(endpoint, {}) or {"ping": passes}
        if endpoint not in self._endpoints or name not in checks:
            await respond(send, 404, f"no such check; there are: {', '.join(self._endpoints)}\n")
            return
        await self._answer(send, name, {name: checks[name]}, verbose)

    async def unready(self) -> dict[str, str]:
        """What is wrong, by name of each check of readiness that fails."""
        return {name: fault for name, fault in (await self._faults(self._readiness)).items() if fault}

    async def _faults(self, checks: Mapping[str, _SharedCheck]) -> dict[str, str | None]:
        async with asyncio.TaskGroup() as group:
            tasks = {name: group.create_task(check()) for name, check in checks.items()}
        return {name: task.result() for name, task in tasks.items()}

    async def _answer(self, send: Send, name: str, checks: Mapping[str, _SharedCheck], verbose: bool) -> None:
        faults = await self._faults(checks)
        is_healthy = not any(faults.values())
        if is_healthy and not verbose:
            await respond(send, 200, "ok")
            return
        lines = [f"[-]{name} failed: {fault}" if fault else f"[+]{name} ok" for name, fault in faults.items()]
        lines.append(f"{name} check {'passed' if is_healthy else 'failed'}")
        await respond(send, 200 if is_healthy else 500, "\n".join(lines) + "\n")


class _Shared:
    """A check whose result all requests share. It never raises.

    It runs at most once in `SHARED_SECONDS`, even if a request is cancelled.
    """

    def __init__(self, check: Check, timeout: float) -> None:
        self._check = check
        self._timeout = timeout
        self._outcome: asyncio.Task[str | None] | None = None
        self._until = 0.0

    async def __call__(self) -> str | None:
        now = asyncio.get_running_loop().time()
        if self._outcome is None or (self._outcome.done() and now >= self._until):
            self._outcome, self._until = asyncio.create_task(self._run(), name="readiness"), now + SHARED_SECONDS
        return await asyncio.shield(self._outcome)

    async def _run(self) -> str | None:
        """Run the check; it fails if it takes too long or raises."""
        try:
            async with asyncio.timeout(self._timeout):
                fault = await self._check()
        except TimeoutError:
            return f"no answer in {self._timeout:g} s"
        except Exception as error:  # noqa: BLE001 -- the boundary: a probe must be answered
            fault = str(error) or type(error).__name__
        return " ".join(fault.split()) if fault else None


async def passes() -> str | None:
    """A check that passes."""
    return None


def fails(fault: str) -> Check:
    async def check() -> str | None:
        return fault

    return check


def webhook_check(address: Address, *, timeout: float = DIAL_TIMEOUT) -> Check:
    """A check that our own webhook server answers a TLS handshake. The host "" stands for this machine.

    It does not verify the certificate, and sends no data.
    """
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname = False
    tls.verify_mode = ssl.CERT_NONE
    host, port = address[0] or "localhost", address[1]

    async def check() -> str | None:
        try:
            async with asyncio.timeout(timeout):
                _, writer = await asyncio.open_connection(host, port, ssl=tls)
        except TimeoutError:
            return f"webhook server is not reachable: no TLS handshake with {host}:{port} in {timeout:g} s"
        except OSError as error:
            return f"webhook server is not reachable: {host}:{port}: {error}"
        # Do not abort the connection: uvloop logs a traceback if more of the handshake arrives after an abort.
        writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(timeout):
                await writer.wait_closed()
        return None

    return check


def _normalized_path(path: str) -> str:
    return "/" + path.strip("/")
