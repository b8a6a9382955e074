"""Keeps the conditions in the status of policies and of exceptions up to date, in the replica with the lease.

A policy is a JobSetPolicy. An exception is a JobSetPolicyException: rules of a policy do not count for JobSets of its
namespace for a time. Admission decides at each review, by `policy.exceptions`, whether an exception counts. The status
of an exception is for people, and no decision reads it.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, Protocol

import msgspec

from api.features import FeatureGates
from controllers.policy.counts import StoredPolicy
from controllers.resources import JOBSET_POLICIES, POLICY_EXCEPTIONS
from kube import clock
from kube.client import Client
from kube.controller import Request, Result
from kube.errors import NotFound
from kube.events import Recorder, Reference
from kube.informer import Informer
from kube.store import ChangeKind
from kube.workqueue import WorkQueue
from policy.conditions import FIRST_USED, USED, EnforcementState, exception_status, policy_status, reportable_conditions
from policy.evaluate import PolicySource
from policy.exception_types import JobSetPolicyException
from policy.exceptions import EXPIRED, standing
from policy.kinds import API_VERSION, EXCEPTION_KIND
from policy.namespaces import KnownNamespace
from policy.types import JobSetPolicy

NAME: Final = "jobset-policy"
WORKERS = 2
LONGEST_PAUSE = 3600.0
"""At most this many seconds until an exception that counts is reconciled again, even if the clock is changed."""
END_DELAY = 0.1
"""Seconds from the end of an exception until it is reconciled, since the clocks of replicas differ."""
_FIELDS_OF_REPLICAS: Final = {"firstUsed", "reviewsFrom"}
"""Fields of an exception's status that `controllers.policy.uses` writes."""
EVENT_NOTES = {
    EXPIRED: "it does not count any more: {message}; JobSets that exist go on",
    FIRST_USED: "for the first time, a JobSet broke a rule of policy {policy} and that did not count: {message}",
}
"""The note of an event about an exception, by the end of the event's reason."""


class StoredPolicies(PolicySource, Protocol):
    """All policies and exceptions from the caches of the watches."""

    @property
    def all_exceptions(self) -> Sequence[JobSetPolicyException]:
        """The exceptions of all namespaces."""

    def exception(self, namespace: str, name: str) -> JobSetPolicyException | None:
        """The exception with this name; None if it does not exist."""


class EnforcementStates(Protocol):
    """The states of the policies with `apiServer: Enforce`, which the API server has to enforce, too."""

    def state(self, name: str) -> EnforcementState | None:
        """The state of the policy with this name; None if it is not known yet."""


class ExceptionMetrics(Protocol):
    """Counts what happens to exceptions."""

    def exception(self, policy: str, action: str) -> None:
        """Count one event. `policy`: the name of a stored policy. `action`: Expired or FirstUsed."""


