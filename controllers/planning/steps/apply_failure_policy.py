"""Step: what failed Jobs mean for the set (docs/reference/failure-policy.md#failure-policy).

Failed Jobs are decided in the order of the rules that match them, then of the times of their failures (in whole
seconds), then of their global indexes. An action on a Job or a ReplicatedJob leaves the other failures to be decided,
and counted, in the same plan. An action on the set decides them all.

Nothing is decided before the pods are known that a rule needs (onExitCodes).

If very many Jobs have failed, a plan decides about the earliest failures, and the next plan about the others, as if
they had failed later. So the time of a plan is bounded, however many Jobs, rules and patterns there are.
"""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import assert_never

from api.failure_actions import MAX_REPLICAS_TO_RESTART, RESTART_JOBSET, FailureAction, Scope, action_of
from api.features import FeatureGates
from api.jobset import JobSet, ReplicatedJob
from api.jobset_status import FailedAttempt
from api.policies import FailurePolicyRule
from controllers.planning import attempts, escalation, failed_nodes, node_failure
from controllers.planning.actions import PodQuery
from controllers.planning.by_pods import failed_by_pods
from controllers.planning.child_jobs import Child
from controllers.planning.context import Context
from controllers.planning.decisive_pod import (
    MOST_COUNTED,
    FailedContainer,
    beyond_counting,
    container_of,
    decides_by_pods,
    decisive_pod,
    failed_container,
    first_failed,
    matching,
    named_by,
)
from controllers.planning.observed import FailedPod, FailedPodsByJob
from controllers.planning.partial import NOTHING, Partial, Stop, of_draft
from controllers.planning.status import StatusDraft
from kube.model.patterns import MOST_PATTERNS, compile_pattern

MESSAGE_LIMIT = 1024
"""Bytes of a message in the attempt history."""


def apply_failure_policy(ctx: Context) -> Partial:
    """Decide about every failed Job. If anything is decided, or a decision needs pods, the plan ends here."""
    by_pods = failed_by_pods(ctx)
    if not (ctx.children.failed or by_pods):
        return NOTHING
    draft, failed_pods = ctx.draft(), ctx.observed.failed_pods
    all_failed = (*ctx.children.failed, *(found.child for found in by_pods.values()))
    failed = heapq.nsmallest(_most_judged(ctx), all_failed, key=_failure_order)
    judge = _Judge(ctx.js, draft, ctx.gates, failed_pods, {uid: found.pod for uid, found in by_pods.items()})
    blaming = {c.name for c in failed if c.job.metadata.uid not in by_pods and failed_nodes.needs_pods(ctx, c)}
    asking = [child for child in failed if child.name in blaming or judge.needs_pods(child)]
    needed = _pod_query(asking, failed_pods, needed=True)
    judge.warn_of_unread_patterns()
    if needed is None:
        judge.warn_of_pods_beyond_counting(failed)
    pod_query = needed or _pod_query(judge.decide(failed), failed_pods, needed=False)
    if needed is None and draft.status is not ctx.status:
        failed_nodes.note(ctx, draft, failed)
    decided = draft.status is not ctx.status or needed is not None
    return of_draft(draft, kind=Stop if decided else Partial, pod_query=pod_query)


