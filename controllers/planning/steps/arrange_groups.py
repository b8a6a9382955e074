"""Step: create and change scheduling groups, before the Jobs that are their members (spec.scheduling)."""

from api import keys
from controllers.planning.actions import deletions
from controllers.planning.context import Context
from controllers.planning.group_context import is_misplaced
from controllers.planning.groups import NOT_A_WARNING
from controllers.planning.partial import Partial, draft_result
from controllers.planning.status import StatusDraft
from kube.model.meta import find


def arrange_groups(ctx: Context) -> Partial:
    """Create, change and delete groups, delete suspended Jobs that name a wrong group, set the conditions of groups."""
    draft, groups = ctx.draft(), ctx.groups
    if ctx.js.spec.scheduling is None:
        draft.remove_condition(keys.GROUPS_READY)
        draft.remove_condition(keys.GROUPS_SCHEDULED)
    if groups.is_freed:  # the condition was about the freed groups
        draft.remove_condition(keys.GROUPS_SCHEDULED)
    is_final = ctx.observed.groups is not None and groups.is_final
    wrong_jobs = deletions(c.job for c in ctx.children.active if is_misplaced(c, groups.forest)) if is_final else ()
    if groups.condition is not None:
        true, reason, message = groups.condition
        event_type = "Normal" if true or reason in NOT_A_WARNING else "Warning"
        draft.set_condition(
            keys.GROUPS_READY, true=true, reason=reason, message=message, event_type=event_type, add_false=True
        )
    if groups.is_scheduled:
        message = "every group has been scheduled"
        draft.set_condition(keys.GROUPS_SCHEDULED, true=True, reason="Scheduled", message=message)
    reported_group = "" if groups.is_scheduled else _report_refusal(ctx, draft)
    return draft_result(draft, *groups.actions, *wrong_jobs, reported_group=reported_group)


def _report_refusal(ctx: Context, draft: StatusDraft) -> str:
    """Set the condition that says why a PodGroup is not scheduled. Returns the PodGroup's name, empty if there is none.

    The condition names the same PodGroup until this PodGroup is scheduled: messages change with each attempt.
    """
    refused, condition = ctx.groups.refused_groups, find(ctx.js.status.conditions, keys.GROUPS_SCHEDULED)
    if not refused:
        return ""
    reported = ctx.observed.reported_group
    if condition is not None and condition.status == "False" and any(name == reported for name, _ in refused):
        return reported
    name, why = refused[0]
    message = f"PodGroup {name} is not scheduled yet; kube-scheduler says: {why[: ctx.limits.quoted_characters]}"
    draft.set_condition(keys.GROUPS_SCHEDULED, true=False, reason="Unschedulable", message=message, add_false=True)
    return name
