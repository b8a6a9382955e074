"""Volume claim templates.

See docs/reference/validation.md#volume-claims. `webhooks/jobset/cluster` checks claims with the cluster.
"""

from collections.abc import Iterator

from api.names import volume_claim_name
from kube.model.field import FieldError, Layer
from kube.model.validation import MAX_LABEL, byte_length, dns1123_subdomain
from webhooks.jobset.rules import Source
from webhooks.jobset.subject import Claim, Subject

_DOCS = Source("docs/reference/validation.md#volume-claims")
NAMESPACE = Source("CRD rule on spec.volumeClaimPolicies[]", Layer.SCHEMA).error(
    "claim-namespace",
    "namespace cannot be set for VolumeClaimPolicies templates",
    "remove it: claims are made in the namespace of the JobSet",
)
UNIQUE = _DOCS.error(
    "claim-name-unique",
    "names must be unique for VolumeClaimPolicies template",
    "rename one of them, and its volumeMounts",
)
FORM = _DOCS.error("claim-name-form", "{complaint}", "set metadata.name of the template to a name like training-data")
LENGTH = _DOCS.error(
    "claim-name-length",
    "VolumeClaimPolicies template name is too long",
    "the claim \"{claim}\" may have 63 bytes: shorten the template's or the JobSet's name by {excess}",
)
VOLUME = _DOCS.error(
    "claim-volume-conflict",
    "volume name conflicts with VolumeClaimPolicy template name: {name}",
    "remove the volume (the controller adds it for the claim), or rename one of the two",
)
UNMOUNTED = _DOCS.error(
    "claim-unmounted",
    "replicatedJob containers don't have a matching volumeMount: {name} from VolumeClaimPolicies",
    'add a volumeMount with name "{name}" to a container, or remove the template',
)


def check_namespaces(subject: Subject) -> Iterator[FieldError]:
    """Check a rule of the CRD, since the API server would report only this fault."""
    for claim in subject.claims:
        if claim.namespace:
            yield NAMESPACE.at(claim.path.at("metadata", "namespace"), claim.namespace)


def check_volume_claims(subject: Subject) -> Iterator[FieldError]:
    """Check that each template has a unique, valid and short name that no volume has, and is mounted."""
    claim_names: set[str] = set()
    volume_names = {volume.name for entry in subject.entries for volume in entry.job.template.spec.volumes}
    for claim in subject.claims:
        path = claim.path.at("metadata", "name")
        if claim.name in claim_names:
            yield UNIQUE.at(path, claim.name)
        claim_names.add(claim.name)
        for complaint in dns1123_subdomain(claim.name):
            yield FORM.at(path, claim.name, complaint=complaint)
        full_name = volume_claim_name(claim.name, subject.name)
        if byte_length(full_name) > MAX_LABEL:
            yield LENGTH.at(path, claim.name, claim=full_name, excess=byte_length(full_name) - MAX_LABEL)
        if claim.name in volume_names:
            yield from _volume_conflicts(subject, claim)
        if claim.name not in subject.mounted_volume_names:
            yield UNMOUNTED.at(path, claim.name, name=claim.name)


def _volume_conflicts(subject: Subject, claim: Claim) -> Iterator[FieldError]:
    for entry in subject.entries:
        for path, volume in entry.each_volume():
            if volume.name == claim.name:
                yield VOLUME.at(path.at("name"), volume.name, name=claim.name)
