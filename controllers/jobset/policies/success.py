"""When a set is Completed (behaviour section 5.9)."""

from api.jobset import JobSet, ReplicatedJobStatus
from api.policies import SuccessPolicy


def met(js: JobSet, counts: tuple[ReplicatedJobStatus, ...]) -> bool:
    """Whether enough targeted Jobs have succeeded. A null policy means: all of them.

    A set that has no Jobs at all has nothing to wait for and is done (defect 7.1 #8). Otherwise, as clients see it
    today, no set is done before any of its Jobs has succeeded.
    """
    if not any(of.succeeded for of in counts):
        return not js.suspended and not any(r.replicas for r in js.spec.replicated_jobs)
    policy = js.spec.success_policy or SuccessPolicy()
    targets = set(policy.target_replicated_jobs) or {r.name for r in js.spec.replicated_jobs}
    done = sum(of.succeeded for of in counts if of.name in targets)
    if policy.operator == "Any":
        return done >= 1
    return done >= sum(r.replicas for r in js.spec.replicated_jobs if r.name in targets)
