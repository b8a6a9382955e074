"""Clients that are slow, broken or hostile, at every port of every replica.

Few clients act at a time, to test the manager's limits and not the speed of the machine. Each port gets one client a
second, and from time to time more connections at once than it may have.
"""

import asyncio
import contextlib
import json
import random
import ssl
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

from api import keys
from kube.model.meta import JSON

SECONDS_BETWEEN_CLIENTS = 1.0
"""Seconds from one client to the next."""

STAY_SECONDS = 12.0
"""Seconds after which a client ends a connection that the server has not closed."""

PAUSE_SECONDS = 0.2
"""Seconds between two parts of a client's data."""

CROWD_CONNECTIONS = 80
"""Number of connections at once. The ports of probes and metrics allow at most 64."""

NUMBER_OF_NAMES = 1500
"""Number of unknown names in a review of 54 KiB, each of which is compared with 100 known names."""

ANNOUNCED_LENGTH = 100_000
"""Bytes of a body that a head announces."""

ENDLESS_CHUNK = b"10000\r\n%s\r\n" % bytes(0x10000)
"""A chunk of 64 KiB of a body with `Transfer-Encoding: chunked`."""


@dataclass(frozen=True, slots=True)
class Port:
    """A port on this machine. `serves`: its purpose. `path`: a path that it answers."""

    serves: str
    number: int
    path: str
    tls: bool = False


Parts = Callable[[Port, random.Random], Iterable[bytes]]
"""The data that a client sends, part by part. Then it waits until its connection is closed."""


def _endlessly(first: bytes, part: bytes) -> Iterator[bytes]:
    yield first
    while True:
        yield part


CLIENTS: dict[str, Parts] = {
    "nothing": lambda *_: (),
    "half a head": lambda port, _: [request_head(port)[:-12]],
    "half a body": lambda port, _: [request_head(port) + b'{"kind":'],
    "one byte at a time": lambda port, _: (bytes([byte]) for byte in request_head(port)),
    "bytes after an early answer": lambda port, _: _endlessly(request_head(replace(port, path="/nowhere")), b"x"),
    "garbage": lambda _, chance: [chance.randbytes(4000)],
    "endless head": lambda port, _: _endlessly(request_head(port)[:-2], b"x: y\r\n" * 1000),
    "endless body": lambda port, _: _endlessly(request_head(port, "transfer-encoding: chunked"), ENDLESS_CHUNK),
    "two lengths": lambda port, _: [request_head(port, "content-length: 5", "content-length: 6") + b"hello"],
    "many requests at once": lambda port, _: [get_request(port) * 50],
    "unknown token": lambda port, chance: [get_request(port, f"authorization: Bearer {chance.random()}")],
    "many unknown names": lambda port, _: [post_request(port, _unknown_names())],
    "half a handshake": lambda *_: [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"],
    "no handshake": lambda port, _: [request_head(port)],
}
"""The data of each kind of client."""

WITHOUT_TLS = {"half a handshake", "no handshake"}
"""Kinds of clients that connect without TLS, also to ports with TLS."""

IN_CROWDS = {"nothing"}
"""Kinds of clients of which `CROWD_CONNECTIONS` connect at once."""


async def abuse(ports: Sequence[Port], seconds: float, seed: int, attempts: Counter[str]) -> None:
    """Let clients of every kind connect to every port. `attempts` counts connections, by the purpose of the port."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
            for number, port in enumerate(ports):
                group.create_task(_visit(port, random.Random(f"{seed} {number}"), attempts))


async def _visit(port: Port, chance: random.Random, attempts: Counter[str]) -> None:
    """Let clients of all kinds connect to a port, in random order, again and again."""
    kinds = list(CLIENTS)
    async with asyncio.TaskGroup() as group:
        while True:
            chance.shuffle(kinds)
            for kind in kinds:
                target = replace(port, tls=port.tls and kind not in WITHOUT_TLS)
                for _ in range(CROWD_CONNECTIONS if kind in IN_CROWDS and port.serves != "webhooks" else 1):
                    group.create_task(
                        run_client(target, CLIENTS[kind], chance, partial(attempts.update, (port.serves,)))
                    )
                await asyncio.sleep(SECONDS_BETWEEN_CLIENTS)


async def run_client(
    port: Port,
    parts: Parts,
    chance: random.Random,
    on_connect: Callable[[], None],
    *,
    max_seconds: float = STAY_SECONDS,
    pause: float = PAUSE_SECONDS,
) -> None:
    """Connect and send the parts, until either side ends the connection. Does nothing if the replica is down."""
    with contextlib.suppress(OSError):  # a timeout is an OSError, too
        async with asyncio.timeout(max_seconds):
            tls = client_tls() if port.tls else None
            reader, writer = await asyncio.open_connection("127.0.0.1", port.number, ssl=tls)
            on_connect()
            try:
                for part in parts(port, chance):
                    writer.write(part)
                    await writer.drain()
                    await asyncio.sleep(pause)
                    if writer.is_closing():
                        break
                while await reader.read(ANNOUNCED_LENGTH):
                    pass
            finally:
                writer.transport.abort()


def request_head(port: Port, *headers: str) -> bytes:
    lines = [f"POST {port.path} HTTP/1.1", "host: x", *(headers or (f"content-length: {ANNOUNCED_LENGTH}",)), "", ""]
    return "\r\n".join(lines).encode()


def get_request(port: Port, *headers: str) -> bytes:
    return "\r\n".join([f"GET {port.path} HTTP/1.1", "host: x", *headers, "", ""]).encode()


def post_request(port: Port, body: bytes, *headers: str) -> bytes:
    return request_head(port, f"content-length: {len(body)}", "content-type: application/json", *headers) + body


def review_body(spec: JSON, name: str = "hostile", namespace: str = "hostile", **fields: str) -> bytes:
    """The body of a review of a new JobSet, as the API server sends it, with `fields` of the request replaced."""
    metadata = {"name": name, "namespace": namespace}
    jobset = {"apiVersion": keys.API_VERSION, "kind": keys.KIND, "metadata": metadata, "spec": spec}
    request = {"uid": "hostile", "operation": "CREATE", "namespace": namespace, "object": jobset, **fields}
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(body, separators=(",", ":")).encode()


def _unknown_names() -> bytes:
    """A review of a JobSet whose success policy names ReplicatedJobs that it does not have."""
    groups = [{"name": f"a{'b' * 18}-{number}", "template": {"spec": {"template": {}}}} for number in range(100)]
    policy = {
        "operator": "All",
        "targetReplicatedJobs": [f"a{'b' * 18}-x{number}" for number in range(NUMBER_OF_NAMES)],
    }
    return review_body({"replicatedJobs": groups, "successPolicy": policy})


@cache
def client_tls() -> ssl.SSLContext:
    """A TLS context that does not verify certificates."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
