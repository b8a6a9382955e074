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
    """The path and body of each volume claim template, then the path and record of its policy."""
    for policy_path, policy in CLAIM_POLICIES.each(js.spec.volume_claim_policies):
        for path, template in policy_path.at("templates").each(policy.templates):
            yield path, template, policy_path, policy
