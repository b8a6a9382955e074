"""Computes how many Jobs or pods have to succeed for the success of a JobSet (`spec.successPolicy`). Pure.

`minSucceeded` of the policy is a number or a percentage of the possible successes. No other module interprets it.
"""

import re

from api.jobset import JobSetSpec, ReplicatedJob
from api.policies import SuccessPolicy

POD = "Pod"
"""The value of `successPolicy.unit` for which pods are counted instead of Jobs."""
_PERCENT = re.compile(r"(100|[1-9][0-9]?)%", re.ASCII)


def targets(spec: JobSetSpec) -> tuple[ReplicatedJob, ...]:
    """The ReplicatedJobs that count for the success: those that the policy names, else all except spares."""
    names = frozenset(spec.success_policy.target_replicated_jobs if spec.success_policy else ())
    return tuple(rjob for rjob in spec.replicated_jobs if (rjob.name in names if names else not rjob.spare_for))


def completions(rjob: ReplicatedJob) -> int | None:
    """How many pods of one Job have to succeed; None if the Job sets no number, so that one success is enough."""
    if rjob.completions is None:
        return 1 if rjob.parallelism is None else None
    return rjob.completions


def possible_successes(spec: JobSetSpec) -> int | None:
    """How many Jobs, or pods if the unit is Pod, can succeed in the targets; None if the number is unknown."""
    if spec.success_policy is None or spec.success_policy.unit != POD:
        return sum(rjob.replicas for rjob in targets(spec))
    pods = 0
    for rjob in targets(spec):
        pods_per_job = completions(rjob)
        if pods_per_job is None:
            return None
        pods += rjob.replicas * pods_per_job
    return pods


def required_successes(policy: SuccessPolicy, count: int) -> int | None:
    """How many Jobs or pods have to succeed by `minSucceeded`; None if `minSucceeded` is absent or invalid.

    `count`: how many can succeed. A percentage of it is rounded up.
    """
    minimum = policy.min_succeeded
    if isinstance(minimum, str):
        percentage = _PERCENT.fullmatch(minimum)
        return -(-count * int(percentage[1]) // 100) if percentage else None
    return minimum
