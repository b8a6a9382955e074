"""Fields that a client of an update has left out because its types do not have them are put back as they were stored."""

import copy
from typing import Any

import pytest

from api.own_fields import OWN_FIELDS
from policy.recorded import ANNOTATION as DEFAULTS
from tests.support.objects.jobsets import JSON, jobset, rjob, stored
from tests.support.work import steps
from webhooks.jobset.update.forgotten import MAX_RESTORED_FIELDS, restore_fields
from webhooks.json_patch import PatchDraft
from webhooks.review import AdmissionRequest

APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
VALUES: dict[tuple[str, ...], Any] = {
    ("executionPolicy",): {"executionPolicyOrder": "InOrder"},
    ("scheduling",): {},
    ("activeDeadlineSeconds",): 60,
    ("successPolicy", "minSucceeded"): "80%",
    ("successPolicy", "unit"): "Pod",
    ("failurePolicy", "failOn"): "FailureTarget",
    ("failurePolicy", "inPlaceRestarts"): 2,
    ("failurePolicy", "startTimeoutSeconds"): 600,
    ("failurePolicy", "nodeFailure"): {"afterSeconds": 30},
    ("failurePolicy", "maintenance"): {"taintKeys": ["drain"]},
    ("failurePolicy", "agent"): {"image": "agent"},
    ("failurePolicy", "avoidNodes"): {},
    ("failurePolicy", "rules", "*", "onExitCodes"): {"operator": "In", "values": [3]},
    ("failurePolicy", "rules", "*", "onPodReasons"): ["Evicted"],
    ("failurePolicy", "rules", "*", "maxRestarts"): 0,
    ("failurePolicy", "rules", "*", "then"): [{"afterRestarts": 1, "action": "FailJobSet"}],
    ("replicatedJobs", "*", "exitCodePolicy"): {"permanent": [3]},
    ("replicatedJobs", "*", "elastic"): {"min": 1, "max": 2},
    ("replicatedJobs", "*", "spareFor"): "b",
}
POD = {
    "volumes": [{"name": "v", "emptyDir": {"mode": 493}}],
    "nodeSelector": {"a": "b"},
    "hostnameOverride": "h",
    "hostUsers": False,
}


def whole(**pod: Any) -> JSON:
    """A stored JobSet with every field of ours."""
    rules = [{"name": "a", "action": "RestartJobSet"}, {"name": "b", "action": "FailJobSet"}]
    js = stored(jobset(rjob("x"), rjob("y", pod=pod), suspend=True, failurePolicy={"maxRestarts": 3, "rules": rules}))
    for parts, value in VALUES.items():
        for holder in holders(js["spec"], parts):
            holder[parts[-1]] = copy.deepcopy(value)
    return js


def holders(spec: JSON, parts: tuple[str, ...]) -> list[JSON]:
    """The objects that hold a field."""
    found: list[Any] = [spec]
    for part in parts[:-1]:
        found = [item for holder in found for item in (holder if part == "*" else [holder[part]])]
    return found


def as_go_knows_it(js: JSON) -> JSON:
    """What a client with the types of the Go JobSet writes back."""
    known = copy.deepcopy(js)
    for parts in OWN_FIELDS:
        for holder in holders(known["spec"], parts):
            holder.pop(parts[-1], None)
    return known


def update(old: JSON, new: JSON, manager: str = "") -> tuple[JSON, list[str]]:
    """What is stored, and the places of the warnings."""
    draft = PatchDraft(copy.deepcopy(new))
    found = restore_fields(draft, old, manager)
    return draft.object, [str(error.path) for error in found]


def test_every_field_that_go_does_not_have_is_one_of_them():
    assert {*OWN_FIELDS} == {*VALUES}


def test_nothing_of_ours_is_lost_whatever_a_typed_client_changes():
    old = whole()
    new = as_go_knows_it(old)
    new["spec"]["suspend"] = False
    new["metadata"]["labels"] = {"a": "b"}
    kept, paths = update(old, new)
    assert kept == {**old, "spec": {**old["spec"], "suspend": False}, "metadata": new["metadata"]}
    assert paths[:2] == ["spec.executionPolicy", "spec.scheduling"]
    assert len(paths) == 8


def test_items_are_found_by_name_and_renamed_ones_get_nothing():
    old = whole()
    new = as_go_knows_it(old)
    new["spec"]["replicatedJobs"].reverse()
    new["spec"]["failurePolicy"]["rules"][0]["name"] = "other"
    kept, _ = update(old, new)
    assert [rjob["name"] for rjob in kept["spec"]["replicatedJobs"]] == ["y", "x"]
    assert all("exitCodePolicy" in rjob for rjob in kept["spec"]["replicatedJobs"])
    assert "onExitCodes" not in kept["spec"]["failurePolicy"]["rules"][0]
    assert "onExitCodes" in kept["spec"]["failurePolicy"]["rules"][1]


def test_what_the_client_writes_itself_stays_as_it_writes_it():
    old = whole()
    new = copy.deepcopy(old)
    new["spec"]["activeDeadlineSeconds"] = 90
    del new["spec"]["successPolicy"]
    assert update(old, new) == (new, [])


def test_a_field_without_its_parent_is_not_put_back():
    old = whole()
    new = as_go_knows_it(old)
    del new["spec"]["failurePolicy"]
    kept, _ = update(old, new)
    assert "failurePolicy" not in kept["spec"]