class PolicyReconciler:
    """Reconciles policies, whose requests have no namespace, and exceptions.

    `source` and `enforcement` are set before the first reconcile. Without `enforcement`, the status of a policy says
    nothing about the API server.
    """

    source: StoredPolicies
    enforcement: EnforcementStates | None = None

    def __init__(
        self,
        client: Client,
        gates: FeatureGates,
        recorder: Recorder,
        metrics: ExceptionMetrics,
        now: Callable[[], datetime] = clock.now,
    ) -> None:
        self._client = client
        self._gates = gates
        self._recorder = recorder
        self._metrics = metrics
        self._now = now

    def feed(
        self,
        queue: WorkQueue[Request],
        policies: Informer[JobSetPolicy],
        namespaces: Informer[KnownNamespace],
        exceptions: Informer[JobSetPolicyException] | None,
    ) -> None:
        """Put all objects of these caches into the queue, and from now on the objects that a change affects."""
        policies.enqueue(queue, lambda policy: [Request("", policy.metadata.name)])
        if exceptions is not None:
            exceptions.enqueue(queue, lambda exception: [_request(exception)])
        unseen_policies = len(policies.store)

        def policy_changed(_: ChangeKind, old: JobSetPolicy | None, new: JobSetPolicy | None) -> None:
            nonlocal unseen_policies
            if unseen_policies > 0:
                unseen_policies -= 1  # the first events are about the cached policies, which are in the queue already
            elif old is None or new is None or old.spec != new.spec:
                names = {policy.metadata.name for policy in (old, new) if policy is not None}
                self._enqueue_affected(queue, names, exceptions)

        def namespace_changed(_: ChangeKind, old: KnownNamespace | None, new: KnownNamespace | None) -> None:
            if old is not None and new is not None and old.namespace.labels != new.namespace.labels:
                for exception in self.source.exceptions(new.metadata.name):
                    queue.add(_request(exception))

        policies.on_event(policy_changed)
        namespaces.on_event(namespace_changed)

    def _enqueue_affected(
        self, queue: WorkQueue[Request], names: set[str], exceptions: Informer[JobSetPolicyException] | None
    ) -> None:
        """Enqueue all policies, since each may conflict with a changed policy, and exceptions from changed policies."""
        for policy in self.source.in_force:
            queue.add(Request("", policy.metadata.name))
        for exception in () if exceptions is None else exceptions.store.list():
            if exception.spec.policy in names:
                queue.add(_request(exception))

    async def reconcile(self, request: Request) -> Result | None:
        """Update the conditions of one policy or exception."""
        try:
            if not request.namespace:
                await self._reconcile_policy(request.name)
                return None
            return await self._reconcile_exception(request)
        except NotFound:
            return None  # the object is gone, or the CRD has no status

    def _policy(self, name: str) -> JobSetPolicy | None:
        return next((policy for policy in self.source.in_force if policy.metadata.name == name), None)

    async def _reconcile_policy(self, name: str) -> None:
        policies, policy = self.source.in_force, self._policy(name)
        if policy is None:
            return
        stored = await self._client.get(JOBSET_POLICIES, name, type=StoredPolicy)
        enforcement = None if self.enforcement is None else self.enforcement.state(name)
        status = policy_status(policy, stored.status, policies, self._gates, clock.rfc3339(self._now()), enforcement)
        if status == stored.status:
            return
        written_status = {
            "observedGeneration": status.observed_generation,
            "conditions": [msgspec.to_builtins(condition) for condition in status.conditions],
        }
        body = {"metadata": {"resourceVersion": stored.metadata.resource_version}, "status": written_status}
        await self._client.patch(JOBSET_POLICIES, name, body, subresource="status")

    async def _reconcile_exception(self, request: Request) -> Result | None:
        exception = self.source.exception(request.namespace, request.name)
        if exception is None:
            return None
        policy_name = exception.spec.policy
        policy = self._policy(policy_name)
        namespace = await self.source.namespace(request.namespace)
        now = self._now()
        current_standing = standing(exception, policy, namespace, now)
        status = exception_status(exception, current_standing, clock.rfc3339(now))
        if status != exception.status:
            await self._write_exception_status(exception, msgspec.to_builtins(status))
            for condition in reportable_conditions(exception.status, status):
                event = FIRST_USED if condition.type == USED else EXPIRED
                note = EVENT_NOTES[event].format(policy=policy_name, message=condition.message)
                self._recorder.record(_reference(exception), "Normal", f"Exception{event}", note)
                if policy is not None:
                    self._metrics.exception(policy_name, event)
        if current_standing.why_not or current_standing.end_time is None:
            return None
        return Result(min((current_standing.end_time - now).total_seconds() + END_DELAY, LONGEST_PAUSE))

    async def _write_exception_status(self, exception: JobSetPolicyException, status: dict[str, object]) -> None:
        """Write every field that this controller sets. `until` is removed if `status` does not have it."""
        meta = exception.metadata
        fields = {"until": None, **{key: value for key, value in status.items() if key not in _FIELDS_OF_REPLICAS}}
        body = {"metadata": {"resourceVersion": meta.resource_version}, "status": fields}
        await self._client.patch(POLICY_EXCEPTIONS, meta.name, body, subresource="status", namespace=meta.namespace)


def _request(exception: JobSetPolicyException) -> Request:
    return Request(exception.metadata.namespace, exception.metadata.name)


def _reference(exception: JobSetPolicyException) -> Reference:
    meta = exception.metadata
    return Reference(
        api_version=API_VERSION,
        kind=EXCEPTION_KIND,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )
