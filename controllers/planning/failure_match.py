"""Finds the Jobs that count as failed, and for each of them the rule of the failure policy that decides about it.

Most of these Jobs have the condition Failed. A Job may also count as failed because of one of its pods, before the Job
controller notices a failure: see `FailedByPod`. The first rule that matches decides. A rule about pods is compared with
the decisive pod of the Job, which is the pod because of which the Job failed (`decisive_pod`). See
docs/reference/failure-policy.md#failure-policy and docs/concepts/node-failure.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

from api.jobset import ReplicatedJob
from api.policies import FailurePolicyRule
from controllers.planning import node_failure, start_timeout
from controllers.planning.child_jobs import Child
from controllers.planning.context import Context
from controllers.planning.decisive_pod import (
    FailedContainer,
    container_named_by,
    decides_by_pods,
    decisive_pod,
    end_of_container,
    failed_container,
    first_failed_container,
    first_matching_end,
    matches_pod,
    may_have_missed_pods,
    without_victims,
)
from controllers.planning.observed import FailedPod
from controllers.planning.worker_failures import as_worker_failure, deciding_rule, worker_failures
from kube.model.patterns import MAX_PATTERNS, compile_pattern


class FailedByPod(NamedTuple):
    """A Job that counts as failed because of one of its pods, with or without the condition Failed.

    The pod has not started in time (`startTimeoutSeconds`), its node has failed or restarted (`nodeFailure`), or the
    agent in the pod runs on and reports that its worker process failed (in-place restart).

    - `child`: a copy of the Job that has the condition Failed for this reason.
    - `container`: the pod, and its container if the container failed.
    - `since`: when the pod was created or failed, or when its node failed, RFC 3339.
    - `rule_index`: if the worker failed, the index of the rule that decides.
    """

    child: Child
    container: FailedContainer
    since: str
    rule_index: int | None = None


def failed_by_pods(ctx: Context) -> dict[str, FailedByPod]:
    """By UID, the Jobs that count as failed because of a pod."""
    policy, observed = ctx.failure_policy, ctx.observed
    failed_jobs = _failed_by_workers(ctx) if ctx.restarts_in_place else {}
    limit_seconds = policy.start_timeout_seconds if ctx.gates[start_timeout.GATE] else None
    if limit_seconds is not None and observed.pending_pods:
        pending_pods = observed.pending_pods
        for child in start_timeout.late_jobs(ctx.children.active, pending_pods, limit_seconds, ctx.now):
            pod = pending_pods[child.job.metadata.uid]
            failed_jobs[child.job.metadata.uid] = FailedByPod(child, FailedContainer(pod.name, pod.node), pod.created)
    node_policy = policy.node_failure if ctx.gates[node_failure.GATE] else None
    if node_policy is not None and not ctx.js.spec.suspend:
        due_pods = node_failure.due_pods(observed.pods_on_failed_nodes, node_policy.after_seconds, ctx.now)
        lost_pods = node_failure.sort_lost_pods(ctx.js, ctx.gates, ctx.children.active, due_pods)
        for child, lost_pod in lost_pods.failed_jobs:
            failed_child = node_failure.as_node_failure(child, lost_pod, ctx.now)
            container = FailedContainer(lost_pod.name, lost_pod.node)
            since = max(lost_pod.at_risk_since, lost_pod.created)
            failed_jobs[child.job.metadata.uid] = FailedByPod(failed_child, container, since)
    if node_policy is not None:
        failed_jobs |= _failed_by_restarted_nodes(ctx)
    return failed_jobs


def _failed_by_restarted_nodes(ctx: Context) -> dict[str, FailedByPod]:
    """By UID, the failed Jobs whose decisive pod is known and failed because its node restarted."""
    rjobs = {rjob.name: rjob for rjob in ctx.js.spec.replicated_jobs}
    failed_jobs = {}
    for child in ctx.children.failed:
        pods = ctx.observed.failed_pods.get(child.job.metadata.uid, ())
        pod = decisive_pod(child.job, rjobs[child.replicated_job], pods)
        if pod is not None and node_failure.has_lost_container(pod):
            failed_child = node_failure.as_restarted_node(child, pod, ctx.now)
            container = failed_container(pod, end_of_container(child.job, pod, ""))
            failed_jobs[child.job.metadata.uid] = FailedByPod(failed_child, container, pod.ended_at or ctx.now)
    return failed_jobs


def _failed_by_workers(ctx: Context) -> dict[str, FailedByPod]:
    """By UID, the Jobs with a failed worker that a rule matches. For all other workers the set restarts in place."""
    rules, failed_jobs = ctx.failure_policy.rules, dict[str, FailedByPod]()
    if all(rule.on_exit_codes is None for rule in rules):
        return failed_jobs
    for failure in worker_failures(ctx.js, ctx.children.active, ctx.observed.pods):
        rule_index = deciding_rule(rules, failure)
        if rule_index is not None:
            failed = FailedByPod(as_worker_failure(failure, ctx.now), failure.container, ctx.now, rule_index)
            failed_jobs.setdefault(failure.child.job.metadata.uid, failed)
    return failed_jobs


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed Job and the rule that decides about it. If `rule` is None, the default action applies.

    `rjob`: the ReplicatedJob of the Job. `pods`: the known failed pods of the Job. `by_pod`: the pod because of which
    the Job counts as failed (see `FailedByPod`); None if the Job has failed by itself.
    """

    child: Child
    rule: FailurePolicyRule | None
    rjob: ReplicatedJob
    pods: Sequence[FailedPod]
    by_pod: FailedContainer | None

    @property
    def is_by_pod(self) -> bool:
        """Whether the action depends on the decisive pod, by a rule about pods or by an exitCodePolicy."""
        return bool(self.rule and self.rule.is_about_pods) or self.rjob.exit_code_policy is not None

    def container(self) -> tuple[FailedContainer, str]:
        """The failed container for `status.attemptHistory`, and a text about the container for messages.

        The text is empty if the action does not depend on the container.
        """
        job, rule, policy = self.child.job, self.rule, self.rjob.exit_code_policy
        if self.by_pod is not None and (failure := job.failure):
            return self.by_pod, f": {failure.message}"
        possible_causes = without_victims(job, self.pods)
        if not self.is_by_pod:
            return first_failed_container(possible_causes), ""
        pod = decisive_pod(job, self.rjob, self.pods)
        if pod is None:
            named_container = container_named_by(job)
            if named_container.pod:
                return named_container, f": {named_container}"
            return first_failed_container([pod for pod in possible_causes if pod.deleting]), ""
        if rule and rule.on_exit_codes:
            end = first_matching_end(rule.on_exit_codes, pod.ends)
        else:
            end = end_of_container(job, pod, policy.container_name if policy else "")
        container = failed_container(pod, end)
        if rule and rule.on_pod_reasons:
            kubelet_reason = f" ({container.kubelet_reason})" if end and container.kubelet_reason else ""
            return container, f": {container}{kubelet_reason}"
        return container, f": {container}" if end else ""


