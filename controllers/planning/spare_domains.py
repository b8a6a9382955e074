"""Decides which Jobs in exclusive placement get the domains of spare Jobs. See docs/concepts/spares.md#domains.

In exclusive placement, each Job has a topology domain (a rack, for example) to itself. The pod with completion index 0
is the leader of its Job, and all other pods are followers, which run in the domain of the leader. A spare Job runs idle
to hold a domain, and a place is the node of one of its pods. A domain is handed over in two steps:
1. The leader of a Job gets the place of the leader of a spare Job. The other pods of the spare Job, its keepers, keep
   running and are labeled with the key of the Job (a hash of its namespace and name). By pod affinity, the leader can
   then go to no other domain, and the leaders of other Jobs cannot go to this domain.
2. When the leader has a node, its followers get the places of the keepers.
"""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field

from api.batch import pods_at_once
from api.names import job_key
from api.spare_pods import PoolPod
from controllers.planning.child_jobs import Child
from controllers.planning.context import Context
from controllers.planning.spare_places import Place, free_places, places


@dataclass(frozen=True, slots=True)
class Handover:
    """What to do about the pods of one ReplicatedJob and of its spares.

    - `leaders`: the places that leaders get. The Job of the leader gets the whole domain.
    - `followers`: the places that followers get in the domain of their leader.
    - `ended_spares`: keepers to delete, because no Job waits for the domain that they keep.
    - `released`: pods that get no place, and whose scheduling gate is to be removed.
    """

    leaders: list[Place] = field(default_factory=list)
    followers: list[Place] = field(default_factory=list)
    ended_spares: list[PoolPod] = field(default_factory=list)
    released: list[PoolPod] = field(default_factory=list)


def decide_handover(ctx: Context, name: str) -> Handover:
    """Decide which Jobs of ReplicatedJob `name` get domains of its spare Jobs.

    A pod that is not labeled with the key of its Job gets no place. Such a pod was created before the set had the
    annotation of exclusive placement, or somebody has changed the label.
    """
    handover, waiting_leaders, active_uids = Handover(), list[PoolPod](), set[str]()
    keepers_by_key, pods_by_job = _keepers_by_key(ctx, name), defaultdict[tuple[str, str], list[PoolPod]](list)
    for pod in ctx.observed.spare_pods:
        if pod.group == name and not pod.is_spare:
            pods_by_job[pod.job_uid, pod.job_key].append(pod)
    for child in ctx.children.active:
        if child.replicated_job != name or child.deleting:
            continue
        key = _key(ctx, child.name)
        active_uids.add(child.job.metadata.uid)
        pods, keepers = pods_by_job.pop((child.job.metadata.uid, key), []), keepers_by_key.pop(key, [])
        leader = next((pod for pod in pods if pod.leads), None)
        if leader is None:
            _serve_followers(ctx, child, pods, keepers, handover)
            continue
        finds_no_node = leader.unschedulable and leader.uid not in ctx.observed.served_pods
        if finds_no_node or not leader.nominated:  # the domain of the keepers has no room for the leader
            handover.ended_spares.extend(keepers)
        if (leader.gated or finds_no_node) and not child.job.status.ready:
            waiting_leaders.append(leader)
        elif leader.gated:  # the followers of the leader run already, so the leader joins them in their domain
            handover.released.append(leader)
    handover.leaders.extend(places(waiting_leaders, free_places(ctx, name)))
    served = {place.pod.uid for place in handover.leaders}
    handover.released.extend(pod for pod in waiting_leaders if pod.gated and pod.uid not in served)
    handover.released.extend(
        pod for (uid, _), pods in pods_by_job.items() if uid in active_uids for pod in pods if pod.gated
    )
    handover.ended_spares.extend(pod for keepers in keepers_by_key.values() for pod in keepers)
    return handover


def _serve_followers(
    ctx: Context, child: Child, pods: list[PoolPod], keepers: list[PoolPod], handover: Handover
) -> None:
    """Give the places of keepers to the followers of a Job whose leader has a node.

    `pods`: the followers that have no node. Some followers may not exist yet, so the keepers without a follower stay
    until the Job has all of its pods.
    """
    new_places = places((pod for pod in pods if pod.gated or pod.uid not in ctx.observed.served_pods), keepers)
    handover.followers.extend(new_places)
    served = {uid for place in new_places for uid in (place.pod.uid, place.spare.uid)}
    handover.released.extend(pod for pod in pods if pod.gated and not pod.awaits_leader and pod.uid not in served)
    if child.job.status.active >= pods_at_once(child.job.spec):
        handover.ended_spares.extend(pod for pod in keepers if pod.uid not in served)


def pods_without_leader(ctx: Context, job_uids: Collection[str]) -> dict[str, list[tuple[str, str]]]:
    """By UID of the Job, its pods except the leader, as (name, UID)."""
    pods: dict[str, list[tuple[str, str]]] = {uid: [] for uid in job_uids}
    for pod in ctx.observed.spare_pods:
        if pod.job_uid in pods and not pod.leads:
            pods[pod.job_uid].append((pod.name, pod.uid))
    return pods


def _keepers_by_key(ctx: Context, name: str) -> dict[str, list[PoolPod]]:
    """The keepers that keep domains for ReplicatedJob `name`, by the key of the Job that is to get the domain."""
    groups = (spares for spares in ctx.observed.spares if spares.rjob.spare_for == name)
    own_keys = {job.metadata.uid: _key(ctx, job.metadata.name) for spares in groups for job in spares.jobs}
    keepers = defaultdict[str, list[PoolPod]](list)
    for pod in ctx.observed.spare_pods:
        if pod.job_key and pod.job_uid in own_keys and pod.job_key != own_keys[pod.job_uid]:
            keepers[pod.job_key].append(pod)
    return keepers


def _key(ctx: Context, job: str) -> str:
    return job_key(ctx.js.metadata.namespace, job)
