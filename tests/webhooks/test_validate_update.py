"""What may change (docs/reference/validation.md#updates), and what is stricter than in the Go JobSet."""

import copy
from typing import Any

import pytest

from api.features import FeatureGates
from app.engine import engine
from tests.support.objects.jobsets import JSON, jobset, rjob, stored
from tests.support.objects.reviews import review
from tests.support.objects.updates import DEFAULT, JOB, POD, RJOB, changed, errors
from tests.support.webhook_app import ask

ELASTIC = FeatureGates({"ElasticJobSet": True})
IMMUTABLE = "field is immutable"
CEL = "Value is immutable"
OLD = stored(
    jobset(
        rjob("a", pod={"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}}]}),
        rjob("b", dependsOn=[{"name": "a", "status": "Ready"}]),
        managedBy="acme.io/foo",
        coordinator={"replicatedJob": "a"},
        failurePolicy={"maxRestarts": 2},
    )
)


R = "spec.replicatedJobs[0]"
T = f"{R}.template.spec.template"


@pytest.mark.parametrize(
    ("keys", "value", "place"),
    [
        ((*RJOB, "replicas"), 2, f"{R}.replicas"),
        ((*RJOB, "name"), "c", "spec.replicatedJobs"),
        ((*RJOB, "groupName"), "g", f"{R}.groupName"),
        ((*JOB, "parallelism"), 2, f"{R}.template.spec.parallelism"),
        ((*JOB, "completions"), None, f"{R}.template.spec.completions"),
        ((*JOB, "backoffLimit"), 0, f"{R}.template.spec.backoffLimit"),
        ((*JOB, "completionMode"), "NonIndexed", f"{R}.template.spec.completionMode"),
        ((*POD, "restartPolicy"), "Never", f"{T}.spec.restartPolicy"),
        ((*POD, "hostNetwork"), True, f"{T}.spec.hostNetwork"),
        ((*POD, "nodeSelector"), {"a": "b"}, f"{T}.spec.nodeSelector.a"),
        ((*POD, "terminationGracePeriodSeconds"), 0, f"{T}.spec.terminationGracePeriodSeconds"),
        ((*POD, "containers"), [], f"{T}.spec.containers"),
        ((*POD, "containers", 0, "image"), "j", f"{T}.spec.containers[0].image"),
        ((*POD, "containers", 0, "resources", "limits", "cpu"), "2", f"{T}.spec.containers[0].resources.limits.cpu"),
        ((*RJOB, "template", "metadata"), {"labels": {"a.io/b": "c"}}, f"{R}.template.metadata.labels[a.io/b]"),
    ],
)
def test_replicated_jobs_are_immutable_and_the_changed_place_is_named(keys: Any, value: Any, place: str):
    assert errors(OLD, changed(OLD, *keys, to=value)) == [f"{place}: {IMMUTABLE}"]


def test_the_fix_says_what_may_change_while_suspended():
    def fix(*keys: str | int, to: Any) -> str:
        [error] = engine(DEFAULT).findings_about_update(OLD, changed(OLD, *keys, to=to)).errors
        return error.fix

    assert "nodeSelector, tolerations and schedulingGates" in fix(*POD, "hostNetwork", to=True)
    assert "spec.suspend to true" in fix(*POD, "nodeSelector", to={"a": "b"})
    assert "--feature-gates=ElasticJobSet=true" in fix(*JOB, "parallelism", to=2)
    assert "they are a, b" in fix(*RJOB, "name", to="c")


def test_the_order_of_start_is_immutable_as_the_crd_has_it():
    new = changed(OLD, "replicatedJobs", 1, "dependsOn", 0, "status", to="Complete")
    assert errors(OLD, new) == [f"spec.replicatedJobs[1].dependsOn[0].status: {CEL}"]
    assert engine(DEFAULT).findings_about_update(OLD, new).hides_other_faults


def test_depends_on_may_be_neither_added_nor_removed():
    without = changed(OLD, "replicatedJobs", 1, "dependsOn", to=None)
    for old, new in ((OLD, without), (without, OLD)):
        assert errors(old, new) == ["spec.replicatedJobs[1].dependsOn: field is immutable"]


@pytest.mark.parametrize(
    "reshape",
    [
        lambda jobs: jobs[::-1],
        lambda jobs: jobs[:1],
        lambda jobs: [*jobs, stored(jobset(rjob("c")))["spec"]["replicatedJobs"][0]],
        lambda jobs: [],
        lambda jobs: None,
    ],
)
def test_the_list_keeps_its_members_and_order(reshape: Any):
    assert (
        errors(OLD, changed(OLD, "replicatedJobs", to=reshape(OLD["spec"]["replicatedJobs"])))[0]
        == f"spec.replicatedJobs: {IMMUTABLE}"
    )


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        ((*POD, "containers", 0, "resources", "limits", "cpu"), "1000m"),
        ((*POD, "hostNetwork"), False),
        ((*POD, "tolerations"), []),
        ((*POD, "nodeSelector"), None),
        ((*RJOB, "template", "metadata"), {}),
        ((*JOB, "completionMode"), None),
        ((*POD, "restartPolicy"), ""),
        (("network",), None),
        (("successPolicy",), None),
        (("startupPolicy",), None),
        (("volumeClaimPolicies",), []),
        (("failurePolicy", "rules"), []),
        (("suspend",), True),
        (("suspend",), False),
        (("ttlSecondsAfterFinished",), 5),
        (("activeDeadlineSeconds",), None),
    ],
)
def test_what_means_the_same_or_is_mutable_passes(keys: tuple[str | int, ...], value: Any):
    assert errors(OLD, changed(OLD, *keys, to=value)) == []


