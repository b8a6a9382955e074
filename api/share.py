"""How many Jobs or pods make a set succeed (`spec.successPolicy.minSucceeded`). Only this file reads the number.

Pure.
"""

import re

from api.jobset import JobSetSpec, ReplicatedJob
from api.policies import SuccessPolicy

POD = "Pod"
_PERCENT = re.compile(r"(100|[1-9][0-9]?)%", re.ASCII)


def targets(spec: JobSetSpec) -> tuple[ReplicatedJob, ...]:
    """The ReplicatedJobs that the success policy counts: those it names, or all but the spares."""
    names = frozenset(spec.success_policy.target_replicated_jobs if spec.success_policy else ())
    return tuple(rjob for rjob in spec.replicated_jobs if (rjob.name in names if names else not rjob.spare_for))


def completions(rjob: ReplicatedJob) -> int | None:
    """Pods of one Job that have to succeed; None if the Job sets none: then one success is enough."""
    if rjob.completions is None:
        return 1 if rjob.parallelism is None else None
    return rjob.completions


def total(spec: JobSetSpec) -> int | None:
    """Jobs, or with unit Pod completions, of the targets; None where the number of pods is not known."""
    if spec.success_policy is None or spec.success_policy.unit != POD:
        return sum(rjob.replicas for rjob in targets(spec))
    pods = 0
    for rjob in targets(spec):
        each = completions(rjob)
        if each is None:
            return None
        pods += rjob.replicas * each
    return pods


def required_successes(policy: SuccessPolicy, total: int) -> int | None:
    """How many of `total` have to succeed, shares rounded up; None if it is neither number nor percentage."""
    wanted = policy.min_succeeded
    if isinstance(wanted, str):
        share = _PERCENT.fullmatch(wanted)
        return -(-total * int(share[1]) // 100) if share else None
    return wanted
