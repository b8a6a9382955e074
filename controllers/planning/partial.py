"""The results of steps, and their combination to one plan."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from controllers.planning.actions import Action, Event, Partial, Plan
from controllers.planning.status import StatusDraft

__all__ = ["NOTHING", "Partial", "Stop", "combine", "draft_result"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop(Partial):
    """The result of a step after which no later step runs."""


NOTHING = Partial()


def draft_result(draft: StatusDraft, *actions: Action, kind: type[Partial] = Partial, **others: Any) -> Partial:
    """The result of a step that has changed the status; `others`: further fields of `Partial`."""
    return kind(
        actions=actions,
        status=draft.status,
        events=tuple(draft.events),
        warnings=tuple(draft.warnings),
        **others,
    )


def combine(partials: Iterable[Partial]) -> Plan:
    """One plan of all results: actions, events and warnings in order, the last status, the soonest requeue."""
    actions: list[Action] = []
    events: list[Event] = []
    warnings: list[Event] = []
    changes: dict[str, Any] = {}
    for part in partials:
        actions += part.actions
        events += part.events
        warnings += part.warnings
        wait, soonest = part.requeue_after, changes.get("requeue_after")
        if wait is not None and (soonest is None or wait < soonest):
            changes["requeue_after"] = wait
        if part.status is not None:
            changes["status"] = part.status
        if part.status_first:
            changes["status_first"] = True
        if part.follow_pods:
            changes["follow_pods"] = True
        if part.pod_query is not None:
            changes.setdefault("pod_query", part.pod_query)
        if part.reported_group:
            changes.setdefault("reported_group", part.reported_group)
    return Plan(actions=tuple(actions), events=tuple(events), warnings=tuple(warnings), **changes)
