"""Step: give the places of spares to pods that wait for a node (gate JobSetSpares).

See docs/concepts/spares.md#when-a-place-is-given. A spare is a Job that does no work: its pods hold nodes for pods of
another ReplicatedJob.

- A place is the node of a ready spare pod. A pod gets the place by its nomination to the node and the deletion of the
  spare pod.
- A pod waits for a place if it has a scheduling gate for this, or if kube-scheduler finds no node for it.
- A rank is the name of a pod without its random suffix. The replacement of a lost pod has the same rank.
- A promise is a rank in the status (`promisedTo`). When the pod of that rank is created, a webhook adds the gate.
- A note in the same list says that a place is counted as used, so that no other process counts it again.
- In exclusive placement, each Job is alone in a topology domain. The pod with completion index 0 is its leader, and the
  other pods are followers. The spares then give whole domains.
"""

from dataclasses import replace

from api.spare_pods import PoolPod
from api.spares import GATE, rank_of
from controllers.planning.actions import DeleteJob, EndSpare, GivePlace, LiftGate, PoolQuery, deletions
from controllers.planning.context import Context
from controllers.planning.partial import NOTHING, LastPartial, Partial, draft_result
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
"""A pod that got a place gets no other place for so many seconds, since a pod that fits no node could use up all."""

PROMISE_DELAY = 5.0
"""If all Jobs of a ReplicatedJob are ready, its promises end this many seconds after the last write of the status.

The cache of Jobs may be behind, so right after a promise was written the lost Jobs may still count as ready.
"""

Actions = list[GivePlace | EndSpare | LiftGate]


def give_places(ctx: Context) -> Partial:
    """Give free places to waiting pods, and remove the scheduling gates of waiting pods that get no place.

    The watch of a new process may be behind. So the process reads the pods before it gives its first place, and before
    it removes a note. Thus no place is counted twice.
    """
    if not ctx.gates[GATE] or ctx.js.spec.suspend:
        return NOTHING
    draft, since_write = ctx.draft(), ctx.observed.since_status_write
    waits: list[float] = []
    actions: Actions = []
    for name in replicated_jobs_with_spares(ctx):
        give = _give_domains if is_exclusive(ctx, name) else _give_single_places
        given_places, ended_promises = give(ctx, draft, name, actions)
        if promises_and_notes(ctx, name) and is_steady(ctx, name):
            seconds_left = PROMISE_DELAY - (PROMISE_DELAY if since_write is None else since_write)
            if seconds_left > 0:
                waits.append(seconds_left)
            else:
                ended_promises = [*promises_and_notes(ctx, name)]
        note_given_places(ctx, draft, name, given_places, ended_promises)
    has_places = has_notes(ctx) or any(isinstance(action, GivePlace) for action in actions)
    if has_places and not ctx.observed.spare_pods_are_read:
        return LastPartial(pod_query=PoolQuery())
    waits += [PLACE_COOLDOWN for pod in ctx.observed.spare_pods if pod.uid in ctx.observed.served_pods]
    return draft_result(draft, *actions, status_first=bool(actions), requeue_after=min(waits, default=None))


def _give_single_places(ctx: Context, draft: StatusDraft, name: str, actions: Actions) -> tuple[list[Place], list[str]]:
    """Add the actions that give places to waiting pods of ReplicatedJob `name`, or remove their scheduling gates.

    Returns the given places, and the promises that end because their pods exist now.
    """
    waiting_pods = _waiting_pods(ctx, name)
    given_places = places_by_job(ctx, name, waiting_pods, free_places(ctx, name)) if waiting_pods else []
    job_deletions = _deletions_of_spare_jobs(ctx, given_places)
    for place in given_places:
        actions.append(replace(_place_action(place), ended_job=job_deletions.get(place.spare.job_uid)))
        _report(draft, place, "place")
    served_uids = {place.pod.uid for place in given_places}
    actions += [LiftGate(pod.name, pod.uid) for pod in waiting_pods if pod.gated and pod.uid not in served_uids]
    return given_places, [rank_of(pod.name) for pod in waiting_pods]


def _deletions_of_spare_jobs(ctx: Context, given_places: list[Place]) -> dict[str, DeleteJob]:
    """By UID, deletions of the spare Jobs that give places to pods of a gang. `keep_spares` creates the Jobs again.

    kube-scheduler places all pods of a gang together, so all of them are unschedulable as long as one pod is. If the
    spare Job stayed, it would replace its pod, and the new spare pod would take the node again before the gang does.
    """
    if ctx.js.spec.scheduling is None:
        return {}
    uids = {place.spare.job_uid for place in given_places if not place.pod.gated}
    jobs = (job for spares in ctx.observed.spares for job in spares.jobs if job.metadata.uid in uids)
    return {action.uid: action for action in deletions(jobs)}


def _give_domains(ctx: Context, draft: StatusDraft, name: str, actions: Actions) -> tuple[list[Place], list[str]]:
    """Add the actions that give domains to leaders, and places in these domains to followers.

    Returns the places of the leaders, and no promises: a promise holds until the followers of the leader have places.
    """
    handover = decide_handover(ctx, name)
    actions += [EndSpare(pod.name, pod.uid) for pod in handover.ended_spares]
    # When a leader gets the place of a spare pod, the other pods of the spare Job keep the domain for the followers.
    keepers_by_job = pods_without_leader(ctx, {place.spare.job_uid for place in handover.leaders})
    for place in handover.leaders:
        keepers = tuple(keepers_by_job[place.spare.job_uid])
        actions.append(replace(_place_action(place), job_key=place.pod.job_key, keepers=keepers))
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
    """Pods of active Jobs of ReplicatedJob `name` that wait for a place.

    A pod that got a place less than `PLACE_COOLDOWN` seconds ago does not wait, unless it still has the gate.
    """
    active_uids = {
        child.job.metadata.uid for child in ctx.children.active if child.replicated_job == name and not child.deleting
    }
    return [
        pod
        for pod in ctx.observed.spare_pods
        if pod.group == name and not pod.is_spare and pod.job_uid in active_uids
        if pod.gated or (pod.unschedulable and pod.uid not in ctx.observed.served_pods)
    ]
