"""Step: spares give their places to pods that are held back, or find no node (gate JobSetSpares).

See docs/concepts/spares.md#when-a-place-is-given.
"""

from dataclasses import replace

from api.spare_pods import PoolPod
from api.spares import GATE, rank_of
from controllers.planning.actions import DeleteJob, EndSpare, GivePlace, LiftGate, PoolQuery
from controllers.planning.context import Context
from controllers.planning.partial import NOTHING, Partial, Stop, draft_result
from controllers.planning.spare_domains import followers, hand_over
from controllers.planning.spare_places import (
    Place,
    free_places,
    has_notes,
    is_exclusive,
    is_steady,
    note_given,
    places_by_job,
    promised_pods,
    targets,
)
from controllers.planning.spares import deletions
from controllers.planning.status import StatusDraft

PLACE_COOLDOWN = 30.0
"""Seconds after a pod got a place in which it gets no other: a pod that does not fit there either must not use up all
places."""

PROMISE_DELAY = 5.0
"""Seconds since the last write of the status after which promises end if all Jobs are ready: counts may be behind."""

Actions = list[GivePlace | EndSpare | LiftGate]


def give_places(ctx: Context) -> Partial:
    """Give free places to waiting pods. The scheduling gate of a pod that gets none is removed at once.

    The watch of a new process may be behind: before its first place it reads the pods, so that none is counted again,
    and before it ends a note of one that was counted.
    """
    if not ctx.gates[GATE] or ctx.js.spec.suspend:
        return NOTHING
    draft, written = ctx.draft(), ctx.observed.since_status_write
    waits: list[float] = []
    actions: Actions = []
    for name in targets(ctx):
        give = _give_domains if is_exclusive(ctx, name) else _give_single_places
        given_places, ended = give(ctx, draft, name, actions)
        if promised_pods(ctx, name) and is_steady(ctx, name):
            left = PROMISE_DELAY - (PROMISE_DELAY if written is None else written)
            ended = ended if left > 0 else [*promised_pods(ctx, name)]
            waits += [left] if left > 0 else []
        note_given(ctx, draft, name, given_places, ended)
    if not ctx.observed.pool_is_read and (has_notes(ctx) or any(isinstance(action, GivePlace) for action in actions)):
        return Stop(pod_query=PoolQuery())
    waits += [PLACE_COOLDOWN for pod in ctx.observed.spare_pods if pod.uid in ctx.observed.served_pods]
    return draft_result(draft, *actions, status_first=bool(actions), requeue_after=min(waits, default=None))


def _give_single_places(ctx: Context, draft: StatusDraft, name: str, actions: Actions) -> tuple[list[Place], list[str]]:
    """The given places, and the ranks whose promises end because their pods exist now."""
    waiting = _waiting(ctx, name)
    given_places = places_by_job(ctx, name, waiting, free_places(ctx, name)) if waiting else []
    ended = _ended_jobs(ctx, given_places)
    for place in given_places:
        actions.append(replace(_give(place), ended_job=ended.get(place.spare.job_uid)))
        _report(draft, place, "place")
    served = {place.pod.uid for place in given_places}
    actions += [LiftGate(pod.name, pod.uid) for pod in waiting if pod.gated and pod.uid not in served]
    return given_places, [rank_of(pod.name) for pod in waiting]


def _ended_jobs(ctx: Context, given_places: list[Place]) -> dict[str, DeleteJob]:
    """Jobs of spares, by UID, that are deleted with all their pods, to make room for a gang. Later ones follow.

    All pods of a gang are unschedulable as long as one is: the next pod of a spare would take the same node, and give
    way again and again.
    """
    if ctx.js.spec.scheduling is None:
        return {}
    uids = {place.spare.job_uid for place in given_places if not place.pod.gated}
    jobs = (job for spares in ctx.observed.spares for job in spares.jobs if job.metadata.uid in uids)
    return {action.uid: action for action in deletions(jobs)}


def _give_domains(ctx: Context, draft: StatusDraft, name: str, actions: Actions) -> tuple[list[Place], list[str]]:
    """The given domains. Promises last until all Jobs are ready: followers come after their leader."""
    found = hand_over(ctx, name)
    actions += [EndSpare(pod.name, pod.uid) for pod in found.over]
    keepers = followers(ctx, {place.spare.job_uid for place in found.leaders})
    for place in found.leaders:
        job_keepers = tuple(keepers[place.spare.job_uid])
        actions.append(replace(_give(place), job_key=place.pod.job_key, keepers=job_keepers))
        _report(draft, place, "domain")
    actions += [_give(place) for place in found.followers]
    actions += [LiftGate(pod.name, pod.uid) for pod in found.let_go]
    return found.leaders, []


def _give(place: Place) -> GivePlace:
    pod, spare = place
    return GivePlace(pod.name, pod.uid, spare.name, spare.uid, spare.node, pod.gated)


def _report(draft: StatusDraft, place: Place, what: str) -> None:
    cause = "comes in the place of one that lost its node" if place.pod.gated else "found no node"
    effect = f"gets the {what} of spare pod {place.spare.name} on node {place.spare.node}"
    draft.event("Normal", "SpareUsed", f"pod {place.pod.name} {cause}, and {effect}")


def _waiting(ctx: Context, name: str) -> list[PoolPod]:
    """Pods of the attempt without a node. One that was given a place a moment ago is left to kube-scheduler."""
    active = {
        child.job.metadata.uid for child in ctx.children.active if child.replicated_job == name and not child.deleting
    }
    return [
        pod
        for pod in ctx.observed.spare_pods
        if pod.group == name and not pod.is_spare and pod.job_uid in active
        if pod.gated or (pod.unschedulable and pod.uid not in ctx.observed.served_pods)
    ]