@pytest.mark.parametrize("value", ["acme.io/bar", None])
def test_managed_by_is_immutable(value: str | None):
    assert errors(OLD, changed(OLD, "managedBy", to=value)) == [f"spec.managedBy: {IMMUTABLE}"]
    assert errors(stored(jobset()), stored(jobset(managedBy="acme.io/bar"))) == [f"spec.managedBy: {IMMUTABLE}"]


@pytest.mark.parametrize(
    ("policy", "value", "place"),
    [
        ("network", {"enableDNSHostnames": False}, ".enableDNSHostnames"),
        ("network", {"subdomain": "other"}, ".subdomain"),
        ("successPolicy", {"operator": "Any"}, ".operator"),
        ("startupPolicy", {"startupPolicyOrder": "InOrder"}, ".startupPolicyOrder"),
        ("failurePolicy", None, ""),
        ("failurePolicy", {"maxRestarts": 3, "restartStrategy": "Recreate"}, ".maxRestarts"),
        ("volumeClaimPolicies", [{"templates": []}], ""),
    ],
)
def test_policies_can_be_neither_changed_nor_added_nor_removed(policy: str, value: Any, place: str):
    rule = IMMUTABLE if not place else CEL
    assert errors(OLD, changed(OLD, policy, to=value)) == [f"spec.{policy}{place}: {rule}"]


def test_a_removed_policy_that_was_no_default_is_missed():
    old = stored(jobset(successPolicy={"operator": "Any"}))
    assert errors(old, changed(old, "successPolicy", to=None)) == [f"spec.successPolicy.operator: {CEL}"]


SCHEDULING = [
    ((*JOB, "template", "metadata"), {"annotations": {"a": "b"}, "labels": {"c": "d"}}),
    ((*POD, "nodeSelector"), {"zone": "z"}),
    ((*POD, "tolerations"), [{"key": "k", "operator": "Exists"}]),
    ((*POD, "schedulingGates"), [{"name": "g"}]),
]


@pytest.mark.parametrize(("keys", "value"), SCHEDULING)
@pytest.mark.parametrize(("before", "after"), [(True, True), (True, False), (False, True), (None, True)])
def test_scheduling_fields_may_change_when_old_or_new_is_suspended(keys: Any, value: Any, before: Any, after: Any):
    old = changed(OLD, "suspend", to=before)
    assert errors(old, changed(changed(old, *keys, to=value), "suspend", to=after)) == []


@pytest.mark.parametrize(("keys", "value"), SCHEDULING)
def test_scheduling_fields_do_not_change_while_it_runs(keys: Any, value: Any):
    found = errors(OLD, changed(OLD, *keys, to=value))
    assert found
    assert all(text.startswith(f"{T}.") and text.endswith(IMMUTABLE) for text in found)


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        ((*RJOB, "template", "metadata"), {"labels": {"a": "b"}}),
        ((*POD, "priorityClassName"), "high"),
        ((*POD, "affinity"), {"nodeAffinity": {}}),
        ((*POD, "containers", 0, "resources", "limits", "cpu"), "2"),
        ((*JOB, "parallelism"), 2),
    ],
)
def test_nothing_else_changes_while_suspended(keys: Any, value: Any):
    old = changed(OLD, "suspend", to=True)
    [found] = errors(old, changed(old, *keys, to=value))
    assert found.startswith(f"{R}.template")
    assert found.endswith(IMMUTABLE)


def resized(js: JSON, parallelism: int | None, completions: int | None) -> JSON:
    return changed(changed(js, *JOB, "parallelism", to=parallelism), *JOB, "completions", to=completions)


SIZE = "spec.replicatedJobs[0].template.spec"


@pytest.mark.parametrize(
    ("parallelism", "completions", "expected"),
    [
        (3, 3, []),
        (1, 1, []),
        (3, 2, [f"{SIZE}.completions: completions must be equal to parallelism for Elastic Indexed Jobs"]),
        (
            0,
            0,
            [
                "spec.coordinator.podIndex: coordinator pod index 0 is invalid for replicatedJob a job index 0",
                f"{SIZE}.completions: completions must be >= 1",
                f"{SIZE}.parallelism: parallelism must be >= 1",
            ],
        ),
    ],
)
def test_elastic_sets_may_be_resized(parallelism: int, completions: int, expected: list[str]):
    assert errors(OLD, resized(OLD, parallelism, completions), ELASTIC) == expected


