"""Policies as the API server's own: what is written for them. tests/integration/test_policy_export.py evaluates it."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from api.features import FeatureGates
from kube.model.meta import JSON
from policy.cel import concat_texts, quote_text, text
from policy.compiled.defaults import mutating_objects
from policy.compiled.policy import Circumstances, compiled_name, validating_objects
from policy.exception_types import read_exception
from policy.registry import RULES
from policy.sentences import kebab
from policy.types import read_policy
from tests.support.objects.policies import exception, manifest, setting
from tests.support.pages.files import ROOT

NOW = datetime(2030, 6, 1, tzinfo=UTC)
NOBODY = Circumstances((), (), NOW)


def written(obj: JSON, beside: Circumstances = NOBODY) -> list[JSON]:
    return validating_objects(read_policy(obj), beside)


def spec(obj: JSON, beside: Circumstances = NOBODY) -> JSON:
    found: JSON = written(obj, beside)[0]["spec"]
    return found


def expressions(obj: JSON, beside: Circumstances = NOBODY) -> dict[str, str]:
    """Variables by name."""
    return {each["name"]: each["expression"] for each in spec(obj, beside)["variables"]}


def conditions(obj: JSON, beside: Circumstances = NOBODY) -> dict[str, str]:
    return {each["name"]: each["expression"] for each in spec(obj, beside)["matchConditions"]}


def example(name: str) -> JSON:
    found: JSON = next(iter(yaml.safe_load_all((ROOT / "examples" / "policies" / f"{kebab(name)}.yaml").read_text())))
    return found


def balanced(expression: str) -> bool:
    """Whether brackets outside texts are closed in order, and all texts are."""
    bare = re.sub(r"'(\\.|[^'\\])*'", "", expression)
    while (shorter := re.sub(r"\(\)|\[\]|\{\}", "", re.sub(r"[^\[\](){}']", "", bare))) != bare:
        bare = shorter
    return not bare


def with_another_value(demand: Any) -> Iterator[Any]:
    """The demand with one of its numbers or texts changed, or left out of several: each of them in turn."""
    match demand:
        case dict():
            yield from ({**demand, key: other} for key, part in demand.items() for other in with_another_value(part))
        case [_, _, *_]:
            yield from (demand[:i] + demand[i + 1 :] for i in range(len(demand)))
        case [part]:
            yield from ([other] for other in with_another_value(part))
        case int() if not isinstance(demand, bool):
            yield demand + 1
        case str():
            yield f"{demand}0"


@pytest.mark.parametrize("name", [rule.name for rule in RULES.values()])
def test_each_value_of_a_rule_is_in_what_is_compiled(name: str):
    policy = example(name)
    own = expressions(policy)
    for rules in with_another_value({name: policy["spec"]["rules"][name]}):
        other = {**policy, "spec": {**policy["spec"], "rules": {**policy["spec"]["rules"], **rules}}}
        assert expressions(other) != own, rules


def test_actions_failure_policy_and_selectors_are_those_of_the_policy():
    selector = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]}
    body = manifest(actions=("Deny", "Audit"), match={"namespaceSelector": selector}, maxJobs={"max": 1})
    body["spec"]["failurePolicy"] = "Ignore"
    policy, binding = written(body)
    assert (policy["kind"], binding["kind"]) == ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    assert policy["spec"]["failurePolicy"] == "Ignore"
    assert policy["spec"]["matchConstraints"]["namespaceSelector"] == selector
    assert binding["spec"] == {"policyName": "jobset-policy-limits", "validationActions": ["Deny", "Audit"]}


def test_an_object_selector_looks_at_the_labels_of_the_new_object():
    requirements = [
        {"key": "a", "operator": "In", "values": ["b", "c"]},
        {"key": "d", "operator": "NotIn", "values": ["e"]},
        {"key": "f", "operator": "DoesNotExist"},
    ]
    match = {"objectSelector": {"matchLabels": {"x": "y"}, "matchExpressions": requirements}}
    labels = "object.metadata.?labels.orValue({})"
    assert conditions(manifest(match=match, maxJobs={"max": 1}))["object-selector"] == (
        f"{labels}[?'x'] == optional.of('y') && ('a' in {labels} && {labels}['a'] in ['b', 'c'])"
        f" && !('d' in {labels} && {labels}['d'] in ['e']) && !('f' in {labels})"
    )


def test_updates_by_controllers_of_queues_and_of_what_is_deleted_are_not_judged():
    found = conditions(manifest(maxJobs={"max": 1}), Circumstances(("kueue",), (), NOW))
    assert found == {
        "not-in-deletion": "!has(object.metadata.deletionTimestamp)",
        "not-by-queues": "oldObject == null || !(request.userInfo.username in ['kueue'])",
    }


def test_a_limit_of_the_namespace_wins_and_one_that_is_none_is_a_finding():
    limit = {"max": 2, "fromNamespaceLabel": "jobs", "fromNamespaceAnnotation": "example.com/jobs"}
    found = expressions(manifest(maxJobs=limit))["maxJobs"]
    label, annotation = (
        f"namespaceObject.metadata.?{each}" for each in ("labels[?'jobs']", "annotations[?'example.com/jobs']")
    )
    assert found.index(label) < found.index(annotation) < found.index("['2', '']")
    assert "which is not a whole number; ask the administrator of the namespace to correct it" in found
    totals = {"resources": [{"name": "cpu", "fromNamespaceLabel": "cpus"}]}
    assert "which is not an amount; " in expressions(manifest(maxTotals=totals))["maxTotals"]


def test_a_policy_of_defaults_alone_has_nothing_to_validate():
    body = manifest()
    body["spec"] = {"defaults": {"labels": {"a": "b"}}}
    assert written(body) == []


def test_texts_of_a_policy_stay_texts():
    pattern = r"it's \d+' + (true"
    found = expressions(manifest(requiredLabels=[{"key": "a", "pattern": pattern}]))["requiredLabelsFound"]
    assert r"matches('^(?:it\'s \\d+\' + (true)$')" in found
    assert balanced(found)
    assert str(text("a\nb\\")) == r"'a\nb\\'"
    assert str(concat_texts("a", "b", quote_text(text("c")), "")).startswith("'ab' + strings.quote(size('c') > 200 ?")


def test_a_name_that_is_too_long_is_cut_and_stays_its_own():
    names = {compiled_name("a" * 250 + end) for end in ("b", "c")}
    assert (len(names), {len(name) for name in names}) == (2, {253})


class TestExceptions:
    """Exceptions in compiled policies."""

    def allowing(self, **allowed: Any) -> JSON:
        body = manifest(maxJobs={"max": 1}, ttl={"required": True})
        body["spec"]["exceptions"] = {"allowedNamespaces": {}, "maxDuration": "999d", **allowed}
        return body

    def maximum(self, body: JSON, *exceptions: JSON) -> str:
        beside = Circumstances((), [read_exception(each) for each in exceptions], NOW)
        found = expressions(body, beside)
        assert "timestamp" not in found["ttl"]
        return found["maxJobs"].partition(" ? ")[0]

    def test_one_counts_for_new_jobsets_until_its_end(self):
        selector = {"matchLabels": {"big": "yes"}}
        body = self.allowing(allowedNamespaces={"matchLabels": {"tenant": "true"}})
        assert self.maximum(body, exception(match={"names": ["final"], "objectSelector": selector})) == (
            "(oldObject == null && request.namespace == 'default'"
            " && namespaceObject.metadata.?labels.orValue({})[?'tenant'] == optional.of('true')"
            " && object.metadata.name in ['final'] && object.metadata.?labels.orValue({})[?'big'] == optional.of('yes')"
            " && timestamp(object.metadata.creationTimestamp) < timestamp('2031-01-01T00:00:00Z'))"
        )

    def test_it_ends_when_the_policy_says_so(self):
        assert "timestamp('2030-06-30T00:00:00Z')" in self.maximum(self.allowing(maxDuration="180d"), exception())

    def test_one_that_has_ended_or_is_not_allowed_is_left_out(self):
        body = self.allowing()
        assert "timestamp" not in self.maximum(body, exception(expiresAt="2030-05-31T00:00:00Z"))
        assert "timestamp" not in self.maximum(body, exception(policy="other"))
        del body["spec"]["exceptions"]
        assert "timestamp" not in self.maximum(body, exception())

    def test_there_may_be_so_many_that_some_do_not_count(self):
        many = [exception(name=f"e{i}") for i in range(120)]
        assert self.maximum(self.allowing(), *many).count("timestamp('") == 100


class TestDefaults:
    """Defaults as policies of the API server."""

    def written(self, *policies: JSON, gates: str = "") -> JSON:
        """The spec for the first of these policies; nothing if it has none."""
        read = [read_policy(each) for each in policies]
        found = mutating_objects(read[0], read, FeatureGates(dict.fromkeys(gates.split(), True)))
        spec: JSON = found[0]["spec"] if found else {}
        return spec

    def variables(self, *policies: JSON) -> dict[str, str]:
        return {each["name"]: each["expression"] for each in self.written(*policies)["variables"]}

    def test_they_are_for_new_jobsets_alone(self):
        spec = self.written(setting(ttlSecondsAfterFinished=60))
        assert spec["matchConstraints"]["resourceRules"][0]["operations"] == ["CREATE"]

    def test_one_that_another_policy_refuses_is_not_set_where_that_matches(self):
        there = {"namespaceSelector": {"matchLabels": {"strict": "true"}}}
        found = self.variables(
            setting(ttlSecondsAfterFinished=60, priorityClassName="low"), manifest("z", match=there, ttl={"max": 30})
        )
        strict = "!(namespaceObject.metadata.?labels.orValue({})[?'strict'] == optional.of('true'))"
        assert [found[name].endswith(strict) for name in ("set0", "set1")] == [True, False]

    def test_of_two_values_that_of_the_first_policy_is_set(self):
        one, other = setting("a", labels={"x": "1"}), setting("b", labels={"x": "2"})
        assert self.variables(one, other)["set0"] == "!object.?metadata.?labels[?'x'].hasValue()"
        assert self.variables(other, one)["set0"] == "!object.?metadata.?labels[?'x'].hasValue() && !(true)"
