"""`jobset policy export`: what it prints, what it says beside that, exit codes."""

import json

import pytest
import yaml

from tests.cli.test_policy_commands import EXAMPLES
from tests.support.objects.policies import exception, manifest


def test_the_examples_become_policies_and_bindings(tool):
    code, out, err = tool("export", "-f", str(EXAMPLES))
    found = list(yaml.safe_load_all(out))
    assert code == 0
    assert len(found) == 2 * len(list(EXAMPLES.glob("*.yaml")))
    assert {each["apiVersion"] for each in found} == {"admissionregistration.k8s.io/v1"}
    assert err.startswith("max-totals: maxTotals: approximate: may refuse more: ")


@pytest.mark.parametrize(
    ("absent", "end", "says"),
    [
        ("creationTimestamp", "2050", "timestamp(object.metadata.creationTimestamp) < timestamp('20"),
        ("namespace", "2099", "request.namespace == 'default'"),
    ],
)
def test_an_exception_is_named_with_its_end_without_a_namespace_for_default(tool, absent: str, end: str, says: str):
    allowing = manifest(maxJobs={"max": 1})
    allowing["spec"]["exceptions"] = {"allowedNamespaces": {}, "maxDuration": "9999d"}
    other = exception(expiresAt=f"{end}-01-01T00:00:00Z")
    del other["metadata"][absent]
    code, out, err = tool.export(allowing, other, flags=("-o", "json"))
    assert code == 0
    assert "exception default/big-run counts for new JobSets until 20" in err
    assert says in out


def test_json_is_a_list(tool):
    _, out, _ = tool.export(manifest(maxJobs={"max": 1}), flags=("-o", "json"))
    assert [each["kind"] for each in json.loads(out)["items"]] == [
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ]


def test_yaml_and_json_are_the_same_also_with_characters_that_terminals_must_not_get(tool):
    policy = manifest(requiredAnnotations=[{"key": "owner", "pattern": "a\u202eb\u2028c'd"}])
    _, as_yaml, _ = tool.export(policy)
    _, as_json, _ = tool.export(policy, flags=("-o", "json"))
    assert "\u202e" not in as_yaml
    assert list(yaml.safe_load_all(as_yaml)) == json.loads(as_json)["items"]


def test_nothing_is_exported_of_policies_with_faults(tool):
    code, out, err = tool.export(manifest(maxJobs={"max": "many"}), manifest("good", maxJobs={"max": 1}))
    assert (code, out) == (1, "")
    assert 'error: spec.rules.maxJobs.max: Invalid value: "many"' in err


def test_a_missing_file_is_no_empty_export(tool):
    code, out, err = tool("export", "-f", "nowhere")
    assert (code, out) == (2, "")
    assert "no such file" in err


@pytest.mark.parametrize("flag", ["-p", "--policies", "-f", "--filename"])
def test_policies_are_named_as_in_the_other_commands_or_by_the_older_flag(flag: str, tool):
    file = tool.put("policies.yaml", manifest(maxJobs={"max": 1}))
    assert tool("export", flag, file)[0] == 0
