"""Volume claim templates (3.2 rows 9a to 9e; 9f to 9h need to read the cluster and are not here)."""

from collections.abc import Iterator

from api.field import SPEC, FieldError, invalid
from api.names import volume_claim_name
from api.validation import MAX_LABEL, byte_length, dns1123_subdomain
from webhooks.jobset.subject import Claim, Subject


def volume_claims(subject: Subject) -> Iterator[FieldError]:
    """Per template: unique, well-formed and short name, no clash with a volume, mounted somewhere."""
    seen: set[str] = set()
    for claim in subject.claims:
        path = claim.path.at("name")
        if claim.name in seen:
            yield invalid(path, claim.name, "names must be unique for VolumeClaimPolicies template")
        seen.add(claim.name)
        for complaint in dns1123_subdomain(claim.name):
            yield invalid(path, claim.name, complaint)
        if byte_length(volume_claim_name(claim.name, subject.name)) > MAX_LABEL:
            yield invalid(path, claim.name, "VolumeClaimPolicies template name is too long")
        yield from _clashes(subject, claim)
        if not _is_mounted(subject, claim):
            yield invalid(
                SPEC.at("replicatedJobs"),
                subject.raw_spec.get("replicatedJobs"),
                f"replicatedJob containers don't have a matching volumeMount: {claim.name} from VolumeClaimPolicies",
            )


def _clashes(subject: Subject, claim: Claim) -> Iterator[FieldError]:
    for entry in subject.entries:
        for v, volume in enumerate(entry.job.template.spec.volumes):
            if volume.name == claim.name:
                yield invalid(
                    entry.job_path.at("template", "spec", "volumes", v, "name"),
                    volume.name,
                    f"volume name conflicts with VolumeClaimPolicy template name: {claim.name}",
                )


def _is_mounted(subject: Subject, claim: Claim) -> bool:
    pods = (entry.job.template.spec for entry in subject.entries)
    containers = (container for pod in pods for container in (*pod.containers, *pod.init_containers))
    return any(mount.name == claim.name for container in containers for mount in container.volume_mounts)