class Matcher:
    """Finds the rule for each failed Job of one set. `by_pods`: the result of `failed_by_pods`."""

    def __init__(self, ctx: Context, by_pods: Mapping[str, FailedByPod]) -> None:
        self._rules = ctx.failure_policy.rules
        self._job_criteria = _job_criteria(self._rules)
        self._replicated_jobs = {rjob.name: rjob for rjob in ctx.js.spec.replicated_jobs}
        self._failed_pods = ctx.observed.failed_pods
        self._by_pods = by_pods
        self._matching_rules_by_job: dict[str, tuple[int, ...]] = {}

    @property
    def has_unread_patterns(self) -> bool:
        """Whether the policy has more than `MAX_PATTERNS` patterns. The patterns after these are ignored."""
        return sum(len(rule.on_job_failure_message_patterns) for rule in self._rules) > MAX_PATTERNS

    def needs_pods(self, child: Child) -> bool:
        """Whether the pods of a failed Job have to be read to know which rule matches the Job."""
        if child.job.metadata.uid in self._by_pods:
            return False
        first = next((self._rules[rule_index] for rule_index in self._matching_rules(child)), None)
        return first is not None and first.is_about_pods and decides_by_pods(child.job)

    def is_beyond_counting(self, child: Child) -> bool:
        """Whether a rule depends on the decisive pod, and the Job has too many failed pods to find that pod."""
        pods = self._failed_pods.get(child.job.metadata.uid, ())
        rjob = self._replicated_jobs[child.replicated_job]
        return self.needs_pods(child) and may_have_missed_pods(child.job, rjob, pods)

    def match(self, failed_jobs: Sequence[Child]) -> list[Failure]:
        """Each failed Job with its rule, in the order of the rules. Jobs that no rule matches come last."""
        failures = [self._match(child) for child in failed_jobs]
        return [failure for _, failure in sorted(failures, key=itemgetter(0))]

    def _match(self, child: Child) -> tuple[int, Failure]:
        """The failed Job with its rule, and the index of the rule; the number of all rules if no rule matches."""
        uid, rjob = child.job.metadata.uid, self._replicated_jobs[child.replicated_job]
        pods, by_pod = self._failed_pods.get(uid, ()), self._by_pods.get(uid)
        if by_pod is not None and by_pod.rule_index is not None:
            return by_pod.rule_index, Failure(child, self._rules[by_pod.rule_index], rjob, pods, by_pod.container)
        for rule_index in self._matching_rules(child):
            rule = self._rules[rule_index]
            if not rule.is_about_pods:
                break
            pod = None if by_pod else decisive_pod(child.job, rjob, pods)
            if pod is not None and matches_pod(rule, pod):
                break
        else:
            rule_index, rule = len(self._rules), None
        return rule_index, Failure(child, rule, rjob, pods, by_pod.container if by_pod else None)

    def _matching_rules(self, child: Child) -> tuple[int, ...]:
        """Indexes of the rules whose criteria for Jobs match. Criteria of these rules for pods are not compared."""
        uid = child.job.metadata.uid
        if uid not in self._matching_rules_by_job:
            self._matching_rules_by_job[uid] = tuple(
                rule_index for rule_index, criteria in enumerate(self._job_criteria) if criteria.match(child)
            )
        return self._matching_rules_by_job[uid]


