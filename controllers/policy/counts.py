"""Writes into the status of policies how often admission has decided by them, from each replica.

Replicas share no state. Each replica reads the status, adds its new counts and writes the status, unless another
replica has written meanwhile. A write without an answer is not repeated, so that nothing is counted twice.

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
"""At most this many policies have counts that are not written yet. Decisions of further policies are not counted."""
TRIES = 5
"""At most this many tries of one write, while other replicas write the same status."""
PAUSE = 0.2
"""At most this many seconds from the first to the second try. Each further pause is longer by this time."""
TIMEOUT = 10.0
"""Seconds until one request times out."""


class StoredPolicy(Base, frozen=True, kw_only=True):
    """The part of a policy that has its status."""

    metadata: Identity
    status: JobSetPolicyStatus = JobSetPolicyStatus()


class PolicyCounts:
    """The counts of one replica that are not written yet.

    - `reviews_from`: who can send reviews: `APIServer` if clients have to show its certificate, else `Anyone`.
    - `jitter`: returns a random number from 0 to 1, for the pause after a conflict.
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
        self._unwritten: dict[PolicyId, Tally] = {}
        self._is_failing = False

    def count_decision(self, policy: PolicyId, rule: str, action: str, count: int = 1) -> None:
        """Count `count` equal decisions. Never waits."""
        if policy in self._unwritten or len(self._unwritten) < MAX_POLICIES:
            self._unwritten.setdefault(policy, Tally()).add(rule, action, count, clock.rfc3339(self._now()))

    async def write(self) -> None:
        """Write new counts, one policy after another. Counts that cannot be written are kept for the next call."""
        last_error: KubeError | None = None
        for policy in list(self._unwritten):
            tally = self._unwritten.pop(policy)
            try:
                await self._write(policy, tally)
            except NotFound:
                continue  # the policy is gone, or the CRD has no status
            except _UnknownOutcomeError as error:
                log.warning("counts of policy %s may be lost: %s", policy.name, error)
            except KubeError as error:
                self._unwritten.setdefault(policy, Tally()).join(tally)
                last_error = error
        if last_error is not None and not self._is_failing:
            log.warning("counts of policies wait to be written: %s", last_error)
        self._is_failing = last_error is not None

    async def _write(self, policy: PolicyId, tally: Tally) -> None:
        name = policy.name
        for earlier_tries in range(TRIES):
            stored = await self._client.get(JOBSET_POLICIES, name, type=StoredPolicy, timeout=TIMEOUT)
            if stored.metadata.uid != policy.uid:
                return  # the counts are about an earlier policy of the same name, which is gone
            status = status_patch(stored.status, tally, self._reviews_from)
            body = {"metadata": {"resourceVersion": stored.metadata.resource_version}, "status": status}
            try:
                await self._client.patch(JOBSET_POLICIES, name, body, subresource="status", timeout=TIMEOUT)
            except Conflict:
                if earlier_tries == TRIES - 1:
                    raise
                await asyncio.sleep(PAUSE * (earlier_tries + self._jitter()))
            except (ServerError, TransportError, UnreadableAnswerError) as error:
                if isinstance(error, TransportError) and not error.sent:
                    raise
                raise _UnknownOutcomeError(str(error)) from error
            else:
                return


class _UnknownOutcomeError(KubeError):
    """A write without an answer, which the API server may have carried out or may still carry out."""
