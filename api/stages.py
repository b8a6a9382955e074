"""Groups the ReplicatedJobs of a JobSet into stages, which run one after another (`spec.executionPolicy`). Pure.

No other module interprets `spec.executionPolicy`. The deprecated `spec.startupPolicy` also orders ReplicatedJobs, but
has no stages: each ReplicatedJob starts when the pods of the previous ReplicatedJob are ready.
"""

from api.jobset import JobSetSpec, ReplicatedJob
from kube.model.field import join_names

Stage = tuple[ReplicatedJob, ...]
"""ReplicatedJobs that start together."""


def is_staged(spec: JobSetSpec) -> bool:
    """Whether the ReplicatedJobs run in stages (`executionPolicy`)."""
    return spec.execution_policy is not None and spec.execution_policy.execution_policy_order == "InOrder"


def is_ordered(spec: JobSetSpec) -> bool:
    """Whether the ReplicatedJobs start in the order of the deprecated `startupPolicy`."""
    return spec.startup_policy is not None and spec.startup_policy.startup_policy_order == "InOrder"


def stages(spec: JobSetSpec) -> tuple[Stage, ...]:
    """The stages in order; empty if the JobSet has no stages.

    Each of the first `sequentialReplicatedJobs` ReplicatedJobs is a stage. All later ones are the last stage.
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
    """The names of at most three ReplicatedJobs of the stage, joined, with the number of other ReplicatedJobs."""
    return join_names([rjob.name for rjob in stage], 3)
