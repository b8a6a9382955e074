"""Watches JobSetPolicies, exceptions, and the namespace data that policies read, while the API server serves policies.

The CRD of policies may be installed and removed while the manager runs, so it is looked up again and again. Without the
CRD nothing is watched.

Remembered: these objects, as the watches show them. A process does not serve before it has listed the policies. A
namespace that is not in the cache is read.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from kube.client import Client
from kube.errors import KubeError
from kube.indexes import IndexKey
from kube.informer import Informer, SyncTimeoutError
from kube.resources import NAMESPACES, Resource
from policy.exception_types import JobSetPolicyException
from policy.judged import Namespace
from policy.kinds import API_VERSION, EXCEPTION_KIND, EXCEPTION_PLURAL, GROUP, KIND, PLURAL, VERSION
from policy.namespaces import KnownNamespace, NamespaceMetadata, annotation_keys
from policy.types import JobSetPolicy

log = logging.getLogger(__name__)

JOBSET_POLICIES = Resource(GROUP, VERSION, KIND, PLURAL, namespaced=False)
POLICY_EXCEPTIONS = Resource(GROUP, VERSION, EXCEPTION_KIND, EXCEPTION_PLURAL)
BY_NAMESPACE = "namespace"
"""The index that gives all exceptions of a namespace. All exceptions have the value "" in it."""
READ_TIMEOUT = 2.0
"""Seconds for reading a namespace that is not in the cache."""

MAX_READS = 16
"""At most this many namespaces are read at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """Seconds until the CRD is looked up again, by the last answer, and least seconds between log lines.

    - `between_failure_logs`: between two log lines that policies cannot be listed.
    - `between_count_logs`: between two log lines with the number of policies.
    """

    after_no_answer: float = 1.0
    while_absent: float = 15.0
    while_served: float = 300.0
    between_failure_logs: float = 60.0
    between_count_logs: float = 5.0


PAUSES = Pauses()
Companion = Callable[[], Coroutine[Any, Any, None]]
"""Function that makes a coroutine to run while the API server serves policies."""
OnWatch = Callable[
    [Informer[JobSetPolicy], Informer[KnownNamespace], Informer[JobSetPolicyException] | None],
    None,
]


