"""Volume claim templates.

See docs/reference/validation.md#volume-claims. What asks the cluster is in cluster.py.
"""

from collections.abc import Iterator

from api.names import volume_claim_name
from kube.model.field import ErrorType, FieldError, Layer, Rule
from kube.model.validation import MAX_LABEL, byte_length, dns1123_subdomain
from webhooks.jobset.subject import Claim, Subject

NAMESPACE = Rule(
    id="claim-namespace",
    type=ErrorType.INVALID,
    message="namespace cannot be set for VolumeClaimPolicies templates",
    fix="remove it: claims are made in the namespace of the JobSet",
    source="CRD rule on spec.volumeClaimPolicies[]",
    layer=Layer.SCHEMA,
)
UNIQUE = Rule(
    id="claim-name-unique",
    type=ErrorType.INVALID,
    message="names must be unique for VolumeClaimPolicies template",
    fix="rename one of them, and its volumeMounts",
    source="docs/reference/validation.md#volume-claims",
)
FORM = Rule(
    id="claim-name-form",
    type=ErrorType.INVALID,
    message="{complaint}",
    fix="set metadata.name of the template to a name like training-data",
    source="docs/reference/validation.md#volume-claims",
)
LENGTH = Rule(
    id="claim-name-length",
    type=ErrorType.INVALID,
    message="VolumeClaimPolicies template name is too long",
    fix="the claim \"{claim}\" may have 63 bytes: shorten the template's or the JobSet's name by {excess}",
    source="docs/reference/validation.md#volume-claims",
)
VOLUME = Rule(
    id="claim-volume-conflict",
    type=ErrorType.INVALID,
    message="volume name conflicts with VolumeClaimPolicy template name: {name}",
    fix="remove the volume (the controller adds it for the claim), or rename one of the two",
    source="docs/reference/validation.md#volume-claims",
)
UNMOUNTED = Rule(
    id="claim-unmounted",
    type=ErrorType.INVALID,
    message="replicatedJob containers don't have a matching volumeMount: {name} from VolumeClaimPolicies",
    fix='add a volumeMount with name "{name}" to a container, or remove the template',
    source="docs/reference/validation.md#volume-claims",
)


def namespaces(subject: Subject) -> Iterator[FieldError]:
    """The CRD's own rule, said before it hides the rest."""
    for claim in subject.claims:
        if claim.namespace:
            yield NAMESPACE.at(claim.path.at("metadata", "namespace"), claim.namespace)


def volume_claims(subject: Subject) -> Iterator[FieldError]:
    """Per template: unique, well-formed and short name, no clash with a volume, mounted somewhere."""
    seen: set[str] = set()
    clashing = {volume.name for entry in subject.entries for volume in entry.job.template.spec.volumes}
    for claim in subject.claims:
        path = claim.path.at("metadata", "name")
        if claim.name in seen:
            yield UNIQUE.at(path, claim.name)
        seen.add(claim.name)
        for complaint in dns1123_subdomain(claim.name):
            yield FORM.at(path, claim.name, complaint=complaint)
        full = volume_claim_name(claim.name, subject.name)
        if byte_length(full) > MAX_LABEL:
            yield LENGTH.at(path, claim.name, claim=full, excess=byte_length(full) - MAX_LABEL)
        if claim.name in clashing:
            yield from _clashes(subject, claim)
        if claim.name not in subject.mounted_volumes:
            yield UNMOUNTED.at(path, claim.name, name=claim.name)


def _clashes(subject: Subject, claim: Claim) -> Iterator[FieldError]:
    for entry in subject.entries:
        for v, volume in enumerate(entry.job.template.spec.volumes):
            if volume.name == claim.name:
                yield VOLUME.at(entry.pod_path.at("spec", "volumes", v, "name"), volume.name, name=claim.name)
