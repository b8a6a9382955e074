"""Watches leftover pods, which outlive the Jobs of earlier attempts of a set, until the last of them is gone.

An attempt is the run of a set between two restarts. No Job is created again before the leftover pods of the old Job are
gone. Each set that restarts has a watch of its own, of metadata only, that ends with the last pod. A new process lists
the pods again before it creates a Job.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable

from api.jobset import JobSet
from api.leftovers import NOT_ENDED, LeftoverPod, Leftovers
from api.selectors import other_attempts_selector
from controllers.jobset.memory import Memories
from controllers.jobset.old_pods import FollowedPods, OldPod, old_pod_of
from kube.client import Client
from kube.controller import Request
from kube.informer import Informer, SyncTimeoutError
from kube.resources import PODS
from kube.store import ChangeKind
from kube.workqueue import BATCHED, WorkQueue

log = logging.getLogger(__name__)

FIRST_LIST_TIMEOUT = 60.0
"""Seconds until a warning is logged that the first list is not complete."""


class LeftoverPods:
    """The watches of all sets with leftover pods. `run` has to be running while sets are reconciled."""

    def __init__(self, client: Client, memories: Memories) -> None:
        self._client = client
        self._memories = memories
        self._enqueue: Callable[[Request, float], None] = lambda _request, _delay: None
        self._unstarted: asyncio.Queue[tuple[Request, FollowedPods]] = asyncio.Queue()

    def feed(self, queue: WorkQueue[Request]) -> None:
        """From now on, put a JobSet into `queue` when its first list is complete, and when a leftover pod is gone."""
        self._enqueue = queue.add_after

    def owners(self, js: JobSet) -> Leftovers | None:
        """The UIDs of the owners of leftover pods, by name of the Job; None while the pods are not listed."""
        followed = self._followed_pods(js)
        if followed is None:
            return None
        if followed.is_over:
            return {}
        if not followed.pods.synced:
            return None
        uids: defaultdict[str, set[str]] = defaultdict(set)
        for pod in followed.pods.store.list():
            uids[pod.job].add(pod.job_uid)
        return {job: frozenset(owners) for job, owners in uids.items()}

    def follow(self, js: JobSet, *, relist: bool) -> None:
        """Watch the pods of attempts before the current one, unless the JobSet is gone.

        `relist`: Jobs have been deleted. An existing watch may be behind, so the pods have to be listed again.
        """
        followed = self._followed_pods(js)
        if followed is not None and not followed.is_over and not relist:
            return
        request, attempt = _request(js), js.status.restarts
        memory = self._memories.get(request, js.metadata.uid)
        if memory is None:
            return
        memory.stop_following()
        pods: Informer[OldPod] = Informer(
            self._client,
            PODS,
            LeftoverPod,  # type: ignore[arg-type]  # the decoded type; the transform makes the cached one
            namespace=request.namespace,
            label_selector=other_attempts_selector(js),
            field_selector=NOT_ENDED,
            transform=old_pod_of(js),
            metadata_only=True,
        )
        # A Job can be created only after a pod is gone. Other changes of pods do not matter.
        pods.on_event(lambda kind, *_: self._enqueue(request, BATCHED.delay) if kind is ChangeKind.DELETED else None)
        memory.followed_pods = FollowedPods(attempt, pods)
        self._unstarted.put_nowait((request, memory.followed_pods))

    def end_when_gone(self, js: JobSet) -> None:
        """End the watch if the last pod is gone. Called once the Jobs of earlier attempts are gone."""
        followed = self._followed_pods(js)
        if followed is not None and not followed.is_over and self.owners(js) == {}:
            followed.stop()

    async def run(self) -> None:
        """Run the watches until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                request, followed = await self._unstarted.get()
                if not followed.is_over:
                    watching = self._watch(request, followed)
                    followed.task = group.create_task(watching, name=f"old-pods-of-{request.name}")

    async def _watch(self, request: Request, followed: FollowedPods) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(followed.pods.run())
            while not followed.pods.synced:
                try:
                    await followed.pods.wait_synced(FIRST_LIST_TIMEOUT)
                except SyncTimeoutError as error:
                    log.warning("%s/%s cannot go on with its restart: %s", request.namespace, request.name, error)
            self._enqueue(request, 0.0)

    def _followed_pods(self, js: JobSet) -> FollowedPods | None:
        """The watch of pods of attempts before the current one; None if there is none yet."""
        memory = self._memories.get(_request(js), js.metadata.uid)
        followed = None if memory is None else memory.followed_pods
        return followed if followed is not None and followed.attempt == js.status.restarts else None


def _request(js: JobSet) -> Request:
    return Request(js.metadata.namespace, js.metadata.name)
