"""Step: decide about failed Jobs (docs/reference/failure-policy.md#failure-policy).

The failure policy of a set has rules. The first rule that matches a failed Job names the action, such as a restart of
the Job, of its ReplicatedJob or of the set. `failure_match` finds the rule for each failed Job, `_Decisions` decides
whether the action is possible and allowed, and `failure_record` writes the restart or the failure into the status. A
Job also counts as failed if one of its pods decides that it has (`FailedByPod`), for example after the loss of its
node.

- The order of decisions is that of the rules that match the Jobs, then that of the times of the failures (in whole
  seconds), then that of the global indexes of the Jobs.
- After an action on a Job or a ReplicatedJob, the same plan decides about the other failures. An action on the set ends
  the attempt, which is the time between two restarts of the set, so the other failures need no decision.
- Rules with onExitCodes or onPodReasons need the failed pods. The plan first asks for these pods, and decides nothing.
- If very many Jobs have failed, a plan decides about the earliest failures, and the next plan about later failures. So
  the time of a plan is bounded, however many Jobs, rules and patterns there are.
"""

import heapq
from collections.abc import Sequence
from typing import assert_never

from api.failure_actions import MAX_REPLICAS_TO_RESTART, RESTART_JOBSET, FailureAction, Scope, action_of
from api.policies import FailurePolicyRule
from controllers.planning import escalation, failed_nodes, node_failure, spare_places
from controllers.planning.actions import FailedPodQuery
from controllers.planning.attempts import counted_part_restarts
from controllers.planning.child_jobs import Child
from controllers.planning.context import Context
from controllers.planning.decisive_pod import MAX_COUNTED
from controllers.planning.failure_match import Failure, Matcher, failed_by_pods
from controllers.planning.failure_record import Record
from controllers.planning.observed import FailedPodsByJob
from controllers.planning.partial import NOTHING, LastPartial, Partial, draft_result
from controllers.planning.status import StatusDraft
from kube.model.patterns import MAX_PATTERNS


def apply_failure_policy(ctx: Context) -> Partial:
    """Decide about each failed Job. If anything is decided, or if pods are missing, no later step runs."""
    by_pods = failed_by_pods(ctx)
    if not (ctx.children.failed or by_pods):
        return NOTHING
    draft, failed_pods = ctx.draft(), ctx.observed.failed_pods
    failed_by_themselves = (child for child in ctx.children.failed if child.job.metadata.uid not in by_pods)
    all_failed_jobs = (*failed_by_themselves, *(failure.child for failure in by_pods.values()))
    failed_jobs = heapq.nsmallest(_job_limit(ctx), all_failed_jobs, key=_failure_order)
    matcher = Matcher(ctx, by_pods)
    jobs_needing_pods = [
        child
        for child in failed_jobs
        if (child.job.metadata.uid not in by_pods and _asks_for_pods(ctx, child)) or matcher.needs_pods(child)
    ]
    needed_query = _pod_query(jobs_needing_pods, failed_pods, needed=True)
    if matcher.has_unread_patterns:
        draft.warn(
            "TooManyPatterns",
            f"the failure policy has more than {MAX_PATTERNS} onJobFailureMessagePatterns: those after them match"
            " nothing. Join some with |",
        )
    if needed_query is not None:
        return draft_result(draft, kind=LastPartial, pod_query=needed_query)
    _warn_of_uncounted_pods(draft, matcher, failed_jobs)
    reported_jobs = _Decisions(ctx, draft).decide(matcher.match(failed_jobs))
    pod_query = _pod_query(reported_jobs, failed_pods, needed=False)
    has_decided = draft.status is not ctx.status
    if has_decided:
        failed_nodes.count_failures(ctx, draft, failed_jobs)
        if ctx.observed.spares:
            spare_places.promise_places(ctx, draft, node_failure.lost_pods(ctx.js, ctx.gates, ctx.observed))
    return draft_result(draft, kind=LastPartial if has_decided else Partial, pod_query=pod_query)


def _asks_for_pods(ctx: Context, child: Child) -> bool:
    """Whether the Job's failed pods are needed to find the node that caused the failure."""
    return failed_nodes.needs_pods(ctx, child) or node_failure.asks_for_pods(ctx.js, ctx.gates, child)


