"""Writes reports of an audit as objects of OpenReports (openreports.io/v1alpha1), by namespace and policy. Pure.

https://github.com/openreports/reports-api describes the API.
"""

import hashlib
from typing import Final

import msgspec

from api import keys
from kube.model.meta import JSON
from policy.audit import MAX_RESULTS_PER_REPORT, FirstResults
from policy.kinds import API_VERSION, GROUP, KIND
from policy.types import JobSetPolicy

REPORTS_GROUP: Final = "openreports.io"
REPORTS_VERSION: Final = "v1alpha1"
REPORT_KIND: Final = "Report"
REPORT_PLURAL: Final = "reports"

REPORT_LABEL: Final = f"{GROUP}/report"
"""Label of the reports that the manager writes."""
DIGEST: Final = f"{GROUP}/digest"
"""Annotation with a digest of the content of a report."""
_MAX_NAME = 253


def report_name(policy: str) -> str:
    """The name of the reports about a policy; it is the same in each namespace."""
    name = f"jobset-{policy}"
    if len(name) <= _MAX_NAME:
        return name
    digest = hashlib.sha256(policy.encode()).hexdigest()[:16]
    return f"{name[: _MAX_NAME - 17].rstrip('.-')}-{digest}"


def report(policy: JobSetPolicy, namespace: str, violations: FirstResults) -> JSON:
    """The report about a policy in a namespace. The policy owns it, so it is deleted with the policy."""
    name, result = policy.metadata.name, "fail" if policy.spec.denies else "warn"
    content: JSON = {
        "source": "jobset",
        "scope": {"apiVersion": "v1", "kind": "Namespace", "name": namespace},
        "configuration": {"limits": {"maxResults": MAX_RESULTS_PER_REPORT}},
        "summary": {**dict.fromkeys(("pass", "fail", "warn", "error", "skip"), 0), result: violations.count},
        "results": [
            {
                "policy": name,
                "rule": violation.rule,
                "result": result,
                "scored": policy.spec.denies,
                "message": violation.message,
                "resources": [
                    {"apiVersion": keys.API_VERSION, "kind": keys.KIND, "namespace": namespace, "name": violation.name}
                ],
            }
            for violation in violations.results
        ],
    }
    owner = {"apiVersion": API_VERSION, "kind": KIND, "name": name, "uid": policy.metadata.uid}
    metadata = {
        "name": report_name(name),
        "namespace": namespace,
        "labels": {REPORT_LABEL: "true"},
        "ownerReferences": [owner],
    }
    digest = hashlib.sha256(msgspec.json.encode([content, owner])).hexdigest()[:32]
    return {
        "apiVersion": f"{REPORTS_GROUP}/{REPORTS_VERSION}",
        "kind": REPORT_KIND,
        "metadata": {**metadata, "annotations": {DIGEST: digest}},
        **content,
    }
