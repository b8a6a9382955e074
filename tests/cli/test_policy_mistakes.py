"""What is said about the commonest mistakes in policies and exceptions: the fix is what to paste."""

from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.engine import exception_schema
from authoring.policies import policy_faults
from policy.registry import RULES
from tests.cli.test_policy_commands import LARGE, SMALL, suite
from tests.support.objects.policies import exception, manifest, setting


@pytest.mark.parametrize(
    ("rules", "fix"),
    [
        ({"maxRestarts": 3}, "write it as an object: {max: 3}"),
        ({"maxTotals": {"pods": 8}}, "write it as an object: {max: 8}"),
        ({"requiredRequests": ["cpu", "nvidia.com/gpu"]}, "write it as an object: {resources: [cpu, nvidia.com/gpu]}"),
        ({"imageRegistries": []}, "write it as an object: {allowed: [...]}"),
        ({"requiredQueue": True}, "write {}: its fields are optional"),
        ({"requiredLabels": ["team", "cost-center"]}, "write it as an object: {key: team}"),
        ({"ttl": True}, "write it as an object: {required: true}"),
        ({"maxTotals": True}, "write its fields on lines of their own under it, indented"),
        ({"imageRegistries": ["a: b"]}, "write it as an object: {allowed: [...]}"),
        ({"ttl": {"max": "7w"}}, "write 4233600 for 7w"),
        ({"activeDeadline": {"max": "long"}}, "write 3600 for 1h"),
        ({"maxJobs": "3"}, "write its fields on lines of their own under it, indented"),
    ],
)
def test_the_fix_of_a_rule_is_what_to_write(rules: dict[str, Any], fix: str):
    assert policy_faults(manifest(**rules))[0][0].fix == fix


@pytest.mark.parametrize(
    ("given", "fix"),
    [
        ("team-a", "write {matchLabels: {kubernetes.io/metadata.name: team-a}}"),
        (["team-a"], "write {matchLabels: {kubernetes.io/metadata.name: team-a}}"),
        (
            ["team-a", "team-b"],
            "write {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [team-a, team-b]}]}",
        ),
        (
            ["7", "true"],
            'write {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: ["7", "true"]}]}',
        ),
        ("*", "write {} for all namespaces"),
        (True, "write {} for all namespaces"),
        ([{"key": "a", "operator": "Exists"}], "write it as an object: {matchExpressions: [...]}"),
        (["team_a"], 'write its fields directly under it, without "- "'),
    ],
)
@pytest.mark.parametrize("field", ["allowedNamespaces", "namespaceSelector"])
def test_a_selector_of_namespaces_is_written_for_their_names(field: str, given: Any, fix: str):
    def body(selector: Any) -> dict[str, Any]:
        found = manifest(match={field: selector} if field == "namespaceSelector" else None, maxJobs={"max": 1})
        if field == "allowedNamespaces":
            found["spec"]["exceptions"] = {field: selector, "maxDuration": "7d"}
        return found

    (fault,) = policy_faults(body(given))[0]
    assert fix in fault.fix
    how = fault.fix.removeprefix("write ").removesuffix(" for all namespaces")
    assert not how.startswith("{") or policy_faults(body(yaml.safe_load(how)))[0] == []


def test_a_long_list_of_allowed_values_is_cut_between_two_of_them():
    (fault,) = exception_schema().faults(exception(rules=["priorityClass"]))
    shown, _, rest = fault.detail.partition(", and ")
    assert shown.endswith('"')
    assert "..." not in fault.detail
    assert rest == f"{len(RULES) - shown.count(', ') - 1} more"
    assert fault.fix == 'did you mean "priorityClasses"?'


def test_names_in_exceptions_are_exact(tool):
    wild = exception(match={"names": ["run-*"]})
    code, out, _ = tool("eval", "-p", tool.put("p.yaml", manifest(maxJobs={"max": 1}), wild))
    said = "names are exact, without wildcards; select JobSets by their labels, with match.objectSelector"
    assert (code, f'spec.match.names[0]: Invalid value: "run-*": {said}' in out) == (1, True)


def test_a_policy_that_locks_out_the_own_controller_is_warned_about(tool):
    code, out, _ = tool("eval", "-p", tool.put("p.yaml", manifest(managedBy={"allowed": ["acme.io/foo"]})))
    assert (code, "warning: spec.rules.managedBy.allowed: JobSets without managedBy break the rule" in out) == (0, True)


@pytest.mark.parametrize(
    ("kind", "meant"),
    [
        ("JobsetPolicy", "JobSetPolicy"),
        ("JobSetPolicies", "JobSetPolicy"),
        ("Policy", "JobSetPolicy"),
        ("JobSetPolicyExeption", "JobSetPolicyException"),
        ("jobsetpolicyexception", "JobSetPolicyException"),
    ],
)
def test_a_misspelt_kind_is_a_fault(kind: str, meant: str, tool):
    body = exception() if meant.endswith("Exception") else manifest("other", maxJobs={"max": 2})
    good = tool.put("a.yaml", manifest(maxJobs={"max": 1}))
    bad = tool.put("b.yaml", {**body, "kind": kind})
    code, out, _ = tool("eval", "-p", good, "-p", bad)
    assert (code, out.count("error: ")) == (1, 1)
    assert f'b.yaml:3:10: error: kind: Unsupported value: "{kind}"' in out
    assert f"write `kind: {meant}`" in out


