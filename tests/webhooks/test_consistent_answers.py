"""One answer: nothing hides another mistake, and its proposals fit together."""

import pytest

from api.features import FeatureGates
from app.engine import engine
from tests.support.objects.jobsets import JSON, jobset, rjob

ENGINE = engine(FeatureGates())


def test_a_depends_on_of_another_type_is_named_once():
    assert [str(error.path) for error in ENGINE.findings_about_new(jobset(rjob(dependsOn="b"))).errors] == [
        "spec.replicatedJobs[0].dependsOn"
    ]


@pytest.mark.parametrize(
    "spec",
    [
        {"coordinator": {"replicatedJob": "coordinater"}},
        {"successPolicy": {"operator": "All", "targetReplicatedJobs": ["coordinater"]}},
    ],
)
def test_a_name_that_has_to_change_is_proposed_as_it_has_to_become(spec: JSON):
    found = {
        str(error.path): error.fix for error in ENGINE.findings_about_new(jobset(rjob("Coordinator"), **spec)).errors
    }
    renamed = found.pop("spec.replicatedJobs[0].name")
    assert renamed.endswith('change the ReplicatedJob\'s name to "coordinator"')
    assert list(found.values()) == ['did you mean "coordinator"?']


def test_a_reference_to_the_name_to_come_is_right_after_the_renaming():
    js = jobset(rjob("data"), rjob("Coordinator"), coordinator={"replicatedJob": "coordinator"})
    (fix,) = (
        error.fix
        for error in ENGINE.findings_about_new(js).errors
        if str(error.path) == "spec.coordinator.replicatedJob"
    )
    assert fix == 'right once "Coordinator" is renamed to it'


def test_a_wait_for_the_name_to_come_is_right_after_the_renaming():
    js = jobset(rjob("Data"), rjob("b", dependsOn=[{"name": "data", "status": "Ready"}]))
    assert 'right once "Data" is renamed to it' in " ".join(error.fix for error in ENGINE.findings_about_new(js).errors)


@pytest.mark.parametrize(("amount", "whole"), [(0.5, 1), (2.5, 3)])
def test_a_part_of_a_device_gets_the_whole_number_at_once(amount: float, whole: int):
    pod = {"containers": [{"name": "main", "image": "busybox", "resources": {"limits": {"nvidia.com/gpu": amount}}}]}
    (error,) = ENGINE.findings_about_new(jobset(rjob(pod=pod))).errors
    assert error.fix == f"write {whole}: devices are whole numbers"
