"""Checks the child Jobs of a JobSet by the rules of `kube.model.job_rules`, without an API server. Pure.

The child Jobs and the conversion of errors into findings about the JobSet are the same as in admission, which sends
the Jobs as a dry run. So the findings are the same as those of a dry run.
"""

from collections.abc import Iterable, Iterator
from itertools import chain, islice

from msgspec.structs import replace

from api.features import FeatureGates
from api.jobset import JobSet
from kube.errors import Cause
from kube.model.field import SPEC, ErrorType, FieldError, Layer, Rule, Severity
from kube.model.job_rules.job import job_errors
from kube.model.job_rules.volumes import CLAIM
from webhooks.jobset.cluster.children import ChildJob, child_jobs, is_managed_by_us, with_identity
from webhooks.jobset.cluster.claims import claims_of
from webhooks.jobset.cluster.faults import claim_template_faults, job_faults
from webhooks.jobset.cluster.known_errors import without_consequences
from webhooks.jobset.engine import MAX_FINDINGS, Findings
from webhooks.jobset.subject import Unreadable, subject_of

UNUSED_TEMPLATE = Rule(
    "template-unused",
    ErrorType.INVALID,
    "with more replicas than 0 the API server refuses it: {why}",
    "{how}",
    source="validation by the API server",
    layer=Layer.CLUSTER,
    severity=Severity.WARNING,
)


def with_job_faults(findings: Findings, gates: FeatureGates, *, jobs: bool = True) -> Findings:
    """The findings about a JobSet, and findings about its child Jobs, one for each path and fault.

    Findings about ReplicatedJobs without replicas are warnings, as admission does not check them. If `jobs` is False,
    only these warnings are added.
    """
    try:
        js = subject_of(findings.object, gates).js
        js = with_identity(js, js.metadata.namespace or "default")
        if not is_managed_by_us(js, findings.errors):
            return findings
        rjobs = js.spec.replicated_jobs
        unused = [i for i, rjob in enumerate(rjobs) if rjob.replicas == 0]
        children = child_jobs(findings.object, js, gates, range(len(rjobs))) if jobs else []
        unused_children = child_jobs(findings.object, _with_replicas(js), gates, unused) if unused else []
    except (Unreadable, KeyError, TypeError, AttributeError):
        return findings  # no child Job can be built, which the findings explain
    faults = chain(_job_faults(children), _claim_faults(js) if jobs else ())
    warnings = map(_as_warning, _new_faults(_job_faults(unused_children), findings, js))
    return findings.with_findings([*_new_faults(faults, findings, js), *warnings])


def _job_faults(children: Iterable[ChildJob]) -> Iterator[FieldError]:
    for child in children:
        yield from job_faults(child, map(_cause, islice(job_errors(child.body), MAX_FINDINGS)))


def _claim_faults(js: JobSet) -> Iterator[FieldError]:
    """Errors of the API server about claim templates."""
    for claim in claims_of(js):
        yield from claim_template_faults(claim, map(_cause, CLAIM(SPEC, claim.spec)))


def _new_faults(faults: Iterable[FieldError], findings: Findings, js: JobSet) -> list[FieldError]:
    """The faults that are not among the findings already, without repetitions."""
    distinct = {(error.path, error.verbatim): error for error in islice(faults, MAX_FINDINGS)}
    return without_consequences(distinct.values(), findings.errors, js)


def _with_replicas(js: JobSet) -> JobSet:
    """The JobSet with one replica for each ReplicatedJob without replicas."""
    rjobs = tuple(replace(rjob, replicas=rjob.replicas or 1) for rjob in js.spec.replicated_jobs)
    return replace(js, spec=replace(js.spec, replicated_jobs=rjobs))


def _as_warning(error: FieldError) -> FieldError:
    return UNUSED_TEMPLATE.at(error.path, error.value, why=error.complaint, how=error.fix)


def _cause(error: FieldError) -> Cause:
    return Cause(reason=error.type.value, message=error.complaint, field=str(error.path))
