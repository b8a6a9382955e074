"""Decides whether a JobSet has succeeded, and sets the condition Completed (docs/reference/lifecycle.md#success).

`spec.successPolicy` names ReplicatedJobs, the targets, and says how many of their Jobs or pods have to succeed: all,
any, or `minSucceeded` of them.
"""

from collections import Counter

from api import keys, share
from api.jobset import JobSet
from api.jobset_status import ReplicatedJobStatus
from api.policies import SuccessPolicy
from controllers.planning.child_jobs import ChildJobs
from controllers.planning.status import StatusDraft


def complete_set(draft: StatusDraft, note: str) -> None:
    """Set the condition Completed and the terminal state. `note`: see `success_note`."""
    message = "jobset completed successfully"
    reason = "MinSucceededReached" if note else "AllJobsCompleted"
    full_message = f"{message}: {note}" if note else message
    draft.set_condition(keys.COMPLETED, true=True, reason=reason, message=full_message)
    draft.set_condition(keys.RESTARTING, true=False, reason="JobSetCompleted", message=message)
    draft.update(terminal_state="Completed")


def success_note(js: JobSet, counts: tuple[ReplicatedJobStatus, ...], children: ChildJobs) -> str | None:
    """A note about minSucceeded for the message of the condition Completed; None if the set has not succeeded.

    The note is empty if the success policy has no minSucceeded. `counts`: entries of `status.replicatedJobsStatus`.
    """
    policy = js.spec.success_policy or SuccessPolicy()
    total = share.possible_successes(js.spec)
    needed = share.required_successes(policy, total) if total and policy.operator != "Any" else None
    if needed is None:
        return "" if _has_succeeded(js, counts, policy) else None
    counts_pods = policy.unit == share.POD
    succeeded = _succeeded_pods(js, children) if counts_pods else _succeeded_jobs(js, counts)
    if succeeded < max(needed, 1):
        return None
    kind = "pods" if counts_pods else "Jobs"
    return f"{succeeded} of {total} {kind} have succeeded, minSucceeded is {policy.min_succeeded}"


def _has_succeeded(js: JobSet, counts: tuple[ReplicatedJobStatus, ...], policy: SuccessPolicy) -> bool:
    """Whether the set has succeeded according to a policy without minSucceeded.

    A null policy requires all Jobs. A set without any Jobs has succeeded (defect 8 in docs/reference/defects.md). A set
    with Jobs has not succeeded before at least one of its Jobs has, as clients expect.
    """
    if not any(entry.succeeded for entry in counts):
        return not js.spec.suspend and not any(rjob.replicas for rjob in js.spec.replicated_jobs)
    succeeded = _succeeded_jobs(js, counts)
    if policy.operator == "Any":
        return succeeded >= 1
    return succeeded >= sum(rjob.replicas for rjob in share.targets(js.spec))


def _succeeded_jobs(js: JobSet, counts: tuple[ReplicatedJobStatus, ...]) -> int:
    """How many Jobs of the targets have succeeded."""
    names = {rjob.name for rjob in share.targets(js.spec)}
    return sum(entry.succeeded for entry in counts if entry.name in names)


def _succeeded_pods(js: JobSet, children: ChildJobs) -> int:
    """How many pods of the targets have succeeded.

    A completed Job counts with all its completions, even if its own successPolicy requires fewer.
    """
    pods_of_active_jobs: Counter[str] = Counter()
    for child in children.active:
        pods_of_active_jobs[child.replicated_job] += child.job.status.succeeded
    return sum(
        len(children.completed[rjob.name]) * (share.completions(rjob) or 0) + pods_of_active_jobs[rjob.name]
        for rjob in share.targets(js.spec)
    )
