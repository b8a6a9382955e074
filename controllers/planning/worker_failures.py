"""Finds workers that failed while the agent in their pod runs on (docs/reference/in-place-restart.md#the-worker-fails).

With in-place restart, an agent in each pod starts the worker (the program of the user) again after a failure, and the
pod stays. The agent writes two annotations of its pod: how the worker failed (the report), and the number of the
attempt in which the worker starts again. A report counts only until the set begins this attempt.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from api.jobset import JobSet
from api.jobset_status import FailedAttempt
from api.pod import Pod
from api.policies import FailurePolicyRule
from api.restart_agent import reporting_container
from api.termination import end_of_message
from controllers.planning.child_jobs import Child, as_failed, integer
from controllers.planning.decisive_pod import FailedContainer, first_matching_end
from controllers.planning.maintenance import uncounted_restarts
from controllers.planning.observed import Ended

_NO_ENDS: Mapping[str, Ended] = {}
REASON = "WorkerFailed"
"""Reason of the failure of a Job that counts as failed because a rule matches the failed worker of one of its pods."""

_REPORT = re.compile(r"(?P<code>[1-9][0-9]{0,2}) (?P<reason>[A-Za-z]{1,32})(?:\n(?P<output>.*))?", re.DOTALL)


class WorkerFailure(NamedTuple):
    """A failed worker: its Job (`child`), its container and pod, and the attempt in which it is to start again."""

    child: Child
    container: FailedContainer
    attempt: int

    def add_to(self, entry: FailedAttempt) -> FailedAttempt:
        """The entry of `status.attemptHistory` with this Job, pod and exit code, and a message if it has none."""
        container = self.container
        return msgspec.structs.replace(
            entry,
            message=entry.message or str(container),
            failed_job=self.child.name,
            pod=container.pod,
            node=container.node,
            container=container.container,
            exit_code=container.exit_code,
            termination_message=container.message,
        )


def worker_failures(
    js: JobSet, children: Iterable[Child], pods: Iterable[Pod], last_ends: Mapping[str, Ended] = _NO_ENDS
) -> Iterator[WorkerFailure]:
    """The failures of workers for which the set has not restarted yet, in the order of the pods.

    `last_ends`: by UID of the pod, how its container failed before the kubelet started the container again. It is used
    for pods whose agent has ended with its worker, and has written no report. If such a pod has restarted more often
    than maxRestarts allows, its failure counts even before its agent asks for an attempt.
    """
    failed_pods = [
        pod for pod in pods if pod.metadata.annotations.in_place_restart_failure or pod.metadata.uid in last_ends
    ]
    if not failed_pods:
        return
    by_uid = {child.job.metadata.uid: child for child in children}
    containers = {rjob.name: reporting_container(js, rjob) for rjob in js.spec.replicated_jobs}
    current_attempt = js.status.current_in_place_restart_attempt
    allowed_restarts = js.failure_policy.max_restarts + uncounted_restarts(js)
    for pod in failed_pods:
        child = by_uid.get(pod.job_uid)
        end = _reported_end(pod) or last_ends.get(pod.metadata.uid)
        attempt = integer(pod.metadata.annotations.in_place_restart_attempt)
        if child is None or end is None or attempt is None or current_attempt is None or not pod.is_reporting:
            continue
        is_report = not end.container  # an agent's report names no container
        if attempt <= current_attempt and (is_report or pod.restarts <= allowed_restarts):
            continue
        name = end.container or containers[child.replicated_job]
        container = FailedContainer(pod.metadata.name, pod.spec.node_name, name, end.exit_code, end.message)
        yield WorkerFailure(child, container, attempt)


def _reported_end(pod: Pod) -> Ended | None:
    """How the worker ended, from the agent's report; None without a valid report."""
    match = _REPORT.fullmatch(pod.metadata.annotations.in_place_restart_failure or "")
    return None if match is None else Ended("", int(match["code"]), message=end_of_message(match["output"] or ""))


def deciding_rule(rules: Iterable[FailurePolicyRule], failure: WorkerFailure) -> int | None:
    """Index of the first rule that matches the worker's exit code; None if no rule matches.

    If no rule matches, the set restarts in place. A rule about reasons or messages of Jobs, or about reasons of pods,
    only matches failed Jobs, and no failed worker.
    """
    end = Ended(failure.container.container, failure.container.exit_code or 0)
    for rule_index, rule in enumerate(rules):
        needs_failed_job = rule.on_job_failure_reasons or rule.on_job_failure_message_patterns or rule.on_pod_reasons
        targets = rule.target_replicated_jobs
        if rule.on_exit_codes is None or needs_failed_job or (targets and failure.child.replicated_job not in targets):
            continue
        if first_matching_end(rule.on_exit_codes, [end]) is not None:
            return rule_index
    return None


def as_worker_failure(failure: WorkerFailure, now: str) -> Child:
    """A copy of the Job with the condition Failed, because of the worker."""
    return as_failed(failure.child, REASON, str(failure.container), now)
