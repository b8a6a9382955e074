"""When a set is Completed (behaviour section 5.9)."""

from api.jobset import JobSet, SuccessPolicy
from controllers.jobset.buckets import Child


def met(js: JobSet, successful: tuple[Child, ...]) -> bool:
    """Whether enough targeted Jobs have succeeded. A null policy means: all of them.

    A set without any successful Job is never done, one without Jobs included: that is what clients see today.
    """
    if not successful:
        return False
    policy = js.spec.success_policy or SuccessPolicy()
    targets = set(policy.target_replicated_jobs) or {r.name for r in js.spec.replicated_jobs}
    done = sum(child.replicated_job in targets for child in successful)
    if policy.operator == "Any":
        return done >= 1
    return done >= sum(r.replicas for r in js.spec.replicated_jobs if r.name in targets)
