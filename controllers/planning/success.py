"""Whether enough of the targets have succeeded, and the condition Completed (docs/reference/lifecycle.md#success)."""

from collections import Counter

from api import keys, share
from api.jobset import JobSet
from api.jobset_status import ReplicatedJobStatus
from api.policies import SuccessPolicy
from controllers.planning.child_jobs import ChildJobs
from controllers.planning.status import StatusDraft


def complete_set(draft: StatusDraft, share_met: str) -> None:
    """Set the condition Completed and the terminal state. `share_met`: the result of `share_reached`."""
    message = "jobset completed successfully"
    reason = "MinSucceededReached" if share_met else "AllJobsCompleted"
    full_message = f"{message}: {share_met}" if share_met else message
    draft.condition(keys.COMPLETED, true=True, reason=reason, message=full_message)
    draft.condition(keys.RESTARTING, true=False, reason="JobSetCompleted", message=message)
    draft.update(terminal_state="Completed")


def share_reached(js: JobSet, counts: tuple[ReplicatedJobStatus, ...], children: ChildJobs) -> str | None:
    """None until enough targets have succeeded; then the message of the condition, "" without minSucceeded."""
    policy = js.spec.success_policy or SuccessPolicy()
    total = share.total(js.spec)
    needed = share.required_successes(policy, total) if total and policy.operator != "Any" else None
    if needed is None:
        return "" if _jobs_done(js, counts, policy) else None
    pods = policy.unit == share.POD
    done = _pods(js, children) if pods else _jobs(js, counts)
    if done < max(needed, 1):
        return None
    return f"{done} of {total} {'pods' if pods else 'Jobs'} have succeeded, minSucceeded is {policy.min_succeeded}"


def _jobs_done(js: JobSet, counts: tuple[ReplicatedJobStatus, ...], policy: SuccessPolicy) -> bool:
    """Whether the set is done, without minSucceeded.

    A null policy means: all targeted Jobs. A set without any Jobs is done (defect 8 in docs/reference/defects.md).
    Otherwise no set is done before one of its Jobs has succeeded, as clients expect.
    """
    if not any(entry.succeeded for entry in counts):
        return not js.spec.suspend and not any(r.replicas for r in js.spec.replicated_jobs)
    done = _jobs(js, counts)
    if policy.operator == "Any":
        return done >= 1
    return done >= sum(rjob.replicas for rjob in share.targets(js.spec))


def _jobs(js: JobSet, counts: tuple[ReplicatedJobStatus, ...]) -> int:
    """Targeted Jobs that have completed."""
    names = {rjob.name for rjob in share.targets(js.spec)}
    return sum(entry.succeeded for entry in counts if entry.name in names)


def _pods(js: JobSet, children: ChildJobs) -> int:
    """Completions of the targets.

    A completed Job counts with all its completions, even if its successPolicy needs fewer.
    """
    running: Counter[str] = Counter()
    for child in children.active:
        running[child.replicated_job] += child.job.status.succeeded
    return sum(
        len(children.completed[rjob.name]) * (share.completions(rjob) or 0) + running[rjob.name]
        for rjob in share.targets(js.spec)
    )
