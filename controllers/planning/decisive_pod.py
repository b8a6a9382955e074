"""Finds the decisive pod of a failed Job, which is the pod because of which the Job failed, and its failed container.

Rules of a JobSet's failure policy may depend on the exit code of this container. The Job controller names the decisive
pod only if a rule of the Job's podFailurePolicy with the action FailJob matched. In all other cases, this module counts
failed pods as the Job controller does, in the order in which they ended. The decisive pod is the first pod that exceeds
the Job's limit of failures:
- A failed pod counts unless it is being deleted, or a podFailurePolicy rule with the action Ignore matches it. The Job
  controller deletes the remaining pods of a failed Job, and these pods fail, too.
- With backoffLimitPerIndex, a failed pod counts only if the Job has not retried the index of the pod after its failure.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from api import keys
from api.batch import Job
from api.exit_codes import pod_failure_rules
from api.jobset import JobSet, ReplicatedJob
from api.policies import FailurePolicyRule, OnExitCodes
from controllers.planning.observed import Ended, FailedPod
from kube.model.meta import JSON, find

BACKOFF_LIMIT = 6
"""The default backoffLimit of Kubernetes."""

MAX_COUNTED = 10_000
"""At most this many failed pods of one Job are kept in memory to find the decisive pod.

If a Job has a backoffLimit of 10,000 or more, the last of the kept pods is taken for the decisive pod
(`may_have_missed_pods`). Kubernetes deletes finished pods if a cluster has more than 12,500 of them
(kube-controller-manager, --terminated-pod-gc-threshold).
"""

_KILL_CODES = {137, 143}
"""Exit codes of containers that SIGKILL or SIGTERM has ended."""

_INDEX_REASONS = {"FailedIndexes", "MaxFailedIndexesExceeded"}
"""Failure reasons of a Job in which too many completion indexes failed (backoffLimitPerIndex)."""

_FAIL_JOB_MESSAGE = re.compile(
    r"(?:Container (?P<container>\S+) for p|^P)od [^\s/]+/(?P<pod>\S+)"
    r" (?:failed with exit code (?P<code>[0-9]{1,10})|has condition) "
)
"""The message of a Job that failed by a FailJob rule: the pod, its container and exit code."""


@dataclass(frozen=True, slots=True)
class FailedContainer:
    """A failed pod and its failed container.

    - `pod`, `node`: names; both are empty if no pod is known. `container`: empty if no container failed.
    - `message`: the last part of the container's termination message.
    - `kubelet_reason`: why the container or pod ended, according to the kubelet; empty if the kubelet gives no reason.
    """

    pod: str = ""
    node: str = ""
    container: str = ""
    exit_code: int | None = None
    message: str = ""
    kubelet_reason: str = ""

    def __str__(self) -> str:
        """Container, pod, node and exit code in words; if no container failed, the kubelet's reason about the pod."""
        location = f" on node {self.node}" if self.node else ""
        if self.exit_code is None:
            return f"pod {self.pod}{location} has failed: {self.kubelet_reason}" if self.kubelet_reason else ""
        return f"container {self.container} of pod {self.pod}{location} ended with exit code {self.exit_code}"


def failed_container(pod: FailedPod, end: Ended | None) -> FailedContainer:
    """The `FailedContainer` of a pod. `end`: how its failed container ended; None if no container of the pod failed."""
    if end is None:
        return FailedContainer(pod.name, pod.node, kubelet_reason=pod.kubelet_reason)
    return FailedContainer(
        pod.name, pod.node, end.container, end.exit_code, end.message, pod.kubelet_reason or end.reason
    )


def container_named_by(job: Job) -> FailedContainer:
    """The pod that a FailJob rule matched, as the message of the failed Job names it.

    The message is used if the pod itself is already deleted. Empty if the message names no pod or no exit code.
    """
    match = _failure_match(job)
    if match is None or match["code"] is None:
        return FailedContainer()
    return FailedContainer(match["pod"], container=match["container"] or "", exit_code=int(match["code"]))


def _failure_match(job: Job) -> re.Match[str] | None:
    """The match of `_FAIL_JOB_MESSAGE` in the message of a failed Job; None if no FailJob rule decided."""
    return _FAIL_JOB_MESSAGE.search(job.failure.message) if job.failure else None


def decides_by_pods(job: Job) -> bool:
    """Whether the Job failed because of its pods, and not because of its deadline."""
    return job.failure is not None and job.failure.reason != "DeadlineExceeded"


