"""Holds the status of a JobSet while one step of a plan changes it, with the events about the changes.

See docs/reference/status.md#conditions.
"""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec

from api.conditions import with_condition
from api.jobset_status import JobSetStatus, ReplicatedJobStatus
from controllers.planning.actions import Event
from controllers.planning.limits import Limits
from kube.model.field import join_names
from kube.model.meta import Condition


class StatusDraft:
    """The status while one step changes it. It starts with the result of the earlier steps.

    - `status`: the status as changed so far. `now`: the transition time of conditions that change, RFC 3339 in UTC,
      whole seconds.
    - `events`: recorded after the status is stored. `warnings`: recorded whether or not the status is written.
    """

    def __init__(self, status: JobSetStatus, now: str) -> None:
        self.status: JobSetStatus = status
        self.events: list[Event] = []
        self.warnings: list[Event] = []
        self.now = now

    def update(self, **changes: Any) -> None:
        """Replace fields of the status."""
        self.status = msgspec.structs.replace(self.status, **changes)

    def update_replicated_jobs(
        self, names: AbstractSet[str], change: Callable[[ReplicatedJobStatus], ReplicatedJobStatus]
    ) -> None:
        """Replace the entries of these ReplicatedJobs by the results of `change`."""
        entries = self.status.replicated_jobs_status
        self.update(replicated_jobs_status=tuple(change(entry) if entry.name in names else entry for entry in entries))

    def set_condition(
        self, kind: str, *, true: bool, reason: str, message: str, event_type: str = "Normal", add_false: bool = False
    ) -> bool:
        """Set the condition of type `kind`. Returns whether the condition changes.

        A change adds an event with the same reason and message. A condition that does not exist yet is added with
        status False only if `add_false` is set.
        """
        new = Condition(
            type=kind,
            status="True" if true else "False",
            reason=reason,
            message=message,
            last_transition_time=self.now,
        )
        conditions = with_condition(self.status.conditions, new, add_false=add_false)
        if conditions == self.status.conditions:
            return False
        self.update(conditions=conditions)
        self.add_event(event_type, reason, message)
        return True

    def remove_condition(self, kind: str) -> None:
        """Remove a condition that does not apply any more."""
        if any(condition.type == kind for condition in self.status.conditions):
            self.update(conditions=tuple(c for c in self.status.conditions if c.type != kind))

    def add_event(self, event_type: str, reason: str, note: str) -> None:
        """Add an event that is recorded after the status is stored."""
        self.events.append(Event(event_type, reason, note, distinct=True))

    def warn_of_gate(self, field: str, gate: str) -> None:
        """Warn that a field does nothing while a feature gate of the manager is off."""
        note = (
            f"{field} has no effect without the feature gate {gate}: start the manager with --feature-gates={gate}=true"
        )
        self.warn("FeatureGateDisabled", note)

    def warn(self, reason: str, note: str) -> None:
        """Add a Warning event about a state, which is recorded whether or not the status is written."""
        self.warnings.append(Event("Warning", reason, note, distinct=True))


def list_some(items: Sequence[str], advice: str, limits: Limits) -> str:
    """A text with the first few items, the number of the remaining items, and `advice` about what to do."""
    return f"{join_names(items, limits.named_objects)}: {advice}"
