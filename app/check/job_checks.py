"""What the Job API would refuse about the children of a JobSet, by the rules of `api.job_rules`: nobody is asked. Pure.

The same children are looked at as a dry run would send, and what is found is placed in the JobSet in the same way; so
nobody can tell by a finding whether a cluster was asked.
"""

from itertools import islice

from api.features import FeatureGates
from api.field import FieldError
from api.job_rules.job import job_errors
from kube.errors import Cause
from webhooks.jobset.cluster_children import ChildJob, child_jobs, identified
from webhooks.jobset.cluster_faults import job_faults
from webhooks.jobset.cluster_new_findings import new_findings
from webhooks.jobset.engine import MAX_FINDINGS, Findings
from webhooks.jobset.rules.managed_by import PATH as MANAGED_BY
from webhooks.jobset.subject import Unreadable, subject


def with_job_faults(findings: Findings, gates: FeatureGates) -> Findings:
    """The findings about a JobSet, and those about its child Jobs, each place once."""
    try:
        js = subject(findings.object, gates).js
        js = identified(js, js.metadata.namespace or "default")
        children = child_jobs(findings.object, js, gates, range(len(js.spec.replicated_jobs)))
    except (Unreadable, KeyError, TypeError, AttributeError):
        return findings  # of which no child can be built: that is said already
    if not js.is_ours and not any(error.path == MANAGED_BY for error in findings.errors):
        return findings  # another controller makes what it likes of it
    faults = islice((error for child in children for error in _faults(child)), MAX_FINDINGS)
    found = {(error.path, error.verbatim): error for error in faults}
    return findings.and_also(new_findings(found.values(), findings.errors, js))


def _faults(child: ChildJob) -> list[FieldError]:
    return job_faults(child, map(_cause, islice(job_errors(child.body), MAX_FINDINGS)))


def _cause(error: FieldError) -> Cause:
    return Cause(reason=error.type.value, message=error.complaint, field=str(error.path))
