"""Reads the pods of Jobs page by page to find misplaced followers. Jobs that are checked at the same time share a list.

For each list the API server reads all pods of the namespace, whatever the selector. When a manager starts, it reads the
pods of every Job with exclusive placement. With one list for each Job, the work of the API server would grow with the
square of the number of Jobs.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from api import keys
from api.owners import owning_job
from api.pod import DetailedPod
from api.selectors import one_of
from controllers.placement.plan import Evict
from kube.client import Client
from kube.resources import PODS

TOGETHER = 50
"""At most this many Jobs share a list, since its URL contains their UIDs."""

FindMisplaced = Callable[[Sequence[DetailedPod]], list[Evict]]
"""Finds the misplaced pods among some pods of a Job."""


@dataclass(slots=True)
class _Search:
    """The search for misplaced pods of one Job. `misplaced` is complete when the search is `done`."""

    find_misplaced: FindMisplaced
    misplaced: list[Evict] = field(default_factory=list)
    done: bool = False


@dataclass(slots=True)
class _Namespace:
    """The searches in one namespace by UID of the Job. The search that holds `turn` lists pods for all of them."""

    searches: dict[str, _Search] = field(default_factory=dict)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class PodReader:
    """Reads pods with one list for several Jobs of a namespace. Jobs that are added meanwhile share the next list."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._namespaces: dict[str, _Namespace] = {}

    async def misplaced_pods(self, namespace: str, job_uid: str, find_misplaced: FindMisplaced) -> list[Evict]:
        """The misplaced pods of a Job. `find_misplaced` gets one pod at a time. One call at a time for each Job.

        An error of a list is raised for the Job that sent the list. The other Jobs of that list send another list.
        """
        state = self._namespaces.setdefault(namespace, _Namespace())
        search = state.searches[job_uid] = _Search(find_misplaced)
        try:
            async with state.turn:
                if not search.done:
                    await self._read(namespace, dict(islice({job_uid: search, **state.searches}.items(), TOGETHER)))
        finally:
            del state.searches[job_uid]
            if not state.searches:
                del self._namespaces[namespace]
        return search.misplaced

    async def _read(self, namespace: str, searches: Mapping[str, _Search]) -> None:
        for search in searches.values():
            search.misplaced.clear()
        selector = one_of(keys.JOB_UID, [*searches])
        pods = self._client.pages(PODS, type=DetailedPod, namespace=namespace, label_selector=selector)
        async for pod in pods:
            owner = owning_job(pod.metadata)
            # The label is not enough to identify the Job, since any user can write it.
            job_search = None if owner is None else searches.get(owner.uid)
            if job_search is not None:
                job_search.misplaced += job_search.find_misplaced([pod])
        for search in searches.values():
            search.done = True
