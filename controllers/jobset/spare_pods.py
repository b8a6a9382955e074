"""The spares of a set, and its pods that have no node yet, as the plan observes them."""

import dataclasses
from collections.abc import Iterable

from api.spare_pods import PoolPod
from controllers.jobset.memory import Memory
from controllers.planning.actions import Action, GivePlace
from controllers.planning.observed import Observed
from controllers.planning.steps.give_places import PLACE_COOLDOWN
from kube.indexes import IndexKey
from kube.store import Store

BY_SET = "set"
"""Index of these pods by the UID of their JobSet in the label."""


def with_spare_pods(observed: Observed, pods: Store[PoolPod], memory: Memory, clock: float) -> Observed:
    """The observation with the pods of the cache. `clock`: seconds of the event loop, as in `memory.served`."""
    meta = observed.jobset.metadata
    found = pods.by_index(BY_SET, IndexKey(meta.namespace, meta.uid))
    if memory.served is None:  # kube-scheduler may not have looked since an earlier leader gave way
        at = {pod.node for pod in found if pod.is_spare}
        memory.served = {pod.uid: clock for pod in found if pod.nominated and pod.nominated not in at}
    memory.served = {uid: served_at for uid, served_at in memory.served.items() if served_at + PLACE_COOLDOWN > clock}
    return dataclasses.replace(observed, spare_pods=tuple(found), served_pods=frozenset(memory.served))


def note_served(memory: Memory, actions: Iterable[Action], clock: float) -> None:
    """Remember to which pods places are given."""
    served = {action.pod_uid: clock for action in actions if isinstance(action, GivePlace)}
    if served:
        memory.served = (memory.served or {}) | served
