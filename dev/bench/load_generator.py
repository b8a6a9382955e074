"""Sends reviews over kept connections, at a constant rate or as fast as they are answered.

At a constant rate (an open loop), reviews that are due while a server stalls count, as in production, so the stall
shows in the latencies. Without a rate (a closed loop), each connection sends its next review once the last review is
answered.

`python -m dev.bench.load_generator` reads the load from standard input and prints a report. It has to be cheap, since
it shares two cores with the server. So it builds requests before the start, and of an answer it only finds where
the answer ends and whether the object is allowed.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import socket
import ssl
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path

import uvloop

from dev.cluster.errors import DevclusterError
from kube.model.meta import JSON

ROOT = Path(__file__).parents[2]
LAST_ANSWERS_TIMEOUT = 20.0
"""Seconds after the end within which the last answers have to arrive."""

Review = tuple[str, bytes]
"""The path of a webhook, and a body."""


@dataclass(frozen=True, slots=True)
class Load:
    """A load on a number of connections for `seconds`, after `warm_up` seconds that do not count.

    `rate` is in reviews a second, or 0 for a closed loop.
    """

    connections: int = 16
    seconds: float = 5
    warm_up: float = 1
    rate: float = 0


def run(port: int, authorities: Path, reviews: Sequence[Review], load: Load) -> JSON:
    """Send the reviews in turn, over TLS. Returns a report. Raises `DevclusterError` if the generator fails.

    In the report, `answered` counts all answers, `requests` the answers after the warm-up, `refused` those that did not
    allow the object, and `errors` those other than HTTP 200. `lost` counts connections that ended early. Times are in
    milliseconds. `generator_us` is the generator's own processor time for one request.
    """
    task = {
        "port": port,
        "authorities": str(authorities),
        "reviews": [(path, base64.b64encode(body).decode()) for path, body in reviews],
        "load": asdict(load),
    }
    process = subprocess.run(
        [sys.executable, "-m", "dev.bench.load_generator"],
        input=json.dumps(task),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=load.seconds + load.warm_up + 3 * LAST_ANSWERS_TIMEOUT,
        check=False,
    )
    if process.returncode:
        raise DevclusterError(
            f"the load generator failed, port {port}, path {reviews[0][0]}:\n{process.stderr[-1500:]}"
        )
    report: JSON = json.loads(process.stdout)
    return report


class _Run:
    """Hands out requests to connections, and counts the answers to requests from `count_start` to `count_end`."""

    def __init__(self, requests: Sequence[bytes], load: Load) -> None:
        self.load = load
        self.count_start = time.perf_counter() + load.warm_up
        self.count_end = self.count_start + load.seconds
        self.all_closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.milliseconds: list[float] = []
        self.answered = self.refused = self.errors = self.lost = 0
        self._requests = cycle(requests)
        self._free_connections: list[_Connection] = []
        self._due_times: deque[float] = deque()
        self._open_count = load.connections

    def serve(self, connection: _Connection) -> None:
        """Send the next request of a free connection, keep the connection for later, or close it at the end."""
        now = time.perf_counter()
        if now > self.count_end:
            self.close(connection)
        elif not self.load.rate:
            connection.send(next(self._requests), now)
        elif self._due_times:
            connection.send(next(self._requests), self._due_times.popleft())
        else:
            self._free_connections.append(connection)

    async def keep_rate(self) -> None:
        """Send requests at the rate. A request without a free connection waits, and its latency includes the wait."""
        start, number = time.perf_counter(), 0
        while (now := time.perf_counter()) < self.count_end:
            number += 1
            await asyncio.sleep(max(0.0, start + number / self.load.rate - now))
            if self._free_connections:
                self._free_connections.pop().send(next(self._requests), time.perf_counter())
            else:
                self._due_times.append(time.perf_counter())
        for connection in self._free_connections:
            self.close(connection)

    def record(self, due_time: float, *, ok: bool, allowed: bool) -> None:
        self.answered += 1
        now = time.perf_counter()
        if self.count_start <= due_time and now <= self.count_end:
            self.milliseconds.append((now - due_time) * 1e3)
            self.errors += not ok
            self.refused += not allowed

    def count_lost_connection(self) -> None:
        """Count a connection that has ended early."""
        self.lost += 1
        self._count_closed()

    def close(self, connection: _Connection) -> None:
        connection.close()
        self._count_closed()

    def _count_closed(self) -> None:
        self._open_count -= 1
        if not self._open_count and not self.all_closed.done():
            self.all_closed.set_result(None)

    def report(self) -> JSON:
        times = sorted(self.milliseconds)
        return {
            "answered": self.answered,
            "requests": len(times),
            "per_s": len(times) / self.load.seconds,
            **{f"p{percent}_ms": _percentile(times, percent / 100) for percent in (50, 90, 99)},
            "max_ms": _percentile(times, 1.0),
            "refused": self.refused,
            "errors": self.errors,
            "lost": self.lost,
        }


class _Connection(asyncio.Protocol):
    """A connection that sends one request after the other."""

    def __init__(self, run: _Run) -> None:
        self._run = run
        self._received = b""
        self._answer_bytes = 0
        self._due_time = 0.0
        self._is_closed = False
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # asyncio passes one that can write
        self._transport = transport
        self._run.serve(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 (asyncio's signature)
        if not self._is_closed:
            self._run.count_lost_connection()

    def data_received(self, data: bytes) -> None:
        self._received = self._received + data if self._received else data
        if not self._answer_bytes:
            self._answer_bytes = _answer_length(self._received)
        if self._answer_bytes and len(self._received) >= self._answer_bytes:
            ok = self._received.startswith(b"HTTP/1.1 200 ")
            self._run.record(self._due_time, ok=ok, allowed=ok and b'"allowed":true' in self._received)
            self._run.serve(self)

    def send(self, request: bytes, due_time: float) -> None:
        self._received, self._answer_bytes, self._due_time = b"", 0, due_time
        self._transport.write(request)

    def close(self) -> None:
        self._is_closed = True
        self._transport.close()


def _answer_length(answer: bytes) -> int:
    """The length of the complete answer in bytes; 0 while that is not known. A long answer of Go comes in chunks."""
    head, _, body = answer.partition(b"\r\n\r\n")
    _, has_length, length = head.lower().partition(b"content-length:")
    if has_length and len(head) < len(answer):
        return len(head) + 4 + int(length.split(b"\r\n")[0])
    return len(answer) if body.endswith(b"\r\n0\r\n\r\n") else 0


def _percentile(times: Sequence[float], share: float) -> float:
    return times[min(int(share * len(times)), len(times) - 1)] if times else 0.0


def _request(path: str, body: bytes) -> bytes:
    """A request as an API server sends it."""
    head = (
        f"POST {path}?timeout=10s HTTP/1.1\r\nHost: jobset-webhook-service.jobset-system.svc:443\r\n"
        f"User-Agent: kube-apiserver-admission\r\nContent-Length: {len(body)}\r\nAccept: application/json, */*\r\n"
        f"Content-Type: application/json\r\nKubernetes-Request-Timeout: 10s\r\nAccept-Encoding: gzip\r\n\r\n"
    )
    return head.encode() + body


async def _generate(task: JSON) -> JSON:
    loop, load = asyncio.get_running_loop(), Load(**task["load"])
    context = ssl.create_default_context(cafile=task["authorities"])
    requests = [_request(path, base64.b64decode(body)) for path, body in task["reviews"]]
    gc.freeze()
    cpu_before = time.process_time()
    run = _Run(requests, load)
    for _ in range(load.connections):
        # The socket is made here, since uvloop does not set TCP_NODELAY on its own sockets.
        address = "127.0.0.1", task["port"]
        connection_socket = await asyncio.to_thread(socket.create_connection, address, LAST_ANSWERS_TIMEOUT)
        connection_socket.setblocking(False)
        connection_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await loop.create_connection(
            lambda: _Connection(run), sock=connection_socket, ssl=context, server_hostname="127.0.0.1"
        )
    async with asyncio.timeout_at(loop.time() + load.warm_up + load.seconds + LAST_ANSWERS_TIMEOUT):
        if load.rate:
            await run.keep_rate()
        await run.all_closed
    return run.report() | {"generator_us": (time.process_time() - cpu_before) * 1e6 / max(run.answered, 1)}


if __name__ == "__main__":
    print(json.dumps(uvloop.run(_generate(json.load(sys.stdin)))))