@dataclass(frozen=True, slots=True)
class _JobCriteria:
    """The criteria of a rule for the Job itself, without its criteria for pods. None: any value matches.

    - `reasons`: reasons of the Job's failure. `patterns`: regular expressions for its message.
    - `targets`: names of ReplicatedJobs.
    """

    reasons: frozenset[str] | None
    targets: frozenset[str] | None
    patterns: tuple[str, ...] | None

    def match(self, child: Child) -> bool:
        """Whether reason, message and ReplicatedJob of a failed Job match."""
        failure = child.job.failure
        if failure is None or (self.reasons is not None and failure.reason not in self.reasons):
            return False
        if self.targets is not None and child.replicated_job not in self.targets:
            return False
        if self.patterns is None:
            return True
        compiled = (pattern for pattern in map(compile_pattern, self.patterns) if not isinstance(pattern, str))
        return any(pattern.search(failure.message) for pattern in compiled)


def _job_criteria(rules: Sequence[FailurePolicyRule]) -> tuple[_JobCriteria, ...]:
    """The criteria of each rule. Only the first `MAX_PATTERNS` patterns of the policy are used."""
    pattern_numbers = iter(range(MAX_PATTERNS))
    return tuple(
        _JobCriteria(
            reasons=frozenset(rule.on_job_failure_reasons) or None,
            targets=frozenset(rule.target_replicated_jobs) or None,
            patterns=tuple(
                pattern for pattern, _ in zip(rule.on_job_failure_message_patterns, pattern_numbers, strict=False)
            )
            if rule.on_job_failure_message_patterns
            else None,
        )
        for rule in rules
    )
