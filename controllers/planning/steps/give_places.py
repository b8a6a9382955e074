"""Step: give the places of spares to pods that are held back, or find no node (gate JobSetSpares).

A place is a pod of a spare that runs on a node. A pod that gets the place is nominated to that node, and the spare pod
is deleted. A promise holds back a pod that does not exist yet, by a scheduling gate, until it gets a place. See
docs/concepts/spares.md#when-a-place-is-given.
"""

from dataclasses import replace

from api.spare_pods import PoolPod
from api.spares import GATE, rank_of
from controllers.planning.actions import DeleteJob, EndSpare, GivePlace, LiftGate, PoolQuery, deletions
from controllers.planning.context import Context
from controllers.planning.partial import NOTHING, Partial, Stop, draft_result
from controllers.planning.spare_domains import decide_handover, pods_without_leader
from controllers.planning.spare_places import (
    Place,
    free_places,
    has_notes,
    is_exclusive,
    is_steady,
    note_given_places,
    places_by_job,
    promises_and_notes,
    replicated_jobs_with_spares,
)
from controllers.planning.status import StatusDraft

PLACE_COOLDOWN = 30.0
"""Seconds after a pod got a place in which it gets no other place. A pod that fits no node must not use up all places.
"""

PROMISE_DELAY = 5.0
"""If all Jobs of a ReplicatedJob are ready, its promises end this many seconds after the last write of the status.

Before that, the counts may be behind.
"""

Actions = list[GivePlace | EndSpare | LiftGate]


def give_places(ctx: Context) -> Partial:
    """Give free places to waiting pods. The scheduling gate of a pod that gets no place is removed at once.

    The watch of a new process may be behind. So the process reads the pods before it gives its first place, and before
    it removes a note that a place was counted: no place is counted twice.
    """
    if not ctx.gates[GATE] or ctx.js.spec.suspend:
        return NOTHING
    draft, since_write = ctx.draft(), ctx.observed.since_status_write
    waits: list[float] = []
    actions: Actions = []
    for name in replicated_jobs_with_spares(ctx):
        give = _give_domains if is_exclusive(ctx, name) else _give_single_places
        given_places, ended_ranks = give(ctx, draft, name, actions)
        if promises_and_notes(ctx, name) and is_steady(ctx, name):
            seconds_left = PROMISE_DELAY - (PROMISE_DELAY if since_write is None else since_write)
            if seconds_left > 0:
                waits.append(seconds_left)
            else:
                ended_ranks = [*promises_and_notes(ctx, name)]
        note_given_places(ctx, draft, name, given_places, ended_ranks)
    if not ctx.observed.pool_is_read and (has_notes(ctx) or any(isinstance(action, GivePlace) for action in actions)):
        return Stop(pod_query=PoolQuery())
    waits += [PLACE_COOLDOWN for pod in ctx.observed.spare_pods if pod.uid in ctx.observed.served_pods]
    return draft_result(draft, *actions, status_first=bool(actions), requeue_after=min(waits, default=None))


def _give_single_places(ctx: Context, draft: StatusDraft, name: str, actions: Actions) -> tuple[list[Place], list[str]]:
    """Add the actions that give places to waiting pods, or remove their scheduling gates.

    Returns the given places, and the ranks whose promises end because their pods exist now.
    """
    waiting = _waiting_pods(ctx, name)
    given_places = places_by_job(ctx, name, waiting, free_places(ctx, name)) if waiting else []
    ended_jobs = _ended_jobs(ctx, given_places)
    for place in given_places:
        actions.append(replace(_place_action(place), ended_job=ended_jobs.get(place.spare.job_uid)))
        _report(draft, place, "place")
    served = {place.pod.uid for place in given_places}
    actions += [LiftGate(pod.name, pod.uid) for pod in waiting if pod.gated and pod.uid not in served]
    return given_places, [rank_of(pod.name) for pod in waiting]


def _ended_jobs(ctx: Context, given_places: list[Place]) -> dict[str, DeleteJob]:
    """Deletions, by UID, of the spare Jobs that give places to pods of a gang. `keep_spares` creates the Jobs again.

    All pods of a gang are unschedulable as long as one pod is. If the spare Job replaced its pod, the new spare pod
    would take the node again, and would have to be deleted again and again.
    """
    if ctx.js.spec.scheduling is None:
        return {}
    uids = {place.spare.job_uid for place in given_places if not place.pod.gated}
    jobs = (job for spares in ctx.observed.spares for job in spares.jobs if job.metadata.uid in uids)
    return {action.uid: action for action in deletions(jobs)}


def _give_domains(ctx: Context, draft: StatusDraft, name: str, actions: Actions) -> tuple[list[Place], list[str]]:
    """Add the actions that give domains to leaders, and places in these domains to followers.

    Returns the places of the leaders. No promise ends, because followers come after their leader.
    """
    handover = decide_handover(ctx, name)
    actions += [EndSpare(pod.name, pod.uid) for pod in handover.ended_spares]
    keepers = pods_without_leader(ctx, {place.spare.job_uid for place in handover.leaders})
    for place in handover.leaders:
        job_keepers = tuple(keepers[place.spare.job_uid])
        actions.append(replace(_place_action(place), job_key=place.pod.job_key, keepers=job_keepers))
        _report(draft, place, "domain")
    actions += [_place_action(place) for place in handover.followers]
    actions += [LiftGate(pod.name, pod.uid) for pod in handover.released]
    return handover.leaders, []


def _place_action(place: Place) -> GivePlace:
    pod, spare = place
    return GivePlace(pod.name, pod.uid, spare.name, spare.uid, spare.node, pod.gated)


def _report(draft: StatusDraft, place: Place, kind: str) -> None:
    """Add an event about a given place. `kind`: place or domain."""
    cause = "comes in the place of one that lost its node" if place.pod.gated else "found no node"
    effect = f"gets the {kind} of spare pod {place.spare.name} on node {place.spare.node}"
    draft.add_event("Normal", "SpareUsed", f"pod {place.pod.name} {cause}, and {effect}")


def _waiting_pods(ctx: Context, name: str) -> list[PoolPod]:
    """Pods of active Jobs without a node. A pod that was given a place a moment ago is left to kube-scheduler."""
    active = {
        child.job.metadata.uid for child in ctx.children.active if child.replicated_job == name and not child.deleting
    }
    return [
        pod
        for pod in ctx.observed.spare_pods
        if pod.group == name and not pod.is_spare and pod.job_uid in active
        if pod.gated or (pod.unschedulable and pod.uid not in ctx.observed.served_pods)
    ]
