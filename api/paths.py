"""The parts of a JobSet, each with its path. Pure."""

from collections.abc import Iterable, Iterator

from api.jobset import JobSet, ReplicatedJob, VolumeClaimPolicy
from kube.model.field import SPEC, Path
from kube.model.meta import JSON

REPLICATED_JOBS = SPEC.at("replicatedJobs")
CLAIM_POLICIES = SPEC.at("volumeClaimPolicies")


def replicated_jobs(js: JobSet) -> Iterable[tuple[Path, ReplicatedJob]]:
    """The ReplicatedJobs in their order."""
    return REPLICATED_JOBS.each(js.spec.replicated_jobs)


def claim_templates(js: JobSet) -> Iterator[tuple[Path, JSON, Path, VolumeClaimPolicy]]:
    """The templates of volume claims, each followed by its policy."""
    for base, policy in CLAIM_POLICIES.each(js.spec.volume_claim_policies):
        for path, template in base.at("templates").each(policy.templates):
            yield path, template, base, policy
