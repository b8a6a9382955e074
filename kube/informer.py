"""Informers, as in client-go: an informer keeps a store up to date by a watch, and calls handlers for each change.

Most handlers put keys of the changed object into a work queue. All handlers return at once.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Hashable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar, Unpack

from kube.client import Client
from kube.errors import Forbidden, KubeError, NotFound
from kube.indexes import IndexFunction
from kube.reflector import Target, WatchOptions, watch
from kube.resources import Resource
from kube.store import Change, ChangeKind, Object, Store, Unreadable
from kube.watcher import Apply, Delete, Event, Init, InitDone, Progress
from kube.workqueue import AT_ONCE, LOW_PRIORITY, Turn, WorkQueue

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Object)
K = TypeVar("K", bound=Hashable)

Handler = Callable[[ChangeKind, T | None, T | None], None]
"""Called with (kind, old, new) after the store has changed. An exception is a bug, and ends the informer."""


class SyncTimeoutError(KubeError):
    """The first list was not complete in time."""


class Informer(Generic[T]):
    """Watches the objects of one resource and keeps them in `store`. `options` are those of `kube.reflector.Target`."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        type: type[T],  # noqa: A002 -- the word msgspec uses for what to decode into
        *,
        indexes: Mapping[str, IndexFunction] | None = None,
        cluster_indexes: Mapping[str, IndexFunction] | None = None,
        **options: Unpack[WatchOptions],
    ) -> None:
        self.target = Target(resource, type, **options)
        self.store: Store[T] = Store(indexes, cluster_indexes)
        self.unreadable_total = 0
        self._client = client
        self._handlers: list[Handler[T]] = []
        self._synced = asyncio.Event()
        self._error: KubeError | None = None
        self._watching: asyncio.Task[None] | None = None

    @property
    def synced(self) -> bool:
        """Whether the first list is complete and the handlers have received its objects."""
        return self._synced.is_set()

    @property
    def unsynced_reason(self) -> str:
        """Why the informer is not synced yet, with the last error of the watch; "" if it is synced."""
        return "" if self.synced else f"{self.target.resource} not listed yet: {self._reason}"

    @property
    def not_served(self) -> bool:
        """Whether the watch fails because the API server does not serve the resource any more."""
        return isinstance(self._error, NotFound)

    @property
    def forbidden(self) -> bool:
        """Whether the watch fails because the right to list or watch is missing."""
        return isinstance(self._error, Forbidden)

    @property
    def _reason(self) -> str:
        return str(self._error or "no answer yet")

    def on_event(self, handler: Handler[T]) -> None:
        """Call `handler` for every change, and with ADDED for every object that is already in the store."""
        self._handlers.append(handler)
        for obj in self.store.list():
            handler(ChangeKind.ADDED, None, obj)

    def enqueue(
        self,
        queue: WorkQueue[K],
        keys: Callable[[T], Iterable[K]],
        turn: Callable[[T | None, T | None], Turn] = lambda _old, _new: AT_ONCE,
    ) -> None:
        """Put the keys of the old and the new version of each changed object into the queue, at their `turn`.

        Objects of the first list, and objects that are in the store already, have low priority, since a process that
        takes over gets all of them at once.
        """
        is_initial = True

        def handle(_: ChangeKind, old: T | None, new: T | None) -> None:
            delay, priority = Turn(0.0, LOW_PRIORITY) if is_initial or not self.synced else turn(old, new)
            for obj in (old, new):
                for key in () if obj is None else keys(obj):
                    queue.add_after(key, delay, priority)

        self.on_event(handle)
        is_initial = False

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            # If `relist` cancels the watch, the group ends without an error, and the loop begins another watch.
            async with asyncio.TaskGroup() as group:
                watching = watch(
                    self._client, self.target, self._receive, on_error=self._set_error, on_end=self._set_error
                )
                self._watching = group.create_task(watching, name=f"watch-{self.target.resource}")

    def relist(self) -> None:
        """List the whole collection again, after the transform of the target has begun to keep more fields."""
        if self._watching is not None:
            self._watching.cancel()

    async def wait_synced(self, timeout: float) -> None:
        """Wait for the first list. Raises `SyncTimeoutError` with the last error of the watch."""
        try:
            async with asyncio.timeout(timeout):
                await self._synced.wait()
        except TimeoutError:
            message = f"{self.target.resource}: not listed after {timeout:g} s: {self._reason}"
            raise SyncTimeoutError(message) from None

    def _set_error(self, error: KubeError | None = None) -> None:
        self._error = error

    def _receive(self, event: Event) -> None:
        match event:
            case Init():
                self.store.begin()
            case Apply(obj):
                if isinstance(obj, Unreadable):
                    self._report_unreadable(obj)
                self._call_handlers(self.store.apply(obj))
            case Delete(obj):
                self._call_handlers(self.store.remove(obj))
            case Progress(version):
                self._call_handlers(self.store.advance(version))
            case InitDone(version):
                self._call_handlers(self.store.commit(version))
                self._synced.set()

    def _report_unreadable(self, obj: Unreadable) -> None:
        self.unreadable_total += 1
        object_name = f"{self.target.resource} {obj.metadata.namespace}/{obj.metadata.name}"
        log.error("%s cannot be read and is left out: %s", object_name, obj.reason)

    def _call_handlers(self, changes: Iterable[Change[T]]) -> None:
        for change in changes:
            for handler in self._handlers:
                handler(*change)


class InformerGroup:
    """Informers that run and sync together. `companions`: functions whose coroutines run with the informers."""

    informers: Sequence[Informer[Any]]
    companions: Sequence[Callable[[], Coroutine[Any, Any, None]]] = ()

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self.informers:
                group.create_task(informer.run())
            for companion in self.companions:
                group.create_task(companion())

    async def wait_synced(self, timeout: float) -> None:
        """Wait until every informer is synced.

        Raises `SyncTimeoutError` with the name of an informer that is not synced after `timeout` seconds.
        """
        await asyncio.gather(*(informer.wait_synced(timeout) for informer in self.informers))

    @property
    def unsynced_reasons(self) -> list[str]:
        """A text for each informer that is not synced yet."""
        return [informer.unsynced_reason for informer in self.informers if informer.unsynced_reason]