class TestOnPurpose:
    def test_who_applies_a_manifest_means_what_is_absent(self):
        old = whole()
        old["metadata"]["annotations"] = {APPLIED: "with"}
        new = as_go_knows_it(old)
        new["metadata"]["annotations"] = {APPLIED: "without"}
        assert update(old, new) == (new, [])

    @pytest.mark.parametrize(
        ("options", "applies"),
        [
            ({"fieldManager": "flux"}, True),
            ({"fieldManager": "kueue"}, False),
            ({"fieldManager": "status-only"}, False),
            ({"fieldManager": ["flux"]}, False),
            ({}, False),
            (None, False),
        ],
    )
    def test_so_does_a_server_side_apply(self, options, applies):
        request = AdmissionRequest(uid="u", options=options)
        old = whole()
        new = as_go_knows_it(old)
        new["metadata"]["managedFields"] = [
            {"manager": "flux", "operation": "Apply"},
            {"manager": "kueue", "operation": "Update"},
            {"manager": "status-only", "operation": "Apply", "subresource": "status"},
        ]
        kept, _ = update(old, new, manager=request.field_manager)
        assert (kept == new) == applies

    def test_the_annotation_names_fields_that_are_to_go(self):
        old = whole()
        new = as_go_knows_it(old)
        new["metadata"]["annotations"] = {"jobset.sigs.k8s.io/removed-fields": "activeDeadlineSeconds, spec.scheduling"}
        kept, paths = update(old, new)
        assert "activeDeadlineSeconds" not in kept["spec"]
        assert "scheduling" not in kept["spec"]
        assert paths[0] == "spec.executionPolicy"

    def test_a_client_that_copies_the_annotation_removes_nothing(self):
        old = whole()
        old["metadata"]["annotations"] = {"jobset.sigs.k8s.io/removed-fields": "activeDeadlineSeconds"}
        kept, paths = update(old, as_go_knows_it(old))
        assert kept == old
        assert "spec.activeDeadlineSeconds" in paths

    @pytest.mark.parametrize(
        ("annotations", "is_removed"),
        [
            ({DEFAULTS: '{"tenants": ["labels[a]"]}'}, True),
            ({DEFAULTS: '{"tenants": ["labels[a]", "activeDeadlineSeconds"]}'}, False),
            ({}, False),
        ],
    )
    def test_the_deadline_of_a_policy_goes_with_its_name_in_the_annotation(self, annotations, is_removed):
        old = whole()
        old["metadata"]["annotations"] = {DEFAULTS: '{"tenants": ["labels[a]", "activeDeadlineSeconds"]}'}
        new = as_go_knows_it(old)
        new["metadata"]["annotations"] = annotations
        kept, _ = update(old, new)
        assert ("activeDeadlineSeconds" not in kept["spec"]) == is_removed


class TestTemplates:
    """Fields of pods that are newer than the client's Kubernetes."""

    def resumed(self, old: JSON) -> JSON:
        """By a queue that knows neither the mode of a volume nor hostnameOverride."""
        new = as_go_knows_it(old)
        new["spec"]["suspend"] = False
        pod = new["spec"]["replicatedJobs"][1]["template"]["spec"]["template"]
        del pod["spec"]["volumes"][0]["emptyDir"]["mode"], pod["spec"]["hostnameOverride"]
        del pod["spec"]["nodeSelector"]
        pod["metadata"] = {"labels": {"flavor": "spot"}}
        return new

    def test_they_are_put_back_and_what_a_queue_changes_is_not(self):
        old = whole(**POD)
        kept, _ = update(old, self.resumed(old))
        pod = kept["spec"]["replicatedJobs"][1]["template"]["spec"]["template"]
        assert pod["metadata"] == {"labels": {"flavor": "spot"}}
        assert pod["spec"] == {
            key: value
            for key, value in old["spec"]["replicatedJobs"][1]["template"]["spec"]["template"]["spec"].items()
            if key != "nodeSelector"
        }

    def test_who_leaves_out_what_every_client_knows_is_told_that_it_does_not_change(self):
        old = whole(**POD)
        new = copy.deepcopy(old)
        pod = new["spec"]["replicatedJobs"][1]["template"]["spec"]["template"]["spec"]
        del pod["hostUsers"], pod["volumes"][0]["emptyDir"]
        assert update(old, new) == (new, [])


def test_lists_of_other_lengths_and_broken_objects_are_left_alone():
    old = whole(**POD)
    for broken in (None, [], "x", {"replicatedJobs": {"a": 1}, "failurePolicy": []}, {"replicatedJobs": [None, 3, {}]}):
        new = {**old, "spec": broken}
        assert update(old, new)[0].get("spec") is not None or broken is None
        assert update(new, old)[0] == old
        assert update({}, old)[0] == old


def test_what_is_put_back_and_the_work_are_bounded():
    many = [rjob(f"g{i}", pod={"hostnameOverride": "h"}) for i in range(MAX_RESTORED_FIELDS + 10)]
    old = stored(jobset(*many, suspend=True))
    new = copy.deepcopy(old)
    for group in new["spec"]["replicatedJobs"]:
        del group["template"]["spec"]["template"]["spec"]["hostnameOverride"]
    kept, paths = update(old, new)
    back = [rjob["template"]["spec"]["template"]["spec"] for rjob in kept["spec"]["replicatedJobs"]]
    assert sum("hostnameOverride" in pod for pod in back) == MAX_RESTORED_FIELDS
    assert len(paths) == 8


def test_a_plain_set_that_is_suspended_or_resumed_pays_nearly_nothing():
    old = stored(jobset(rjob("x")))
    new = {**old, "spec": {**old["spec"], "suspend": True}}
    assert steps(lambda: update(old, new)) < 3 * steps(lambda: copy.deepcopy(new))