def _most_judged(ctx: Context) -> int:
    """How many failed Jobs are looked at in one plan: fewer where there are more rules and patterns."""
    policy = ctx.js.spec.failure_policy
    rules = policy.rules if policy is not None else ()
    each = 1 + sum(1 + len(rule.on_job_failure_message_patterns) for rule in rules)
    return max(1, min(ctx.limits.judged_jobs, ctx.limits.judgements // each))


def _pod_query(about: Sequence[Child], failed_pods: FailedPodsByJob, *, needed: bool) -> PodQuery | None:
    """A query about those of the Jobs that still exist and were not looked up; None if there are none."""
    jobs = tuple((c.name, c.job.metadata.uid) for c in about if not c.gone and c.job.metadata.uid not in failed_pods)
    return PodQuery(jobs, needed=needed) if jobs else None


class _Judge:
    """The decisions of one plan: the policy, the failed pods that are known, and the draft that is changed."""

    def __init__(
        self,
        js: JobSet,
        draft: StatusDraft,
        gates: FeatureGates,
        failed_pods: FailedPodsByJob,
        by_pods: Mapping[str, FailedContainer],
    ) -> None:
        self._policy = js.spec.failure_policy
        self._rules: Sequence[FailurePolicyRule] = self._policy.rules if self._policy else ()
        self._criteria = _criteria(self._rules)
        self._replicated_jobs: Mapping[str, ReplicatedJob] = {r.name: r for r in js.spec.replicated_jobs}
        self._draft = draft
        self._attempt = draft.status.execution_attempts or 0
        self._gates = gates
        self._failed_pods = failed_pods
        self._by_pods = by_pods
        self._matching: dict[str, tuple[int, ...]] = {}
        self._parts: dict[str, attempts.PartRestart] = {}
        self._stored_steps = draft.status.failure_policy_steps
        self._taken: set[str] = set()

    def needs_pods(self, child: Child) -> bool:
        """Whether the first rule that may match it depends on exit codes."""
        if child.job.metadata.uid in self._by_pods or not decides_by_pods(child.job):
            return False
        first = next(iter(self._rules_for(child)), None)
        return first is not None and self._rules[first].on_exit_codes is not None

    def warn_of_unread_patterns(self) -> None:
        """Say so if there are more patterns than are looked at."""
        if sum(len(rule.on_job_failure_message_patterns) for rule in self._rules) > MOST_PATTERNS:
            self._draft.warn(
                "TooManyPatterns",
                f"the failure policy has more than {MOST_PATTERNS} onJobFailureMessagePatterns: those after them match"
                " nothing. Join some with |",
            )

    def warn_of_pods_beyond_counting(self, failed: Sequence[Child]) -> None:
        """Warn of each Job that may have another decisive pod than the one that is taken."""
        for child in failed:
            if self.needs_pods(child) and beyond_counting(child.job, self._rjob(child), self._pods(child)):
                self._draft.warn(
                    "TooManyFailedPods",
                    f"Job {child.name} has {MOST_COUNTED} failed pods or more, and its backoffLimit is no lower:"
                    f" onExitCodes looks at number {MOST_COUNTED}, which may not be the one by which it failed",
                )

    def decide(self, failed: Sequence[Child]) -> list[Child]:
        """Decide about each Job in the order of the rules that match, until the whole set fails or restarts.

        Returns the Jobs of which events and history name a pod.
        """
        named: list[Child] = []
        settled: set[str] = set()
        for place, child in sorted(((self._place(c), c) for c in failed), key=itemgetter(0)):
            if child.replicated_job in settled:
                continue
            rule = self._rules[place] if place < len(self._rules) else None
            action = escalation.actions_of(rule)[self._step(rule) - 1] if rule else self._default_action(child)
            if not self._possible(action, child):
                break
            ended = self._act(rule, action, child)
            if child.job.metadata.uid not in self._by_pods and (ended or _by_exit_codes(rule, self._rjob(child))):
                named.append(child)
            if ended:
                break
            match action.scope:
                case Scope.REPLICATED_JOB:
                    settled.add(child.replicated_job)
                case Scope.JOB:
                    pass
                case Scope.NOTHING | Scope.JOBSET:
                    break
                case other:
                    assert_never(other)
        if self._parts:
            attempts.restart_parts(self._draft, self._parts)
        return named

    def _possible(self, action: FailureAction, child: Child) -> bool:
        """Whether the action can be carried out; a warning if not: the set waits for somebody then."""
        if not action.enabled(self._gates):
            self._draft.warn(
                "FeatureGateDisabled",
                f"Job {child.name} failed and a rule asks for {action.name}, which needs the feature gate"
                f" {action.gate}: start the manager with --feature-gates={action.gate}=true, or delete the JobSet",
            )
            return False
        if action.restarts_part and self._rjob(child).replicas > MAX_REPLICAS_TO_RESTART:
            self._draft.warn(
                "TooManyReplicas",
                f"Job {child.name} failed and a rule asks for {action.name}, which counts the restarts of at most"
                f" {MAX_REPLICAS_TO_RESTART} Jobs of a ReplicatedJob: delete the JobSet, and make several in its place",
            )
            return False
        return True

    def _step(self, rule: FailurePolicyRule) -> int:
        """Number of the rule's action that decides, from 1; the same for all failures of one plan."""
        if not rule.then:
            return 1
        if self._gates[escalation.GATE]:
            return escalation.step_of(rule, self._stored_steps, self._draft.now)
        self._draft.warn(
            "FeatureGateDisabled",
            f"`then` of failure policy rule {rule.name} has no effect without the feature gate {escalation.GATE}: start"
            f" the manager with --feature-gates={escalation.GATE}=true",
        )
        return 1

    def _take_step(self, rule: FailurePolicyRule | None) -> int | None:
        """Count it, once for all failures of one plan. Returns its number; None for a rule without steps."""
        if rule is None or not rule.then or not self._gates[escalation.GATE]:
            return None
        step = self._step(rule)
        if rule.name not in self._taken:
            self._taken.add(rule.name)
            escalation.take(self._draft, rule, step)
        return step

    def _default_action(self, child: Child) -> FailureAction:
        """What is done about a Job that no rule matches."""
        of_nodes = self._policy.node_failure if self._policy else None
        by_node = child.job.failure is not None and child.job.failure.reason == node_failure.REASON
        return action_of(of_nodes.action) if of_nodes is not None and by_node else RESTART_JOBSET

    def _rjob(self, child: Child) -> ReplicatedJob:
        return self._replicated_jobs[child.replicated_job]

    def _pods(self, child: Child) -> Sequence[FailedPod]:
        return self._failed_pods.get(child.job.metadata.uid, ())

    def _place(self, child: Child) -> int:
        """Index of the first rule that matches; the number of rules if none does, for the default action."""
        applying = (number for number in self._rules_for(child) if self._applies(self._rules[number], child))
        return next(applying, len(self._rules))

    def _applies(self, rule: FailurePolicyRule, child: Child) -> bool:
        """Whether the exit codes of a Job that meets the other criteria of a rule match, too."""
        if rule.on_exit_codes is None:
            return True
        if child.job.metadata.uid in self._by_pods:
            return False
        pod = decisive_pod(child.job, self._rjob(child), self._pods(child))
        return pod is not None and matching(rule.on_exit_codes, pod.ends) is not None

    def _rules_for(self, child: Child) -> tuple[int, ...]:
        """Places of the rules that match a failed Job apart from exit codes, which are not the Job's."""
        uid = child.job.metadata.uid
        if uid not in self._matching:
            self._matching[uid] = tuple(place for place, wanted in enumerate(self._criteria) if wanted.met(child))
        return self._matching[uid]

    def _act(self, rule: FailurePolicyRule | None, action: FailureAction, child: Child) -> bool:
        """Fail or restart. Returns whether that ended the attempt of the whole set, which is then in the history."""
        pod, detail = self._failed_container(rule, child)
        end = self._end(rule, action)
        step = None if end is not None and action.scope is not Scope.NOTHING else self._take_step(rule)
        if end is not None:
            reason, message = end
            attempts.fail_set(self._draft, reason, f"{message} (first failed job: {child.name}){detail}")
        else:
            message = f"applying {action.name} failure policy action (first failed job: {child.name}){detail}"
            reason = self._restart(rule, action, child, message)
        if reason:
            attempts.record_failure(self._draft, _failed_attempt(self._attempt, reason, child, pod, step))
        return bool(reason)

    def _failed_container(self, rule: FailurePolicyRule | None, child: Child) -> tuple[FailedContainer, str]:
        """The pod for the history, and where exit codes decide, what messages say about it."""
        rjob, pods = self._rjob(child), self._pods(child)
        found = self._by_pods.get(child.job.metadata.uid)
        if found is not None and (failure := child.job.failure):
            return found, f": {failure.message}"
        if not _by_exit_codes(rule, rjob):
            return first_failed(pods), ""
        pod = decisive_pod(child.job, rjob, pods)
        if pod is None:
            said = named_by(child.job)
            return (said, f": {said}") if said.pod else (first_failed([pod for pod in pods if pod.deleting]), "")
        if rule and rule.on_exit_codes:
            end = matching(rule.on_exit_codes, pod.ends)
        else:
            end = container_of(child.job, pod, rjob.exit_code_policy.container_name if rjob.exit_code_policy else "")
        found = failed_container(pod, end)
        return found, f": {found}" if end else ""

    def _end(self, rule: FailurePolicyRule | None, action: FailureAction) -> tuple[str, str] | None:
        """Reason and message with which the set fails; None if it goes on."""
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
            used += self._parts_counted + sum(len(part.counted) for part in self._parts.values())
        if action.counted and used >= self._policy.max_restarts:
            return "ReachedMaxRestarts", too_many
        return None

    @cached_property
    def _parts_counted(self) -> int:
        """Restarts of parts of the set that count towards maxRestarts, before this plan."""
        return attempts.counted_in_parts(self._draft.status)

    def _restart(self, rule: FailurePolicyRule | None, action: FailureAction, child: Child, message: str) -> str:
        """Restart what the action names. Returns the reason of the condition if that is the whole set, else nothing."""
        draft, reason = self._draft, ""
        if rule and rule.max_restarts is not None:
            attempts.count_rule(draft, rule.name)
        match action.scope:
            case Scope.JOB | Scope.REPLICATED_JOB:
                self._restart_part(action, child)
            case Scope.JOBSET:
                reason = f"FailurePolicy_{rule.name}" if rule else "DefaultFailurePolicy"
                attempts.restart_set(draft, reason, message, counts=action.counted)
            case Scope.NOTHING:
                raise AssertionError(f"{action.name} restarts nothing")
            case other:
                assert_never(other)
        draft.event("Warning", f"{action.name}FailurePolicyAction", message)
        return reason

    def _restart_part(self, action: FailureAction, child: Child) -> None:
        """Note it: counters of all Jobs of a ReplicatedJob are raised at once."""
        rjob = self._rjob(child)
        part = self._parts.setdefault(rjob.name, attempts.PartRestart(rjob.replicas))
        if action.scope is Scope.REPLICATED_JOB:
            part.whole = True
        else:
            part.jobs.append(child.job_index)
        if action.counted:
            part.counted.append(child.job_index)


def _by_exit_codes(rule: FailurePolicyRule | None, rjob: ReplicatedJob) -> bool:
    """Whether exit codes decide: in the rule, or by an exitCodePolicy."""
    return bool(rule and rule.on_exit_codes) or rjob.exit_code_policy is not None


@dataclass(frozen=True, slots=True)
class _Criteria:
    """What a rule wants of the Job, ready to be compared with many. None: anything. Exit codes are not the Job's."""

    reasons: frozenset[str] | None
    targets: frozenset[str] | None
    patterns: tuple[str, ...] | None

    def met(self, child: Child) -> bool:
        """Whether reason, message and ReplicatedJob of a failed Job are all among those the rule names."""
        failure = child.job.failure
        if failure is None or (self.reasons is not None and failure.reason not in self.reasons):
            return False
        if self.targets is not None and child.replicated_job not in self.targets:
            return False
        if self.patterns is None:
            return True
        readable = (pattern for pattern in map(compile_pattern, self.patterns) if not isinstance(pattern, str))
        return any(pattern.search(failure.message) for pattern in readable)


def _criteria(rules: Sequence[FailurePolicyRule]) -> tuple[_Criteria, ...]:
    """Those of each rule. Patterns after the first `MOST_PATTERNS` are left out: they match nothing."""
    left = iter(range(MOST_PATTERNS))
    return tuple(
        _Criteria(
            reasons=frozenset(rule.on_job_failure_reasons) or None,
            targets=frozenset(rule.target_replicated_jobs) or None,
            patterns=tuple(pattern for pattern, _ in zip(rule.on_job_failure_message_patterns, left, strict=False))
            if rule.on_job_failure_message_patterns
            else None,
        )
        for rule in rules
    )


def _failed_attempt(attempt: int, reason: str, child: Child, pod: FailedContainer, step: int | None) -> FailedAttempt:
    failure = child.job.failure
    text = f"{failure.reason}: {failure.message}" if failure else ""
    return FailedAttempt(
        attempt=attempt,
        reason=reason,
        message=text.encode()[:MESSAGE_LIMIT].decode(errors="ignore"),
        failed_job=child.name,
        pod=pod.pod,
        node=pod.node,
        container=pod.container,
        exit_code=pod.exit_code,
        step=step,
    )


def _failure_order(child: Child) -> tuple[str, int]:
    failure = child.job.failure
    return (failure.last_transition_time if failure else "", child.global_index)
