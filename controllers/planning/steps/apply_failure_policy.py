"""Step: what failed Jobs mean for the set (docs/reference/lifecycle.md#failure-policy).

Failed Jobs are decided in the order of the rules that match them, then of the times of their failures (in whole
seconds), then of their global indexes. An action on a Job or a ReplicatedJob leaves the other failures to be decided,
and counted, in the same plan. An action on the set decides them all.

Nothing is decided before the pods are known that a rule needs (onExitCodes).
"""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import assert_never

from api.failure_actions import RESTART_JOBSET, FailureAction, Scope, action_of
from api.features import FeatureGates
from api.jobset import JobSet, ReplicatedJob
from api.jobset_status import FailedAttempt
from api.patterns import compiled
from api.policies import FailurePolicyRule
from controllers.planning import attempts
from controllers.planning.actions import PodQuery
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

MESSAGE_LIMIT = 1024
"""Bytes of a message in the attempt history."""


def apply_failure_policy(ctx: Context) -> Partial:
    """Decide about every failed Job. If anything is decided, or a decision needs pods, the plan ends here."""
    if not ctx.children.failed:
        return NOTHING
    draft, failed_pods = ctx.draft(), ctx.observed.failed_pods
    failed = sorted(ctx.children.failed, key=_failure_order)
    judge = _Judge(ctx.js, draft, ctx.gates, failed_pods)
    needed = _pod_query([child for child in failed if judge.needs_pods(child)], failed_pods, needed=True)
    if needed is None:
        judge.warn_of_pods_beyond_counting(failed)
    pod_query = needed or _pod_query(judge.decide(failed), failed_pods, needed=False)
    decided = draft.status is not ctx.status or needed is not None
    return of_draft(draft, kind=Stop if decided else Partial, pod_query=pod_query)


def _pod_query(about: Sequence[Child], failed_pods: FailedPodsByJob, *, needed: bool) -> PodQuery | None:
    """A query about those of the Jobs that still exist and were not looked up; None if there are none."""
    jobs = tuple((c.name, c.job.metadata.uid) for c in about if not c.gone and c.job.metadata.uid not in failed_pods)
    return PodQuery(jobs, needed=needed) if jobs else None


