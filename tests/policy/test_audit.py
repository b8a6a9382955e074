"""What an audit says about stored JobSets: counts, the first violations, and that memory is bounded."""

from datetime import UTC, datetime
from operator import attrgetter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy import audit as module
from policy.audit import Audit, FirstResults, audit_json
from policy.exception_types import read_exception
from policy.judged import JudgedJobSet, Namespace
from policy.status_types import MAX_SHOWN, AuditedViolation
from policy.types import Exceptions, JobSetPolicy
from tests.support.objects.jobsets import rjob
from tests.support.objects.policies import exception, judged, policy

AT = datetime(2030, 1, 1, tzinfo=UTC)
TIME = "2030-01-01T00:00:00Z"
HERE = Namespace("default")
LIMITS = policy("limits", ("Audit",), maxJobs={"max": 1}, ttl={"required": True})


def js(name: str = "train", jobs: int = 9, **spec: object) -> JudgedJobSet:
    return judged(rjob(replicas=jobs), metadata={"name": name}, **spec)


def audited(*subjects: JudgedJobSet, policies: tuple[JobSetPolicy, ...] = (LIMITS,), reports: bool = False) -> Audit:
    found = Audit(policies, reports=reports)
    for each in subjects:
        found.add(each, HERE, (), AT)
    return found


def test_each_rule_that_a_jobset_breaks_counts_once_whatever_the_policy_does():
    other = policy("others", match={"objectSelector": {"matchLabels": {"team": "b"}}}, maxJobs={"max": 1})
    small = js("small", 1, ttlSecondsAfterFinished=5)
    found = audited(js(), small, policies=(LIMITS, other))
    of_limits, of_others = found.result("limits", TIME), found.result("others", TIME)
    assert (of_limits.jobsets, of_limits.violations, of_limits.unchecked) == (2, 2, 0)
    assert [(each.namespace, each.name, each.rule) for each in of_limits.first] == [
        ("default", "train", "maxJobs"),
        ("default", "train", "ttl"),
    ]
    assert of_limits.first[0].message.startswith("spec.replicatedJobs[0].replicas: ")
    assert "9 Jobs, and at most 1 allowed" in of_limits.first[0].message
    assert (of_others.jobsets, of_others.violations, of_others.first) == (0, 0, ())


def test_what_an_exception_allows_is_no_violation():
    spec = msgspec.structs.replace(LIMITS.spec, exceptions=Exceptions(max_duration="1h"))
    allowing = msgspec.structs.replace(LIMITS, spec=spec)
    found = Audit((allowing,))
    found.add(js(), HERE, [read_exception(exception())], AT)
    assert [each.rule for each in found.result("limits", TIME).first] == ["ttl"]


def test_a_rule_that_fails_is_counted_and_the_others_are_checked(monkeypatch: pytest.MonkeyPatch):
    def broken(_: object) -> None:
        raise KeyError

    monkeypatch.setattr(JudgedJobSet, "job_count", property(broken))
    found = audited(js()).result("limits", TIME)
    assert (found.unchecked, [each.rule for each in found.first]) == (1, ["ttl"])


def test_the_status_is_bounded_and_the_same_in_whatever_order_jobsets_come():
    many = [js(f"train-{number:03}") for number in range(50)]
    first = audited(*many).result("limits", TIME)
    assert audited(*reversed(many)).result("limits", TIME) == first
    assert first.violations == 100
    assert [each.name for each in first.first] == [f"train-{number // 2:03}" for number in range(MAX_SHOWN)]


def test_a_patch_leaves_nothing_of_an_earlier_audit():
    written = audit_json(audited().result("limits", TIME))
    assert written == {"time": TIME, "jobsets": 0, "violations": 0, "unchecked": 0, "first": []}
    shown = audit_json(audited(js()).result("limits", TIME))["first"]
    assert shown[0].keys() == {"namespace", "name", "rule", "message"}  # type: ignore[index]
    assert AuditedViolation.__struct_fields__ == ("namespace", "name", "rule", "message")


def test_results_by_namespace_are_kept_only_for_reports_and_are_bounded(monkeypatch: pytest.MonkeyPatch):
    assert audited(js()).reports == {}
    monkeypatch.setattr(module, "MAX_REPORTS", 1)
    found = audited(js(), policies=(LIMITS, policy("more", ttl={"required": True})), reports=True)
    assert {key: first.count for key, first in found.reports.items()} == {("default", "limits"): 2}


@given(st.lists(st.integers(0, 60)), st.integers(1, 9))
def test_the_first_results_are_those_of_a_whole_sort(numbers: list[int], most: int):
    first = FirstResults(most)
    results = [AuditedViolation(namespace="ns", name=f"{number:03}", rule="rule") for number in numbers]
    for result in results:
        first.add(result)
    assert (first.count, first.results) == (len(results), sorted(results, key=attrgetter("name"))[:most])