def decisive_pod(job: Job, rjob: ReplicatedJob, pods: Sequence[FailedPod]) -> FailedPod | None:
    """The pod because of which the Job failed; None if no pod is the reason, or the pod is not among `pods`."""
    counted_pods = _counted_pods(job, rjob, pods)
    return counted_pods[-1] if counted_pods else None


def candidates(job: Job, rjob: ReplicatedJob, pods: Sequence[FailedPod]) -> tuple[FailedPod, ...]:
    """The pods in `pods` that may be the decisive pod, or the pod that failed first. All other pods can be dropped.

    A caller that reads pods page by page keeps the candidates of the pages so far, adds the pods of the next page, and
    calls this function again.
    """
    deleting = [pod for pod in pods if pod.deleting]
    first_failures = (_first_failure(subset) for subset in (pods, deleting, without_victims(job, pods)))
    refused_pods = sorted((pod for pod in pods if pod.kubelet_reason and not pod.ends), key=_end_order)[:1]
    candidate_pods = (*_counted_pods(job, rjob, pods), *(pod for pod, _ in filter(None, first_failures)), *refused_pods)
    return tuple({pod.name: pod for pod in candidate_pods}.values())


def candidates_of(js: JobSet, jobs: Iterable[Job]) -> Callable[[str, Sequence[FailedPod]], Sequence[FailedPod]]:
    """A function that takes the UID of a Job and its failed pods, and returns the `candidates` among these pods.

    The function returns no pods for a Job whose ReplicatedJob is not in the set.
    """
    rjobs = {rjob.name: rjob for rjob in js.spec.replicated_jobs}
    by_uid = {job.metadata.uid: job for job in jobs}

    def candidates_of_job(uid: str, pods: Sequence[FailedPod]) -> Sequence[FailedPod]:
        job = by_uid.get(uid)
        rjob = rjobs.get(job.metadata.labels.get(keys.REPLICATED_JOB_NAME, "")) if job else None
        return candidates(job, rjob, pods) if job and rjob else ()

    return candidates_of_job


def may_have_missed_pods(job: Job, rjob: ReplicatedJob, pods: Sequence[FailedPod]) -> bool:
    """Whether the decisive pod may be missing in `pods`, because more than `MAX_COUNTED` failed pods count."""
    if job.failure is None or len(pods) < MAX_COUNTED:
        return False
    limit = _failure_limit(rjob.job_spec, job.failure.reason)
    return limit >= MAX_COUNTED and len(_counted_pods(job, rjob, pods)) == MAX_COUNTED


def _counted_pods(job: Job, rjob: ReplicatedJob, pods: Sequence[FailedPod]) -> list[FailedPod]:
    """The failed pods that count, in order of their end, up to the decisive pod; empty if no pod is the reason."""
    failure = job.failure
    if failure is None or not decides_by_pods(job):
        return []
    rules = pod_failure_rules(rjob.job_spec, rjob.exit_code_policy)
    ended_pods = sorted(pods, key=_end_order)
    if failure.reason.startswith("PodFailurePolicy"):
        if match := _failure_match(job):
            return [pod for pod in pods if pod.name == match["pod"]][:1]
        return [pod for pod in ended_pods if _rule_action(rules, pod) == "FailJob"][:1]
    retries = (rjob.job_spec.get("backoffLimitPerIndex") or 0) if failure.reason in _INDEX_REASONS else 0
    counted = [pod for pod in ended_pods if not pod.deleting and _is_counted(_rule_action(rules, pod), pod, retries)]
    return counted[: min(_failure_limit(rjob.job_spec, failure.reason) + 1, MAX_COUNTED)]


def end_of_container(job: Job, pod: FailedPod, name: str) -> Ended | None:
    """How the failed container of a pod ended; None if no container failed.

    The failed container is the container that the Job's message names, else container `name`, else the container that
    failed first.
    """
    match = _failure_match(job)
    container_name = (match["container"] if match else "") or name
    return next((end for end in pod.ends if end.container == container_name), None) or _first_end(pod.ends)


def matches_pod(rule: FailurePolicyRule, pod: FailedPod) -> bool:
    """Whether a rule matches the decisive pod of a failed Job, by the reasons and exit codes of the pod."""
    reasons, codes = rule.on_pod_reasons, rule.on_exit_codes
    return (not reasons or not set(reasons).isdisjoint(pod.reasons)) and (
        codes is None or first_matching_end(codes, pod.ends) is not None
    )


