"""Finds misplaced pods of Jobs by listing the pods of several Jobs with one request.

In exclusive placement, all pods of a Job run in one topology domain, and a pod outside this domain is misplaced. A
manager that starts checks every Job with exclusive placement. For each list request, the API server reads all pods of
the namespace, whatever the selector. So with one request for each Job, the work of the API server would grow with the
square of the number of Jobs.
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
    """The search for misplaced pods of one Job. When `is_done` is true, `misplaced_pods` is complete."""

    is_misplaced: Callable[[DetailedPod], bool]
    misplaced_pods: list[PodMeta] = field(default_factory=list)
    is_done: bool = False


@dataclass(slots=True)
class _Namespace:
    """The searches in one namespace, by UID of the Job. The search that holds `turn` lists pods for all searches."""

    searches: dict[str, _Search] = field(default_factory=dict)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class PodReader:
    """Lists the pods of several Jobs of a namespace at once. Jobs that come during a list share the next list."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._namespaces: dict[str, _Namespace] = {}

    async def misplaced_pods(
        self, namespace: str, job_uid: str, is_misplaced: Callable[[DetailedPod], bool]
    ) -> list[PodMeta]:
        """The metadata of the misplaced pods of a Job. Only one call at a time is allowed for each Job.

        If a list fails, the error is raised in the call that sent the list. The other calls send another list.
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
        """List the pods of these Jobs, and complete the searches. `searches`: by UID of the Job."""
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
