"""Makes the results of steps, and combines them into one plan.

A plan says what to do about one JobSet: actions, a new status and events. It is made by a list of functions, the steps.
Each step decides one thing, and returns a `Partial`, which is a part of the plan.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from controllers.planning.actions import Action, Event, Partial, Plan
from controllers.planning.status import StatusDraft

__all__ = ["NOTHING", "LastPartial", "Partial", "combine", "draft_result"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LastPartial(Partial):
    """The result of a step after which no later step runs."""


NOTHING = Partial()


def draft_result(draft: StatusDraft, *actions: Action, kind: type[Partial] = Partial, **fields: Any) -> Partial:
    """The result of a step that has changed the status. `fields`: further fields of `Partial`."""
    return kind(
        actions=actions,
        status=draft.status,
        events=tuple(draft.events),
        warnings=tuple(draft.warnings),
        **fields,
    )


def combine(partials: Iterable[Partial]) -> Plan:
    """One plan of all partials: their actions, events and warnings in order, and the last status.

    The plan requeues the JobSet as soon as one of the partials does. If several partials have a pod query or a reported
    group, the first of them counts.
    """
    actions: list[Action] = []
    events: list[Event] = []
    warnings: list[Event] = []
    changes: dict[str, Any] = {}
    for partial in partials:
        actions += partial.actions
        events += partial.events
        warnings += partial.warnings
        seconds, fewest_seconds = partial.requeue_after, changes.get("requeue_after")
        if seconds is not None and (fewest_seconds is None or seconds < fewest_seconds):
            changes["requeue_after"] = seconds
        if partial.status is not None:
            changes["status"] = partial.status
        if partial.status_first:
            changes["status_first"] = True
        if partial.follow_pods:
            changes["follow_pods"] = True
        if partial.pod_query is not None:
            changes.setdefault("pod_query", partial.pod_query)
        if partial.reported_group:
            changes.setdefault("reported_group", partial.reported_group)
    return Plan(actions=tuple(actions), events=tuple(events), warnings=tuple(warnings), **changes)
