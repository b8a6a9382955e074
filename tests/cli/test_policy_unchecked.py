"""A suite in which a rule was never asked does not pass by that: `Pass` fails, and a test without `expect` says so."""

import json
from typing import Any

import pytest
import yaml

from tests.cli.test_policy_commands import LARGE, suite
from tests.support.objects.policies import exception, manifest

TENANT = {"example.com/tenant": "true"}


def tenants(**match: Any) -> dict[str, Any]:
    policy = manifest("tenants", maxJobs={"max": 10})
    policy["spec"]["match"] = match or {"namespaceSelector": {"matchLabels": TENANT}}
    return policy


def result(tool, test: dict[str, Any], *policies: dict[str, Any]) -> tuple[int, str]:
    return tool.test(suite({"name": "a", "jobset": "large", **test}), LARGE, *policies)[:2]


PASS = {"rule": "maxJobs", "action": "Pass"}


@pytest.mark.parametrize(
    ("test", "match", "said"),
    [
        (
            {"namespace": {"name": "team-a"}},
            {},
            'namespace team-a has no such label; write `labels: {example.com/tenant: "true"}` under `namespace` of the test',
        ),
        (
            {},
            {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "team-b"}}},
            "write `name: team-b` under `namespace` of the test",
        ),
        ({}, {"objectSelector": {"matchLabels": TENANT}}, "change the labels of the JobSet"),
        ({"expect": [{**PASS, "rule": "ttl"}]}, {}, "the suite has no policy with this rule"),
        ({"expect": [{**PASS, "policy": "tenant"}]}, {}, "the suite has no policy tenant with this rule"),
        ({"expect": [{**PASS, "rule": "ValidatingAdmissionPolicy"}]}, {}, "only an API server checks it"),
    ],
)
def test_pass_fails_where_the_rule_was_not_checked(test: dict[str, Any], match: dict[str, Any], said: str, tool):
    code, out = result(tool, {"expect": [PASS], **test}, tenants(**match))
    assert (code, out.count(": error: ")) == (1, 1)
    assert said in out


def test_pass_passes_where_one_policy_has_checked_the_rule(tool):
    labels = {"namespace": {"labels": TENANT}}
    assert result(tool, {"expect": [PASS], **labels}, tenants())[0] == 0
    assert result(tool, {"expect": [PASS]}, tenants(), manifest(maxJobs={"max": 10}))[0] == 0


def test_what_is_not_found_says_that_the_rule_was_not_checked(tool):
    code, out = result(tool, {"expect": [{"rule": "maxJobs", "action": "Deny"}]}, tenants())
    assert code == 1
    assert "found was: nothing by this rule: policy tenants: namespaceSelector wants example.com/tenant=true" in out


def test_a_test_about_which_no_policy_is_says_so_and_passes(tool):
    code, out = result(tool, {}, tenants())
    assert code == 0
    assert ": a (no policy matches: policy tenants: namespaceSelector wants example.com/tenant=true" in out
    _, out, _ = tool("test", "-o", "json", "s.yaml")
    assert json.loads(out)["tests"][0]["note"].startswith("no policy matches: ")
    as_yaml = tool("test", "-o", "yaml", "s.yaml")[1]
    assert (yaml.safe_load(as_yaml), as_yaml.startswith("{")) == (json.loads(out), False)
    assert result(tool, {}, manifest(maxJobs={"max": 10}))[1].startswith("ok    s.yaml: a\n")


def test_a_misspelt_rule_is_a_fault_of_the_suite(tool):
    code, out = result(tool, {"expect": [{"rule": "maxJob", "action": "Pass"}]}, tenants())
    assert code == 1
    assert 'tests[0].expect[0].rule: Unsupported value: "maxJob"' in out
    assert 'did you mean "maxJobs"?' in out


def test_a_path_that_alone_differs_is_said_with_the_one_that_was_found(tool):
    expect = [{"rule": "maxJobs", "action": "Deny", "path": "spec.replicatedJob[0]"}]
    code, out = result(tool, {"expect": expect}, manifest(maxJobs={"max": 1}))
    assert (code, out.count(": error: ")) == (1, 1)
    assert (
        'tests[0].expect[0].path: Invalid value: "spec.replicatedJob[0]": Deny by maxJobs was found as expected,'
        " but not at this path; it was found at: spec.replicatedJobs[0].replicas\n"
    ) in out


@pytest.mark.parametrize(
    ("time", "said"),
    [
        ({}, "without `time` no exception has ended: write a time after its end"),
        ({"time": "2030-06-01T00:00:00Z"}, ""),
    ],
)
def test_what_is_not_found_names_the_exception_that_excuses_it(time: dict[str, str], said: str, tool):
    limits = manifest(maxJobs={"max": 1})
    limits["spec"]["exceptions"] = {"allowedNamespaces": {}, "maxDuration": "900d"}
    expect = [{"rule": "maxJobs", "action": "Deny"}]
    code, out = result(tool, {"expect": expect, **time}, limits, exception())
    assert code == 1
    words = "found was: nothing by this rule: exception big-run excepts the JobSet from it"
    assert f"{words}; {said}" in out if said else f"{words}\n" in out
