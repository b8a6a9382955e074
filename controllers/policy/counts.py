"""Writes the counts of admission into the status of policies, from each replica.

Replicas share no state: each reads the status, adds its new counts and writes it, unless another replica has written
meanwhile. A write without an answer is not repeated: nothing is counted twice.

Remembered: counts by policy, 10,000 at most, for 30 s or until they can be written. A replica that dies loses them.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime

from controllers.resources import JOBSET_POLICIES
from kube import clock
from kube.client import Client
from kube.errors import Conflict, KubeError, NotFound, ServerError, TransportError, UnreadableAnswerError
from kube.model.meta import Base, Identity
from policy.counts import Tally, status_patch
from policy.kinds import PolicyId
from policy.status_types import JobSetPolicyStatus

log = logging.getLogger(__name__)

MAX_POLICIES = 10_000
"""Policies with counts that are not written yet; decisions of further policies are not counted."""
TRIES = 5
"""Attempts at one write, while other replicas write, too."""
PAUSE = 0.2
"""Seconds until the next try, at most; more for each further one."""
TIMEOUT = 10.0
"""Seconds for one request."""


class StoredPolicy(Base, frozen=True, kw_only=True):
    """The part of a policy that has its counts."""

    metadata: Identity
    status: JobSetPolicyStatus = JobSetPolicyStatus()


class PolicyCounts:
    """The counts of one replica. `jitter`: a random number from 0 to 1, for the pause after a conflict.

    `reviews_from`: who may send reviews; a field of the status.
    """

    def __init__(
        self,
        client: Client,
        reviews_from: str,
        *,
        jitter: Callable[[], float],
        now: Callable[[], datetime] = clock.now,
    ) -> None:
        self._client = client
        self._reviews_from = reviews_from
        self._jitter = jitter
        self._now = now
        self._new: dict[PolicyId, Tally] = {}
        self._failing = False

    def count_decision(self, policy: PolicyId, rule: str, action: str, count: int = 1) -> None:
        """Count a decision; never waits."""
        if policy in self._new or len(self._new) < MAX_POLICIES:
            self._new.setdefault(policy, Tally()).add(rule, action, count, clock.rfc3339(self._now()))

    async def write(self) -> None:
        """Write new counts, one policy after the other. A count that cannot be written is kept for the next time."""
        remaining: KubeError | None = None
        for policy in list(self._new):
            tally = self._new.pop(policy)
            try:
                await self._write(policy, tally)
            except NotFound:
                continue  # no such policy any more, or a CRD without status
            except _UnknownError as error:
                log.warning("counts of policy %s may be lost: %s", policy.name, error)
            except KubeError as error:
                self._new.setdefault(policy, Tally()).join(tally)
                remaining = error
        if remaining is not None and not self._failing:
            log.warning("counts of policies wait to be written: %s", remaining)
        self._failing = remaining is not None

    async def _write(self, policy: PolicyId, tally: Tally) -> None:
        name = policy.name
        for tried in range(TRIES):
            stored = await self._client.get(JOBSET_POLICIES, name, type=StoredPolicy, timeout=TIMEOUT)
            if stored.metadata.uid != policy.uid:
                return  # created again meanwhile: decisions of the earlier policy do not count for it
            status = status_patch(stored.status, tally, self._reviews_from)
            body = {"metadata": {"resourceVersion": stored.metadata.resource_version}, "status": status}
            try:
                await self._client.patch(JOBSET_POLICIES, name, body, subresource="status", timeout=TIMEOUT)
            except Conflict:
                if tried == TRIES - 1:
                    raise
                await asyncio.sleep(PAUSE * (tried + self._jitter()))
            except (ServerError, TransportError, UnreadableAnswerError) as error:
                if isinstance(error, TransportError) and not error.sent:
                    raise
                raise _UnknownError(str(error)) from error
            else:
                return


class _UnknownError(KubeError):
    """A write that may have been, or may still be, carried out."""
