"""Which pods the policies are asked about; what they do with them is shown in tests/integration/test_pod_policies.py."""

import pytest

from manifests import install_objects, pod_policies, webhook_configurations

FOLLOWERS = ("gate", "affinity")
POD_WEBHOOKS = [w for c in webhook_configurations() for w in c["webhooks"] if "pod" in w["name"]]


def of_kind(objects, kind):
    return {o["metadata"]["name"]: o["spec"] for o in objects if o["kind"] == kind}


def policies(followers):
    objects = pod_policies(followers)
    return of_kind(objects, "MutatingAdmissionPolicy") | of_kind(objects, "ValidatingAdmissionPolicy")


@pytest.mark.parametrize("followers", FOLLOWERS)
def test_names_and_bindings(followers):
    objects = pod_policies(followers)
    mutating = {"jobset-pod-priority", "jobset-pod-leader", "jobset-pod-follower"}
    for kind, names in (("MutatingAdmissionPolicy", mutating), ("ValidatingAdmissionPolicy", {"jobset-pod-checks"})):
        assert of_kind(objects, kind).keys() == names
        bindings = of_kind(objects, f"{kind}Binding")
        assert {name: spec["policyName"] for name, spec in bindings.items()} == {name: name for name in names}
    assert of_kind(objects, "ValidatingAdmissionPolicyBinding")["jobset-pod-checks"]["validationActions"] == ["Deny"]
    assert all(o["apiVersion"] == "admissionregistration.k8s.io/v1" for o in objects)


@pytest.mark.parametrize("followers", FOLLOWERS)
def test_policies_are_asked_about_the_pods_that_the_webhooks_are_asked_about(followers):
    for policy in policies(followers).values():
        constraints = policy["matchConstraints"]
        for webhook in POD_WEBHOOKS:
            assert constraints["resourceRules"] == webhook["rules"]
            assert constraints["objectSelector"] == webhook["objectSelector"]
            assert constraints["namespaceSelector"] == webhook["namespaceSelector"]
        names = [condition["name"] for condition in policy["matchConditions"]]
        assert names[:2] == ["of-a-jobset", "not-by-node-selector"]
        assert policy["failurePolicy"] == "Fail"


@pytest.mark.parametrize(
    ("pods", "followers"), [("policies", "gate"), ("policies-without-manager", "affinity")], ids=FOLLOWERS
)
def test_installed_they_stand_in_for_the_webhooks_of_pods_and_come_before_the_others(pods, followers):
    objects = install_objects(pods=pods)
    count = len(pod_policies(followers))
    assert objects[-2 - count :] == [*pod_policies(followers), *webhook_configurations(pods=False)]
    left = [webhook["name"] for configuration in objects[-2:] for webhook in configuration["webhooks"]]
    assert left == ["mjobset.kb.io", "vjobset.kb.io"]
    assert objects[: -2 - count] == install_objects()[:-2]


def test_objects_are_new_for_each_caller():
    before = pod_policies()
    spoilt = pod_policies()[0]["spec"]
    spoilt["matchConstraints"]["resourceRules"][0]["operations"].append("UPDATE")
    spoilt["matchConditions"][0]["expression"] = "true"
    assert pod_policies() == before
    assert webhook_configurations()[0]["webhooks"][1]["rules"][0]["operations"] == ["CREATE"]
