"""Reads the pods of Jobs page by page, for finding misplaced followers. Jobs that are looked at together share a list.

For each list the API server goes through all pods of the namespace, whatever is selected. When a manager begins, every
exclusive Job is looked at; one list for each made that work grow with the square of their number.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice

import msgspec

from api import keys
from api.topology import PlacedPod
from controllers.placement.plan import Evict
from kube.client import Client, ListMeta
from kube.resources import PODS

TOGETHER = 50
"""Jobs that share a list: their UIDs have to fit into a URL."""

Judge = Callable[[Sequence[PlacedPod]], list[Evict]]
"""The misplaced among some pods of a Job."""


class _Page(msgspec.Struct, frozen=True):
    metadata: ListMeta
    items: tuple[PlacedPod, ...] | None = None


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
        token = ""
        while True:
            page = await self._client.list_page(
                PODS, _Page, namespace=namespace, label_selector=_selector([*looks]), continue_token=token
            )
            pods = sorted(page.items or (), key=_job_uid)
            for uid, of_job in groupby(pods, _job_uid):
                look = looks[uid]
                look.found += look.judge([*of_job])
            token = page.metadata.continue_token
            if not token:
                break
        for look in looks.values():
            look.done = True


def _job_uid(pod: PlacedPod) -> str:
    return pod.metadata.labels.job_uid


def _selector(uids: Sequence[str]) -> str:
    return f"{keys.JOB_UID}={uids[0]}" if len(uids) == 1 else f"{keys.JOB_UID} in ({','.join(uids)})"