class _Judge:
    """The decisions of one plan: the policy, the failed pods that are known, and the draft that is changed."""

    def __init__(self, js: JobSet, draft: StatusDraft, gates: FeatureGates, failed_pods: FailedPodsByJob) -> None:
        self._policy = js.spec.failure_policy
        self._rules: Sequence[FailurePolicyRule] = self._policy.rules if self._policy else ()
        self._replicated_jobs: Mapping[str, ReplicatedJob] = {r.name: r for r in js.spec.replicated_jobs}
        self._draft = draft
        self._attempt = draft.status.execution_attempts or 0
        self._gates = gates
        self._failed_pods = failed_pods

    def needs_pods(self, child: Child) -> bool:
        """Whether the first rule that may match it depends on exit codes."""
        if not decides_by_pods(child.job):
            return False
        rule = next((rule for rule in self._rules if matches(rule, child)), None)
        return rule is not None and rule.on_exit_codes is not None

    def warn_of_pods_beyond_counting(self, failed: Sequence[Child]) -> None:
        """Warn of each Job that may have another decisive pod than the one that is taken."""
        for child in failed:
            if self.needs_pods(child) and beyond_counting(child.job, self._of(child), self._pods(child)):
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
            action = action_of(rule.action) if rule else RESTART_JOBSET
            if not action.enabled(self._gates):
                self._draft.warn(
                    "FeatureGateDisabled",
                    f"Job {child.name} failed and a rule asks for {action.name}, which needs the feature gate"
                    f" {action.gate}: start the manager with --feature-gates={action.gate}=true, or delete the JobSet",
                )
                break
            ended = self._act(rule, action, child)
            if ended or _by_exit_codes(rule, self._of(child)):
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
        return named

    def _of(self, child: Child) -> ReplicatedJob:
        return self._replicated_jobs[child.replicated_job]

    def _pods(self, child: Child) -> Sequence[FailedPod]:
        return self._failed_pods.get(child.job.metadata.uid, ())

    def _place(self, child: Child) -> int:
        """Index of the first rule that matches; the number of rules if none does, for the default action."""
        return next((i for i, rule in enumerate(self._rules) if self._applies(rule, child)), len(self._rules))

    def _applies(self, rule: FailurePolicyRule, child: Child) -> bool:
        if not matches(rule, child):
            return False
        if rule.on_exit_codes is None:
            return True
        pod = decisive_pod(child.job, self._of(child), self._pods(child))
        return pod is not None and matching(rule.on_exit_codes, pod.ends) is not None

    def _act(self, rule: FailurePolicyRule | None, action: FailureAction, child: Child) -> bool:
        """Fail or restart. Returns whether that ended the attempt of the whole set, which is then in the history."""
        pod, detail = self._failed_container(rule, child)
        end = self._end(rule, action)
        if end is not None:
            reason, message = end
            attempts.fail_set(self._draft, reason, f"{message} (first failed job: {child.name}){detail}")
        else:
            message = f"applying {action.name} failure policy action (first failed job: {child.name}){detail}"
            reason = self._restart(rule, action, child, message)
        if reason:
            attempts.record_failure(self._draft, _failed_attempt(self._attempt, reason, child, pod))
        return bool(reason)

    def _failed_container(self, rule: FailurePolicyRule | None, child: Child) -> tuple[FailedContainer, str]:
        """The pod for the history, and where exit codes decide, what messages say about it."""
        rjob, pods = self._of(child), self._pods(child)
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
            used += sum(sum(entry.job_restarts_count_towards_max) for entry in status.replicated_jobs_status)
        if action.counted and used >= self._policy.max_restarts:
            return "ReachedMaxRestarts", too_many
        return None

    def _restart(self, rule: FailurePolicyRule | None, action: FailureAction, child: Child, message: str) -> str:
        """Restart what the action names. Returns the reason of the condition if that is the whole set, else nothing."""
        draft, reason = self._draft, ""
        if rule and rule.max_restarts is not None:
            attempts.count_rule(draft, rule.name)
        match action.scope:
            case Scope.JOB | Scope.REPLICATED_JOB:
                attempts.restart_part(draft, action, self._of(child), child.job_index)
            case Scope.JOBSET:
                reason = f"FailurePolicy_{rule.name}" if rule else "DefaultFailurePolicy"
                attempts.restart_set(draft, reason, message, counts=action.counted)
            case Scope.NOTHING:
                raise AssertionError(f"{action.name} restarts nothing")
            case other:
                assert_never(other)
        draft.event("Warning", f"{action.name}FailurePolicyAction", message)
        return reason


def _by_exit_codes(rule: FailurePolicyRule | None, rjob: ReplicatedJob) -> bool:
    """Whether exit codes decide: in the rule, or by an exitCodePolicy."""
    return bool(rule and rule.on_exit_codes) or rjob.exit_code_policy is not None


def matches(rule: FailurePolicyRule, child: Child) -> bool:
    """Whether reason, message and ReplicatedJob of a failed Job are all among those of the rule.

    Exit codes are not compared: those of pods have to be looked up.
    """
    failure = child.job.failure
    if failure is None:
        return False
    if rule.on_job_failure_reasons and failure.reason not in rule.on_job_failure_reasons:
        return False
    patterns = [p for p in map(compiled, rule.on_job_failure_message_patterns) if not isinstance(p, str)]
    if rule.on_job_failure_message_patterns and not any(p.search(failure.message) for p in patterns):
        return False
    return not rule.target_replicated_jobs or child.replicated_job in rule.target_replicated_jobs


def _failed_attempt(attempt: int, reason: str, child: Child, pod: FailedContainer) -> FailedAttempt:
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
    )


def _failure_order(child: Child) -> tuple[str, int]:
    failure = child.job.failure
    return (failure.last_transition_time if failure else "", child.global_index)
