"""Which ReplicatedJobs make a stage (`spec.executionPolicy`): the only place that interprets the order. Pure."""

from api.jobset import JobSetSpec, ReplicatedJob

_MAX_NAMES = 3
"""ReplicatedJobs of a stage that are named; the rest is counted."""

Stage = tuple[ReplicatedJob, ...]
"""ReplicatedJobs that start together."""


def staged(spec: JobSetSpec) -> bool:
    """Whether the ReplicatedJobs run as stages."""
    return spec.execution_policy is not None and spec.execution_policy.execution_policy_order == "InOrder"


def is_ordered(spec: JobSetSpec) -> bool:
    """Whether the deprecated startupPolicy orders the set."""
    return spec.startup_policy is not None and spec.startup_policy.startup_policy_order == "InOrder"


def stages(spec: JobSetSpec) -> tuple[Stage, ...]:
    """The stages in order; none when the set is not staged.

    The first `sequentialReplicatedJobs` entries are a stage each, those after them one stage together.
    """
    policy = spec.execution_policy
    if policy is None or not staged(spec):
        return ()
    rjobs = spec.replicated_jobs
    first_stage_size = (
        len(rjobs) if policy.sequential_replicated_jobs is None else max(policy.sequential_replicated_jobs, 1)
    )
    single = tuple((rjob,) for rjob in rjobs[:first_stage_size])
    return (*single, rjobs[first_stage_size:]) if rjobs[first_stage_size:] else single


def stage_name(stage: Stage) -> str:
    """Its ReplicatedJobs, in words."""
    names = ", ".join(rjob.name for rjob in stage[:_MAX_NAMES])
    return f"{names} and {len(stage) - _MAX_NAMES} more" if len(stage) > _MAX_NAMES else names
