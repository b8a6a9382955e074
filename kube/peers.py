"""Removes replicas on dead machines from their Service, long before their nodes count as lost.

Without this, the endpoint of such a replica stays for 40 to 50 s, and each request to it waits for its whole time
limit. A replica that does not answer its peers is marked as not ready. If its kubelet works, the kubelet's next report
removes the mark. A refused connection counts as an answer, since the kubelet reports such a replica.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from kube import clock
from kube.client import Client, PatchType
from kube.errors import KubeError
from kube.model.meta import Base, Condition, Identity, is_true
from kube.resources import PODS

log = logging.getLogger(__name__)

CHECK_PERIOD: Final = 2.0
LIST_PERIOD: Final = 10.0
"""Seconds from one list of the replicas to the next, after a running check."""
MAX_MISSED_ANSWERS: Final = 3
"""After this many connections in a row without an answer, a replica is marked as not ready."""
MAX_PEERS: Final = 20
"""The most replicas that are checked."""

Probe = Callable[[str], Awaitable[bool]]


class _Status(Base, frozen=True, kw_only=True):
    pod_ip: str = msgspec.field(name="podIP", default="")
    conditions: tuple[Condition, ...] = ()


class _Pod(Base, frozen=True, kw_only=True):
    metadata: Identity
    status: _Status = _Status()

    @property
    def is_peer(self) -> bool:
        """Whether the pod is ready, so that the Service has it, and is not this replica."""
        is_ready = is_true(self.status.conditions, "Ready")
        return is_ready and bool(self.status.pod_ip) and self.metadata.name != socket.gethostname()


async def is_reachable(address: str, port: int) -> bool:
    """Whether a machine answers at that address, by accepting or refusing a connection."""
    try:
        async with asyncio.timeout(CHECK_PERIOD):
            _, writer = await asyncio.open_connection(address, port)
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    writer.close()
    return True


async def watch_peers(client: Client, namespace: str, selector: str, probe: Probe) -> None:
    """Check the other replicas until cancelled. `probe`: whether the machine at an address answers.

    A replica that has never answered is not marked, since a network policy may separate the replicas. A marked replica
    has to answer again before it can be marked again.
    """
    peers: list[_Pod] = []
    missed_answers: dict[str, int] = {}
    clock_now = asyncio.get_running_loop().time
    while True:
        listed_peers = await _list_peers(client, namespace, selector)
        if listed_peers is not None:
            peers = listed_peers
            names = {pod.metadata.name for pod in peers}
            missed_answers = {name: times for name, times in missed_answers.items() if name in names}
        until = clock_now() + LIST_PERIOD  # a check takes longer if a replica does not answer
        while clock_now() < until:
            await asyncio.sleep(CHECK_PERIOD)
            answers = await asyncio.gather(*(probe(pod.status.pod_ip) for pod in peers))
            for pod, has_answered in zip(peers, answers, strict=True):
                name = pod.metadata.name
                if has_answered or name in missed_answers:
                    missed_answers[name] = 0 if has_answered else missed_answers[name] + 1
            if silent_peers := [name for name, times in missed_answers.items() if times >= MAX_MISSED_ANSWERS]:
                for name in silent_peers:
                    del missed_answers[name]
                    await _mark_not_ready(client, namespace, name)
                break


async def _list_peers(client: Client, namespace: str, selector: str) -> list[_Pod] | None:
    """The other ready replicas; None if the API server does not list them."""
    try:
        page = await client.list(PODS, type=_Pod, namespace=namespace, label_selector=selector, limit=MAX_PEERS)
    except KubeError as error:
        log.debug("the other replicas could not be listed: %s", error)
        return None
    return [pod for pod in page.items or () if pod.is_peer]


async def _mark_not_ready(client: Client, namespace: str, name: str) -> None:
    message = f"its machine has not answered replica {socket.gethostname()} {MAX_MISSED_ANSWERS} times"
    condition = {"type": "Ready", "status": "False", "reason": "NoAnswer", "message": message}
    body = {"status": {"conditions": [condition | {"lastTransitionTime": clock.rfc3339(clock.now())}]}}
    try:
        await client.patch(PODS, name, body, namespace=namespace, subresource="status", patch_type=PatchType.STRATEGIC)
    except KubeError as error:
        log.warning("replica %s does not answer, and could not be taken out of the Service: %s", name, error)
        return
    log.warning("replica %s does not answer: it is marked as not ready, and gets no admission requests", name)
