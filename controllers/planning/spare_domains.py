"""Which Jobs in exclusive placement get the domains of spares. See docs/concepts/spares.md#domains.

A domain changes hands in two steps. First the leader of a Job gets the place of the leader of a spare, while the other
pods of that spare take the key of the Job. So the leader can only go there, and the leaders of all other Jobs keep
away. When the leader has a node, its followers get the places of these pods, one by one.
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
    """What to do about the pods of one ReplicatedJob.

    `leaders`: those that get domains. `followers`: those that get places in the domain of their leader. `over`: spare
    pods that hold a domain for no waiting Job. `let_go`: gated pods that get nothing.
    """

    leaders: list[Place] = field(default_factory=list)
    followers: list[Place] = field(default_factory=list)
    over: list[PoolPod] = field(default_factory=list)
    let_go: list[PoolPod] = field(default_factory=list)


def hand_over(ctx: Context, name: str) -> Handover:
    """Decide about the Jobs of that ReplicatedJob.

    Pods that do not have the key of their Job get nothing: they were created before the annotation was added of
    exclusive placement to the set, or wrote the label.
    """
    found, wanting, active = Handover(), list[PoolPod](), set[str]()
    held, waiting = _keepers(ctx, name), defaultdict[tuple[str, str], list[PoolPod]](list)
    for pod in ctx.observed.spare_pods:
        if pod.group == name and not pod.is_spare:
            waiting[pod.job_uid, pod.job_key].append(pod)
    for child in ctx.children.active:
        if child.replicated_job != name or child.deleting:
            continue
        key = _key(ctx, child.name)
        active.add(child.job.metadata.uid)
        pods, keepers = waiting.pop((child.job.metadata.uid, key), []), held.pop(key, [])
        leader = next((pod for pod in pods if pod.leads), None)
        if leader is None:
            _serve_followers(ctx, child, pods, keepers, found)
            continue
        fails = leader.unschedulable and leader.uid not in ctx.observed.served_pods
        if fails or not leader.nominated:  # the keepers would tie it to a domain that it cannot have
            found.over.extend(keepers)
        if (leader.gated or fails) and not child.job.status.ready:
            wanting.append(leader)
        elif leader.gated:  # it joins its followers
            found.let_go.append(leader)
    found.leaders.extend(places(wanting, free_places(ctx, name)))
    served = {place.pod.uid for place in found.leaders}
    found.let_go.extend(pod for pod in wanting if pod.gated and pod.uid not in served)
    found.let_go.extend(pod for (uid, _), pods in waiting.items() if uid in active for pod in pods if pod.gated)
    found.over.extend(pod for keepers in held.values() for pod in keepers)
    return found


def _serve_followers(ctx: Context, child: Child, pods: list[PoolPod], keepers: list[PoolPod], found: Handover) -> None:
    """Followers get places when their leader has a node. Some may not exist yet: the other places wait for them."""
    new_places = places((pod for pod in pods if pod.gated or pod.uid not in ctx.observed.served_pods), keepers)
    found.followers.extend(new_places)
    served = {uid for place in new_places for uid in (place.pod.uid, place.spare.uid)}
    found.let_go.extend(pod for pod in pods if pod.gated and not pod.awaits_leader and pod.uid not in served)
    if child.job.status.active >= pods_at_once(child.job.spec):
        found.over.extend(pod for pod in keepers if pod.uid not in served)


def followers(ctx: Context, jobs: Collection[str]) -> dict[str, list[tuple[str, str]]]:
    """The pods, as (name, UID), of the Jobs of these UIDs, without their leaders, by Job."""
    found: dict[str, list[tuple[str, str]]] = {uid: [] for uid in jobs}
    for pod in ctx.observed.spare_pods:
        if pod.job_uid in found and not pod.leads:
            found[pod.job_uid].append((pod.name, pod.uid))
    return found


def _keepers(ctx: Context, name: str) -> dict[str, list[PoolPod]]:
    """The pods of spares that have the keys of other Jobs, by key. One without a key keeps no Job out."""
    groups = (spares for spares in ctx.observed.spares if spares.group.spare_for == name)
    own = {job.metadata.uid: _key(ctx, job.metadata.name) for spares in groups for job in spares.jobs}
    found = defaultdict[str, list[PoolPod]](list)
    for pod in ctx.observed.spare_pods:
        if pod.job_key and pod.job_uid in own and pod.job_key != own[pod.job_uid]:
            found[pod.job_key].append(pod)
    return found


def _key(ctx: Context, job: str) -> str:
    return job_key(ctx.js.metadata.namespace, job)
