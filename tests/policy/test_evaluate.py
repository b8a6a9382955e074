"""Which policies are about a JobSet, what becomes of violations, in which order, and how much work that is."""

import dataclasses
from typing import Any

import msgspec
import pytest

from policy.evaluate import MAX_FINDINGS_OF_RULE, violations
from policy.judged import Namespace
from policy.registry import RULES, Rules
from tests.support.objects.jobsets import rjob
from tests.support.objects.policies import judged, of_pod, policy, texts

LARGE = judged(rjob(replicas=9))


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ({}, True),
        ({"matchLabels": {"team": "a"}}, True),
        ({"matchLabels": {"team": "b"}}, False),
        ({"matchLabels": {"team": "a", "tier": "x"}}, False),
        ({"matchExpressions": [{"key": "team", "operator": "In", "values": ["b", "a"]}]}, True),
        ({"matchExpressions": [{"key": "team", "operator": "In", "values": ["b"]}]}, False),
        ({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}, False),
        ({"matchExpressions": [{"key": "other", "operator": "NotIn", "values": ["a"]}]}, True),
        ({"matchExpressions": [{"key": "team", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "other", "operator": "DoesNotExist"}]}, True),
        ({"matchLabels": {"team": "a"}, "matchExpressions": [{"key": "x", "operator": "Exists"}]}, False),
    ],
)
@pytest.mark.parametrize("kind", ["namespaceSelector", "objectSelector"])
def test_selectors_mean_what_the_api_server_means(selector: Any, selected: bool, kind: str):
    js = judged(rjob(replicas=9), metadata={"labels": {"team": "a"}} if kind == "objectSelector" else {})
    namespace = Namespace("n", {"team": "a"} if kind == "namespaceSelector" else {})
    limits = policy(match={kind: selector}, maxJobs={"max": 1})
    assert bool(violations([limits], js, namespace)) is selected


def test_a_rule_that_raises_keeps_no_other_from_being_checked(monkeypatch: pytest.MonkeyPatch):
    def find(*_: object) -> Any:
        raise KeyError

    monkeypatch.setitem(RULES, "max_jobs", dataclasses.replace(RULES["max_jobs"], find=find))  # type: ignore[arg-type]
    both, heard = policy(maxJobs={"max": 1}, ttl={"required": True}), []
    found = violations([both], LARGE, Namespace(), on_failure=lambda *failure: heard.append(failure))
    assert [violation.rule for violation in found] == ["ttl"]
    ((failed, rule, error),) = heard
    assert (failed, rule, type(error)) == (both, "maxJobs", KeyError)
    with pytest.raises(KeyError):
        violations([both], LARGE, Namespace())


@pytest.mark.parametrize(("actions", "warning"), [(("Deny",), False), (("Warn",), True), (("Audit",), True)])
def test_only_a_policy_that_denies_makes_errors(actions: tuple[str, ...], warning: bool):
    (found,) = violations([policy(actions=actions, maxJobs={"max": 1})], LARGE, Namespace())
    assert found.error.is_warning is warning
    assert str(found.error).endswith(
        "Forbidden: policy limits: 9 Jobs, and at most 1 allowed; reduce replicas: workers has 9"
    )


def test_every_violated_policy_is_named_and_places_are_in_order():
    found = texts(
        judged(rjob(replicas=9), managedBy="example.com/x"),
        policy("a", maxJobs={"max": 5}, managedBy={"allowed": ["example.com/y"]}),
        policy("b", maxJobs={"max": 9}),
        policy("c", maxJobs={"max": 3}),
    )
    assert [text.split(": ")[0] for text in found] == ["spec.managedBy", *["spec.replicatedJobs[0].replicas"] * 2]
    assert ["policy a" in found[1], "policy c" in found[2]] == [True, True]


class TestLimitsOfTheNamespace:
    """A limit is read from the namespace's label, else its annotation, else the policy."""

    limits = policy(maxJobs={"max": 4, "fromNamespaceLabel": "x/jobs", "fromNamespaceAnnotation": "x/more"})

    @pytest.mark.parametrize(
        ("labels", "annotations", "limit"),
        [
            ({}, {}, "at most 4 allowed;"),
            ({"x/jobs": "5"}, {}, "at most 5 allowed by label x/jobs of the namespace;"),
            ({}, {"x/more": "6"}, "at most 6 allowed by annotation x/more of the namespace;"),
            ({"x/jobs": "2"}, {"x/more": "6"}, "at most 2 allowed by label x/jobs of the namespace;"),
        ],
    )
    def test_which_one_counts(self, labels: dict[str, str], annotations: dict[str, str], limit: str):
        (text,) = texts(LARGE, self.limits, namespace=Namespace("n", labels, annotations))
        assert limit in text

    def test_a_larger_one_of_the_namespace_counts_too(self):
        assert texts(LARGE, self.limits, namespace=Namespace("n", {"x/jobs": "9"})) == []

    @pytest.mark.parametrize("text", ["many", "", "-1", "1.5", "1Gi", "\u0664"])
    def test_one_that_is_no_whole_number_is_a_violation_that_says_where_it_is(self, text: str):
        (found,) = texts(judged(), self.limits, namespace=Namespace("n", {"x/jobs": text}))
        assert f'the limit of Jobs is "{text}" by label x/jobs of the namespace, which is not a whole number' in found

    @pytest.mark.parametrize(("text", "found"), [("500m", 1), ("2Gi", 0), ("-1", 1), ("much", 1)])
    def test_one_of_a_resource_is_an_amount(self, text: str, found: int):
        limit = {"resources": [{"name": "cpu", "fromNamespaceLabel": "x/cpu"}]}
        large = of_pod(containers=[{"name": "a", "resources": {"requests": {"cpu": "4"}}}])
        said = texts(large, policy(maxTotals=limit), namespace=Namespace("n", {"x/cpu": text}))
        assert len(said) == found
        assert all("which is not an amount" in each for each in said) or text == "500m"

    def test_without_any_there_is_no_limit(self):
        assert texts(LARGE, policy(maxJobs={"fromNamespaceLabel": "x/jobs"})) == []


