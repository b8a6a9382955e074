"""Drops findings of the cluster that only follow from errors of the JobSet that are reported already. Pure."""

from collections.abc import Iterable

from api.jobset import JobSet
from kube.model.field import FieldError, Layer
from kube.model.jsontree import dig
from webhooks.jobset.cluster.children import JOBSET_NAME, replicated_job_path
from webhooks.jobset.cluster.claims import claims_of
from webhooks.jobset.cluster.decode import Parts
from webhooks.jobset.cluster.faults import TYPE
from webhooks.jobset.rules.volume_claims import VOLUME

_NAME = ("metadata", "name")


def new_findings(findings: Iterable[FieldError], known_errors: Iterable[FieldError], js: JobSet) -> list[FieldError]:
    """The findings that `known_errors` do not cover.

    A known error covers its path. If the schema or the decoder refused a value, the object was repaired, and the error
    covers the paths above and below, too. Errors at the names of all ReplicatedJobs cover the JobSet's name. An error
    at a volume covers the name of the claim that conflicts with it.
    """
    errors = [error for error in known_errors if not error.is_warning]
    reported_paths = {error.path.parts for error in errors}
    repaired_paths = [error.path.parts for error in errors if error.layer is Layer.SCHEMA or error.rule is TYPE]
    names = {replicated_job_path(i).at("name").parts for i in range(len(js.spec.replicated_jobs))}
    if names and names <= reported_paths:
        reported_paths.add(JOBSET_NAME.parts)
    conflicting_volumes = {error.value for error in errors if error.rule is VOLUME}
    reported_paths |= {
        claim.path.at(*_NAME).parts for claim in claims_of(js) if dig(claim.template, *_NAME) in conflicting_volumes
    }
    return [
        error
        for error in findings
        if error.is_warning
        or not (error.path.parts in reported_paths or any(_overlaps(error.path.parts, path) for path in repaired_paths))
    ]


def _overlaps(path: Parts, other: Parts) -> bool:
    """Whether one path equals or contains the other."""
    shorter = min(len(path), len(other))
    return path[:shorter] == other[:shorter]
