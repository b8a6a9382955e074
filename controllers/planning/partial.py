"""What one step of a plan decides, and how the decisions of all steps become one plan."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from controllers.planning.actions import Action, Partial, Plan
from controllers.planning.status import StatusDraft

__all__ = ["NOTHING", "Partial", "Stop", "combine", "of_draft"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop(Partial):
    """What one step adds to the plan, and the plan ends with it: no later step runs."""


NOTHING = Partial()


def of_draft(draft: StatusDraft, *actions: Action, kind: type[Partial] = Partial, **others: Any) -> Partial:
    """What a step decides that has changed the status; `others`: further fields of `Partial`."""
    return kind(
        actions=actions,
        status=draft.status,
        events=tuple(draft.events),
        warnings=tuple(draft.warnings),
        **others,
    )


def combine(partials: Iterable[Partial]) -> Plan:
    """The plan of all of them: actions, events and warnings in order, the last status, the soonest requeue."""
    parts = tuple(partials)
    waits = [part.requeue_after for part in parts if part.requeue_after is not None]
    return Plan(
        actions=tuple(action for part in parts for action in part.actions),
        status=next((part.status for part in reversed(parts) if part.status is not None), None),
        events=tuple(event for part in parts for event in part.events),
        warnings=tuple(event for part in parts for event in part.warnings),
        status_first=any(part.status_first for part in parts),
        requeue_after=min(waits, default=None),
        pod_query=next((part.pod_query for part in parts if part.pod_query is not None), None),
        follow_pods=any(part.follow_pods for part in parts),
        reported_group=next((part.reported_group for part in parts if part.reported_group), ""),
    )