class TestUpdates:
    """A violation that is there already does not stand against a change of something else."""

    limits = policy(maxJobs={"max": 4}, ttl={"required": True})

    def test_what_was_stored_may_stay(self):
        old, new = judged(rjob(replicas=9), suspend=True), judged(rjob(replicas=9), suspend=False)
        assert texts(new, self.limits, old=old) == []

    def test_what_gets_worse_may_not(self):
        (found,) = texts(judged(rjob(replicas=10)), self.limits, old=LARGE)
        assert "10 Jobs" in found

    def test_what_gets_better_may_even_if_it_still_exceeds_the_limit(self):
        old = judged(rjob("a", replicas=9), rjob("b"), ttlSecondsAfterFinished=9)
        ours = policy(maxJobs={"max": 4}, maxTotals={"pods": {"max": 4}}, ttl={"max": 3})
        better = judged(rjob("a", replicas=2), rjob("b", replicas=6), ttlSecondsAfterFinished=8)
        assert texts(better, ours, old=old) == []
        assert len(texts(judged(rjob("a", replicas=2), rjob("b", replicas=9)), ours, old=old)) == 2

    def test_templates_are_compared_each_with_itself(self):
        old, new = (
            judged(rjob("a", job={"backoffLimit": a}), rjob("b", job={"backoffLimit": b})) for a, b in ((9, 5), (8, 6))
        )
        (found,) = texts(new, policy(backoffLimit={"max": 0}), old=old)
        assert found.startswith("spec.replicatedJobs[1].template.spec.backoffLimit: ")

    def test_a_limit_that_cannot_be_read_stands_only_against_what_grows(self):
        where = Namespace("n", {"x/jobs": "many"})
        ours = policy(maxJobs={"fromNamespaceLabel": "x/jobs"})
        assert texts(judged(rjob(replicas=8)), ours, namespace=where, old=LARGE) == []
        assert len(texts(judged(rjob(replicas=10)), ours, namespace=where, old=LARGE)) == 1

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ({"nodeSelector": {"rack": "0"}}, {"nodeSelector": {"rack": "7"}}),
            ({"nodeSelector": {"pool": "b"}}, {"nodeSelector": {"pool": "c"}}),
            ({"tolerations": [{"key": "t", "value": "a"}]}, {"tolerations": [{"key": "t", "value": "b"}]}),
        ],
        ids=["label", "value", "toleration"],
    )
    def test_another_value_of_what_is_forbidden_is_another_violation(self, old, new):
        allowed = {"nodeSelectors": {"allowed": [{"key": "pool", "values": ["a"]}]}, "tolerations": {"allowed": []}}
        before, after = (judged(rjob(pod=pod)) for pod in (old, new))
        assert texts(before, policy(**allowed), old=before) == []
        assert len(texts(after, policy(**allowed), old=before)) == 1

    def test_what_was_good_must_stay_so(self):
        old = judged(ttlSecondsAfterFinished=3)
        assert len(texts(judged(rjob(replicas=9)), self.limits, old=old)) == 2


@pytest.mark.parametrize(
    ("amount", "limit", "shown"),
    [
        ("3", "2", "3"),
        ("1500m", "1", "1500m"),
        ("3000", "1k", "3k"),
        ("2Gi", "1Gi", "2Gi"),
        ("2000M", "1Gi", "2G"),
        ("130Gi", "100G", "130Gi"),
        ("4096", "1k", "4096"),
    ],
)
def test_amounts_have_the_unit_of_the_limit_or_a_shorter_one(amount: str, limit: str, shown: str):
    js = judged(rjob(pod={"containers": [{"resources": {"requests": {"cpu": amount}}}]}))
    (found,) = texts(js, policy(maxTotals={"resources": [{"name": "cpu", "max": limit}]}))
    assert f"policy limits: {shown} cpu, and at most {limit} allowed" in found


def test_findings_of_one_rule_are_limited_and_do_not_hide_another_rule():
    pod = {"containers": [{"name": f"c{i}", "image": "nginx"} for i in range(200)]}
    found = violations([policy(imagesByDigest=True, maxJobs={"max": 0})], judged(rjob(pod=pod)), Namespace())
    assert [sum(one.rule == rule for one in found) for rule in ("imagesByDigest", "maxJobs")] == [
        MAX_FINDINGS_OF_RULE,
        1,
    ]


def test_each_rule_of_the_api_has_its_function():
    assert [rule.name for rule in RULES.values()] == [field.encode_name for field in msgspec.structs.fields(Rules)]
    assert [rule.name for rule in RULES.values() if not rule.find.__doc__] == []
