"""Reads the pods of Jobs page by page, for finding misplaced followers. Jobs that are looked at together share a list.

For each list the API server reads all pods of the namespace, whatever the selector. When a manager starts, the pods of
every exclusive Job are read: with one list for each, that work would grow with the square of their number.
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
"""Jobs that share a list: their UIDs are in its URL."""

Judge = Callable[[Sequence[DetailedPod]], list[Evict]]
"""Finds the misplaced pods among some pods of a Job."""


@dataclass(slots=True)
class _Search:
    """One Job's part in a list: `found` is complete when it is `done`."""

    judge: Judge
    found: list[Evict] = field(default_factory=list)
    done: bool = False


@dataclass(slots=True)
class _Namespace:
    """Searches by the UID of the Job. The search that holds `turn` also lists the pods of the waiting ones."""

    searches: dict[str, _Search] = field(default_factory=dict)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class PodReader:
    """Reads the pods of Jobs of one namespace with one list; Jobs that are added meanwhile share the next list."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._namespaces: dict[str, _Namespace] = {}

    async def misplaced_pods(self, namespace: str, job_uid: str, judge: Judge) -> list[Evict]:
        """The misplaced pods of a Job, found by `judge` in one pod after the other. One call at a time for each Job.

        An error of a list is raised for the Job that sent it. The other Jobs of that list send another one.
        """
        in_namespace = self._namespaces.setdefault(namespace, _Namespace())
        search = in_namespace.searches[job_uid] = _Search(judge)
        try:
            async with in_namespace.turn:
                if not search.done:
                    await self._read(
                        namespace, dict(islice({job_uid: search, **in_namespace.searches}.items(), TOGETHER))
                    )
        finally:
            del in_namespace.searches[job_uid]
            if not in_namespace.searches:
                del self._namespaces[namespace]
        return search.found

    async def _read(self, namespace: str, searches: Mapping[str, _Search]) -> None:
        for search in searches.values():
            search.found.clear()
        selector = one_of(keys.JOB_UID, [*searches])
        pods = self._client.pages(PODS, type=DetailedPod, namespace=namespace, label_selector=selector)
        async for pod in pods:
            owner = owning_job(pod.metadata)
            # Any user can write the label by which it was found.
            own = None if owner is None else searches.get(owner.uid)
            if own is not None:
                own.found += own.judge([pod])
        for search in searches.values():
            search.done = True
