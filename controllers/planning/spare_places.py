"""Which pods get the places of spares. See docs/concepts/spares.md#when-a-place-is-given.

A failure promises places to the replacements of lost pods. The status has the promise before anything is deleted, so
admission gives these pods a scheduling gate until they have a place.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from api.avoided_nodes import nodes_to_avoid
from api.batch import pods_at_once
from api.children import placement_annotations
from api.jobset_status import MAX_PROMISED, SpareStatus
from api.keys import EXCLUSIVE_TOPOLOGY, NODE_SELECTOR_STRATEGY
from api.names import job_key
from api.spare_pods import PoolPod
from api.spares import COUNTED, GATE, counted_place, followers_of, has_nodes_of, leader_rank_of, rank_of
from controllers.planning.child_jobs import integer
from controllers.planning.context import Context
from controllers.planning.failed_nodes import avoid_policy
from controllers.planning.observed import PodOnTaintedNode
from controllers.planning.spares import by_index
from controllers.planning.status import StatusDraft


class Place(NamedTuple):
    """The place of a spare, and the pod that gets it."""

    pod: PoolPod
    spare: PoolPod


def places(waiting: Iterable[PoolPod], spares: Iterable[PoolPod]) -> list[Place]:
    """Which pods get which places, each at most one: the oldest spares are used first.

    A pod that is nominated to a node comes first, and gets the spare on that node or none; then gated pods; then the
    oldest.
    """
    free: dict[str, list[PoolPod]] = {}
    for spare in sorted(spares, key=_age):
        free.setdefault(spare.node, []).append(spare)
    found = []
    for pod in sorted(waiting, key=lambda pod: (not pod.nominated, not pod.gated, _age(pod))):
        node = pod.nominated or next(iter(free), "")
        if node in free:
            found.append(Place(pod, free[node].pop(0)))
            if not free[node]:
                del free[node]
    return found


def places_by_job(ctx: Context, name: str, waiting: Iterable[PoolPod], spares: Iterable[PoolPod]) -> list[Place]:
    """As `places`; where only the pods of one Job share a domain, from spares with the index of the pod's Job."""
    indexes = _job_indexes(ctx, name)
    pods_by_index, spares_by_index = _by_index(waiting, indexes), _by_index(spares, indexes)
    return [place for index, pods in pods_by_index.items() for place in places(pods, spares_by_index[index])]


def _by_index(pods: Iterable[PoolPod], indexes: Mapping[str, int]) -> defaultdict[int | None, list[PoolPod]]:
    found = defaultdict[int | None, list[PoolPod]](list)
    for pod in pods:
        found[indexes.get(pod.job_uid)].append(pod)
    return found


def _job_indexes(ctx: Context, name: str) -> dict[str, int]:
    """By UID the indexes of the Jobs of that ReplicatedJob and of its spares, if a spare is for one Job only.

    So it is where only the pods of one Job share a domain: it is for the Job of its index. Else empty.
    """
    scheduling = ctx.js.spec.scheduling
    if scheduling is None or not scheduling.job_topology(name):
        return {}
    children = (*ctx.children.active, *ctx.children.failed, *ctx.children.previous)
    indexes = {child.job.metadata.uid: child.job_index for child in children if child.replicated_job == name}
    for spares in ctx.observed.spares:
        if spares.group.spare_for == name:
            indexes |= {job.metadata.uid: index for index, job in by_index(ctx.js.metadata.name, spares).items()}
    return indexes


def _age(pod: PoolPod) -> tuple[str, str]:
    return pod.created, pod.name


def free_places(ctx: Context, name: str) -> list[PoolPod]:
    """Ready spares for the ReplicatedJob of that name, on nodes that its pods may have, that work and do not go.

    In exclusive placement, leaders of spares whose pods are all ready and hold the domain for no other Job yet; and
    those to whose nodes leaders are nominated that still have their gate.
    """
    observed = ctx.observed
    jobs = {
        job.metadata.uid: job
        for spares in observed.spares
        if spares.group.spare_for == name and has_nodes_of(spares.group, ctx.js)
        for job in spares.jobs
        if job.metadata.deletion_timestamp is None
    }
    away = observed.nodes_in_maintenance.union(
        (node.name for node in ctx.status.failed_nodes), (pod.node for pod in observed.pods_on_failed_nodes)
    )
    found = [pod for pod in observed.spare_pods if pod.is_spare and pod.job_uid in jobs and pod.node not in away]
    if not is_exclusive(ctx, name):
        return found
    own = {uid: job_key(ctx.js.metadata.namespace, job.metadata.name) for uid, job in jobs.items()}
    there = Counter(pod.job_uid for pod in found if pod.job_key == own[pod.job_uid])
    nominated = {pod.nominated for pod in observed.spare_pods if pod.leads and pod.gated}
    whole = {uid for uid, job in jobs.items() if there[uid] >= pods_at_once(job.spec)}
    return [pod for pod in found if pod.leads and (pod.job_uid in whole or pod.node in nominated)]


