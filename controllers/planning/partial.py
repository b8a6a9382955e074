"""Makes the results of steps, and combines them into one plan."""

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


def draft_result(draft: StatusDraft, *actions: Action, kind: type[Partial] = Partial, **fields: Any) -> Partial:
    """The result of a step that has changed the status, with further `fields` of `Partial`."""
    return kind(
        actions=actions,
        status=draft.status,
        events=tuple(draft.events),
        warnings=tuple(draft.warnings),
        **fields,
    )


def combine(partials: Iterable[Partial]) -> Plan:
    """One plan of all partials, with their actions, events and warnings in order, the last status, the soonest requeue.

    Of several pod queries or reported groups, the first counts.
    """
    actions: list[Action] = []
    events: list[Event] = []
    warnings: list[Event] = []
    changes: dict[str, Any] = {}
    for partial in partials:
        actions += partial.actions
        events += partial.events
        warnings += partial.warnings
        wait, soonest = partial.requeue_after, changes.get("requeue_after")
        if wait is not None and (soonest is None or wait < soonest):
            changes["requeue_after"] = wait
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
