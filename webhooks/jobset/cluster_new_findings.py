"""What of the cluster's findings about a JobSet has not been said already, from the object alone. Pure."""

from collections.abc import Iterable

from api.field import FieldError, Layer
from api.jobset import JobSet
from api.jsontree import dig
from webhooks.jobset.cluster_children import JOBSET_NAME, replicated_job
from webhooks.jobset.cluster_claims import claims_of
from webhooks.jobset.cluster_decode import Parts
from webhooks.jobset.cluster_faults import TYPE
from webhooks.jobset.rules.volume_claims import VOLUME

_NAME = ("metadata", "name")


def new_findings(found: Iterable[FieldError], known: Iterable[FieldError], js: JobSet) -> list[FieldError]:
    """What is not said by `known` errors already.

    At the place of a known error nothing more is said. Where the schema or the decoder refused something, the object
    was repaired, and what is found around that place is about the repair. A JobSet's name that is no good is known from
    the names of all its Jobs; a volume that a claim clashes with, from the volume.
    """
    errors = [error for error in known if not error.is_warning]
    taken = {error.path.parts for error in errors}
    repaired = [error.path.parts for error in errors if error.layer is Layer.SCHEMA or error.rule is TYPE]
    names = {replicated_job(i).at("name").parts for i in range(len(js.spec.replicated_jobs))}
    if names and names <= taken:
        taken.add(JOBSET_NAME.parts)
    in_conflict = {error.value for error in errors if error.rule is VOLUME}
    taken |= {claim.path.at(*_NAME).parts for claim in claims_of(js) if dig(claim.template, *_NAME) in in_conflict}
    return [
        error
        for error in found
        if error.is_warning
        or not (error.path.parts in taken or any(_near(error.path.parts, parts) for parts in repaired))
    ]


def _near(one: Parts, other: Parts) -> bool:
    """Whether one place is or holds the other."""
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]
