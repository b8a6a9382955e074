"""What a real API server refuses by the CRD alone: combinations and changes; test_schema_agreement.py has the values."""

import pytest

from api.execution import NOT_FAILED, NOT_SUSPENDED
from api.jobset import STAGES_OR_DEPENDS_ON, STAGES_OR_STARTUP
from api.policies import ANY_WITH_SHARE
from api.scheduling import ONE_MODE, ONE_POLICY, ONE_SOURCE
from tests.support.cluster.crd_calls import replicated, spec

CLAIM = {"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
IN_ORDER = {"executionPolicyOrder": "InOrder"}
ENTRY = "spec.scheduling.replicatedJobs[0]"


def entry(**fields):
    """One entry of spec.scheduling."""
    return {"scheduling": {"replicatedJobs": [{"targetReplicatedJobs": ["workers"], **fields}]}}


REFUSED = {
    "claim-namespace": ({"volumeClaimPolicies": [{"templates": [CLAIM, {"metadata": {"namespace": "x"}}]}]},
                        "spec.volumeClaimPolicies[0]",
                        "Invalid value: namespace cannot be set for VolumeClaimPolicies templates"),
    "names": ({"replicatedJobs": [replicated(), replicated()]}, "spec.replicatedJobs[1]",
              'Duplicate value: {"name":"w"}'),
    "order-and-depends-on": ({"startupPolicy": {"startupPolicyOrder": "InOrder"},
                              "replicatedJobs": [replicated(), replicated(name="x", dependsOn=[])]}, "spec",
                             "Invalid value: StartupPolicy and DependsOn APIs are mutually exclusive"),
    "stages-and-in-order": ({"executionPolicy": IN_ORDER, "startupPolicy": {"startupPolicyOrder": "InOrder"}}, "spec",
                            f"Invalid value: {STAGES_OR_STARTUP}"),
    "stages-and-depends-on": ({"executionPolicy": IN_ORDER,
                               "replicatedJobs": [replicated(), replicated(name="x", dependsOn=[])]}, "spec",
                              f"Invalid value: {STAGES_OR_DEPENDS_ON}"),
    "stage-failed": ({"executionPolicy": {"replicatedJobsStatus": "Failed"}},
                     "spec.executionPolicy.replicatedJobsStatus", f'Invalid value: "Failed": {NOT_FAILED}'),
    "stage-suspended": ({"executionPolicy": {"replicatedJobsStatus": "Suspended"}},
                        "spec.executionPolicy.replicatedJobsStatus", f'Invalid value: "Suspended": {NOT_SUSPENDED}'),
    "stage-of-another-word": ({"executionPolicy": {"replicatedJobsStatus": "Done"}},
                              "spec.executionPolicy.replicatedJobsStatus",
                              'Invalid value: "Done": must be Succeeded, Ready or Active'),
    "share-and-any": ({"successPolicy": {"operator": "Any", "minSucceeded": "50%"}}, "spec.successPolicy",
                      f"Invalid value: {ANY_WITH_SHARE}"),
    "policy-of-both": ({"scheduling": {"schedulingPolicy": {"basic": {}, "gang": {}}}}, "spec.scheduling.schedulingPolicy",
                       f"Invalid value: {ONE_POLICY}"),
    "policy-of-none": (entry(schedulingPolicy={}), f"{ENTRY}.schedulingPolicy", f"Invalid value: {ONE_POLICY}"),
    "policy-of-jobs": (entry(job={"schedulingPolicy": {}}), f"{ENTRY}.job.schedulingPolicy",
                       f"Invalid value: {ONE_POLICY}"),
    "mode-of-both": (entry(disruptionMode={"all": {}, "single": {}}), f"{ENTRY}.disruptionMode",
                     f"Invalid value: {ONE_MODE}"),
    "mode-of-none": (entry(job={"disruptionMode": {}}), f"{ENTRY}.job.disruptionMode", f"Invalid value: {ONE_MODE}"),
    "claim-of-none": (entry(resourceClaims=[{"name": "a"}]), f"{ENTRY}.resourceClaims[0]",
                      f"Invalid value: {ONE_SOURCE}"),
    "claim-of-both": (entry(job={"resourceClaims": [{"name": "a", "resourceClaimName": "a",
                                                     "resourceClaimTemplateName": "a"}]}),
                      f"{ENTRY}.job.resourceClaims[0]", f"Invalid value: {ONE_SOURCE}"),
}  # fmt: skip


VALUES = {"names", "stage-failed", "stage-of-another-word", "stage-suspended"}
"""Cases in which only newer API servers quote the value."""


@pytest.mark.parametrize(
    "case", [pytest.param(name, marks=[pytest.mark.newest] if name in VALUES else []) for name in REFUSED]
)
def test_refused_with_the_exact_message(jobset, case):
    change, field, message = REFUSED[case]
    causes = [c for c in jobset.refusal(spec(**change)) if "some validation rules were not checked" not in c[1]]
    assert causes == [(field, message)]


def test_in_order_alone_and_depends_on_alone_are_accepted(jobset):
    stored = jobset.stored(spec(startupPolicy={"startupPolicyOrder": "InOrder"}))
    assert stored["spec"]["startupPolicy"] == {"startupPolicyOrder": "InOrder"}


def test_in_order_without_replicated_jobs_is_accepted(jobset):
    jobset.stored({"startupPolicy": {"startupPolicyOrder": "InOrder"}})


def test_stages_are_accepted_beside_what_says_no_order_and_get_their_defaults(jobset):
    given = spec(executionPolicy=IN_ORDER, startupPolicy={"startupPolicyOrder": "AnyOrder"})
    stored = jobset.stored(given)["spec"]
    assert stored["executionPolicy"] == IN_ORDER | {"replicatedJobsStatus": "Succeeded"}


def test_an_execution_policy_that_says_nothing_is_no_order(jobset):
    more = {"executionPolicy": {}, "startupPolicy": {"startupPolicyOrder": "InOrder"}}
    stored = jobset.stored(spec(**more))["spec"]["executionPolicy"]
    assert stored == {"executionPolicyOrder": "AnyOrder", "replicatedJobsStatus": "Succeeded"}


CHANGES = {
    "executionPolicy": (IN_ORDER, IN_ORDER | {"replicatedJobsStatus": "Ready"}),
    "network": ({"subdomain": "a"}, {"subdomain": "b"}),
    "successPolicy": ({"operator": "All"}, {"operator": "Any"}),
    "failurePolicy": ({"maxRestarts": 1}, {"maxRestarts": 2}),
    "startupPolicy": ({"startupPolicyOrder": "AnyOrder"}, {"startupPolicyOrder": "InOrder"}),
    "volumeClaimPolicies": ([{"templates": [CLAIM]}], [{"templates": [CLAIM | {"spec": {}}]}]),
}


@pytest.mark.parametrize("field", CHANGES)
def test_immutable_once_set(jobset, field):
    before, after = CHANGES[field]
    jobset.stored(spec(**{field: before}))
    assert jobset.refusal({field: after}, method="PATCH") == [(f"spec.{field}", "Invalid value: Value is immutable")]
    jobset.stored({field: before, "suspend": True}, method="PATCH")


def test_depends_on_is_immutable(jobset):
    def jobs(status):
        return [replicated(name="a"), replicated(dependsOn=[{"name": "a", "status": status}])]

    jobset.stored({"replicatedJobs": jobs("Ready")})
    assert jobset.refusal({"replicatedJobs": jobs("Complete")}, method="PATCH") == [
        ("spec.replicatedJobs[1].dependsOn", "Invalid value: Value is immutable")
    ]
