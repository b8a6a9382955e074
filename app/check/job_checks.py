"""Checks the child Jobs of a JobSet by the rules of `api.job_rules`, without an API server. Pure.

It checks the Jobs that admission would send as a dry run, and converts errors into findings about the JobSet in the
same way. So its findings are the same as those of a dry run.
"""

from itertools import islice

from api.features import FeatureGates
from api.field import FieldError
from api.job_rules.job import job_errors
from kube.errors import Cause
from webhooks.jobset.cluster_children import ChildJob, child_jobs, created_by_us, identified
from webhooks.jobset.cluster_faults import job_faults
from webhooks.jobset.cluster_new_findings import new_findings
from webhooks.jobset.engine import MAX_FINDINGS, Findings
from webhooks.jobset.subject import Unreadable, subject


def with_job_faults(findings: Findings, gates: FeatureGates) -> Findings:
    """The findings about a JobSet, and those about its child Jobs, each place once."""
    try:
        js = identified(subject(findings.object, gates).js)
        children = child_jobs(findings.object, js, gates, range(len(js.spec.replicated_jobs)))
    except (Unreadable, KeyError, TypeError, AttributeError):
        return findings  # no child can be built; the findings say why
    if not created_by_us(js, findings.errors):
        return findings
    faults = islice((error for child in children for error in _faults(child)), MAX_FINDINGS)
    found = {(error.path, error.verbatim): error for error in faults}
    return findings.and_also(new_findings(found.values(), findings.errors, js))


def _faults(child: ChildJob) -> list[FieldError]:
    return job_faults(child, map(_cause, islice(job_errors(child.body), MAX_FINDINGS)))


def _cause(error: FieldError) -> Cause:
    return Cause(reason=error.type.value, message=error.complaint, field=str(error.path))
