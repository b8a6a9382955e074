"""Joins the JobSet controller: watches, the map from a change to a JobSet, and observe -> plan -> execute."""

import asyncio
from collections.abc import Iterable

from api import keys
from api.batch import Job, Owned
from api.features import FeatureGates
from api.jobset import JobSet
from api.meta import Identity
from api.names import subdomain
from controllers.jobset.actions import Observed
from controllers.jobset.execute import JOBSETS, Caches, Executor, Outcomes, Recorder
from controllers.jobset.plan import plan
from kube.client import Client
from kube.clock import now, rfc3339
from kube.controller import Request, Result
from kube.informer import Informer
from kube.resources import JOBS, PERSISTENT_VOLUME_CLAIMS, SERVICES
from kube.workqueue import WorkQueue

NAME = "jobset"
"""Label value of this controller in metrics."""

BY_OWNER = "owner"
"""Index of Jobs by the UID of the JobSet that controls them."""


class Watches:
    """What the JobSet controller reads. Synced on every replica, so that a new leader starts warm."""

    def __init__(self, client: Client) -> None:
        ours = keys.JOBSET_NAME
        self.jobsets = Informer(client, JOBSETS, JobSet)
        self.jobs = Informer(client, JOBS, Job, indexes={BY_OWNER: _owner_uid}, label_selector=ours)
        self.services = Informer(client, SERVICES, Owned)
        self.claims = Informer(client, PERSISTENT_VOLUME_CLAIMS, Owned, label_selector=ours)

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in (self.jobsets, self.jobs, self.services, self.claims):
                group.create_task(informer.run())

    async def wait_synced(self, timeout: float) -> None:
        """Wait until every first list is complete; raises with the name of the one that is not after `timeout` s."""
        for informer in (self.jobsets, self.jobs, self.services, self.claims):
            await informer.wait_synced(timeout)

    def feed(self, queue: WorkQueue[Request]) -> None:
        """From now on, put the JobSet of every change into the queue."""
        self.jobsets.enqueue(queue, lambda js: [Request(js.metadata.namespace, js.metadata.name)])
        self.jobs.enqueue(queue, lambda job: owner_requests(job.metadata))
        self.services.enqueue(queue, lambda service: owner_requests(service.metadata))
        self.claims.enqueue(queue, lambda claim: owner_requests(claim.metadata))

    def caches(self) -> Caches:
        """The stores that plans read and writes fill."""
        return Caches(self.jobsets.store, self.jobs.store, self.services.store, self.claims.store)


class JobSetReconciler:
    """The reconcile function of the JobSet controller."""

    def __init__(
        self, client: Client, caches: Caches, gates: FeatureGates, recorder: Recorder, outcomes: Outcomes
    ) -> None:
        self._caches = caches
        self._gates = gates
        self._executor = Executor(client, caches, recorder, outcomes)
        self._written: dict[Request, float] = {}

    async def reconcile(self, request: Request) -> Result:
        js = self._caches.jobsets.get(request.namespace, request.name)
        if js is None:
            self._written.pop(request, None)
            return Result()
        decided = plan(self._observe(request, js), self._gates)
        await self._executor.execute(js, decided)
        if decided.status is not None:
            self._written[request] = asyncio.get_running_loop().time()
        return Result(decided.requeue_after)

    def _observe(self, request: Request, js: JobSet) -> Observed:
        """One frozen view of the caches."""
        written = self._written.get(request)
        claims = self._caches.claims.list(request.namespace) if js.spec.volume_claim_policies else ()
        return Observed(
            jobset=js,
            jobs=tuple(self._caches.jobs.by_index(BY_OWNER, js.metadata.uid)),
            service_exists=self._caches.services.get(request.namespace, subdomain(js)) is not None,
            claims=frozenset(claim.metadata.name for claim in claims),
            now=rfc3339(now()),
            since_status_write=None if written is None else asyncio.get_running_loop().time() - written,
        )


def _owner_uid(job: Job) -> Iterable[str]:
    owner = _owner(job.metadata)
    return [] if owner is None else [owner[1]]


def owner_requests(meta: Identity) -> list[Request]:
    """The JobSet that controls an object, as a request; none for objects of others."""
    owner = _owner(meta)
    return [] if owner is None else [Request(meta.namespace, owner[0])]


def _owner(meta: Identity) -> tuple[str, str] | None:
    """(name, uid) of the controlling JobSet."""
    ref = meta.controller()
    if ref is None or ref.kind != keys.KIND or ref.api_version != keys.API_VERSION:
        return None
    return ref.name, ref.uid