class PolicyWatches:
    """The policies in force, exceptions, and namespaces. Each process that serves admission has one instance.

    - `companions`: make further coroutines that run while the API server serves policies.
    - `on_watch`: called with the caches whenever new caches have their first objects.
    - `logs_policy_count`: whether the number of policies is logged.
    """

    def __init__(
        self,
        client: Client,
        *,
        companions: Sequence[Companion] = (),
        on_watch: OnWatch | None = None,
        logs_policy_count: bool = True,
        pauses: Pauses = PAUSES,
    ) -> None:
        self._client = client
        self._companions = companions
        self._on_watch = on_watch
        self._logs_policy_count = logs_policy_count
        self._pauses = pauses
        self._changed = asyncio.Event()
        self._settled = asyncio.Event()
        self._last_problem = "no answer yet"
        self._read_slots = asyncio.Semaphore(MAX_READS)
        self._namespaces: Informer[KnownNamespace] | None = None
        self._exceptions: Informer[JobSetPolicyException] | None = None
        self._annotation_keys: frozenset[str] = frozenset()
        self.in_force: tuple[JobSetPolicy, ...] = ()
        """The policies, ordered by name."""

    async def wait_settled(self, timeout: float) -> None:
        """Wait until the policies are listed, or the API server has answered that it does not serve policies.

        Raises `SyncTimeoutError` after `timeout` seconds: without policies, admission would admit JobSets that they
        deny.
        """
        try:
            async with asyncio.timeout(timeout):
                await self._settled.wait()
        except TimeoutError:
            raise SyncTimeoutError(f"{JOBSET_POLICIES}: not known after {timeout:g} s: {self._last_problem}") from None

    async def namespace(self, name: str) -> Namespace:
        """A namespace with the data that policies read: from the cache, or else from the API server.

        Raises `KubeError` or `TimeoutError`.
        """
        annotation_keys = self._annotation_keys
        cached = self._namespaces and self._namespaces.store.get("", name)
        if cached and cached.annotation_keys >= annotation_keys:
            return cached.namespace
        async with asyncio.timeout(READ_TIMEOUT), self._read_slots:
            metadata = await self._client.get(NAMESPACES, name, type=NamespaceMetadata, timeout=READ_TIMEOUT)
        return metadata.known(annotation_keys).namespace

    def exceptions(self, namespace: str) -> list[JobSetPolicyException]:
        """All exceptions in a namespace, also those that do not count."""
        key = IndexKey(namespace, "")
        return [] if self._exceptions is None else self._exceptions.store.by_index(BY_NAMESPACE, key)

    @property
    def all_exceptions(self) -> list[JobSetPolicyException]:
        """The exceptions of all namespaces."""
        return [] if self._exceptions is None else self._exceptions.store.list()

    def exception(self, namespace: str, name: str) -> JobSetPolicyException | None:
        """The exception of this name; None if it does not exist."""
        return None if self._exceptions is None else self._exceptions.store.get(namespace, name)

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            if self._logs_policy_count:
                group.create_task(self._log_policy_count())
            await self._watch_while_served()

    async def _watch_while_served(self) -> None:
        while True:
            served = await self._served_plurals()
            if served is None:
                await asyncio.sleep(self._pauses.after_no_answer)
            elif PLURAL in served:
                await self._watch(with_exceptions=EXCEPTION_PLURAL in served)
            else:
                if self.in_force:
                    self._changed.set()
                self._namespaces, self._exceptions, self._annotation_keys, self.in_force = None, None, frozenset(), ()
                self._settled.set()
                await asyncio.sleep(self._pauses.while_absent)

    async def _log_policy_count(self) -> None:
        """Log the number of policies in force whenever it has changed."""
        logged_number = None
        while True:
            await self._changed.wait()
            self._changed.clear()
            if (number := len(self.in_force)) != logged_number:
                log.info("policies are in force: %d", number)
                logged_number = number
                await asyncio.sleep(self._pauses.between_count_logs)

    async def _served_plurals(self) -> frozenset[str] | None:
        """Plural names of the resources of the API group that the API server serves; None if there is no answer."""
        try:
            return await self._client.served_resources(API_VERSION)
        except (KubeError, TimeoutError) as error:
            self._last_problem = str(error)
            log.warning("whether %s are served is not known: %s", JOBSET_POLICIES, error)
            return None

    async def _watch(self, *, with_exceptions: bool) -> None:
        """Watch until the API server stops serving policies, or starts or stops serving exceptions."""
        policies: Informer[JobSetPolicy] = Informer(self._client, JOBSET_POLICIES, JobSetPolicy)
        self._namespaces = Informer(
            self._client,
            NAMESPACES,
            NamespaceMetadata,  # type: ignore[arg-type]  # the transform returns `KnownNamespace`
            transform=lambda namespace: namespace.known(self._annotation_keys),
            metadata_only=True,
        )
        policies.on_event(lambda *_: self._put_into_force(policies))
        coroutines = [policies.run(), self._namespaces.run(), *(each() for each in self._companions)]
        exceptions: Informer[JobSetPolicyException] | None = None
        if with_exceptions:
            by_namespace = {BY_NAMESPACE: lambda _: [""]}
            exceptions = Informer(self._client, POLICY_EXCEPTIONS, JobSetPolicyException, indexes=by_namespace)
            coroutines.append(exceptions.run())
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(coroutine) for coroutine in coroutines]
            await self._wait_for_first_lists(policies, exceptions)
            if self._on_watch is not None and policies.synced:
                self._on_watch(policies, self._namespaces, exceptions)
            while await self._serves_the_same(with_exceptions=with_exceptions):  # noqa: ASYNC110 -- discovery cannot be watched
                await asyncio.sleep(self._pauses.while_served)
            for task in tasks:
                task.cancel()
        log.info("what is served of %s has changed", API_VERSION)

    async def _serves_the_same(self, *, with_exceptions: bool) -> bool:
        served = await self._served_plurals()
        return served is None or (PLURAL in served and (EXCEPTION_PLURAL in served) is with_exceptions)

    async def _wait_for_first_lists(
        self, policies: Informer[JobSetPolicy], exceptions: Informer[JobSetPolicyException] | None
    ) -> None:
        """Wait until policies and exceptions are listed, or what the API server serves has changed."""
        for informer in (policies, exceptions):
            while informer is not None and not informer.synced:
                try:
                    await informer.wait_synced(self._pauses.between_failure_logs)
                except SyncTimeoutError as error:
                    self._last_problem = str(error)
                    log.warning("policies, or exceptions from them, are not known: %s", error)
                    if not await self._serves_the_same(with_exceptions=exceptions is not None):
                        return
        self._exceptions = exceptions
        self._put_into_force(policies)
        self._settled.set()

    def _put_into_force(self, policies: Informer[JobSetPolicy]) -> None:
        """Put listed policies into force, and list namespaces again if policies read more of their annotations."""
        if not policies.synced:
            return
        self._changed.set()
        self.in_force = tuple(sorted(policies.store.list(), key=lambda policy: policy.metadata.name))
        keys = annotation_keys(self.in_force)
        has_new_keys = not keys <= self._annotation_keys
        self._annotation_keys = keys
        if has_new_keys and self._namespaces is not None:
            self._namespaces.relist()
