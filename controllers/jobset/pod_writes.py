"""Writes to pods for the executor, and puts the API server's answers into the caches without waiting for the watch.

A spare pod holds a node until another pod needs one; the other pod is then given this place. A domain is all nodes with
one value of the topology label of exclusive placement, such as a rack.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from api import keys
from api.nodes import BoundPod, bound_pod
from api.pod import DetailedPod
from api.spare_pods import PoolPod, pool_pod
from controllers.planning.actions import DeleteJob, DeletePod, EndSpare, GivePlace, LiftGate
from kube.client import Client, PatchType
from kube.errors import Conflict, Forbidden, Invalid, NotFound
from kube.options import DeleteOptions
from kube.parallel import each
from kube.resources import PODS
from kube.store import Store


@dataclass(frozen=True, slots=True)
class PodWrites:
    """Deletes and patches pods of one namespace."""

    client: Client
    namespace: str

    async def delete(self, pods: Store[BoundPod], action: DeletePod) -> None:
        """Delete a pod. With `action.replaced`, release it from its Job, which then creates another pod at once."""
        deleted = None
        options: DeleteOptions = {"namespace": self.namespace, "uid": action.uid}
        if not action.graceful:
            options["grace_period_seconds"] = 0
        with suppress(NotFound):
            deleted = await self.client.delete(PODS, action.name, type=DetailedPod, **options)
            if action.replaced:
                deleted = await self._release_from_job(action.name, action.uid)
        terminating_pod = bound_pod(deleted) if deleted is not None and action.graceful else None
        if terminating_pod is not None:
            pods.overlay(terminating_pod)
        else:
            pods.overlay_deleted(self.namespace, action.name, action.uid)

    async def give_place(
        self, pods: Store[PoolPod], action: GivePlace, delete_job: Callable[[DeleteJob], Awaitable[None]]
    ) -> None:
        """Give a pod the place of a spare pod. The spare pod stays if the pod is gone, or has a node already.

        The spare pod is deleted after its Job (by `delete_job`), since a new process repeats these steps only while
        the spare pod exists.
        """
        nomination = {"metadata": {"uid": action.pod_uid}, "status": {"nominatedNodeName": action.node}}
        patch = partial(self.client.patch, PODS, action.pod, namespace=self.namespace, type=DetailedPod)
        try:
            nominated = await patch(nomination, subresource="status")
        except (Conflict, Invalid, NotFound):
            return
        if failures := await each(action.keepers, partial(self._keep_domain, pods, action.job_key)):
            raise failures[0].error
        if action.ended_job is not None:
            await delete_job(action.ended_job)
        await self.end_spare(pods, EndSpare(action.spare, action.spare_uid))
        _overlay(pods, nominated)
        if action.gated:
            await self.lift_gate(pods, LiftGate(action.pod, action.pod_uid))

    async def _keep_domain(self, pods: Store[PoolPod], job_key: str, keeper: tuple[str, str]) -> None:
        """Label a spare pod with `job_key`, which keeps other Jobs out of its domain. If refused, delete the pod."""
        name, uid = keeper
        patch = {"metadata": {"uid": uid, "labels": {keys.JOB_KEY: job_key}}}
        try:
            _overlay(pods, await self.client.patch(PODS, name, patch, namespace=self.namespace, type=DetailedPod))
        except (Conflict, NotFound):
            return
        except (Forbidden, Invalid):
            await self.end_spare(pods, EndSpare(name, uid))

    async def end_spare(self, pods: Store[PoolPod], action: EndSpare) -> None:
        """Delete a spare pod. Its Job creates another pod at once."""
        with suppress(NotFound):
            await self.client.delete(
                PODS, action.name, namespace=self.namespace, uid=action.uid, grace_period_seconds=0
            )
            await self._release_from_job(action.name, action.uid)
        pods.overlay_deleted(self.namespace, action.name, action.uid)

    async def lift_gate(self, pods: Store[PoolPod], action: LiftGate) -> None:
        """Remove the scheduling gate of a pod that has waited for the place of a spare pod."""
        gates = [{"$patch": "delete", "name": keys.SPARE_GATE}]
        patch = {"metadata": {"uid": action.uid}, "spec": {"schedulingGates": gates}}
        with suppress(Conflict, NotFound):
            lifted = await self.client.patch(
                PODS,
                action.pod,
                patch,
                namespace=self.namespace,
                patch_type=PatchType.STRATEGIC,
                type=DetailedPod,
            )
            _overlay(pods, lifted)

    async def _release_from_job(self, name: str, uid: str) -> DetailedPod:
        """Remove the finalizer of the Job controller, so that a deleted pod disappears without being counted."""
        patch = {"metadata": {"uid": uid, "$deleteFromPrimitiveList/finalizers": [keys.JOB_TRACKING]}}
        return await self.client.patch(
            PODS, name, patch, namespace=self.namespace, patch_type=PatchType.STRATEGIC, type=DetailedPod
        )


def _overlay(pods: Store[PoolPod], written: DetailedPod) -> None:
    """Put a written pod into the cache if it still belongs there. If not, the watch removes it."""
    if (pod := pool_pod(written)) is not None:
        pods.overlay(pod)
