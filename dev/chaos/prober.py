"""`python -m dev.chaos.prober`: probes all replicas as a kubelet does, and sends reviews as an API server does.

Each request has a new connection. The prober prints an `Answer` of `dev.chaos.checks.strangers` for each request, as a
line of JSON.
"""

import asyncio
import json
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any

from dev.chaos import beside
from dev.chaos.checks.strangers import LIVENESS, NO_ANSWER, REVIEW, WEBHOOK_TIMEOUT, Answer
from dev.chaos.hostile import Port, client_tls, get_request, post_request, review_body
from dev.chaos.neighbour import NAMESPACE, replicated_job
from webhooks.jobset.handlers import MUTATE_PATH, VALIDATE_PATH

SECONDS_BETWEEN_REQUESTS = {LIVENESS: 1.0, REVIEW: 0.25}
"""Seconds from one request to the next."""

DEADLINE_SECONDS = {LIVENESS: 1.0, REVIEW: WEBHOOK_TIMEOUT}
"""Seconds that a kubelet and an API server wait for an answer."""

NUMBER_OF_VARIABLES = 130
"""Number of environment variables of the JobSet, with which its review has 4 KiB."""

BODY = review_body({"replicatedJobs": [replicated_job(NUMBER_OF_VARIABLES)]}, "small", NAMESPACE)


async def play(ports_by_replica: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Send requests to all replicas until cancelled. `ports_by_replica`: the `Port`s of each replica as JSON."""
    async with asyncio.TaskGroup() as tasks:
        for replica, ports in ports_by_replica.items():
            serving = {port["serves"]: Port(**port) for port in ports}
            tasks.create_task(
                _repeat(SECONDS_BETWEEN_REQUESTS[LIVENESS], partial(_probe_liveness, replica, serving["probes"]))
            )
            tasks.create_task(
                _repeat(SECONDS_BETWEEN_REQUESTS[REVIEW], partial(_send_review, replica, serving["webhooks"]))
            )


async def _repeat(seconds: float, ask: Callable[[int], Coroutine[Any, Any, None]]) -> None:
    """Call `ask` every `seconds`, even if earlier calls have not ended."""
    async with asyncio.TaskGroup() as tasks:
        for number in count():
            tasks.create_task(ask(number))
            await asyncio.sleep(seconds)


async def _probe_liveness(replica: str, port: Port, _number: int) -> None:
    request = get_request(Port("", 0, "/healthz"), "connection: close")
    await _send_request(replica, LIVENESS, port, request, lambda status, _: "" if status == "200" else f"HTTP {status}")


async def _send_review(replica: str, port: Port, number: int) -> None:
    """Send a review, alternating between defaulting and validation."""
    path = (MUTATE_PATH, VALIDATE_PATH)[number % 2]
    request = post_request(Port("", 0, path), BODY, "connection: close")
    await _send_request(replica, REVIEW, port, request, _review_fault)


async def _send_request(
    replica: str, kind: str, port: Port, request: bytes, fault_of: Callable[[str, bytes], str]
) -> None:
    at, start = time.time(), time.monotonic()
    try:
        async with asyncio.timeout(DEADLINE_SECONDS[kind]):
            tls = client_tls() if port.tls else None
            reader, writer = await asyncio.open_connection("127.0.0.1", port.number, ssl=tls)
            try:
                writer.write(request)
                answer = await reader.read()
            finally:
                writer.transport.abort()
        status = answer[9:12].decode("latin-1") or "none"
        fault = fault_of(status, answer.partition(b"\r\n\r\n")[2])
    except TimeoutError:
        fault = NO_ANSWER
    except OSError as error:
        fault = type(error).__name__
    print(json.dumps(Answer(replica, kind, at, time.monotonic() - start, fault)), flush=True)


def _review_fault(status: str, body: bytes) -> str:
    """The fault of an answer to a review; empty if the answer admits the object."""
    try:
        response = json.loads(body)["response"]
        return "" if response["allowed"] else f"HTTP {status}, code {response['status']['code']}"
    except (ValueError, LookupError, TypeError):
        return f"HTTP {status}"


if __name__ == "__main__":
    beside.run_task(play)
