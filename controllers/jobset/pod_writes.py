"""Writes about pods for the executor. What the server answers goes into the caches at once."""

from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from api import keys
from api.nodes import BoundPod, bound_pod
from api.pod import DetailedPod
from api.spare_pods import PoolPod, pool_pod
from controllers.planning.actions import DeletePod, GivePlace, LiftGate
from kube.client import Client, PatchType
from kube.errors import Conflict, Invalid, NotFound
from kube.options import DeleteOptions
from kube.resources import PODS
from kube.store import Store


@dataclass(frozen=True, slots=True)
class PodWrites:
    """Those of one namespace."""

    client: Client
    namespace: str

    async def delete(self, pods: Store[BoundPod], action: DeletePod) -> None:
        """Delete a pod; one that is replaced goes at once."""
        left = None
        options: DeleteOptions = {"namespace": self.namespace, "uid": action.uid}
        if not action.graceful:
            options["grace_period_seconds"] = 0
        with suppress(NotFound):
            left = await self.client.delete(PODS, action.name, type=DetailedPod, **options)
            if action.replaced:
                await self._release_from_job(action.name, action.uid)
        ending = bound_pod(left) if left is not None and action.graceful else None
        if ending is not None:
            pods.overlay(ending)
        else:
            pods.overlay_deleted(self.namespace, action.name, action.uid)

    async def give_place(self, pods: Store[PoolPod], action: GivePlace) -> None:
        """Give the place of a spare. The spare stays if the pod is gone, or has a node already."""
        nomination = {"metadata": {"uid": action.pod_uid}, "status": {"nominatedNodeName": action.node}}
        patch = partial(self.client.patch, PODS, action.pod, namespace=self.namespace, type=DetailedPod)
        try:
            nominated = await patch(nomination, subresource="status")
        except (Conflict, Invalid, NotFound):
            return
        with suppress(NotFound):
            await self.client.delete(
                PODS, action.spare, namespace=self.namespace, uid=action.spare_uid, grace_period_seconds=0
            )
            await self._release_from_job(action.spare, action.spare_uid)
        pods.overlay_deleted(self.namespace, action.spare, action.spare_uid)
        _show(pods, nominated)
        if action.gated:
            await self.lift_gate(pods, LiftGate(action.pod, action.pod_uid))

    async def lift_gate(self, pods: Store[PoolPod], action: LiftGate) -> None:
        """Have a pod scheduled that was held back."""
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
            _show(pods, lifted)

    async def _release_from_job(self, name: str, uid: str) -> None:
        """Have a pod that is being deleted go at once: the Job controller does not count it any more."""
        patch = {"metadata": {"uid": uid, "$deleteFromPrimitiveList/finalizers": [keys.JOB_TRACKING]}}
        await self.client.patch(PODS, name, patch, namespace=self.namespace, patch_type=PatchType.STRATEGIC)


def _show(pods: Store[PoolPod], written: DetailedPod) -> None:
    """The watch tells of a pod that is not kept any more."""
    if (seen := pool_pod(written)) is not None:
        pods.overlay(seen)
