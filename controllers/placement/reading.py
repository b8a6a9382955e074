"""Reads the pods of Jobs page by page, for finding misplaced followers. Jobs that are looked at together share a list.

For each list the API server goes through all pods of the namespace, whatever is selected. When a manager begins, every
exclusive Job is looked at; one list for each made that work grow with the square of their number.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from api import keys
from api.pod import DetailedPod
from api.selectors import one_of
from controllers.placement.plan import Evict
from kube.client import Client
from kube.resources import PODS

TOGETHER = 50
"""Jobs that share a list: their UIDs have to fit into a URL."""

Judge = Callable[[Sequence[DetailedPod]], list[Evict]]
"""The misplaced among some pods of a Job."""


@dataclass(slots=True)
class _Look:
    """One Job's part in a list: `found` is complete when it is `done`."""

    judge: Judge
    found: list[Evict] = field(default_factory=list)
    done: bool = False


@dataclass(slots=True)
class _Namespace:
    """Looks by the UID of the Job; who has the turn reads for those that wait."""

    looks: dict[str, _Look] = field(default_factory=dict)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class PodReader:
    """Reads what is asked for at once in a namespace together, and what is asked for meanwhile after that."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._namespaces: dict[str, _Namespace] = {}

    async def misplaced(self, namespace: str, job_uid: str, judge: Judge) -> list[Evict]:
        """What a judge says of the pods of a Job, which it is given in parts. One at a time for each Job.

        Raises what the API server answers to the list that this Job's turn brings; others of that list ask again.
        """
        here = self._namespaces.setdefault(namespace, _Namespace())
        look = here.looks[job_uid] = _Look(judge)
        try:
            async with here.turn:
                if not look.done:
                    await self._read(namespace, dict(islice({job_uid: look, **here.looks}.items(), TOGETHER)))
        finally:
            del here.looks[job_uid]
            if not here.looks:
                del self._namespaces[namespace]
        return look.found

    async def _read(self, namespace: str, looks: Mapping[str, _Look]) -> None:
        for look in looks.values():
            look.found.clear()
        selector = one_of(keys.JOB_UID, [*looks])
        pods = self._client.pages(PODS, type=DetailedPod, namespace=namespace, label_selector=selector)
        async for pod in pods:
            look = looks[pod.metadata.labels.job_uid]
            look.found += look.judge([pod])
        for look in looks.values():
            look.done = True