def test_a_growth_is_held_to_the_limits_of_creation():
    old = stored(jobset(rjob(parallelism=9, completions=9), name="n" * 45))
    long = resized(old, 1001, 1001)
    assert errors(old, long, ELASTIC) == [
        "spec.replicatedJobs[0].name: JobSet name is too long, pod names generated for this JobSet will exceed 63 characters"
    ]


def test_a_changed_coordinator_is_checked_and_an_unchanged_one_is_not():
    assert errors(OLD, changed(OLD, "coordinator", to={"replicatedJob": "b"})) == []
    assert errors(OLD, changed(OLD, "coordinator", to={"replicatedJob": "x"})) == [
        "spec.coordinator.replicatedJob: coordinator replicatedJob x does not exist"
    ]
    odd = changed(OLD, "coordinator", to={"replicatedJob": "x"})
    assert errors(odd, changed(odd, "suspend", to=True)) == []


def test_an_object_of_the_go_jobset_passes_with_its_empty_objects():
    old = copy.deepcopy(OLD)
    for entry in old["spec"]["replicatedJobs"]:
        entry["template"]["metadata"] = {}
        entry["template"]["spec"]["template"]["metadata"] = {}
        entry["template"]["spec"]["template"]["spec"]["containers"][0].setdefault("resources", {})
    assert errors(old, OLD) == []


def test_metadata_and_status_are_free():
    new = copy.deepcopy(OLD)
    new["metadata"] |= {"annotations": {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}, "finalizers": []}
    new["status"] = {"restarts": 1}
    assert errors(OLD, new) == []


def test_what_is_no_jobset_gets_a_field_error():
    assert errors(OLD, changed(OLD, *RJOB, "replicas", to="x")) == [
        "spec.replicatedJobs[0].replicas: must be of type integer, is a string"
    ]


def test_what_is_stored_already_is_not_refused_again():
    old = changed(OLD, *JOB, "activeDeadlineSeconds", to="soon")
    assert errors(old, changed(old, "suspend", to=True)) == []
    assert len(errors(old, changed(old, *JOB, "activeDeadlineSeconds", to="later"))) == 1


def test_replicas_may_not_grow_where_pods_would_be_refused():
    old = stored(jobset(rjob("a"), rjob("b", replicas=0, job={"completionMode": "NonIndexed"})))
    old["metadata"]["annotations"] = EXCLUSIVE
    new = changed(old, "replicatedJobs", 1, "replicas", to=1)
    assert [error.rule.id for error in engine(ELASTIC).findings_about_update(old, new).errors] == [
        "exclusive-non-indexed"
    ]


EXCLUSIVE = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}


def test_a_deadline_that_would_have_no_effect_is_refused_and_a_stored_one_may_stay():
    late = changed(OLD, "activeDeadlineSeconds", to=60)
    assert errors(OLD, late)[0].startswith("spec.activeDeadlineSeconds: needs the feature gate")
    assert errors(OLD, late, FeatureGates({"JobSetActiveDeadlineSeconds": True})) == []
    assert errors(late, changed(late, "activeDeadlineSeconds", to=90)) == []


@pytest.mark.parametrize(
    ("retention", "what"),
    [("Retain", "it and its pods: "), ("Delete", "it, its pods and its claims with their data: ")],
)
def test_what_never_changes_comes_with_the_commands_that_replace_the_set(retention, what):
    claims = [
        {"templates": [{"metadata": {"name": "data"}, "spec": {}}], "retentionPolicy": {"whenDeleted": retention}}
    ]
    old = stored(jobset(volumeClaimPolicies=claims))
    new = copy.deepcopy(old)
    new["spec"]["replicatedJobs"][0]["template"]["spec"]["backoffLimit"] = 1
    old["metadata"]["namespace"] = "team-a"
    del new["metadata"]["namespace"]  # as `jobset validate` may read it
    (warned,) = engine(FeatureGates()).findings_about_update(old, new).warnings
    assert warned.fix == f"to replace {what}kubectl delete jobset train -n team-a && kubectl apply -f FILE"


@pytest.mark.parametrize(
    ("user", "said"), [("ann", True), ("system:serviceaccount:kueue-system:kueue-controller-manager", False)]
)
async def test_a_controller_is_not_told_to_replace_the_set(user: str, said: bool):
    old = stored(jobset())
    new = copy.deepcopy(old)
    new["spec"]["replicatedJobs"][0]["template"]["spec"]["backoffLimit"] = 1
    body = review(new, old)
    body["request"]["userInfo"] = {"username": user}
    answer = await ask(body)
    assert not answer["allowed"]
    assert bool(answer.get("warnings")) == said
