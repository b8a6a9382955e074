"""Adds the pool of a set to its observed state: its spare pods, and its pods without a node.

A spare pod holds a node until another pod needs one; the other pod is then given this place, and is a served pod.
"""

import asyncio
import dataclasses
from collections.abc import Iterable

from api import keys
from api.pod import DetailedPod
from api.spare_pods import PoolPod, pool_pod
from controllers.jobset.memory import Memory
from controllers.planning.actions import Action, GivePlace
from controllers.planning.observed import Observed
from controllers.planning.steps.give_places import PLACE_COOLDOWN
from kube.client import Client
from kube.indexes import IndexKey
from kube.resources import PODS
from kube.store import Store

BY_JOBSET = "set"
"""Index of the pods of all pools by the UID of their JobSet, which is in a label."""


def with_spare_pods(observed: Observed, pods: Store[PoolPod], memory: Memory, clock: float) -> Observed:
    """The observed state with the pool from the cache. `clock`: the time of the event loop."""
    meta = observed.jobset.metadata
    pool = pods.by_index(BY_JOBSET, IndexKey(meta.namespace, meta.uid))
    if memory.served_pod_times is None:  # an earlier leader may have given places that kube-scheduler has not used yet
        spare_nodes = {pod.node for pod in pool if pod.is_spare}
        memory.served_pod_times = {pod.uid: clock for pod in pool if pod.nominated and pod.nominated not in spare_nodes}
    memory.served_pod_times = {
        uid: served_at for uid, served_at in memory.served_pod_times.items() if served_at + PLACE_COOLDOWN > clock
    }
    return dataclasses.replace(
        observed,
        spare_pods=tuple(pool),
        spare_pods_are_read=memory.spare_pods_are_read,
        served_pods=frozenset(memory.served_pod_times),
    )


async def with_read_spare_pods(
    client: Client, observed: Observed, pods: Store[PoolPod] | None, memory: Memory
) -> Observed:
    """The observed state with `spare_pods` as the API server has them now. Raises the errors of the client."""
    if pods is None:
        return dataclasses.replace(observed, spare_pods_are_read=True)
    meta = observed.jobset.metadata
    selector = f"{keys.JOBSET_UID}={meta.uid},{keys.SPARES}"
    missing_pods = {pod.name: pod for pod in pods.by_index(BY_JOBSET, IndexKey(meta.namespace, meta.uid))}
    async for listed in client.pages(PODS, type=DetailedPod, namespace=meta.namespace, label_selector=selector):
        if (pod := pool_pod(listed)) is not None:
            pods.overlay(pod)
            missing_pods.pop(pod.name, None)
    for pod in missing_pods.values():
        if pods.get(pod.namespace, pod.name) is pod:  # the watch may have changed the cache meanwhile
            pods.overlay_deleted(pod.namespace, pod.name, pod.uid)
    memory.spare_pods_are_read, memory.served_pod_times = True, None
    return with_spare_pods(observed, pods, memory, asyncio.get_running_loop().time())


def note_served_pods(memory: Memory, actions: Iterable[Action], clock: float) -> None:
    """Remember the pods that were given places by these actions at the time `clock`."""
    served = {action.pod_uid: clock for action in actions if isinstance(action, GivePlace)}
    if served:
        memory.served_pod_times = (memory.served_pod_times or {}) | served
