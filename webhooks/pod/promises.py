"""Finds pods that have to wait for the place of a spare, by the status of their JobSet.

See docs/concepts/spares.md#when-a-place-is-given.

The status is read from the API server, not from a cache: the manager writes a promise a moment before the pod is
created. Without an answer in time a pod is not gated. The manager removes the gate of a pod that does not need it.
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
ANSWER_TIMEOUT = 1.0
"""Seconds for the answer of the API server. The timeout of the webhook is 2 s."""
RUNNING_READ_TIMEOUT = 0.25
"""The most seconds that a read of a JobSet waits for the running read of this JobSet."""
MAX_READS = 16
"""The most JobSets that are read at the same time; more of them wait up to `ANSWER_TIMEOUT`."""


_Key = tuple[str, str]
"""Namespace and name of a JobSet."""


class _Status(Base, frozen=True, kw_only=True):
    spares: tuple[SpareStatus, ...] = ()


class _JobSet(Base, frozen=True, kw_only=True):
    metadata: Identity
    status: _Status = _Status()


class Promises:
    """Reads promises from the status of JobSets. One instance for a process."""

    def __init__(self, client: Client) -> None:
        self._client = client.without_retries()
        self._read_slots = asyncio.Semaphore(MAX_READS)
        self._waiting_reads: dict[_Key, asyncio.Task[_JobSet | None]] = {}
        """Reads that have not begun, at most one for each JobSet."""
        self._running_reads: dict[_Key, asyncio.Task[_JobSet | None]] = {}

    async def has_promised(self, namespace: str, jobset: str, uid: str, promises: frozenset[str]) -> bool:
        """Whether the JobSet with this UID has made one of these promises.

        `jobset` comes from a label, which the API server checks only after admission. So it may be any text, such as a
        path.
        """
        if dns1123_subdomain(jobset):
            return False
        js = await asyncio.shield(self._read(namespace, jobset))
        promised = (promise for each in js.status.spares for promise in each.promised_to) if js is not None else ()
        return js is not None and js.metadata.uid == uid and not promises.isdisjoint(promised)

    def _read(self, namespace: str, jobset: str) -> asyncio.Task[_JobSet | None]:
        """The next read of a JobSet, which all callers share until it begins.

        It begins after the running read of this JobSet, but waits at most `RUNNING_READ_TIMEOUT` for it, so that enough
        time is left after a slow answer.
        """
        key = namespace, jobset
        if key not in self._waiting_reads:
            self._waiting_reads[key] = asyncio.create_task(self._read_next(key, self._running_reads.get(key)))
        return self._waiting_reads[key]

    async def _read_next(self, key: _Key, running: asyncio.Task[_JobSet | None] | None) -> _JobSet | None:
        namespace, jobset = key
        this_read = self._waiting_reads[key]
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT):
                if running is not None:
                    await asyncio.wait([running], timeout=RUNNING_READ_TIMEOUT)
                async with self._read_slots:
                    self._running_reads[key] = self._waiting_reads.pop(key)
                    return await self._client.get(JOBSETS, jobset, namespace=namespace, type=_JobSet)
        except (KubeError, TimeoutError) as error:
            log.info("promises of JobSet %s/%s are not known: %s", namespace, jobset, error)
            return None
        finally:
            for reads in (self._waiting_reads, self._running_reads):
                if reads.get(key) is this_read:
                    del reads[key]