def first_matching_end(requirement: OnExitCodes, ends: Sequence[Ended]) -> Ended | None:
    """How the first container that matches a requirement of exit codes ended; None if no container matches."""
    if requirement.container_name:
        ends = [end for end in ends if end.container == requirement.container_name]
    is_listed_wanted = requirement.operator == "In"
    return _first_end([end for end in ends if (end.exit_code in requirement.values) == is_listed_wanted])


def first_failed_container(pods: Sequence[FailedPod]) -> FailedContainer:
    """The container that failed first, and its pod. Among containers that failed at the same time, pod names decide.

    If no container failed, the result is the pod that was the first to be refused or evicted by its kubelet.
    """
    if first := _first_failure(pods):
        return failed_container(*first)
    refused_pod = min((pod for pod in pods if pod.kubelet_reason), key=_end_order, default=None)
    return failed_container(refused_pod, None) if refused_pod else FailedContainer()


def without_victims(job: Job, pods: Sequence[FailedPod]) -> Sequence[FailedPod]:
    """The failed pods of a Job, without the pods that ended because the Job had already failed (victims).

    When the Job controller sets the condition FailureTarget, it deletes the pods that still run. Most of these pods are
    gone when the Job gets the condition Failed and its pods are listed. A pod that its kubelet has just killed (exit
    code 137 or 143) may still be there.
    """
    target = find(job.status.conditions, keys.JOB_FAILURE_TARGET)
    decided_at = (target.last_transition_time or "") if target is not None and target.status == "True" else ""
    return [pod for pod in pods if not (decided_at and pod.deleting and _is_victim(pod, decided_at))]


def _is_victim(pod: FailedPod, decided_at: str) -> bool:
    """Whether a pod ended because its Job had already failed, at `decided_at` (RFC 3339)."""
    was_killed = all(end.exit_code in _KILL_CODES and not end.reason for end in pod.ends)
    ended_later = pod.ended_at > decided_at or (pod.ended_at == decided_at and was_killed)
    return ended_later and not "" < pod.deletion_asked < decided_at


def _first_failure(pods: Sequence[FailedPod]) -> tuple[FailedPod, Ended] | None:
    """The pod with the container that failed first, and how the container ended; None if no container failed."""
    ends = ((pod, end) for pod in pods if (end := _first_end(pod.ends)))
    return min(ends, key=lambda pod_and_end: (pod_and_end[1].ended_at, pod_and_end[0].name), default=None)


def _first_end(ends: Sequence[Ended]) -> Ended | None:
    """The earliest of these ends of containers; None if there is none."""
    return min(ends, key=lambda end: end.ended_at, default=None)


def _end_order(pod: FailedPod) -> tuple[str, str]:
    return pod.ended_at, pod.name


def _is_counted(rule_action: str, pod: FailedPod, retries: int) -> bool:
    """Whether a failed pod counts. `retries`: how many times the Job retries a completion index.

    `rule_action`: the result of `_rule_action`.
    """
    return rule_action == "FailIndex" or (rule_action != "Ignore" and pod.index_failures >= retries)


def _failure_limit(job_spec: JSON, reason: str) -> int:
    """How many pods, or completion indexes, may fail before the Job fails for `reason`."""
    if reason in _INDEX_REASONS:
        indexes: int | None = job_spec.get("maxFailedIndexes") if reason == "MaxFailedIndexesExceeded" else None
        return indexes or 0
    limit: int | None = job_spec.get("backoffLimit")
    return BACKOFF_LIMIT if limit is None else limit


def _rule_action(rules: Sequence[JSON], pod: FailedPod) -> str:
    """The action of the first rule of a podFailurePolicy that matches the pod; `Count` if no rule matches it."""
    return next((rule["action"] for rule in rules if _rule_matches(rule, pod)), "Count")


def _rule_matches(rule: JSON, pod: FailedPod) -> bool:
    """Whether a rule of a podFailurePolicy matches the pod."""
    codes = rule.get("onExitCodes")
    if codes is not None:
        requirement = OnExitCodes(
            operator=codes["operator"], values=tuple(codes["values"]), container_name=codes.get("containerName") or ""
        )
        return first_matching_end(requirement, pod.ends) is not None
    patterns = {(p["type"], p.get("status") or "True") for p in rule.get("onPodConditions") or ()}
    return not patterns.isdisjoint(pod.conditions)
