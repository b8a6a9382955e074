"""Decides which pods get the nodes of spare pods. See docs/concepts/spares.md#when-a-place-is-given.

Spares are a ReplicatedJob whose pods run idle to hold nodes for the pods of another ReplicatedJob. These terms are used
here and in `status.spares[].promisedTo`:
- A place is the node of a ready spare pod. To give the place to a pod, the pod is nominated to the node
  (`nominatedNodeName`), and the spare pod is deleted.
- A rank is the name of a pod without its random suffix. The replacement of a pod has the same rank.
- A promise is an entry of `promisedTo`, and says that the next pod of a rank gets a place. If pods are lost, their
  ranks get promises before any pod is deleted. So the webhook for pods gives the replacements a scheduling gate, which
  is removed when the pod is given a place.
- A note is also an entry of `promisedTo`, for a pod without a promise, and says that its place is already counted in
  `used`. If the manager ends before it gives the place, the next manager gives the place without counting it again.
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
from controllers.planning.observed import PodAtRisk
from controllers.planning.spares import jobs_by_index
from controllers.planning.status import StatusDraft


class Place(NamedTuple):
    """A place that is given: the `pod` that gets it, and the `spare` pod that has held it."""

    pod: PoolPod
    spare: PoolPod


def places(waiting: Iterable[PoolPod], spare_pods: Iterable[PoolPod]) -> list[Place]:
    """Which waiting pods get which places. A pod gets at most one place, and the oldest spare pods are used first.

    The first pods to get places are those nominated to a node, then those with a scheduling gate, then all others, and
    among equals the older pods. A nominated pod gets a place on its node or none.
    """
    spares_by_node: dict[str, list[PoolPod]] = {}
    for spare in sorted(spare_pods, key=_age_order):
        spares_by_node.setdefault(spare.node, []).append(spare)
    given_places = []
    for pod in sorted(waiting, key=lambda pod: (not pod.nominated, not pod.gated, _age_order(pod))):
        node = pod.nominated or next(iter(spares_by_node), "")
        if node in spares_by_node:
            given_places.append(Place(pod, spares_by_node[node].pop(0)))
            if not spares_by_node[node]:
                del spares_by_node[node]
    return given_places


def places_by_job(ctx: Context, name: str, waiting: Iterable[PoolPod], spare_pods: Iterable[PoolPod]) -> list[Place]:
    """Which waiting pods of ReplicatedJob `name` get which places, as `places` decides.

    If each Job has a topology domain of its own, a pod of Job 3 only gets places of spare Job 3.
    """
    indexes = _indexes_by_uid(ctx, name)
    pods_by_index, spares_by_index = _pods_by_index(waiting, indexes), _pods_by_index(spare_pods, indexes)
    return [place for index, pods in pods_by_index.items() for place in places(pods, spares_by_index[index])]


def _pods_by_index(pods: Iterable[PoolPod], indexes: Mapping[str, int]) -> defaultdict[int | None, list[PoolPod]]:
    """The pods by the index of their Job; all pods under None if `indexes` is empty.

    `indexes`: see `_indexes_by_uid`.
    """
    pods_by_index = defaultdict[int | None, list[PoolPod]](list)
    for pod in pods:
        pods_by_index[indexes.get(pod.job_uid)].append(pod)
    return pods_by_index


def _indexes_by_uid(ctx: Context, name: str) -> dict[str, int]:
    """The job index, by UID of the Job, of each Job of ReplicatedJob `name` and each of its spare Jobs.

    Empty unless `spec.scheduling` gives each Job a topology domain of its own. With such domains, a spare Job can only
    stand in for the Job that has the same index.
    """
    scheduling = ctx.js.spec.scheduling
    if scheduling is None or not scheduling.job_topology_keys(name):
        return {}
    children = (*ctx.children.active, *ctx.children.failed, *ctx.children.previous)
    indexes = {child.job.metadata.uid: child.job_index for child in children if child.replicated_job == name}
    for spares in ctx.observed.spares:
        if spares.rjob.spare_for == name:
            indexes |= {job.metadata.uid: index for index, job in jobs_by_index(ctx.js.metadata.name, spares).items()}
    return indexes


def _age_order(pod: PoolPod) -> tuple[str, str]:
    """A sort key: the oldest pod first."""
    return pod.created, pod.name


def free_places(ctx: Context, name: str) -> list[PoolPod]:
    """The ready spare pods whose places pods of ReplicatedJob `name` may get.

    Spare pods on nodes that have failed or are in maintenance are left out. In exclusive placement, where each Job has
    a topology domain to itself, a spare Job gives its whole domain. So only the leader of a spare Job (its pod with
    completion index 0) offers a place, and only in these cases:
    - All pods of the spare Job are ready, and none of them is labeled with the key of another Job, for which it would
      keep the domain (`spare_domains`).
    - A leader that still has a scheduling gate is nominated to the node.
    """
    observed = ctx.observed
    spare_jobs = {
        job.metadata.uid: job
        for spares in observed.spares
        if spares.rjob.spare_for == name and has_nodes_of(spares.rjob, ctx.js)
        for job in spares.jobs
        if job.metadata.deletion_timestamp is None
    }
    unusable_nodes = observed.nodes_in_maintenance.union(
        (node.name for node in ctx.status.failed_nodes), (pod.node for pod in observed.pods_on_failed_nodes)
    )
    spare_pods = [
        pod
        for pod in observed.spare_pods
        if pod.is_spare and pod.job_uid in spare_jobs and pod.node not in unusable_nodes
    ]
    if not is_exclusive(ctx, name):
        return spare_pods
    own_keys = {uid: job_key(ctx.js.metadata.namespace, job.metadata.name) for uid, job in spare_jobs.items()}
    ready_pod_counts = Counter(pod.job_uid for pod in spare_pods if pod.job_key == own_keys[pod.job_uid])
    ready_uids = {uid for uid, job in spare_jobs.items() if ready_pod_counts[uid] >= pods_at_once(job.spec)}
    nominated_nodes = {pod.nominated for pod in observed.spare_pods if pod.leads and pod.gated}
    return [pod for pod in spare_pods if pod.leads and (pod.job_uid in ready_uids or pod.node in nominated_nodes)]


def promise_places(ctx: Context, draft: StatusDraft, lost_pods: Iterable[PodAtRisk]) -> None:
    """Promise places to the replacements of `lost_pods`, and of pods that failed on avoided nodes.

    `lost_pods`: pods on failed nodes. Avoided nodes are those that caused failures (`failurePolicy.avoidNodes`). There
    are never more promises than free places.
    """
    if not ctx.gates[GATE] or draft.status.terminal_state:
        return
    js = replace(ctx.js, status=draft.status)
    avoided_nodes = {node.name for node in nodes_to_avoid(js, ctx.now)} if avoid_policy(ctx) is not None else set()
    failed_pods = (
        (uid, pod) for uid, pods in ctx.observed.failed_pods.items() for pod in pods if pod.node in avoided_nodes
    )
    pods_to_replace = [
        *((pod.job_uid, pod.name) for pod in lost_pods),
        *((uid, pod.name) for uid, pod in failed_pods if not pod.deleting),
    ]
    children = (*ctx.children.active, *ctx.children.failed, *ctx.children.previous)
    names_by_uid = {child.job.metadata.uid: child.replicated_job for child in children}
    for name in replicated_jobs_with_spares(ctx):
        lost_ranks = [rank_of(pod) for uid, pod in pods_to_replace if names_by_uid.get(uid) == name]
        if is_exclusive(ctx, name):  # a Job moves as a whole, led by its leader
            lost_ranks = [leader_rank_of(rank) for rank in lost_ranks]
        indexes = _indexes_by_uid(ctx, name)
        entry = _spare_entry(ctx, draft, name)
        notes = [promise for promise in entry.promised_to if promise.startswith(COUNTED_PREFIX)]
        promises = [promise for promise in entry.promised_to if promise not in notes]
        ranks_by_index = defaultdict[int | None, list[str]](list)
        for rank in [*promises, *sorted(lost_ranks)]:
            ranks_by_index[_index_of(rank) if indexes else None].append(rank)
        places_by_index = _pods_by_index(free_places(ctx, name), indexes)
        promises = [
            promise
            for index, ranks in ranks_by_index.items()
            for promise in _first_promises(ranks, len(places_by_index[index]))
        ]
        _replace_entry(draft, replace(entry, promised_to=(*promises, *notes)[:MAX_PROMISED]))


def _index_of(rank: str) -> int | None:
    """The job index in a rank, which is `JOBSET-REPLICATEDJOB-JOBINDEX-COMPLETIONINDEX`."""
    return integer(rank.rpartition("-")[0].rpartition("-")[2])


def _first_promises(ranks: Iterable[str], limit: int) -> list[str]:
    """Promises to these ranks: all promises to followers, then the promises to the first `limit` other ranks.

    A promise to followers is for the pods of a Job whose leader was already given a domain.
    """
    unique_ranks = dict.fromkeys(ranks)
    of_followers = [rank for rank in unique_ranks if rank == followers_promise(rank)]
    return [*dict.fromkeys([*of_followers, *unique_ranks])][: len(of_followers) + limit]


def note_given_places(
    ctx: Context, draft: StatusDraft, name: str, given_places: Iterable[Place], ended_ranks: Iterable[str]
) -> None:
    """Count the given places in the status of ReplicatedJob `name`, and end the promises to `ended_ranks`.

    Each place counts once, although the manager may end before it gives the place, and the next manager gives it again.
    A pod with a scheduling gate counts only as long as it has a promise, and its promise ends in the same write of the
    status. A pod without the gate counts only if it has no note, and gets a note in the same write. When a leader gets
    a domain, the promise to the leader becomes a promise to its followers.
    """
    entry, ended = _spare_entry(ctx, draft, name), frozenset(ended_ranks)
    # The place of a nominated pod was counted when the pod was nominated.
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
    """The promises, and the notes about pods that are not nominated yet. All other notes are outdated.

    Outdated notes stay as long as the entry is as it is stored, since they are no reason to write the status.
    """
    is_unchanged = entry in ctx.js.status.spares
    current_notes = {counted_place_note(pod.name) for pod in ctx.observed.spare_pods if not pod.nominated}
    return (
        promise
        for promise in entry.promised_to
        if is_unchanged or promise in current_notes or not promise.startswith(COUNTED_PREFIX)
    )


def has_notes(ctx: Context) -> bool:
    """Whether the status has notes. The places in notes are counted, but may not have been given."""
    return any(promise.startswith(COUNTED_PREFIX) for entry in ctx.status.spares for promise in entry.promised_to)


def promises_and_notes(ctx: Context, name: str) -> tuple[str, ...]:
    """The promises and notes to pods of ReplicatedJob `name`. A promise is written as the rank."""
    return _spare_entry(ctx, ctx.draft(), name).promised_to


def replicated_jobs_with_spares(ctx: Context) -> Iterator[str]:
    """Names of the ReplicatedJobs that have spares."""
    return iter(dict.fromkeys(spares.rjob.spare_for for spares in ctx.observed.spares))


def _spare_entry(ctx: Context, draft: StatusDraft, name: str) -> SpareStatus:
    """The entry of `status.spares` with all promises and notes for pods of ReplicatedJob `name`.

    If several ReplicatedJobs of spares are for `name`, the entry of the first of them has the promises and notes.
    """
    first_name = next(spares.rjob.name for spares in ctx.observed.spares if spares.rjob.spare_for == name)
    return next(entry for entry in draft.status.spares if entry.name == first_name)


def _replace_entry(draft: StatusDraft, entry: SpareStatus) -> None:
    if entry not in draft.status.spares:
        draft.update(spares=tuple(entry if old.name == entry.name else old for old in draft.status.spares))


def is_exclusive(ctx: Context, name: str) -> bool:
    """Whether each Job of ReplicatedJob `name` has a topology domain to itself, decided by the node of its leader."""
    jobs = ctx.ranges.get(name)
    return jobs is not None and affinity_topology(ctx.js, jobs.replicated_job) is not None


def is_steady(ctx: Context, name: str) -> bool:
    """Whether every Job of ReplicatedJob `name` is ready or has completed, and at least one is ready."""
    jobs = ctx.ranges.get(name)
    if jobs is None:
        return False
    ready = ctx.children.tally(name).ready
    return ready > 0 and ready + len(ctx.children.completed[name]) >= jobs.replicated_job.replicas
