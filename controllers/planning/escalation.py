"""Chooses a stronger action of a failure policy rule if failures continue (`then`, gate JobSetFailureEscalation).

The actions of a rule are its steps: `action` is step 1, and the entries of `then` are step 2 and so on. An entry of
`then` says after how many restarts by the step before it applies. The current step of a rule goes up and never down,
and is stored in `status.failurePolicySteps`. One plan counts at most one restart by a rule, however many Jobs have
failed. See docs/concepts/escalation.md.
"""

from collections.abc import Sequence

import msgspec

from api.failure_actions import FailureAction, Scope, action_of
from api.jobset_status import RuleStep
from api.policies import Escalation, FailurePolicyRule
from controllers.planning.status import StatusDraft
from kube.model.meta import age

GATE = "JobSetFailureEscalation"


def actions_of(rule: FailurePolicyRule) -> list[FailureAction]:
    """The actions of the rule in the order of its steps."""
    return [action_of(rule.action), *(action_of(entry.action) for entry in rule.then)]


def step_of(rule: FailurePolicyRule, stored: Sequence[RuleStep], now: str) -> int:
    """The number of the rule's step, from 1, that applies to a failure at `now`. `stored`: entries of the status."""
    entry = _entry(rule, stored)
    step = min(max(entry.step, 1), len(rule.then) + 1)
    next_entry = _next_entry(rule, step)
    if next_entry is None or _counted_restarts(next_entry, entry, now) < next_entry.after_restarts:
        return step
    return step + 1


def record_step(draft: StatusDraft, rule: FailurePolicyRule, step: int) -> None:
    """Write the step that the rule applies into the status, and count its restart. A new step adds an event."""
    stored_entry, actions = _entry(rule, draft.status.failure_policy_steps), actions_of(rule)
    entry = stored_entry if step == stored_entry.step else RuleStep(name=rule.name, step=step)
    next_entry = _next_entry(rule, step)
    if actions[step - 1].scope is not Scope.NOTHING:
        times = _recent_times(next_entry, (*entry.times, draft.now), draft.now) if next_entry else ()
        entry = msgspec.structs.replace(entry, restarts=entry.restarts + 1, times=times)
    other_entries = tuple(other for other in draft.status.failure_policy_steps if other.name != rule.name)
    draft.update(failure_policy_steps=(*other_entries, entry))
    if step > stored_entry.step:
        draft.add_event("Warning", "FailurePolicyEscalated", f"rule {rule.name} takes {describe_step(rule, step)}")


def describe_step(rule: FailurePolicyRule, step: int) -> str:
    """A step in words, such as `RestartJobSet, step 2 of 3, after 2 restarts by RestartJob within 3600 s`."""
    actions = actions_of(rule)
    text = f"{actions[step - 1].name}, step {step} of {len(actions)}"
    if step == 1:
        return text
    condition = rule.then[step - 2]
    window = "" if condition.within_seconds is None else f" within {condition.within_seconds} s"
    times = "1 restart" if condition.after_restarts == 1 else f"{condition.after_restarts} restarts"
    return f"{text}, after {times} by {actions[step - 2].name}{window}"


def _entry(rule: FailurePolicyRule, stored: Sequence[RuleStep]) -> RuleStep:
    """The stored entry of the rule, or a new one."""
    return next((entry for entry in stored if entry.name == rule.name), RuleStep(name=rule.name))


def _next_entry(rule: FailurePolicyRule, step: int) -> Escalation | None:
    """The entry of `then` that is the step after `step`; None after the last step."""
    return rule.then[step - 1] if step <= len(rule.then) else None


def _counted_restarts(next_entry: Escalation, entry: RuleStep, now: str) -> int:
    """How many restarts by the current step count towards the next step. `entry`: the entry in the status."""
    return entry.restarts if next_entry.within_seconds is None else len(_recent_times(next_entry, entry.times, now))


def _recent_times(next_entry: Escalation, times: Sequence[str], now: str) -> tuple[str, ...]:
    """The times of the newest restarts within `withinSeconds`, at most `afterRestarts` of them.

    Empty if the entry has no `withinSeconds`.
    """
    if next_entry.within_seconds is None:
        return ()
    recent = [at for at in times if age(at, now) <= next_entry.within_seconds]
    return tuple(recent[-next_entry.after_restarts :])
