"""Which pods are held back until they have the place of a spare: the status of their JobSet says it.

See docs/concepts/spares.md#when-a-place-is-given.

It is read from the API server, not from a cache: the manager writes a promise a moment before the pod is created. A pod
about which nothing is known in time is not held back. One that is held back by mistake is let go by the manager.
"""

import asyncio
import logging

from api import keys
from api.jobset_status import SpareStatus
from kube.client import Client
from kube.errors import KubeError
from kube.model.meta import Base, Identity
from kube.model.validation import dns1123_subdomain
from kube.resources import Resource

log = logging.getLogger(__name__)

JOBSETS = Resource(keys.GROUP, keys.VERSION, keys.KIND, keys.PLURAL)
ANSWER = 1.0
"""Seconds for the answer: the webhook has two."""
AT_ONCE = 16
"""Pods about which is asked at the same time; others wait for their turn, and that long."""


class _Status(Base, frozen=True, kw_only=True):
    spares: tuple[SpareStatus, ...] = ()


class _JobSet(Base, frozen=True, kw_only=True):
    metadata: Identity
    status: _Status = _Status()


class Promises:
    """One for a process."""

    def __init__(self, client: Client) -> None:
        self._client = Client(client.transport, repeats=False)
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def has(self, namespace: str, jobset: str, uid: str, rank: str) -> bool:
        """Whether the JobSet of that UID has promised a place to the pod, whose name is given without its last part.

        The API server checks labels only after admission: a name from one may be any text, such as another path.
        """
        if dns1123_subdomain(jobset):
            return False
        try:
            async with asyncio.timeout(ANSWER), self._turns:
                js = await self._client.get(JOBSETS, jobset, namespace=namespace, type=_JobSet)
        except (KubeError, TimeoutError) as error:
            log.info("promises of JobSet %s/%s are not known: %s", namespace, jobset, error)
            return False
        return js.metadata.uid == uid and any(rank in entry.promised_to for entry in js.status.spares)