def _job_limit(ctx: Context) -> int:
    """How many failed Jobs one plan decides about. The more rules and patterns there are, the fewer Jobs."""
    rules = ctx.failure_policy.rules
    comparisons_per_job = 1 + sum(1 + len(rule.on_job_failure_message_patterns) for rule in rules)
    return max(1, min(ctx.limits.judged_jobs, ctx.limits.judgements // comparisons_per_job))


def _failure_order(child: Child) -> tuple[str, int]:
    failure = child.job.failure
    return (failure.last_transition_time if failure else "", child.global_index)


def _pod_query(children: Sequence[Child], failed_pods: FailedPodsByJob, *, needed: bool) -> FailedPodQuery | None:
    """A query about those of the Jobs that still exist and were not looked up; None if there are no such Jobs."""
    jobs = tuple(
        (c.name, c.job.metadata.uid) for c in children if not c.was_deleted and c.job.metadata.uid not in failed_pods
    )
    return FailedPodQuery(jobs, needed=needed) if jobs else None


def _warn_of_uncounted_pods(draft: StatusDraft, matcher: Matcher, failed_jobs: Sequence[Child]) -> None:
    """Warn of each Job with so many failed pods that the pod by which it failed may not have been read."""
    for child in failed_jobs:
        if matcher.is_beyond_counting(child):
            draft.warn(
                "TooManyFailedPods",
                f"Job {child.name} has {MAX_COUNTED} failed pods or more, and its backoffLimit is no lower:"
                f" onExitCodes looks at number {MAX_COUNTED}, which may not be the one by which it failed",
            )


class _Decisions:
    """The decisions of one plan about failures that were matched with rules."""

    def __init__(self, ctx: Context, draft: StatusDraft) -> None:
        self._policy = ctx.js.spec.failure_policy
        self._gates = ctx.gates
        self._draft = draft
        self._record = Record(draft)
        self._stored_steps = draft.status.failure_policy_steps
        self._counted_part_restarts = counted_part_restarts(draft.status) if ctx.gates["RestartJob"] else 0

    def decide(self, failures: Sequence[Failure]) -> list[Child]:
        """Decide about each failure in turn, until the whole set fails or restarts.

        Returns the Jobs whose failed pods are to be named in events and the attempt history, if these pods are not
        known yet.
        """
        reported_jobs: list[Child] = []
        settled_replicated_jobs: set[str] = set()
        for failure in failures:
            child, rule = failure.child, failure.rule
            if child.replicated_job in settled_replicated_jobs:
                continue
            step = self._escalation_step(rule) if rule else 1
            action = escalation.actions_of(rule)[step - 1] if rule else self._default_action(child)
            if not self._is_possible(action, failure):
                break
            attempt_ended = self._carry_out(failure, action, step)
            if failure.by_pod is None and (attempt_ended or failure.is_by_pod):
                reported_jobs.append(child)
            if attempt_ended:
                break
            match action.scope:
                case Scope.REPLICATED_JOB:
                    settled_replicated_jobs.add(child.replicated_job)
                case Scope.JOB:
                    pass
                case Scope.NOTHING | Scope.JOBSET:
                    break
                case other:
                    assert_never(other)
        self._record.restart_parts()
        return reported_jobs

    def _escalation_step(self, rule: FailurePolicyRule) -> int:
        """The number of the rule's action that applies, from 1. A rule has several actions if it has `then`.

        The number is the same for all failures of one plan.
        """
        if not rule.then:
            return 1
        if self._gates[escalation.GATE]:
            return escalation.step_of(rule, self._stored_steps, self._draft.now)
        self._draft.warn_of_gate(f"`then` of failure policy rule {rule.name}", escalation.GATE)
        return 1

    def _default_action(self, child: Child) -> FailureAction:
        """The action for a Job that no rule matches."""
        node_policy = self._policy.node_failure if self._policy else None
        if node_policy is None or child.job.failure is None or child.job.failure.reason != node_failure.REASON:
            return RESTART_JOBSET
        return action_of(node_policy.action)

    def _is_possible(self, action: FailureAction, failure: Failure) -> bool:
        """Whether the action can be carried out. If not, warn of it. The set then waits for the user."""
        is_enabled = action.is_enabled(self._gates)
        if is_enabled and not (action.restarts_part and failure.rjob.replicas > MAX_REPLICAS_TO_RESTART):
            return True
        request = f"Job {failure.child.name} failed and a rule asks for {action.name}, which"
        if not is_enabled:
            self._draft.warn(
                "FeatureGateDisabled",
                f"{request} needs the feature gate {action.gate}: start the manager with"
                f" --feature-gates={action.gate}=true, or delete the JobSet",
            )
        else:
            self._draft.warn(
                "TooManyReplicas",
                f"{request} counts the restarts of at most {MAX_REPLICAS_TO_RESTART} Jobs of a ReplicatedJob: delete"
                " the JobSet, and make several in its place",
            )
        return False

    def _carry_out(self, failure: Failure, action: FailureAction, step: int) -> bool:
        """Write a failure or restart into the status. Returns whether it ended the attempt of the whole set."""
        rule, (pod, detail) = failure.rule, failure.container()
        first_failure = f"(first failed job: {failure.child.name}){detail}"
        set_failure = self._set_failure(rule, action)
        recorded_step = None
        if (
            rule
            and rule.then
            and self._gates[escalation.GATE]
            and (set_failure is None or action.scope is Scope.NOTHING)
        ):
            self._record.take_step(rule, step)
            recorded_step = step
        if set_failure is not None:
            reason, message = set_failure
            self._record.fail_set(reason, f"{message} {first_failure}")
        else:
            message = f"applying {action.name} failure policy action {first_failure}"
            reason = self._record.restart(rule, action, failure.child, failure.rjob.replicas, message)
        if reason:
            self._record.record_attempt(reason, failure.child, pod, recorded_step)
        return bool(reason)

    def _set_failure(self, rule: FailurePolicyRule | None, action: FailureAction) -> tuple[str, str] | None:
        """Reason and message with which the set fails; None if it continues."""
        if self._policy is None:
            return "FailedJobs", "jobset failed due to one or more job failures"
        if action.scope is Scope.NOTHING:
            return f"{action.name}FailurePolicyAction", f"applying {action.name} failure policy action"
        too_many = "jobset failed due to reaching max number of restarts"
        status = self._draft.status
        if rule and rule.max_restarts is not None:
            used = next((entry.restarts for entry in status.failure_policy_restarts if entry.name == rule.name), 0)
            if used >= rule.max_restarts:
                return "ReachedMaxRestarts", f"{too_many} of failure policy rule {rule.name}"
        used = status.restarts_count_towards_max
        if self._gates["RestartJob"]:
            used += self._counted_part_restarts + self._record.newly_counted_part_restarts
        if action.counts_restarts and used >= self._policy.max_restarts:
            return "ReachedMaxRestarts", too_many
        return None
