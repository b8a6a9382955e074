"""What one step of a plan decides, and how the decisions of all steps become one plan."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from api.jobset_status import JobSetStatus
from controllers.planning.actions import Action, Event, PodQuery
from controllers.planning.status import StatusDraft


@dataclass(frozen=True, slots=True)
class Partial:
    """What one step adds to the plan; the fields mean what those of `actions.Plan` do.

    `status`: the whole status as it is after this step; None: the step leaves it as it was.
    """

    actions: tuple[Action, ...] = ()
    status: JobSetStatus | None = None
    events: tuple[Event, ...] = ()
    warnings: tuple[Event, ...] = ()
    status_first: bool = False
    requeue_after: float | None = None
    pod_query: PodQuery | None = None
    follow_pods: bool = False
    reported_group: str = ""


@dataclass(frozen=True, slots=True)
class Stop(Partial):
    """The same, and the plan ends with it: no later step runs."""


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


def combine(partials: Iterable[Partial]) -> Partial:
    """All of them as one: actions, events and warnings in order, the last status, flags or-ed, the soonest requeue."""
    parts = tuple(partials)
    waits = [part.requeue_after for part in parts if part.requeue_after is not None]
    return Partial(
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
