"""Decides which pods get the places of spares. See docs/concepts/spares.md#when-a-place-is-given.

- A place is the node of a ready spare pod. It is given when a pod is nominated to that node.
- A rank is the name of a pod without its random suffix, which the replacement of the pod shares.
- A promise says in the status that the pod of a rank gets a place. A failure promises places to the replacements of
  lost pods before anything is deleted, so that admission gives these pods a scheduling gate until they have a place.
- A note says in the status that a place was counted as used, so that another process does not count it again.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from api.avoided_nodes import nodes_to_avoid
from api.batch import pods_at_once
from api.children import affinity_topology
from api.jobset_status import MAX_PROMISED, SpareStatus
from api.names import job_key
from api.spare_pods import PoolPod
from api.spares import (
    COUNTED_PREFIX,
    GATE,
    counted_place_note,
    followers_promise,
    has_nodes_of,
    leader_rank_of,
    rank_of,
)
from controllers.planning.child_jobs import integer
from controllers.planning.context import Context
from controllers.planning.failed_nodes import avoid_policy
from controllers.planning.observed import PodOnTaintedNode
from controllers.planning.spares import jobs_by_index
from controllers.planning.status import StatusDraft


class Place(NamedTuple):
    """A pod, and the spare pod whose place it gets."""

    pod: PoolPod
    spare: PoolPod


def places(waiting: Iterable[PoolPod], spares: Iterable[PoolPod]) -> list[Place]:
    """Which waiting pods get which places. A pod gets at most one place, and the oldest spares are used first.

    Pods that are nominated to a node come first: such a pod gets the place on that node or none. Gated pods follow,
    then all others. Older pods come before younger pods of the same kind.
    """
    spares_by_node: dict[str, list[PoolPod]] = {}
    for spare in sorted(spares, key=_age_order):
        spares_by_node.setdefault(spare.node, []).append(spare)
    given_places = []
    for pod in sorted(waiting, key=lambda pod: (not pod.nominated, not pod.gated, _age_order(pod))):
        node = pod.nominated or next(iter(spares_by_node), "")
        if node in spares_by_node:
            given_places.append(Place(pod, spares_by_node[node].pop(0)))
            if not spares_by_node[node]:
                del spares_by_node[node]
    return given_places


def places_by_job(ctx: Context, name: str, waiting: Iterable[PoolPod], spares: Iterable[PoolPod]) -> list[Place]:
    """Which waiting pods get which places, as `places` decides.

    If each Job has a domain of its own, a pod gets only places of spares with the index of its Job.
    """
    indexes = _job_indexes(ctx, name)
    pods_by_index, spares_by_index = _pods_by_index(waiting, indexes), _pods_by_index(spares, indexes)
    return [place for index, pods in pods_by_index.items() for place in places(pods, spares_by_index[index])]


def _pods_by_index(pods: Iterable[PoolPod], indexes: Mapping[str, int]) -> defaultdict[int | None, list[PoolPod]]:
    """The pods by the index of their Job; all at None if `indexes` is empty."""
    pods_by_index = defaultdict[int | None, list[PoolPod]](list)
    for pod in pods:
        pods_by_index[indexes.get(pod.job_uid)].append(pod)
    return pods_by_index


def _job_indexes(ctx: Context, name: str) -> dict[str, int]:
    """By UID, the indexes of the Jobs of ReplicatedJob `name` and of its spares, if each Job has its own domain.

    A spare can then stand in only for the Job with its index. Empty if a spare can stand in for any Job.
    """
    scheduling = ctx.js.spec.scheduling
    if scheduling is None or not scheduling.job_topology_keys(name):
        return {}
    children = (*ctx.children.active, *ctx.children.failed, *ctx.children.previous)
    indexes = {child.job.metadata.uid: child.job_index for child in children if child.replicated_job == name}
    for spares in ctx.observed.spares:
        if spares.group.spare_for == name:
            indexes |= {job.metadata.uid: index for index, job in jobs_by_index(ctx.js.metadata.name, spares).items()}
    return indexes


def _age_order(pod: PoolPod) -> tuple[str, str]:
    return pod.created, pod.name


def free_places(ctx: Context, name: str) -> list[PoolPod]:
    """Ready spare pods for ReplicatedJob `name`, on nodes that its pods may use and that are not failed or leaving.

    In exclusive placement, only the leaders of spare Jobs whose pods are all ready and keep the domain for no Job yet,
    and leaders of spare Jobs to whose node a gated leader is nominated.
    """
    observed = ctx.observed
    jobs = {
        job.metadata.uid: job
        for spares in observed.spares
        if spares.group.spare_for == name and has_nodes_of(spares.group, ctx.js)
        for job in spares.jobs
        if job.metadata.deletion_timestamp is None
    }
    unusable_nodes = observed.nodes_in_maintenance.union(
        (node.name for node in ctx.status.failed_nodes), (pod.node for pod in observed.pods_on_failed_nodes)
    )
    spare_pods = [
        pod for pod in observed.spare_pods if pod.is_spare and pod.job_uid in jobs and pod.node not in unusable_nodes
    ]
    if not is_exclusive(ctx, name):
        return spare_pods
    own_keys = {uid: job_key(ctx.js.metadata.namespace, job.metadata.name) for uid, job in jobs.items()}
    ready_pod_counts = Counter(pod.job_uid for pod in spare_pods if pod.job_key == own_keys[pod.job_uid])
    nominated = {pod.nominated for pod in observed.spare_pods if pod.leads and pod.gated}
    ready_jobs = {uid for uid, job in jobs.items() if ready_pod_counts[uid] >= pods_at_once(job.spec)}
    return [pod for pod in spare_pods if pod.leads and (pod.job_uid in ready_jobs or pod.node in nominated)]


def promise_places(ctx: Context, draft: StatusDraft, lost_pods: Iterable[PodOnTaintedNode]) -> None:
    """Promise places to the replacements of `lost_pods`, and of pods that failed on avoided nodes."""
    if not ctx.gates[GATE] or draft.status.terminal_state:
        return
    js = replace(ctx.js, status=draft.status)
    avoided = {node.name for node in nodes_to_avoid(js, ctx.now)} if avoid_policy(ctx) is not None else set()
    failed_pods = ((uid, pod) for uid, pods in ctx.observed.failed_pods.items() for pod in pods if pod.node in avoided)
    pods_to_replace = [
        *((pod.job_uid, pod.name) for pod in lost_pods),
        *((uid, pod.name) for uid, pod in failed_pods if not pod.deleting),
    ]
    children = (*ctx.children.active, *ctx.children.failed, *ctx.children.previous)
    jobs = {child.job.metadata.uid: child.replicated_job for child in children}
    for name in replicated_jobs_with_spares(ctx):
        rank_of_pod = promised_rank if is_exclusive(ctx, name) else rank_of
        indexes = _job_indexes(ctx, name)
        lost_ranks = sorted(rank_of_pod(pod) for uid, pod in pods_to_replace if jobs.get(uid) == name)
        entry = _spare_entry(ctx, draft, name)
        notes = [promise for promise in entry.promised_to if promise.startswith(COUNTED_PREFIX)]
        promises = [promise for promise in entry.promised_to if promise not in notes]
        ranks_by_index = defaultdict[int | None, list[str]](list)
        for rank in [*promises, *lost_ranks]:
            ranks_by_index[_index_of(rank) if indexes else None].append(rank)
        places_by_index = _pods_by_index(free_places(ctx, name), indexes)
        promises = [
            promise
            for index, ranks in ranks_by_index.items()
            for promise in _first_promises(ranks, len(places_by_index[index]))
        ]
        _replace_entry(draft, replace(entry, promised_to=(*promises, *notes)[:MAX_PROMISED]))


def _index_of(rank: str) -> int | None:
    """The job index in a rank."""
    return integer(rank.rpartition("-")[0].rpartition("-")[2])


def _first_promises(ranks: Iterable[str], limit: int) -> list[str]:
    """The promises to followers whose leader was given a domain, then the first `limit` other ranks, each once."""
    unique_ranks = dict.fromkeys(ranks)
    of_followers = [rank for rank in unique_ranks if rank == followers_promise(rank)]
    return [*dict.fromkeys([*of_followers, *unique_ranks])][: len(of_followers) + limit]


def note_given_places(
    ctx: Context, draft: StatusDraft, name: str, given_places: Iterable[Place], ended_ranks: Iterable[str]
) -> None:
    """Count the places that are given, and end the promises to `ended_ranks`.

    A pod with a scheduling gate counts if it has a promise, which ends in the same write. A pod without the gate gets a
    note in the same write. So if the manager ends before the pod is nominated, the next manager gives the place without
    counting it again. When a leader gets its domain, the promise to its followers continues.
    """
    entry, ended = _spare_entry(ctx, draft, name), frozenset(ended_ranks)
    pods = [place.pod for place in given_places if not place.pod.nominated]
    promised_to = frozenset(entry.promised_to)
    used = entry.used + sum(
        rank_of(pod.name) in promised_to if pod.gated else counted_place_note(pod.name) not in promised_to
        for pod in pods
    )
    leader_ranks = [rank_of(place.pod.name) for place in given_places if place.pod.leads]
    follower_promises = {rank: followers_promise(rank) for rank in leader_ranks}
    promises = [follower_promises.get(promise, promise) for promise in _without_outdated_notes(ctx, entry)]
    promises = [promise for promise in promises if promise not in ended]
    promises += [counted_place_note(pod.name) for pod in pods if not pod.gated]
    _replace_entry(draft, replace(entry, used=used, promised_to=tuple(dict.fromkeys(promises))[:MAX_PROMISED]))


def _without_outdated_notes(ctx: Context, entry: SpareStatus) -> Iterator[str]:
    """The promises, and the notes about pods that have no place yet.

    Outdated notes are removed only if other fields of the entry change: they alone are no reason to write the status.
    """
    is_unchanged = entry in ctx.js.status.spares
    current_notes = {counted_place_note(pod.name) for pod in ctx.observed.spare_pods if not pod.nominated}
    return (
        promise
        for promise in entry.promised_to
        if is_unchanged or promise in current_notes or not promise.startswith(COUNTED_PREFIX)
    )


def has_notes(ctx: Context) -> bool:
    """Whether the status has notes about counted places, which may not have been given."""
    return any(promise.startswith(COUNTED_PREFIX) for entry in ctx.status.spares for promise in entry.promised_to)


def promises_and_notes(ctx: Context, name: str) -> tuple[str, ...]:
    """The promises, as ranks, and the notes of ReplicatedJob `name`."""
    return _spare_entry(ctx, ctx.draft(), name).promised_to


def replicated_jobs_with_spares(ctx: Context) -> Iterator[str]:
    """Names of the ReplicatedJobs that have spares."""
    return iter(dict.fromkeys(spares.group.spare_for for spares in ctx.observed.spares))


def _spare_entry(ctx: Context, draft: StatusDraft, name: str) -> SpareStatus:
    """The status entry of the first ReplicatedJob of spares for `name`; it has the promises of all such spares."""
    first_name = next(spares.group.name for spares in ctx.observed.spares if spares.group.spare_for == name)
    return next(entry for entry in draft.status.spares if entry.name == first_name)


def _replace_entry(draft: StatusDraft, entry: SpareStatus) -> None:
    if entry not in draft.status.spares:
        draft.update(spares=tuple(entry if old.name == entry.name else old for old in draft.status.spares))


def promised_rank(pod: str) -> str:
    """The rank of the leader of a pod's Job. In exclusive placement a Job moves as a whole, led by its leader."""
    return leader_rank_of(rank_of(pod))


def is_exclusive(ctx: Context, name: str) -> bool:
    """Whether ReplicatedJob `name` uses exclusive placement, in which the leader decides the domain of its Job."""
    jobs = ctx.ranges.get(name)
    return jobs is not None and affinity_topology(ctx.js, jobs.replicated_job) is not None


def is_steady(ctx: Context, name: str) -> bool:
    """Whether every Job of ReplicatedJob `name` is ready or has completed, and at least one is ready."""
    jobs = ctx.ranges.get(name)
    if jobs is None:
        return False
    ready = ctx.children.tally(name).ready
    return ready > 0 and ready + len(ctx.children.completed[name]) >= jobs.replicated_job.replicas
