"""What a real API server refuses by the CRD alone: values, combinations and changes."""

import pytest

from api.failure_actions import ACTIONS
from api.jobset import STAGES_OR_DEPENDS_ON, STAGES_OR_STARTUP
from api.policies import ANY_WITH_SHARE, NOT_FAILED, NOT_SUSPENDED
from api.scheduling import ONE_MODE, ONE_POLICY, ONE_SOURCE
from tests.support.cluster.crd_calls import TOO_MANY, replicated, spec

RULE = {"name": "r", "action": "FailJobSet"}
CLAIM = {"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
NAMES = ", ".join(f'"{name}"' for name in ACTIONS)
IN_ORDER = {"executionPolicyOrder": "InOrder"}
BELOW_1 = "Invalid value: 0: {} in body should be greater than or equal to 1"
ENTRY = "spec.scheduling.replicatedJobs[0]"


def entry(**fields):
    """One entry of spec.scheduling."""
    return {"scheduling": {"replicatedJobs": [{"targetReplicatedJobs": ["workers"], **fields}]}}


REFUSED = {
    "operator": ({"successPolicy": {"operator": "Some"}}, "spec.successPolicy.operator",
                 'Unsupported value: "Some": supported values: "All", "Any"'),
    "operator-missing": ({"successPolicy": {}}, "spec.successPolicy.operator", "Required value"),
    "strategy": ({"failurePolicy": {"restartStrategy": "Now"}}, "spec.failurePolicy.restartStrategy",
                 'Unsupported value: "Now": supported values: "Recreate", "BlockingRecreate", "InPlaceRestart"'),
    "rule-name": ({"failurePolicy": {"rules": [{"action": "FailJobSet"}]}}, "spec.failurePolicy.rules[0].name",
                  "Required value"),
    "rule-action": ({"failurePolicy": {"rules": [RULE | {"action": "Stop"}]}}, "spec.failurePolicy.rules[0].action",
                    f'Unsupported value: "Stop": supported values: {NAMES}'),
    "order": ({"startupPolicy": {"startupPolicyOrder": "Any"}}, "spec.startupPolicy.startupPolicyOrder",
              'Unsupported value: "Any": supported values: "AnyOrder", "InOrder"'),
    "order-missing": ({"startupPolicy": {}}, "spec.startupPolicy.startupPolicyOrder", "Required value"),
    "coordinator": ({"coordinator": {}}, "spec.coordinator.replicatedJob", "Required value"),
    "ttl": ({"ttlSecondsAfterFinished": -1}, "spec.ttlSecondsAfterFinished",
            "Invalid value: -1: spec.ttlSecondsAfterFinished in body should be greater than or equal to 0"),
    "retention": ({"volumeClaimPolicies": [{"retentionPolicy": {"whenDeleted": "Drop"}}]},
                  "spec.volumeClaimPolicies[0].retentionPolicy.whenDeleted",
                  'Unsupported value: "Drop": supported values: "Delete", "Retain"'),
    "claim-namespace": ({"volumeClaimPolicies": [{"templates": [CLAIM, {"metadata": {"namespace": "x"}}]}]},
                        "spec.volumeClaimPolicies[0]",
                        "Invalid value: namespace cannot be set for VolumeClaimPolicies templates"),
    "policies": ({"volumeClaimPolicies": [{}] * 51}, "spec.volumeClaimPolicies", TOO_MANY.format(51, 50)),
    "templates": ({"volumeClaimPolicies": [{"templates": [CLAIM] * 51}]}, "spec.volumeClaimPolicies[0].templates",
                  TOO_MANY.format(51, 50)),
    "replicas": ({"replicatedJobs": [replicated(replicas=-1)]}, "spec.replicatedJobs[0].replicas",
                 "Invalid value: -1: spec.replicatedJobs[0].replicas in body should be greater than or equal to 0"),
    "template": ({"replicatedJobs": [{"name": "w"}]}, "spec.replicatedJobs[0].template", "Required value"),
    "name": ({"replicatedJobs": [{"template": {}}]}, "spec.replicatedJobs[0].name", "Required value"),
    "names": ({"replicatedJobs": [replicated(), replicated()]}, "spec.replicatedJobs[1]",
              'Duplicate value: {"name":"w"}'),
    "depends-on-status": ({"replicatedJobs": [replicated(dependsOn=[{"name": "a", "status": "Up"}])]},
                          "spec.replicatedJobs[0].dependsOn[0].status",
                          'Unsupported value: "Up": supported values: "Ready", "Complete"'),
    "depends-on-six": ({"replicatedJobs": [replicated(dependsOn=[{"name": f"a{i}", "status": "Ready"} for i in range(6)])]},
                       "spec.replicatedJobs[0].dependsOn", TOO_MANY.format(6, 5)),
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
    "stage-order": ({"executionPolicy": {"executionPolicyOrder": "Sorted"}}, "spec.executionPolicy.executionPolicyOrder",
                    'Unsupported value: "Sorted": supported values: "AnyOrder", "InOrder"'),
    "stages-none": ({"executionPolicy": {"sequentialReplicatedJobs": 0}}, "spec.executionPolicy.sequentialReplicatedJobs",
                    BELOW_1.format("spec.executionPolicy.sequentialReplicatedJobs")),
    "share-and-any": ({"successPolicy": {"operator": "Any", "minSucceeded": "50%"}}, "spec.successPolicy",
                      f"Invalid value: {ANY_WITH_SHARE}"),
    "share-without-operator": ({"successPolicy": {"minSucceeded": 1}}, "spec.successPolicy.operator", "Required value"),
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
    "min-count-0": (entry(job={"schedulingPolicy": {"gang": {"minCount": 0}}}),
                    f"{ENTRY}.job.schedulingPolicy.gang.minCount",
                    BELOW_1.format(f"{ENTRY}.job.schedulingPolicy.gang.minCount")),
    "target-twice": (entry(targetReplicatedJobs=["a", "a"]), f"{ENTRY}.targetReplicatedJobs[1]", 'Duplicate value: "a"'),
    "unit": ({"successPolicy": {"operator": "All", "unit": "Node"}}, "spec.successPolicy.unit",
             'Unsupported value: "Node": supported values: "Job", "Pod"'),
    "fail-on": ({"failurePolicy": {"failOn": "Failed"}}, "spec.failurePolicy.failOn",
                'Unsupported value: "Failed": supported values: "JobFailed", "FailureTarget"'),
    "exit-code-0": ({"failurePolicy": {"rules": [RULE | {"onExitCodes": {"operator": "In", "values": [0]}}]}},
                    "spec.failurePolicy.rules[0].onExitCodes.values[0]",
                    BELOW_1.format("spec.failurePolicy.rules[0].onExitCodes.values[0]")),
    "exit-code-twice": ({"replicatedJobs": [replicated(exitCodePolicy={"permanent": [3, 3]})]},
                        "spec.replicatedJobs[0].exitCodePolicy.permanent[1]", "Duplicate value: 3"),
    "container-name": ({"replicatedJobs": [replicated(template={"spec": {"template": {"spec": {"containers": [{}]}}}})]},
                       "spec.replicatedJobs[0].template.spec.template.spec.containers[0].name", "Required value"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_the_exact_message(jobset, case):
    change, field, message = REFUSED[case]
    causes = [c for c in jobset.refusal(spec(**change)) if "some validation rules were not checked" not in c[1]]
    assert causes == [(field, message)]


def test_a_quantity_that_is_none_is_refused(jobset):
    given = spec()
    container = given["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"limits": {"memory": "1GB"}}
    (cause,) = [c for c in jobset.refusal(given) if "not checked" not in c[1]]
    assert cause[0].endswith("containers[0].resources.limits.memory")
    assert "should match" in cause[1]


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
