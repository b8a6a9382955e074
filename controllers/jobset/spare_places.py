"""Gives the places of spares to pods that find no node (gate JobSetSpares). See docs/concepts/spares.md.

The pod is nominated to the node of the spare before the spare goes. kube-scheduler counts a nominated pod as if it were
there already, against all pods whose priority is not higher: so no other pod gets the place in between. It is repeated
until the pod has its node, so a process that ends in between leaves nothing undone.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

from api import keys
from api.batch import Job
from api.features import FeatureGates
from api.jobset import JobSet
from api.owners import owning_job
from api.pending import is_unschedulable
from api.pod import DetailedPod
from api.spares import GATE
from controllers.gang.stalled import Reports
from controllers.jobset.memory import Memory
from controllers.planning.actions import Event
from controllers.planning.finished import finished
from controllers.planning.observed import Observed
from kube.client import Client, PatchType
from kube.errors import Conflict, KubeError, NotFound
from kube.resources import PODS

log = logging.getLogger(__name__)

FIRST_WAIT = 1.0
"""Seconds between the first two looks at the pods of a set that are not ready; then twice as many each time."""
LONGEST_WAIT = 10.0
LIST_TIMEOUT = 2.0
"""Seconds for a list of pods: a reconcile waits for it."""
MOST_PODS = 500
"""Pods of either kind that one look lists. A set of which more wait gets further places with the next looks."""


class Place(NamedTuple):
    """The place of a spare, and the pod that gets it."""

    pod: DetailedPod
    spare: DetailedPod


def places(
    pods: Iterable[DetailedPod], spares: Iterable[DetailedPod], avoided: frozenset[str] = frozenset()
) -> list[Place]:
    """Which pods get which places: the oldest first, each at most one. `avoided`: nodes that are not given.

    A pod that is nominated to a node gets the spare on that node, or none.
    """
    free: dict[str, list[DetailedPod]] = {}
    for spare in sorted(spares, key=_age, reverse=True):
        if _holds(spare) and spare.spec.node_name not in avoided:
            free.setdefault(spare.spec.node_name, []).append(spare)
    waiting = sorted(filter(_finds_no_node, pods), key=_age)
    found = []
    for pod in sorted(waiting, key=lambda pod: not pod.status.nominated_node_name):
        node = pod.status.nominated_node_name or next(iter(free), "")
        if node in free:
            found.append(Place(pod, free[node].pop()))
            if not free[node]:
                del free[node]
    return found


def _age(pod: DetailedPod) -> tuple[str, str]:
    return pod.metadata.creation_timestamp or "", pod.metadata.name


def _holds(pod: DetailedPod) -> bool:
    """Whether it is ready: the node controller takes that from the pods of a node that fails."""
    ready = pod.status.condition("Ready")
    return pod.live and bool(pod.spec.node_name) and ready is not None and ready.status == "True"


def _finds_no_node(pod: DetailedPod) -> bool:
    return pod.live and is_unschedulable(pod)


class SparePlaces:
    """Looks at the pods of sets with spares while they are not all ready."""

    def __init__(self, client: Client, gates: FeatureGates, record: Callable[[JobSet, Event], None]) -> None:
        self._client = client
        self._gates = gates
        self._record = record

    async def check(self, observed: Observed, memory: Memory) -> float | None:
        """Give places if it is time. Returns the seconds until the next look; None if no pod waits. Never fails."""
        pairs = _pairs(observed) if self._gates[GATE] else []
        if not pairs:
            memory.spare_checks = None
            return None
        if memory.spare_checks is None:
            memory.spare_checks = Reports()
        reports = memory.spare_checks
        clock = asyncio.get_running_loop().time
        if clock() < reports.next_check:
            return reports.next_check - clock()
        try:
            for waiting, spares in pairs:
                await self._give(observed, waiting, spares)
        except (KubeError, TimeoutError) as error:
            meta = observed.jobset.metadata
            log.info("places of spares of JobSet %s/%s are not given: %s", meta.namespace, meta.name, error)
        reports.wait = min(2 * reports.wait, LONGEST_WAIT) if reports.wait else FIRST_WAIT
        reports.next_check = clock() + reports.wait
        return reports.wait

    async def _give(self, observed: Observed, waiting: list[Job], spares: list[Job]) -> None:
        js = observed.jobset
        pods = await self._pods(js, waiting, "status.phase=Pending,spec.nodeName=")
        if not any(map(_finds_no_node, pods)):
            return
        avoided = frozenset(node.name for node in js.status.failed_nodes)
        for place in places(pods, await self._pods(js, spares, "status.phase=Running"), avoided):
            with suppress(Conflict, NotFound):  # it has changed since: the next look shows how
                await self._give_one(js, place)

    async def _pods(self, js: JobSet, jobs: list[Job], fields: str) -> list[DetailedPod]:
        """The pods of these Jobs, which are of one ReplicatedJob."""
        group = jobs[0].metadata.labels.get(keys.REPLICATED_JOB_NAME, "")
        page = await self._client.list(
            PODS,
            type=DetailedPod,
            namespace=js.metadata.namespace,
            label_selector=f"{keys.JOBSET_UID}={js.metadata.uid},{keys.REPLICATED_JOB_NAME}={group}",
            field_selector=fields,
            limit=MOST_PODS,
            timeout=LIST_TIMEOUT,
        )
        uids = {job.metadata.uid for job in jobs}
        return [pod for pod in page.items or () if (owner := owning_job(pod.metadata)) and owner.uid in uids]

    async def _give_one(self, js: JobSet, place: Place) -> None:
        """Nominate the pod, then delete the spare at once: its Job makes another, and counts no failure."""
        pod, spare, namespace = place.pod.metadata, place.spare.metadata, js.metadata.namespace
        node = place.spare.spec.node_name
        nomination = {"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": node}}
        await self._client.patch(PODS, pod.name, nomination, namespace=namespace, subresource="status")
        await self._client.delete(PODS, spare.name, namespace=namespace, uid=spare.uid, grace_period_seconds=0)
        release = {"metadata": {"uid": spare.uid, "$deleteFromPrimitiveList/finalizers": [keys.JOB_TRACKING]}}
        with suppress(NotFound):
            await self._client.patch(PODS, spare.name, release, namespace=namespace, patch_type=PatchType.STRATEGIC)
        note = f"pod {pod.name} found no node, and gets the place of spare pod {spare.name} on node {node}"
        self._record(js, Event("Normal", "SpareUsed", note, distinct=True))


def _pairs(observed: Observed) -> list[tuple[list[Job], list[Job]]]:
    """For each group of spares that has pods: the Jobs with pods that are not ready, and its own Jobs."""
    js, found = observed.jobset, []
    if js.suspended or finished(js):
        return []
    for spares in observed.spares:
        holding = [job for job in spares.jobs if job.status.ready]
        name = spares.group.spare_for
        waiting = [
            job
            for job in observed.jobs
            if job.metadata.labels.get(keys.REPLICATED_JOB_NAME) == name
            and job.metadata.deletion_timestamp is None
            and job.status.active > (job.status.ready or 0)
        ]
        if holding and waiting:
            found.append((waiting, holding))
    return found
