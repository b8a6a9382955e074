"""Groups ReplicatedJobs into stages (`spec.executionPolicy`). Only this module interprets the order. Pure."""

from api.jobset import JobSetSpec, ReplicatedJob
from kube.model.field import join_names

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
    single_count = policy.sequential_replicated_jobs
    single_count = len(rjobs) if single_count is None else max(single_count, 1)
    single_stages = tuple((rjob,) for rjob in rjobs[:single_count])
    return (*single_stages, rjobs[single_count:]) if rjobs[single_count:] else single_stages


def stage_name(stage: Stage) -> str:
    """The names of the first ReplicatedJobs in a stage, as a text."""
    return join_names([rjob.name for rjob in stage], 3)
