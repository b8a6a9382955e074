"""`jobset policy export`: what it prints, what it says beside that, exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.test_policy_commands import EXAMPLES, run, write
from tests.support.objects.policies import exception, manifest


def export(
    tmp_path: Path, capsys: Any, *documents: dict[str, Any], flags: tuple[str, ...] = ()
) -> tuple[int, str, str]:
    return run(capsys, "policy", "export", "-f", write(tmp_path / "policies.yaml", *documents), *flags)


def test_the_examples_become_policies_and_bindings(capsys: Any):
    code, out, err = run(capsys, "policy", "export", "-f", str(EXAMPLES))
    found = list(yaml.safe_load_all(out))
    assert code == 0
    assert len(found) == 2 * len(list(EXAMPLES.glob("*.yaml")))
    assert {each["apiVersion"] for each in found} == {"admissionregistration.k8s.io/v1"}
    assert err.startswith("max-totals: maxTotals: approximate: may refuse more: ")


def test_users_whose_updates_are_not_judged_are_those_of_the_manager_or_named(tmp_path: Path, capsys: Any):
    _, out, _ = export(tmp_path, capsys, manifest(maxJobs={"max": 1}))
    assert "in ['system:serviceaccount:kueue-system:kueue-controller-manager']" in out
    _, out, _ = export(tmp_path, capsys, manifest(maxJobs={"max": 1}), flags=("--queue-controller", "me"))
    assert "in ['me']" in out


def test_an_exception_is_named_with_its_end(tmp_path: Path, capsys: Any):
    allowing = manifest(maxJobs={"max": 1})
    allowing["spec"]["exceptions"] = {"allowedNamespaces": {}, "maxDuration": "9999d"}
    other = exception(expiresAt="2050-01-01T00:00:00Z")
    del other["metadata"]["creationTimestamp"]
    code, out, err = export(tmp_path, capsys, allowing, other, flags=("-o", "json"))
    assert code == 0
    assert "exception default/big-run counts for new JobSets until 20" in err
    assert "timestamp(object.metadata.creationTimestamp) < timestamp('20" in out


def test_an_exception_without_namespace_is_exported_for_default(tmp_path: Path, capsys: Any):
    allowing = manifest(maxJobs={"max": 1})
    allowing["spec"]["exceptions"] = {"allowedNamespaces": {}, "maxDuration": "9999d"}
    other = exception(expiresAt="2099-01-01T00:00:00Z")
    del other["metadata"]["namespace"]
    code, out, err = export(tmp_path, capsys, allowing, other, flags=("-o", "json"))
    assert code == 0
    assert "exception default/big-run counts for new JobSets until 20" in err
    assert "request.namespace == 'default'" in out


def test_json_is_a_list(tmp_path: Path, capsys: Any):
    _, out, _ = export(tmp_path, capsys, manifest(maxJobs={"max": 1}), flags=("-o", "json"))
    assert [each["kind"] for each in json.loads(out)["items"]] == [
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ]


def test_nothing_is_exported_of_policies_with_faults(tmp_path: Path, capsys: Any):
    code, out, err = export(tmp_path, capsys, manifest(maxJobs={"max": "many"}), manifest("good", maxJobs={"max": 1}))
    assert (code, out) == (1, "")
    assert 'error: spec.rules.maxJobs.max: Invalid value: "many"' in err


def test_a_missing_file_is_no_empty_export(tmp_path: Path, capsys: Any):
    code, out, err = run(capsys, "policy", "export", "-f", str(tmp_path / "nowhere"))
    assert (code, out) == (2, "")
    assert "no such file" in err


@pytest.mark.parametrize("flag", ["-p", "--policies", "-f", "--filename"])
def test_policies_are_named_as_in_the_other_commands_or_by_the_older_flag(flag: str, tmp_path: Path, capsys: Any):
    file = write(tmp_path / "policies.yaml", manifest(maxJobs={"max": 1}))
    assert run(capsys, "policy", "export", flag, file)[0] == 0
