"""Lists items of a JobSet, each with its field path. Pure."""

from collections.abc import Iterable, Iterator

from api.jobset import JobSet, ReplicatedJob, VolumeClaimPolicy
from kube.model.field import SPEC, Path
from kube.model.meta import JSON

REPLICATED_JOBS = SPEC.at("replicatedJobs")
CLAIM_POLICIES = SPEC.at("volumeClaimPolicies")


def replicated_jobs(js: JobSet) -> Iterable[tuple[Path, ReplicatedJob]]:
    """The ReplicatedJobs in the order of the spec, each with its path."""
    return REPLICATED_JOBS.each(js.spec.replicated_jobs)


def claim_templates(js: JobSet) -> Iterator[tuple[Path, JSON, Path, VolumeClaimPolicy]]:
    """The templates of volume claims: path and template, then path and policy that the template belongs to."""
    for base, policy in CLAIM_POLICIES.each(js.spec.volume_claim_policies):
        for path, template in base.at("templates").each(policy.templates):
            yield path, template, base, policy