def test_a_misspelt_suite_is_a_fault(tool):
    misspelt = {**suite({"name": "a", "jobset": "small"}), "kind": "JobSetPolicySuit"}
    code, out, err = tool.test(misspelt, SMALL, manifest(maxJobs={"max": 1}))
    assert (code, err, "write `kind: JobSetPolicySuite`" in out) == (1, "", True)


def test_kinds_of_others_are_passed_over(tool):
    others = [{"apiVersion": "v1", "kind": "ConfigMap"}, {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}]
    policies = tool.put("p.yaml", *others, manifest(maxJobs={"max": 1}))
    assert tool("eval", "-p", policies)[0] == 0


def test_contradictions_stand_behind_the_findings_of_jobsets_each_once(tool):
    sets = setting("sets", ttlSecondsAfterFinished=60, labels={"a": "x"})
    others = [manifest("short", ttl={"max": 1}), setting("other", labels={"a": "y"})]
    code, out, _ = tool.eval({**SMALL, "a": 1}, sets, *others)
    found = [line for line in out.splitlines() if "error: " in line or "warning: " in line]
    assert code == 1
    assert [(line.partition(": ")[0].split("/")[-1].split(":")[0], line.count("policy")) for line in found] == [
        ("set.yaml", 0),
        ("p.yaml", 1),
        ("p.yaml", 1),
    ]
    assert out.splitlines()[-1] == "1 file, 1 JobSet, 3 policies, 1 error, 2 warnings"


def test_policies_and_exceptions_of_a_pipe_are_read_together(tool, monkeypatch: pytest.MonkeyPatch):
    text = Path(tool.put("p.yaml", manifest(maxJobs={"max": 1}), exception(rules=[]))).read_bytes()
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(text)))
    code, out, _ = tool("eval", "-p", "-")
    assert (code, "error: spec.rules: " in out) == (1, True)


def test_a_policy_with_a_namespace_is_warned_about_with_the_selector_to_write(tool):
    body = manifest(maxJobs={"max": 1})
    body["metadata"]["namespace"] = "team-a"
    code, out, _ = tool("eval", "-p", tool.put("p.yaml", body))
    assert (code, "warning: metadata.namespace: policies are of the whole cluster" in out) == (0, True)
    match = yaml.safe_load(out.partition("write match: ")[2].partition(" into the spec")[0])
    assert match == {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "team-a"}}}
    assert policy_faults(manifest(match=match, maxJobs={"max": 1}))[0] == []


def test_validate_checks_policies_and_exceptions_of_each_file_by_themselves(tool):
    one, many = manifest(maxJobs={"max": 1}), manifest(maxJobs={"max": "many"})
    code, out, err = tool.command("validate", tool.put("p.yaml", many, exception(rules=[]), {"kind": "Pod"}))
    assert (code, err, out.count("error: "), "is not a whole number" in out) == (1, "", 2, True)
    assert out.endswith("1 file, 0 JobSets (1 object of other kinds passed over), 1 policy, 2 errors, 0 warnings\n")
    overlays = [tool.put(name, one) for name in ("a.yaml", "b.yaml")]
    assert tool.command("validate", *overlays) == (0, "2 files, 0 JobSets, 2 policies, 0 errors, 0 warnings\n", "")
    code, out, _ = tool.command("validate", tool.put("two.yaml", SMALL, SMALL, many))
    assert "error: JobSetPolicy limits: spec.rules.maxJobs.max: " in out


def test_validate_leaves_policies_to_those_that_are_named(tool):
    both = tool.put("p.yaml", SMALL, manifest(maxJobs={"max": "many"}))
    code, out, _ = tool.command("validate", both, "--policies", both)
    assert (code, out.count("error: ")) == (1, 1)


def test_a_second_policy_of_a_name_says_where_the_first_one_is(tool):
    file = Path("p.yaml")
    file.write_text(yaml.safe_dump_all([manifest(maxJobs={"max": 1})] * 2))
    code, out, _ = tool("eval", "-p", str(file))
    line = 1 + file.read_text().splitlines().index("  name: limits")
    said = f'metadata.name: Duplicate value: "limits": the policy in line {line} of {file} has it, too; give it another name'
    assert (code, said in out) == (1, True)


def test_namespaces_of_the_same_files_have_their_labels(tool):
    labels = {"example.com/tenant": "true", "jobs": "5"}
    policies = tool.put(
        "p.yaml",
        manifest(match={"namespaceSelector": {"matchLabels": {"example.com/tenant": "true"}}}, maxJobs={"max": 1}),
        manifest("own", maxJobs={"fromNamespaceLabel": "jobs"}),
    )

    def namespace(name: str, labels: Any) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}

    def large(name: str) -> dict[str, Any]:
        return {**LARGE, "metadata": {"name": "large", "namespace": name}}

    file = tool.put("f.yaml", namespace("a", labels), namespace("b", None), large("a"), large("b"))
    code, out, _ = tool.command("validate", file, "--policies", policies)
    assert (code, out.count("error: JobSet a/large"), out.count("error: JobSet b/large")) == (1, 2, 0)
    assert "at most 5 allowed by label jobs of the namespace" in out
    flags = ("--namespace-label", "jobs=9")
    assert (
        "at most 9 allowed by label jobs of the namespace"
        not in tool.command("validate", file, "--policies", policies, *flags)[1]
    )
