"""Summarizes a plan in one line for the log: what it does, and why. Pure."""

from collections import Counter
from collections.abc import Iterator

from api.jobset import JobSet
from controllers.planning.actions import (
    Action,
    CreateClaim,
    CreateGroup,
    CreateJob,
    CreateService,
    DeleteGroup,
    DeleteJob,
    DeleteJobs,
    DeleteJobSet,
    DeletePod,
    EndSpare,
    GivePlace,
    LiftGate,
    PatchGroup,
    PatchJob,
    Plan,
)
from kube.model.meta import Condition

MAX_LINE = 1_000
"""At most this many characters of a line are logged, since users can choose some of its texts."""

VERBS_AND_KINDS = {
    CreateJob: ("create", "Job"),
    DeleteJob: ("delete", "Job"),
    DeleteJobs: ("delete", "Job"),
    PatchJob: ("patch", "Job"),
    DeletePod: ("delete", "Pod"),
    EndSpare: ("delete", "Pod"),
    GivePlace: ("give way for", "Pod"),
    LiftGate: ("release", "Pod"),
    CreateService: ("create", "Service"),
    CreateClaim: ("create", "PersistentVolumeClaim"),
    DeleteJobSet: ("delete", "JobSet"),
}
"""The verb and the kind of object for each type of action. Actions on groups have a field `kind` instead."""


def summary(js: JobSet, plan: Plan) -> str:
    """A line such as `create 4 Jobs; Suspended=False (ResumeJobs: jobset is resumed)`; "" if only counts change."""
    changes = [_action_counts(plan.actions), *_conditions(js, plan), *_restarts(js, plan)]
    texts = [change for change in changes if change]
    condition_messages = {condition.message for condition in _changed_conditions(js, plan)}
    texts += [f"{event.reason}: {event.note}" for event in plan.events if event.note not in condition_messages]
    line = "; ".join(texts)
    return line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]}..."


def _action_counts(actions: tuple[Action, ...]) -> str:
    """A text such as `create 4 Jobs, delete 1 Service`."""
    counts: Counter[tuple[str, str]] = Counter()
    for action in actions:
        counts[_verb_and_kind(action)] += len(action.jobs) if isinstance(action, DeleteJobs) else 1
    return ", ".join(f"{verb} {count} {kind}{'s' * (count > 1)}" for (verb, kind), count in counts.items())


def _verb_and_kind(action: Action) -> tuple[str, str]:
    """The verb and kind in the summary for an action."""
    match action:
        case CreateGroup(kind=kind):
            return "create", kind
        case PatchGroup(kind=kind):
            return "patch", kind
        case DeleteGroup(kind=kind):
            return "delete", kind
    return VERBS_AND_KINDS[type(action)]


def _conditions(js: JobSet, plan: Plan) -> Iterator[str]:
    """A text about each condition that changes."""
    for condition in _changed_conditions(js, plan):
        yield f"{condition.type}={condition.status} ({condition.reason}: {condition.message})"


def _changed_conditions(js: JobSet, plan: Plan) -> list[Condition]:
    """Conditions of the new status that are not in the stored status with the same status and reason."""
    if plan.status is None:
        return []
    stored = {(condition.type, condition.status, condition.reason) for condition in js.status.conditions}
    return [
        condition
        for condition in plan.status.conditions
        if (condition.type, condition.status, condition.reason) not in stored
    ]


def _restarts(js: JobSet, plan: Plan) -> Iterator[str]:
    """A text with the number of the restart, if the set restarts."""
    if plan.status is not None and plan.status.restarts != js.status.restarts:
        yield f"restart {plan.status.restarts}"
