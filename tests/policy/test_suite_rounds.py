"""Which tests an API server can judge at the same time, which exceptions are stored for them, and what is sent."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from authoring.suite_server import SentTest, _place_jobset, _resource, _with_audit, _without_probe_namespace
from policy.exception_types import read_exception
from policy.suites import probes
from policy.suites.rounds import MIN_REMAINING, rounds, standing_exceptions
from policy.suites.types import Suite, SuiteContents, SuiteNamespace, SuiteTest
from policy.types import read_policy
from tests.support.objects.policies import exception, manifest

NOW = datetime(2026, 11, 23, tzinfo=UTC)


def case(name: str = "a", namespace: str = "default", labels: dict[str, str] | None = None, **more: str) -> SuiteTest:
    return SuiteTest(name="a", jobset=name, namespace=SuiteNamespace(name=namespace, labels=labels or {}), **more)


def loaded(*tests: SuiteTest, exceptions: Any = (), allowed: Any = None) -> SuiteContents:
    policy = manifest(maxJobs={"max": 1})
    policy["spec"]["exceptions"] = {"allowedNamespaces": allowed or {}, "maxDuration": "1d"}
    return SuiteContents(
        suite=Suite(tests=tests), policies=[read_policy(policy)], exceptions=list(map(read_exception, exceptions))
    )


def planned(*tests: SuiteTest, **more: Any) -> list[list[int]]:
    return [each.test_indexes for each in rounds(loaded(*tests, **more), range(len(tests)))]


def test_tests_that_agree_are_of_one_round():
    other = {"gpus": "8"}
    assert planned(*[case(f"set-{n}") for n in range(300)]) == [list(range(300))]
    assert planned(case(), case(labels=other), case(namespace="b", labels=other), case()) == [[0, 2, 3], [1]]


def test_a_name_is_stored_once_at_a_time_and_new_jobsets_come_first():
    updates = [SuiteTest(name="a", jobset=name, old_jobset=old) for name, old in [("a", "x"), ("a", "y"), ("a", "")]]
    updates.append(SuiteTest(name="a", jobset="b", old_jobset="x"))
    assert planned(*updates) == [[2, 3], [0], [1]]
    first, second, third = rounds(loaded(*updates), range(4))
    assert (first.old_jobsets, second.old_jobsets, third.old_jobsets) == (
        {("default", "b"): "x"},
        {("default", "a"): "x"},
        {("default", "a"): "y"},
    )


def test_times_part_tests_only_where_there_are_exceptions():
    times = case(time="2030-01-01T00:00:00Z"), case(time="2030-06-01T00:00:00Z"), case(namespace="b")
    assert planned(*times) == [[0, 1, 2]]
    assert planned(*times, exceptions=[exception()]) == [[0, 2], [1]]


@pytest.mark.parametrize(
    ("time", "left"),
    [
        ("2030-01-01T06:00:00Z", timedelta(hours=18)),
        ("2030-01-01T23:59:59Z", MIN_REMAINING),
        ("2030-01-02T00:00:00Z", None),
        ("", timedelta(days=1)),
    ],
)
def test_an_exception_is_stored_with_as_much_time_as_it_has_left(time: str, left: timedelta | None):
    """It ends a day after it was created, which is the most that its policy allows."""
    suite = loaded(case(time=time), exceptions=[exception(), exception(policy="none")])
    (only,) = rounds(suite, [0])
    found = standing_exceptions(suite, only, NOW)
    assert [(where, ends - NOW) for where, _, ends in found] == ([] if left is None else [("default", left)])


def test_an_exception_that_its_policy_does_not_allow_is_not_stored():
    suite = loaded(case(), exceptions=[exception()], allowed={"matchLabels": {"a": "b"}})
    assert standing_exceptions(suite, rounds(suite, [0])[0], NOW) == []


def test_policies_are_stored_so_that_every_violation_is_recorded():
    for actions, stored in ((["Deny"], ["Deny", "Audit"]), (["Audit"], ["Audit"]), ([], ["Warn", "Audit"])):
        assert _with_audit(manifest(actions=tuple(actions)))["spec"]["validationActions"] == stored


def test_jobsets_are_sent_under_the_name_and_in_the_namespace_of_the_test():
    sent = _place_jobset(
        {"metadata": {"name": "a", "labels": None}, "spec": {}, "status": {"restarts": 1}}, "team-a", "b"
    )
    assert sent == {"metadata": {"name": "b", "namespace": "team-a"}, "spec": {}}


def test_bindings_leave_the_namespace_of_the_looks_alone():
    chosen = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]}
    body = {"kind": "ValidatingAdmissionPolicyBinding", "spec": {"matchResources": {"namespaceSelector": chosen}}}
    found = _without_probe_namespace(body)["spec"]["matchResources"]["namespaceSelector"]
    assert found["matchLabels"] == {"a": "b"}
    assert found["matchExpressions"][1]["values"] == [probes.NAME]
    policy = {"kind": "ValidatingAdmissionPolicy", "spec": {}}
    assert _without_probe_namespace(policy) is policy


def test_admission_policies_are_found_where_they_are_served():
    path = "/apis/admissionregistration.k8s.io/v1"
    assert [_resource(body).path(None) for body in probes.admission(1)] == [
        f"{path}/mutatingadmissionpolicies",
        f"{path}/validatingadmissionpolicies",
        f"{path}/mutatingadmissionpolicybindings",
        f"{path}/validatingadmissionpolicybindings",
    ]


def test_no_name_of_a_look_begins_with_another():
    assert not probes.name(10).startswith(probes.name(1))


@pytest.mark.parametrize(
    ("code", "message", "verdict"),
    [
        (201, None, True),
        (422, "JobSet is invalid", True),
        (500, "internal error (KeyError) in rule maxJobs of policy limits", True),
        (500, 'Internal error occurred: failed calling webhook "vjobset.kb.io": context deadline exceeded', False),
        (409, "the object has been modified", False),
        (429, "too many requests", False),
    ],
)
def test_an_answer_of_nobody_who_has_judged_is_no_verdict(code: int, message: str | None, verdict: bool):
    assert SentTest("token", code, {"message": message} if message else {}, []).is_verdict is verdict
