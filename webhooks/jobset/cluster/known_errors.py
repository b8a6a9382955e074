"""Drops findings of the cluster that only follow from errors of the JobSet that are reported already. Pure."""

from collections.abc import Iterable

from api.jobset import JobSet
from api.paths import replicated_jobs
from kube.model.field import NAME_PATH, FieldError, Layer
from kube.model.jsontree import dig
from webhooks.jobset.cluster.claims import claims_of
from webhooks.jobset.cluster.faults import TYPE
from webhooks.jobset.rules.volume_claims import VOLUME


def without_consequences(
    findings: Iterable[FieldError], known_errors: Iterable[FieldError], js: JobSet
) -> list[FieldError]:
    """The findings that `known_errors` do not cover.

    A known error covers its path. If the schema or the decoder refused a value, the object was repaired, and the error
    covers the paths above and below, too. Errors at the names of all ReplicatedJobs cover the JobSet's name. An error
    at a volume covers the name of the claim that conflicts with it.
    """
    errors = [error for error in known_errors if not error.is_warning]
    reported_paths = {error.path for error in errors}
    repaired_paths = [error.path for error in errors if error.layer is Layer.SCHEMA or error.rule is TYPE]
    name_paths = {path.at("name") for path, _ in replicated_jobs(js)}
    if name_paths and name_paths <= reported_paths:
        reported_paths.add(NAME_PATH)
    conflicting_volumes = {error.value for error in errors if error.rule is VOLUME}
    claims = (claim for claim in claims_of(js) if dig(claim.template, *NAME_PATH.parts) in conflicting_volumes)
    reported_paths |= {claim.path.at(*NAME_PATH.parts) for claim in claims}
    return [
        error
        for error in findings
        if error.is_warning or not (error.path in reported_paths or any(map(error.path.overlaps, repaired_paths)))
    ]
