"""Follows the pods that outlive their Jobs: those of earlier attempts of a set that restarts, until the last is gone.

A watch of its own for each such set, of metadata only, that ends with the last pod. What is known is lost when the
process ends: the next one asks again before it creates a Job. Must not decide anything about Jobs.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from api import keys
from api.jobset import JobSet
from api.meta import Base, Identity
from kube.client import Client
from kube.controller import Request
from kube.informer import Informer, SyncTimeoutError
from kube.resources import PODS
from kube.store import ChangeKind
from kube.workqueue import WorkQueue

log = logging.getLogger(__name__)

PATIENCE = 60.0
"""Seconds after which it is said that the first list has not come."""


class PodMetadata(Base, frozen=True, kw_only=True):
    """A pod of which only metadata was sent."""

    metadata: Identity


class OldPod(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A pod of an earlier attempt, as far as it counts here; there may be tens of thousands.

    `job` is the name of what controls it, empty for nothing. It doubles as its own metadata.
    """

    namespace: str
    name: str
    resource_version: str
    job: str

    @property
    def uid(self) -> str:
        """They are told apart by their names; nothing is written to them."""
        return self.name

    @property
    def metadata(self) -> "OldPod":
        return self


def old_pod(pod: PodMetadata) -> OldPod:
    """What is kept of a pod."""
    meta = pod.metadata
    owner = meta.controller()
    job = "" if owner is None else owner.name
    return OldPod(namespace=meta.namespace, name=meta.name, resource_version=meta.resource_version, job=job)


@dataclass(slots=True)
class _Followed:
    """The pods of all attempts before `attempt` of the JobSet with that UID. `over`: none is left, nobody looks."""

    uid: str
    attempt: int
    pods: Informer[OldPod]
    task: asyncio.Task[None] | None = None
    over: bool = False


class Lingering:
    """Lives as long as the reconcile loop, which `run` has to accompany."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._tell: Callable[[Request], None] = lambda _: None
        self._followed: dict[Request, _Followed] = {}
        self._new = asyncio.Event()

    def feed(self, queue: WorkQueue[Request]) -> None:
        """From now on, put a JobSet into the queue whenever something has become known of it."""
        self._tell = queue.add

    def names(self, js: JobSet) -> frozenset[str] | None:
        """The Jobs of which pods of earlier attempts are left; None while that is not known."""
        of = self._current(js)
        if of is None:
            return None
        if of.over:
            return frozenset()
        if not of.pods.synced:
            return None
        # A pod that nothing controls stands in nobody's way.
        return frozenset(pod.job for pod in of.pods.store.list() if pod.job)

    def follow(self, js: JobSet, *, anew: bool) -> None:
        """From now on know of the pods of attempts before the current one.

        `anew`: Jobs have been deleted. A watch may be behind, and only a list from after that shows all their pods.
        """
        of = self._current(js)
        if of is not None and not of.over and not anew:
            return
        request, uid, attempt = _request(js), js.metadata.uid, js.status.restarts
        self.forget(request)
        pods: Informer[OldPod] = Informer(
            self._client,
            PODS,
            PodMetadata,  # type: ignore[arg-type]  # what is decoded; the transform gives what is kept
            namespace=request.namespace,
            label_selector=f"{keys.JOBSET_UID}={uid},{keys.RESTART_ATTEMPT} notin ({attempt})",
            transform=old_pod,
            metadata_only=True,
        )
        # A pod that begins or changes lets nobody do more than before.
        pods.on_event(lambda kind, *_: self._tell(request) if kind is ChangeKind.DELETED else None)
        self._followed[request] = _Followed(uid, attempt, pods)
        self._new.set()

    def enough(self, js: JobSet) -> None:
        """The Jobs of earlier attempts are gone: stop as soon as their pods are."""
        of = self._current(js)
        if of is not None and not of.over and self.names(js) == frozenset():
            of.over = True
            _stop(of)

    def forget(self, request: Request) -> None:
        """A JobSet is gone, or has gone on to another attempt."""
        of = self._followed.pop(request, None)
        if of is not None:
            _stop(of)

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                self._new.clear()
                for request, of in self._followed.items():
                    if of.task is None and not of.over:
                        of.task = group.create_task(self._watch(request, of), name=f"old-pods-of-{request.name}")
                await self._new.wait()

    async def _watch(self, request: Request, of: _Followed) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(of.pods.run())
            while not of.pods.synced:
                try:
                    await of.pods.wait_synced(PATIENCE)
                except SyncTimeoutError as error:
                    log.warning("%s/%s cannot go on with its restart: %s", request.namespace, request.name, error)
            self._tell(request)

    def _current(self, js: JobSet) -> _Followed | None:
        of = self._followed.get(_request(js))
        same = of is not None and (of.uid, of.attempt) == (js.metadata.uid, js.status.restarts)
        return of if same else None


def _stop(of: _Followed) -> None:
    if of.task is not None:
        of.task.cancel()


def _request(js: JobSet) -> Request:
    return Request(js.metadata.namespace, js.metadata.name)