def promise_places(ctx: Context, draft: StatusDraft, lost: Iterable[PodOnTaintedNode]) -> None:
    """Promise places to the replacements of `lost` pods, and of those that failed on avoided nodes."""
    if not ctx.gates[GATE] or draft.status.terminal_state:
        return
    js = replace(ctx.js, status=draft.status)
    avoided = {node.name for node in nodes_to_avoid(js, ctx.now)} if avoid_policy(ctx) is not None else set()
    failed = ((uid, pod) for uid, pods in ctx.observed.failed_pods.items() for pod in pods if pod.node in avoided)
    lost_pods = [
        *((pod.job_uid, pod.name) for pod in lost),
        *((uid, pod.name) for uid, pod in failed if not pod.deleting),
    ]
    children = (*ctx.children.active, *ctx.children.failed, *ctx.children.previous)
    jobs = {child.job.metadata.uid: child.replicated_job for child in children}
    for name in targets(ctx):
        rank = promised_rank if is_exclusive(ctx, name) else rank_of
        free, indexes = free_places(ctx, name), _job_indexes(ctx, name)
        lost_ranks = sorted(rank(pod) for uid, pod in lost_pods if jobs.get(uid) == name)
        entry = _entry(ctx, draft, name)
        notes = [promise for promise in entry.promised_to if promise.startswith(COUNTED)]
        promises = [promise for promise in entry.promised_to if promise not in notes]
        ranks_by_index = defaultdict[int | None, list[str]](list)
        for each in [*promises, *lost_ranks]:
            ranks_by_index[_index_of(each) if indexes else None].append(each)
        free_by_index = _by_index(free, indexes)
        promised = [
            each
            for index, ranks in ranks_by_index.items()
            for each in _first_promises(ranks, len(free_by_index[index]))
        ]
        _put(draft, replace(entry, promised_to=(*promised, *notes)[:MAX_PROMISED]))


def _index_of(rank: str) -> int | None:
    """The index of the Job of a pod of that rank."""
    return integer(rank.rpartition("-")[0].rpartition("-")[2])


def _first_promises(ranks: Iterable[str], most: int) -> list[str]:
    """The first `most` of these ranks, each once, behind those of followers, whose leader was given their domain."""
    in_order = dict.fromkeys(ranks)
    kept = [rank for rank in in_order if rank == followers_of(rank)]
    return [*dict.fromkeys([*kept, *in_order])][: len(kept) + most]


def note_given(
    ctx: Context, draft: StatusDraft, name: str, given_places: Iterable[Place], ended: Iterable[str]
) -> None:
    """Count the places that are given, and end promises.

    A pod that is held back counts with its promise, which ends in the same write; one that is not held back is noted as
    counted in the same write. So a manager that ends before the pod is nominated is followed by one that gives the
    place without counting it again. Of the promise of a domain the part lasts that holds back followers.
    """
    entry, over = _entry(ctx, draft, name), frozenset(ended)
    pods = [place.pod for place in given_places if not place.pod.nominated]
    promised_to = frozenset(entry.promised_to)
    used = entry.used + sum(
        rank_of(pod.name) in promised_to if pod.gated else counted_place(pod.name) not in promised_to for pod in pods
    )
    led = {rank: followers_of(rank) for place in given_places if place.pod.leads for rank in [rank_of(place.pod.name)]}
    promised = [led.get(promise, promise) for promise in _without_served(ctx, entry)]
    lasting = [promise for promise in promised if promise not in over]
    lasting += [counted_place(pod.name) for pod in pods if not pod.gated]
    _put(draft, replace(entry, used=used, promised_to=tuple(dict.fromkeys(lasting))[:MAX_PROMISED]))


def _without_served(ctx: Context, entry: SpareStatus) -> Iterator[str]:
    """The promises without the notes of pods that have their places. They go in a write that changes numbers."""
    is_unchanged = entry in ctx.js.status.spares
    unserved = {counted_place(pod.name) for pod in ctx.observed.spare_pods if not pod.nominated}
    return (
        promise
        for promise in entry.promised_to
        if is_unchanged or promise in unserved or not promise.startswith(COUNTED)
    )


def has_notes(ctx: Context) -> bool:
    """Whether a place was counted that may not have been given."""
    return any(promise.startswith(COUNTED) for entry in ctx.status.spares for promise in entry.promised_to)


def promised_pods(ctx: Context, name: str) -> tuple[str, ...]:
    """The ranks with a promised place of a spare of that ReplicatedJob."""
    return _entry(ctx, ctx.draft(), name).promised_to


def targets(ctx: Context) -> Iterator[str]:
    """Names of the ReplicatedJobs that have spares."""
    return iter(dict.fromkeys(spares.group.spare_for for spares in ctx.observed.spares))


def _entry(ctx: Context, draft: StatusDraft, name: str) -> SpareStatus:
    """The entry of its first group of spares, which counts for all of them."""
    first = next(spares.group.name for spares in ctx.observed.spares if spares.group.spare_for == name)
    return next(entry for entry in draft.status.spares if entry.name == first)


def _put(draft: StatusDraft, entry: SpareStatus) -> None:
    if entry not in draft.status.spares:
        draft.update(spares=tuple(entry if old.name == entry.name else old for old in draft.status.spares))


def promised_rank(pod: str) -> str:
    """The rank to which a place is promised when that pod of an exclusive Job is lost: the Job moves as a whole."""
    return leader_rank_of(rank_of(pod))


def is_exclusive(ctx: Context, name: str) -> bool:
    """Whether each Job of the group has a domain of its own, to which its leader leads the others."""
    wanted = ctx.ranges.get(name)
    placement = {} if wanted is None else placement_annotations(ctx.js, wanted.replicated_job)
    return EXCLUSIVE_TOPOLOGY in placement and NODE_SELECTOR_STRATEGY not in placement


def is_steady(ctx: Context, name: str) -> bool:
    """Whether every Job of the group is ready or has completed, and one of them runs."""
    wanted = ctx.ranges.get(name)
    if wanted is None:
        return False
    ready = ctx.children.tally(name).ready
    return ready > 0 and ready + len(ctx.children.completed[name]) >= wanted.replicated_job.replicas
