"""Writes into the status of a JobSetPolicyException when it was first used: a JobSet broke a rule, and was admitted.

Every replica tries to write, and the first one succeeds.

Remembered: exceptions that were used, by UID, until 10,000 later exceptions. Without it an exception is read once more.
"""

import logging
from collections.abc import Callable
from datetime import datetime

from controllers.resources import POLICY_EXCEPTIONS
from kube import clock
from kube.client import Client
from kube.errors import Conflict, KubeError, NotFound
from kube.model.meta import Base, Identity
from policy.status_types import ANYONE, JobSetPolicyExceptionStatus

log = logging.getLogger(__name__)

MAX_WAITING = 1_000
"""At most this many exceptions wait to be written. Further exceptions are written when they are used again."""
MAX_RECORDED = 10_000
"""At most this many exceptions are remembered as used before."""
TIMEOUT = 10.0
"""Seconds until one request times out."""


class _StoredException(Base, frozen=True, kw_only=True):
    """The part of an exception with the time of its first use."""

    metadata: Identity
    status: JobSetPolicyExceptionStatus = JobSetPolicyExceptionStatus()


class ExceptionUses:
    """The exceptions that were used in one replica. Each is read once, and written unless another replica has done so.

    `reviews_from`: who can send reviews: `APIServer` if clients have to show its certificate, else `Anyone`. A use in a
    review by the API server replaces a use in a review that anyone may have sent.
    """

    def __init__(self, client: Client, reviews_from: str, *, now: Callable[[], datetime] = clock.now) -> None:
        self._client = client
        self._reviews_from = reviews_from
        self._now = now
        self._unwritten: dict[str, tuple[str, str, str]] = {}
        self._recorded_uids: dict[str, None] = {}

    def record_exception_use(self, namespace: str, name: str, uid: str) -> None:
        """Remember that an exception was used. Never waits."""
        if uid not in self._recorded_uids and uid not in self._unwritten and len(self._unwritten) < MAX_WAITING:
            self._unwritten[uid] = namespace, name, clock.rfc3339(self._now())

    async def write(self) -> None:
        """Write new uses. A use that cannot be written now is kept, unless the exception is gone."""
        for uid, (namespace, name, at) in list(self._unwritten.items()):
            try:
                await self._write(uid, namespace, name, at)
            except NotFound:
                pass
            except Conflict:
                continue  # another replica has written, so the exception is read again
            except KubeError as error:
                log.warning("the first use of exception %s/%s waits to be written: %s", namespace, name, error)
                return
            self._unwritten.pop(uid, None)
            self._recorded_uids[uid] = None
            if len(self._recorded_uids) > MAX_RECORDED:
                del self._recorded_uids[next(iter(self._recorded_uids))]

    async def _write(self, uid: str, namespace: str, name: str, at: str) -> None:
        stored = await self._client.get(
            POLICY_EXCEPTIONS, name, type=_StoredException, namespace=namespace, timeout=TIMEOUT
        )
        meta = stored.metadata
        is_recorded = stored.status.first_used is not None and self._reviews_from in {
            ANYONE,
            stored.status.reviews_from,
        }
        if meta.uid != uid or is_recorded:
            return
        status = {"firstUsed": at, "reviewsFrom": self._reviews_from}
        body = {"metadata": {"resourceVersion": meta.resource_version}, "status": status}
        await self._client.patch(
            POLICY_EXCEPTIONS, name, body, subresource="status", namespace=namespace, timeout=TIMEOUT
        )
