"""Step: create, change and delete the scheduling groups of a set, before the Jobs that are in them (spec.scheduling).

A scheduling group is a PodGroup, whose pods kube-scheduler places together, or a CompositePodGroup, which consists of
groups. `ctx.groups` has the decisions of the module `groups`. This step writes them into the plan and the status.
"""

from api import keys
from controllers.planning.actions import deletions
from controllers.planning.context import Context
from controllers.planning.group_context import is_misplaced
from controllers.planning.groups import NOT_A_WARNING
from controllers.planning.partial import Partial, draft_result
from controllers.planning.status import StatusDraft
from kube.model.meta import find


def arrange_groups(ctx: Context) -> Partial:
    """Write the groups, delete suspended Jobs that name a wrong group, and set the conditions about groups.

    A Job that names a wrong group is created again, because the name in its pod template is immutable.
    """
    draft, groups = ctx.draft(), ctx.groups
    if ctx.js.spec.scheduling is None:
        draft.remove_condition(keys.GROUPS_READY)
        draft.remove_condition(keys.GROUPS_SCHEDULED)
    if groups.is_freed:  # the condition is about groups that are deleted
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
    reported_group = "" if groups.is_scheduled else _report_unscheduled_group(ctx, draft)
    return draft_result(draft, *groups.actions, *wrong_jobs, reported_group=reported_group)


def _report_unscheduled_group(ctx: Context, draft: StatusDraft) -> str:
    """Set the condition that says why a PodGroup is not scheduled. Returns the PodGroup's name, empty if there is none.

    The condition stays as it is until its PodGroup is scheduled. kube-scheduler changes the message of a PodGroup
    often, and each change would be a write of the status.
    """
    refused_groups, condition = ctx.groups.refused_groups, find(ctx.js.status.conditions, keys.GROUPS_SCHEDULED)
    if not refused_groups:
        return ""
    reported = ctx.observed.reported_group
    if condition is not None and condition.status == "False" and any(name == reported for name, _ in refused_groups):
        return reported
    name, why = refused_groups[0]
    message = f"PodGroup {name} is not scheduled yet; kube-scheduler says: {why[: ctx.limits.quoted_characters]}"
    draft.set_condition(keys.GROUPS_SCHEDULED, true=False, reason="Unschedulable", message=message, add_false=True)
    return name
