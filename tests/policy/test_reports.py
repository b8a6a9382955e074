"""Reports in the form of OpenReports: what they say, and that their size and names are bounded."""

import msgspec

from policy.audit import MAX_RESULTS_PER_REPORT, FirstResults
from policy.reports import DIGEST, report, report_name
from policy.status_types import AuditedViolation
from tests.support.objects.policies import policy


def first(count: int = 1) -> FirstResults:
    found = FirstResults(MAX_RESULTS_PER_REPORT)
    for number in range(count):
        message = "9 Jobs, and at most 1 allowed"
        found.add(AuditedViolation(namespace="team-a", name=f"train-{number:04}", rule="maxJobs", message=message))
    return found


def test_a_report_names_the_jobset_the_rule_and_the_policy_that_owns_it():
    limits = policy("limits", ("Deny",), maxJobs={"max": 1})
    limits = msgspec.structs.replace(limits, metadata=msgspec.structs.replace(limits.metadata, uid="abc"))
    body = report(limits, "team-a", first())
    assert (body["apiVersion"], body["kind"]) == ("openreports.io/v1alpha1", "Report")
    assert (body["metadata"]["name"], body["metadata"]["namespace"]) == ("jobset-limits", "team-a")
    assert body["metadata"]["ownerReferences"] == [
        {"apiVersion": "policy.jobset.x-k8s.io/v1alpha1", "kind": "JobSetPolicy", "name": "limits", "uid": "abc"}
    ]
    assert body["summary"] == {"pass": 0, "fail": 1, "warn": 0, "error": 0, "skip": 0}
    assert body["results"] == [
        {
            "policy": "limits",
            "rule": "maxJobs",
            "result": "fail",
            "scored": True,
            "message": "9 Jobs, and at most 1 allowed",
            "resources": [
                {
                    "apiVersion": "jobset.x-k8s.io/v1alpha2",
                    "kind": "JobSet",
                    "namespace": "team-a",
                    "name": "train-0000",
                }
            ],
        }
    ]


def test_what_a_policy_does_not_refuse_is_a_warning():
    body = report(policy("limits", ("Audit",), maxJobs={"max": 1}), "team-a", first())
    assert (body["results"][0]["result"], body["results"][0]["scored"], body["summary"]["warn"]) == ("warn", False, 1)


def test_results_are_bounded_and_all_are_counted():
    body = report(policy(), "team-a", first(1000))
    assert (len(body["results"]), body["summary"]["fail"]) == (MAX_RESULTS_PER_REPORT, 1000)
    assert len(msgspec.json.encode(body)) < 100_000


def test_the_digest_is_that_of_what_is_said():
    def digest(found: FirstResults) -> str:
        return str(report(policy(), "team-a", found)["metadata"]["annotations"][DIGEST])

    assert digest(first(2)) == digest(first(2))
    assert digest(first(2)) != digest(first(3))


def test_names_are_bounded_and_differ():
    assert report_name("limits") == "jobset-limits"
    long = [report_name("a" * 250 + end) for end in ("-b", "-c")]
    assert max(map(len, long)) <= 253
    assert long[0] != long[1]
