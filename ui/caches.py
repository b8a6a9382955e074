"""The page's data about the cluster: bounded caches, each fed by a watch. Writes nothing."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, Unpack

from api import keys
from api.batch import Job
from api.gang_status import StoredGroup
from api.jobset import JobSet
from api.pod import DetailedPod
from controllers.resources import JOBSETS
from kube.client import Client
from kube.clock import now as wall_clock
from kube.errors import ApiError, KubeError
from kube.indexes import IndexFunction, IndexKey, Key
from kube.informer import Informer
from kube.model.meta import JSON
from kube.reflector import WatchOptions
from kube.resources import COMPOSITE_POD_GROUPS, JOBS, NODES, POD_GROUPS, PODS, Resource
from kube.store import Changes, DroppedObject, Object, Store, Unreadable, key_of
from ui.board import Board
from ui.records import PlacedPod, SeenNode, placed_pod, topologies, trimmed_jobset
from ui.topology import domain_map
from ui.views import detail, row

MAX_SETS = 2_000
MAX_JOBS = 20_000
MAX_PODS = 100_000
MAX_NODES = 20_000
MAX_GROUPS = 10_000
"""The maximum number of cached objects of each kind. If there are more, the page has a note."""
MAX_TOPOLOGIES = 20
"""The maximum number of topologies to choose from. The most used ones are kept."""

PUBLISH_PERIOD = 0.5
"""Seconds between two versions of the board."""
CHECK_PERIOD = 15.0
"""Seconds between two checks whether the API server answers."""
CHECK_TIMEOUT = 10.0

MISSING_WITHOUT_RIGHT = {
    JOBSETS: "the list is not kept up to date",
    JOBS: "Jobs and which of them are ready are not shown",
    PODS: "the maps do not show which Job is where",
    NODES: "the maps do not show racks or other domains",
    POD_GROUPS: "gangs are not shown",
    COMPOSITE_POD_GROUPS: "gangs of gangs are not shown",
}
"""What the page lacks if the user has no right to list and watch a kind."""

_SET_INDEX = "jobset"
_JOBSET_LABEL = keys.JOBSET_NAME
"""A label selector for all objects of JobSets."""

T = TypeVar("T", bound=Object)


class BoundedStore(Store[T]):
    """A store of at most `max_objects` objects.

    `has_left_out`: whether an object was left out since the last list began.
    """

    def __init__(self, max_objects: int, indexes: Mapping[str, IndexFunction] | None = None) -> None:
        super().__init__(indexes)
        self.max_objects = max_objects
        self.has_left_out = False

    def begin(self) -> None:
        super().begin()
        self.has_left_out = False

    def apply(self, obj: T | Unreadable | DroppedObject) -> Changes[T]:
        if isinstance(obj, DroppedObject) or self._has_room_for(key_of(obj)):
            return super().apply(obj)
        self.has_left_out = True
        return super().apply(DroppedObject(obj.metadata))

    def _has_room_for(self, key: Key) -> bool:
        objects = self._objects if self._new_generation is None else self._new_generation.objects
        unreadable = self.unreadable if self._new_generation is None else self._new_generation.unreadable
        return key in objects or len(objects) + len(unreadable) < self.max_objects


class Caches:
    """All watches, and the data that the page shows. `namespace`: None for all namespaces."""

    def __init__(self, client: Client, namespace: str | None, board: Board) -> None:
        scope: WatchOptions = {"namespace": namespace}
        trimmed_jobsets: WatchOptions = {**scope, "transform": trimmed_jobset}
        of_jobsets: WatchOptions = {**scope, "label_selector": _JOBSET_LABEL}
        placed_pods: WatchOptions = {**of_jobsets, "transform": placed_pod}
        self._client = client
        self._board = board
        self._scope = namespace or ""
        self._unreachable = ""
        self._sets: Informer[JobSet] = _informer(client, JOBSETS, JobSet, MAX_SETS, **trimmed_jobsets)
        self._jobs: Informer[Job] = _informer(client, JOBS, Job, MAX_JOBS, **of_jobsets)
        self._pods: Informer[PlacedPod] = _informer(client, PODS, DetailedPod, MAX_PODS, **placed_pods)
        self._nodes: Informer[SeenNode] = _informer(client, NODES, SeenNode, MAX_NODES, metadata_only=True)
        self._groups: list[Informer[StoredGroup]] = [
            _informer(client, kind, StoredGroup, MAX_GROUPS, **of_jobsets)
            for kind in (POD_GROUPS, COMPOSITE_POD_GROUPS)
        ]
        for informer in self._informers(*self._groups):
            informer.on_event(lambda _, old, new: self._touch(new or old))

    def _informers(self, *groups: Informer[StoredGroup]) -> tuple[Informer[Any], ...]:
        return self._sets, self._jobs, self._pods, self._nodes, *groups

    def _touch(self, obj: Any) -> None:
        match obj:
            case JobSet():
                self._board.touch(key_of(obj))
            case PlacedPod():
                self._board.touch((obj.namespace, obj.jobset))
            case Job() | StoredGroup():
                self._board.touch((obj.metadata.namespace, obj.metadata.labels.get(keys.JOBSET_NAME, "")))

    async def run(self) -> None:
        """Watch, and keep the board up to date, until cancelled."""
        served = [informer for informer in self._groups if await self._serves(informer.target.resource)]
        watched = self._informers(*served)
        async with asyncio.TaskGroup() as group:
            for informer in watched:
                group.create_task(informer.run())
            group.create_task(self._check_server())
            while True:
                self._board.note(self._notes(watched))
                self._board.publish(self._row)
                await asyncio.sleep(PUBLISH_PERIOD)

    async def _serves(self, resource: Resource) -> bool:
        """Whether the API server serves the kind, whose feature gate may be off."""
        try:
            return resource.plural in await self._client.served_resources(resource.api_version)
        except KubeError:
            return False

    async def _check_server(self) -> None:
        """Check what no watch reports: whether the API server answers, and whether failures are still recent."""
        while True:
            for js in self._sets.store.list():
                status = js.status
                has_job_restarts = any(counts.job_restarts for counts in status.replicated_jobs_status)
                if (status.restarts or has_job_restarts) and not status.terminal_state:
                    self._board.touch(key_of(js))
            try:
                async with asyncio.timeout(CHECK_TIMEOUT):
                    await self._client.raw("/version")
                self._unreachable = ""
            except (KubeError, TimeoutError) as error:
                refused = isinstance(error, ApiError) and error.code < 500
                reason = str(error) or "no answer in time"
                self._unreachable = "" if refused else f"the cluster does not answer, this may be out of date: {reason}"
            await asyncio.sleep(CHECK_PERIOD)

    def _notes(self, watched: Iterable[Informer[Any]]) -> list[str]:
        notes = [self._unreachable] if self._unreachable else []
        for informer in watched:
            store = informer.store
            resource = informer.target.resource
            if informer.forbidden:
                notes.append(f"the right to list and watch {resource} is missing, {informer.target.remedy}")
            elif informer.unsynced_reason:
                notes.append(informer.unsynced_reason)
            elif isinstance(store, BoundedStore) and store.has_left_out:
                notes.append(f"there are more {resource.plural} than the {store.max_objects} that are kept")
        return notes

    def _row(self, key: Key) -> JSON | None:
        js = self._sets.store.get(*key)
        return None if js is None else row(js, wall_clock(), self._creation_times(key, js))

    def _creation_times(self, key: Key, js: JobSet) -> dict[str, str]:
        """Creation times of the Jobs of a set, if Jobs were restarted one by one; else empty."""
        if not any(counts.job_restarts for counts in js.status.replicated_jobs_status):
            return {}
        metas = (
            job.metadata for job in _objects_of_set(self._jobs, key) if job.metadata.controlled_by(js.metadata.uid)
        )
        return {meta.name: meta.creation_timestamp or "" for meta in metas}

    def has_jobset(self, key: Key) -> bool:
        return self._sets.store.get(*key) is not None

    def detail(self, key: Key) -> JSON | None:
        """Everything about one set; None if it does not exist."""
        js = self._sets.store.get(*key)
        if js is None:
            return None
        uid = js.metadata.uid
        placed = bool(topologies(js))
        return row(js, wall_clock(), self._creation_times(key, js)) | detail(
            js,
            jobs=[job for job in _objects_of_set(self._jobs, key) if job.metadata.controlled_by(uid)],
            pods=self._pods.store.list() if placed else (),
            nodes=self._nodes.store.list() if placed else (),
            groups=[
                group
                for informer in self._groups
                for group in _objects_of_set(informer, key)
                if group.metadata.controlled_by(uid)
            ],
            scope=self._scope,
        )  # fmt: skip

    def topology_map(self, topology: str) -> JSON:
        """The topologies that JobSets use, and the map of `topology`, or of the first one if no JobSet uses it."""
        use_counts = Counter(key for js in self._sets.store.list() for key in topologies(js))
        offered_topologies = sorted(use_counts, key=lambda key: (-use_counts[key], key))[:MAX_TOPOLOGIES]
        chosen = topology if topology in offered_topologies else next(iter(offered_topologies), "")
        if not chosen:
            return {"topologies": [], "map": None}
        drawn = domain_map(chosen, self._nodes.store.list(), self._pods.store.list(), scope=self._scope)
        return {"topologies": offered_topologies, "map": drawn}


def _informer(
    client: Client,
    resource: Resource,
    kind: type[Any],
    max_objects: int,
    **options: Unpack[WatchOptions],
) -> Informer[Any]:
    """An informer with a bounded store, which has an index by JobSet if its objects keep their labels."""
    options["remedy"] = _remedy(resource, options.get("namespace"))
    informer: Informer[Any] = Informer(client, resource, kind, **options)
    has_labels = "transform" not in options and "label_selector" in options
    informer.store = BoundedStore(max_objects, {_SET_INDEX: _jobset_label_of} if has_labels else None)
    return informer


def _remedy(resource: Resource, namespace: str | None) -> str:
    """The remedy for a missing right: the user of the page needs it, not the manager."""
    scope = f"in namespace {namespace}" if namespace else "in the whole cluster"
    return f"ask for it {scope}; until then {MISSING_WITHOUT_RIGHT[resource]}"


def _jobset_label_of(obj: Job | StoredGroup) -> tuple[str]:
    """The name of the JobSet in the label of an object. Readers check that this JobSet is the owner."""
    return (obj.metadata.labels.get(keys.JOBSET_NAME, ""),)


def _objects_of_set(informer: Informer[T], key: Key) -> list[T]:
    return informer.store.by_index(_SET_INDEX, IndexKey(*key))
