"""Groups ReplicatedJobs into stages (`spec.executionPolicy`). Only this module interprets the order. Pure."""

from api.jobset import JobSetSpec, ReplicatedJob

_MAX_NAMES = 3
"""At most this many ReplicatedJobs of a stage are named. The rest is counted."""

Stage = tuple[ReplicatedJob, ...]
"""ReplicatedJobs that start together."""


def is_staged(spec: JobSetSpec) -> bool:
    """Whether the ReplicatedJobs run as stages."""
    return spec.execution_policy is not None and spec.execution_policy.execution_policy_order == "InOrder"


def is_ordered(spec: JobSetSpec) -> bool:
    """Whether the deprecated startupPolicy orders the set."""
    return spec.startup_policy is not None and spec.startup_policy.startup_policy_order == "InOrder"


def stages(spec: JobSetSpec) -> tuple[Stage, ...]:
    """The stages in order; empty if the set is not staged.

    Each of the first `sequentialReplicatedJobs` entries is a stage of its own, and the later entries are one stage.
    """
    policy = spec.execution_policy
    if policy is None or not is_staged(spec):
        return ()
    rjobs = spec.replicated_jobs
    sequential = len(rjobs) if policy.sequential_replicated_jobs is None else max(policy.sequential_replicated_jobs, 1)
    single = tuple((rjob,) for rjob in rjobs[:sequential])
    return (*single, rjobs[sequential:]) if rjobs[sequential:] else single


def stage_name(stage: Stage) -> str:
    """The names of the ReplicatedJobs in a stage, as a text."""
    names = ", ".join(rjob.name for rjob in stage[:_MAX_NAMES])
    return f"{names} and {len(stage) - _MAX_NAMES} more" if len(stage) > _MAX_NAMES else names
