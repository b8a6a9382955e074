"""A load generator that keeps every connection busy: each sends its next review as soon as the last one is answered.

`python -m dev.bench.closed_loop` is a process of its own that reads what to send from standard input and prints what
came back, as JSON. It must be light, for it shares two cores with the server it measures: requests are bytes made
before the start, and of an answer no more is read than whether it is whole and lets the object pass.
"""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import uvloop

from dev.cluster.errors import DevclusterError

ROOT = Path(__file__).parents[2]
LAST_ANSWERS_TIMEOUT = 20.0
"""Seconds after the end in which the last answers have to come."""


@dataclass(frozen=True, slots=True)
class Load:
    """`connections` at once for `seconds`, after `warm_up` seconds that do not count."""

    connections: int = 16
    seconds: float = 5
    warm_up: float = 1


def run(port: int, authorities: Path, path: str, bodies: Sequence[bytes], load: Load) -> dict[str, Any]:
    """Send the bodies in turn, over TLS.

    `answered` counts all answers and `requests` those in the time that counts, of which `refused` did not let the
    object pass; `lost` are connections that ended early. Times in milliseconds; `generator_us` is the generator's own
    processor time for one request. Raises `DevclusterError` where there is no such server.
    """
    load_options = {
        "port": port,
        "authorities": str(authorities),
        "path": path,
        "bodies": [base64.b64encode(body).decode() for body in bodies],
        "connections": load.connections,
        "seconds": load.seconds,
        "warm_up": load.warm_up,
    }
    done = subprocess.run(
        [sys.executable, "-m", "dev.bench.closed_loop"],
        input=json.dumps(load_options),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=load.seconds + load.warm_up + 3 * LAST_ANSWERS_TIMEOUT,
        check=False,
    )
    if done.returncode:
        raise DevclusterError(f"the load generator failed, port {port}, path {path}:\n{done.stderr[-1500:]}")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


class _Tally:
    """What came back in the time that counts, which is from `begin` to `end` (loop time)."""

    def __init__(self, begin: float, end: float) -> None:
        self.begin, self.end = begin, end
        self.milliseconds: list[float] = []
        self.answers = 0
        self.refused = 0
        self.lost = 0

    def answered(self, sent: float, now: float, *, allowed: bool) -> bool:
        """Whether to go on."""
        self.answers += 1
        if now > self.end:
            return False
        if sent >= self.begin:
            self.milliseconds.append((now - sent) * 1e3)
            self.refused += not allowed
        return True


class _Connection(asyncio.Protocol):
    """One request after the other; `over` is done when it has no more to send, or lost its connection."""

    def __init__(self, requests: Sequence[bytes], first: int, tally: _Tally, over: asyncio.Future[None]) -> None:
        self._requests = cycle([*requests[first:], *requests[:first]])
        self._tally = tally
        self._over = over
        self._got = b""
        self._wanted = 0
        self._sent = 0.0
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # TLS can be written to
        self._transport = transport
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 (asyncio's signature)
        if not self._over.done():
            self._tally.lost += 1
            self._over.set_result(None)

    def data_received(self, data: bytes) -> None:
        self._got = self._got + data if self._got else data
        if not self._wanted:
            self._wanted = _length(self._got)
        if self._wanted and len(self._got) >= self._wanted:
            self._answered()

    def _send(self) -> None:
        self._got, self._wanted = b"", 0
        self._sent = time.perf_counter()
        self._transport.write(next(self._requests))

    def _answered(self) -> None:
        allowed = b'"allowed":true' in self._got and self._got.startswith(b"HTTP/1.1 200 ")
        if self._tally.answered(self._sent, time.perf_counter(), allowed=allowed):
            self._send()
        else:
            self._over.set_result(None)
            self._transport.close()


def _length(answer: bytes) -> int:
    """Bytes of the whole answer; 0 while its head is not there."""
    head = answer.find(b"\r\n\r\n")
    if head < 0:
        return 0
    start = answer.lower().index(b"content-length:", 0, head) + len("content-length:")
    return head + 4 + int(answer[start : answer.index(b"\r\n", start)])


async def _generate(load_options: dict[str, Any]) -> dict[str, Any]:
    loop = asyncio.get_running_loop()
    context = ssl.create_default_context(cafile=load_options["authorities"])
    requests = [_request(load_options["path"], base64.b64decode(body)) for body in load_options["bodies"]]
    used = time.process_time()
    begin = time.perf_counter() + load_options["warm_up"]
    tally = _Tally(begin, begin + load_options["seconds"])
    overs = []
    for i in range(load_options["connections"]):
        over = loop.create_future()
        first = i * len(requests) // load_options["connections"]
        # A socket of our own, for uvloop does not set the option on those that it makes.
        made = await asyncio.to_thread(
            socket.create_connection, ("127.0.0.1", load_options["port"]), LAST_ANSWERS_TIMEOUT
        )
        made.setblocking(False)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await loop.create_connection(
            partial(_Connection, requests, first, tally, over),
            sock=made,
            ssl=context,
            server_hostname="127.0.0.1",
        )
        overs.append(over)
    async with asyncio.timeout_at(
        loop.time() + load_options["warm_up"] + load_options["seconds"] + LAST_ANSWERS_TIMEOUT
    ):
        await asyncio.gather(*overs)
    return {
        **_report(tally, load_options["seconds"]),
        "generator_us": (time.process_time() - used) * 1e6 / max(tally.answers, 1),
    }


def _request(path: str, body: bytes) -> bytes:
    """As an API server sends it."""
    head = (
        f"POST {path}?timeout=10s HTTP/1.1\r\nHost: jobset-webhook-service.jobset-system.svc:443\r\n"
        f"User-Agent: kube-apiserver-admission\r\nContent-Length: {len(body)}\r\nAccept: application/json, */*\r\n"
        f"Content-Type: application/json\r\nKubernetes-Request-Timeout: 10s\r\nAccept-Encoding: gzip\r\n\r\n"
    )
    return head.encode() + body


def _report(tally: _Tally, seconds: float) -> dict[str, Any]:
    times = sorted(tally.milliseconds)
    return {
        "answered": tally.answers,
        "requests": len(times),
        "per_s": len(times) / seconds,
        "p50_ms": _rank(times, 0.50),
        "p99_ms": _rank(times, 0.99),
        "max_ms": _rank(times, 1.0),
        "refused": tally.refused,
        "lost": tally.lost,
    }


def _rank(times: Sequence[float], share: float) -> float:
    return times[min(int(share * len(times)), len(times) - 1)] if times else 0.0


if __name__ == "__main__":
    print(json.dumps(uvloop.run(_generate(json.load(sys.stdin)))))
