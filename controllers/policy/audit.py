"""Audits all stored JobSets periodically: finds their violations of policies, for the status of each policy.

Audits run in the replica with the lease, from its caches. A thread evaluates a few JobSets at a time. The pause after
them is four times as long. So the event loop is not blocked, and an audit takes at most a fifth of a processor. Without
policies there is no audit.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from api.jobset import JobSet
from api.packed import unpack
from controllers.policy.reports import PolicyReports
from controllers.resources import JOBSET_POLICIES
from kube import clock
from kube.client import Client
from kube.errors import Conflict, KubeError, NotFound, raised_at
from kube.indexes import Key
from kube.model.meta import ObjectMeta
from kube.store import Store
from policy.audit import Audit, audit_json
from policy.evaluate import PolicySource
from policy.exception_types import JobSetPolicyException
from policy.judged import JudgedJobSet, Namespace

log = logging.getLogger(__name__)

BATCH_SIZE = 10
"""This many JobSets are evaluated without a pause."""
PAUSE_RATIO = 4.0
"""Length of a pause, as a multiple of the time of the work before it."""
CHECK_PERIOD = 5.0
"""Seconds between two checks for new or changed policies."""
AUDIT_AFTER_CHANGE = 30.0
"""Seconds from the start of one audit to the start of the next if policies have changed, unless `every` is less."""


class _AuditedJobSet(NamedTuple):
    """A JobSet with its namespace, and the exceptions from policies in this namespace."""

    jobset: JobSet
    namespace: Namespace
    exceptions: Sequence[JobSetPolicyException]


class PolicyAudits:
    """Audits all JobSets periodically. `every`: seconds from the start of one audit to the start of the next.

    Without `reports`, no reports are written.
    """

    def __init__(
        self,
        client: Client,
        jobsets: Store[JobSet],
        source: PolicySource,
        *,
        every: float,
        reports: PolicyReports | None = None,
        now: Callable[[], datetime] = clock.now,
    ) -> None:
        self._client = client
        self._jobsets = jobsets
        self._source = source
        self._every = every
        self._reports = reports
        self._now = now

    async def run(self) -> None:
        """Audit periodically, and soon after policies have changed, until cancelled."""
        last_start_seconds = -self._every
        audited_policies: tuple[tuple[str, int], ...] = ()
        while True:
            policies = tuple((policy.metadata.uid, policy.metadata.generation) for policy in self._source.in_force)
            pause = self._every if policies == audited_policies else min(AUDIT_AFTER_CHANGE, self._every)
            if policies and asyncio.get_running_loop().time() - last_start_seconds >= pause:
                last_start_seconds, audited_policies = asyncio.get_running_loop().time(), policies
                await self.audit()
            await asyncio.sleep(min(CHECK_PERIOD, self._every))

    async def audit(self) -> None:
        """Audit all JobSets once, by the policies that exist at the start."""
        audit_time = self._now()
        audit = Audit(tuple(self._source.in_force), reports=self._reports is not None)
        seconds = asyncio.get_running_loop().time
        namespaces: dict[str, Namespace | None] = {}
        keys = self._jobsets.keys()
        for start in range(0, len(keys), BATCH_SIZE):
            batch = [item async for item in self._audited_jobsets(keys[start : start + BATCH_SIZE], namespaces)]
            start_seconds = seconds()
            await asyncio.to_thread(_judge, audit, batch, audit_time)
            await asyncio.sleep(PAUSE_RATIO * (seconds() - start_seconds))
        for policy in audit.policies:
            await self._write(audit, policy.metadata, clock.rfc3339(audit_time))
        if self._reports is not None:
            await self._reports.write(audit)

    async def _audited_jobsets(
        self, keys: Sequence[Key], namespaces: dict[str, Namespace | None]
    ) -> AsyncIterator[_AuditedJobSet]:
        """The JobSets with these keys (namespace and name) that still exist and are not being deleted.

        Their namespaces are added to `namespaces`. A namespace that cannot be read is added as None, and its JobSets
        are left out.
        """
        for namespace_name, name in keys:
            jobset = self._jobsets.get(namespace_name, name)
            if jobset is None or jobset.metadata.deletion_timestamp is not None:
                continue
            if namespace_name not in namespaces:
                namespaces[namespace_name] = await self._namespace(namespace_name)
            namespace = namespaces[namespace_name]
            if namespace is not None:
                yield _AuditedJobSet(jobset, namespace, self._source.exceptions(namespace_name))

    async def _namespace(self, name: str) -> Namespace | None:
        try:
            return await self._source.namespace(name)
        except NotFound:
            return None  # the namespace was deleted meanwhile with its JobSets
        except (KubeError, TimeoutError) as error:
            log.warning("JobSets of namespace %s are not audited: it cannot be read: %s", name, error)
            return None

    async def _write(self, audit: Audit, policy: ObjectMeta, at: str) -> None:
        body = {"metadata": {"uid": policy.uid}, "status": {"audit": audit_json(audit.result(policy.name, at))}}
        try:
            await self._client.patch(JOBSET_POLICIES, policy.name, body, subresource="status")
        except (Conflict, NotFound):
            return  # the policy is gone or was replaced, or the CRD has no status
        except KubeError as error:
            log.warning("the audit of policy %s is not written: %s", policy.name, error)


def _judge(audit: Audit, batch: Iterable[_AuditedJobSet], audit_time: datetime) -> None:
    """Evaluate JobSets. Tenants write JobSets, so a bug that a JobSet triggers must not end the manager."""
    for jobset, namespace, exceptions in batch:
        try:
            audit.add(JudgedJobSet(unpack(jobset)), namespace, exceptions, audit_time)
        except Exception as error:  # noqa: BLE001 -- the same boundary as that of a reconcile
            _log_failure(jobset, error)


def _log_failure(jobset: JobSet, error: Exception) -> None:
    """Log the type of the exception and where it was raised. Its text might quote the JobSet."""
    jobset_name, error_name = f"{jobset.metadata.namespace}/{jobset.metadata.name}", type(error).__name__
    log.error("JobSet %s is not audited: error=%s at=%s", jobset_name, error_name, raised_at(error))
