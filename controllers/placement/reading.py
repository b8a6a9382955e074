"""Reads the pods of Jobs page by page to find misplaced followers. Jobs that are checked at the same time share a list.

For each list the API server reads all pods of the namespace, whatever the selector. When a manager starts, it reads the
pods of every Job with exclusive placement. So with one list for each Job, the work of the API server would grow with
the square of the number of Jobs.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice

from api import keys
from api.owners import owning_job
from api.pod import DetailedPod, PodMeta
from api.selectors import MAX_UIDS, one_of
from kube.client import Client
from kube.resources import PODS


@dataclass(slots=True)
class _Search:
    """The search for misplaced pods of one Job. `misplaced_pods` has all of them when the search `is_done`."""

    is_misplaced: Callable[[DetailedPod], bool]
    misplaced_pods: list[PodMeta] = field(default_factory=list)
    is_done: bool = False


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

    async def misplaced_pods(
        self, namespace: str, job_uid: str, is_misplaced: Callable[[DetailedPod], bool]
    ) -> list[PodMeta]:
        """The metadata of the misplaced pods of a Job. Only one call at a time is allowed for each Job.

        An error of a list is raised for the Job that sent the list. The other Jobs of that list send another list.
        """
        state = self._namespaces.setdefault(namespace, _Namespace())
        search = state.searches[job_uid] = _Search(is_misplaced)
        try:
            async with state.turn:
                if not search.is_done:
                    own_search_first = {job_uid: search, **state.searches}
                    await self._read(namespace, dict(islice(own_search_first.items(), MAX_UIDS)))
        finally:
            del state.searches[job_uid]
            if not state.searches:
                del self._namespaces[namespace]
        return search.misplaced_pods

    async def _read(self, namespace: str, searches: Mapping[str, _Search]) -> None:
        """List the pods of these Jobs, and finish their searches."""
        for search in searches.values():
            search.misplaced_pods.clear()
        selector = one_of(keys.JOB_UID, [*searches])
        pods = self._client.pages(PODS, type=DetailedPod, namespace=namespace, label_selector=selector)
        async for pod in pods:
            owner = owning_job(pod.metadata)
            # The label is not enough to identify the Job, since any user can write it.
            job_search = None if owner is None else searches.get(owner.uid)
            if job_search is not None and job_search.is_misplaced(pod):
                job_search.misplaced_pods.append(pod.metadata)
        for search in searches.values():
            search.is_done = True
