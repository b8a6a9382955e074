"""`jobset policy test --server`: the verdicts of policies are those of a real API server with our webhooks behind it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.corpus import policy_table
from tests.support.objects.jobsets import jobset, rjob
from tests.support.objects.policies import exception, manifest, setting
from tests.support.pages.files import ROOT

JSON = dict[str, Any]
JOBSETS = {
    "resourceRules": [
        {
            "apiGroups": ["jobset.x-k8s.io"],
            "apiVersions": ["*"],
            "operations": ["CREATE", "UPDATE"],
            "resources": ["jobsets"],
        }
    ]
}
DENIED = {"rule": "maxJobs", "action": "Deny", "path": "spec.replicatedJobs[0].replicas"}
WARNED = {"rule": "ttl", "action": "Warn"}


def suite(*tests: JSON) -> JSON:
    return {"apiVersion": "policy.jobset.x-k8s.io/v1alpha1", "kind": "JobSetPolicySuite", "tests": list(tests)}


def admission(kind: str, name: str, binding: JSON | None = None, **spec: Any) -> list[JSON]:
    """A policy of the API server itself about JobSets, and its binding."""
    api = "admissionregistration.k8s.io/v1"
    policy = {"failurePolicy": "Fail", "matchConstraints": JOBSETS, **spec}
    bound = {"policyName": name, **(binding or {})}
    return [
        {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": policy},
        {"apiVersion": api, "kind": f"{kind}Binding", "metadata": {"name": name}, "spec": bound},
    ]


def labelled(name: str, **labels: str) -> JSON:
    js = jobset(rjob(replicas=9), name=name, suspend=True)
    js["metadata"] = {"name": name, "labels": labels}
    return js


def behaviour() -> list[JSON]:
    """Labels of namespaces, exceptions, times, defaults, and updates of what was there before."""
    limits = manifest("limits", maxJobs={"max": 4, "fromNamespaceLabel": "jobs"}, requiredLabels=[{"key": "team"}])
    limits["spec"]["exceptions"] = {"allowedNamespaces": {}, "maxDuration": "7d"}
    times = manifest("times", ("Warn",), ttl={"required": True})
    defaults = setting("defaults", labels={"team": "none"})
    worse = labelled("unlabelled")
    worse["spec"]["suspend"] = False
    granted = exception(rules=["maxJobs"], expiresAt="2030-01-02T00:00:00Z")
    granted["metadata"]["namespace"] = "team-a"
    return [
        *(limits, times, defaults, granted, labelled("large", team="a"), worse),
        suite(
            {"name": "too large", "jobset": "large", "expect": [DENIED, WARNED], "defaults": []},
            {"name": "label", "jobset": "large", "namespace": {"labels": {"jobs": "9"}}, "expect": [WARNED]},
            {"name": "excepted", "jobset": "large", "namespace": {"name": "team-a"}, "expect": [WARNED]},
            {
                "name": "no more",
                "jobset": "large",
                "namespace": {"name": "team-a"},
                "time": "2031-01-01T00:00:00Z",
                "expect": [DENIED, WARNED],
            },
            {
                "name": "default",
                "jobset": "unlabelled",
                "namespace": {"labels": {"jobs": "9"}},
                "defaults": ["labels[team]"],
                "expect": [WARNED],
            },
            {"name": "stays", "jobset": "large", "oldJobset": "large"},
            {
                "name": "takes its label away",
                "jobset": "unlabelled",
                "oldJobset": "large",
                "expect": [{"rule": "requiredLabels", "action": "Deny"}],
            },
        ),
    ]


def of_the_api_server() -> list[JSON]:
    """A policy that denies and one that changes JobSets: only an API server can judge these. One test forgets that."""
    team = "object.metadata.?labels[?'team'].orValue('')"
    no_x = admission(
        "ValidatingAdmissionPolicy",
        "no-x",
        {"validationActions": ["Deny"]},
        validations=[{"expression": f"{team} != 'x'", "message": "team x may not"}],
    )
    queue = "Object{metadata: Object.metadata{labels: {'kueue.x-k8s.io/queue-name': 'all'}}}"
    queues = admission(
        "MutatingAdmissionPolicy",
        "queues",
        reinvocationPolicy="Never",
        mutations=[{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": queue}}],
    )
    refused = {"rule": "ValidatingAdmissionPolicy", "policy": "no-x", "action": "Deny", "message": "team x may not"}
    return [
        *(*no_x, *queues, manifest("queues", requiredQueue={}), labelled("a", team="a"), labelled("x", team="x")),
        suite(
            {"name": "x may not", "jobset": "x", "serverOnly": True, "expect": [refused]},
            {"name": "a gets a queue", "jobset": "a", "serverOnly": True},
            {"name": "forgotten", "jobset": "a", "expect": [{"rule": "requiredQueue", "action": "Deny"}]},
        ),
    ]


def written(path: Path, documents: list[JSON]) -> None:
    path.write_text("\n---\n".join(json.dumps(document, indent=1) for document in documents))


def judged(folder: Path, binaries: Path, *flags: str) -> tuple[int, JSON, str]:
    """Exit code, report, standard error."""
    command = [sys.executable, "-m", "cli", "policy", "test", "--server", "-o", "json", policy_table.GATES, *flags]
    done = subprocess.run(  # noqa: S603 (ourselves)
        [*command, str(folder)],
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
        cwd=ROOT,
        env={**os.environ, "KUBEBUILDER_ASSETS": str(binaries)},
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout), done.stderr


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, binaries: Path) -> Iterator[tuple[int, JSON, str]]:
    """One run of two suites on one API server."""
    folder = tmp_path_factory.mktemp("suites")
    written(folder / "b-behaviour.yaml", behaviour())
    written(folder / "c-admission.yaml", of_the_api_server())
    return judged(folder, binaries)


def states(report: JSON, file: str) -> dict[str, bool]:
    return {test["name"]: test["passed"] for test in report["tests"] if test["suite"].endswith(file)}


@pytest.mark.timeout(600)
@pytest.mark.slow
def test_30_policies_judge_300_jobsets_as_offline(tmp_path: Path, binaries: Path):
    """Verdict, rule, path and text of each violation, whether it is denied, warned of or recorded."""
    written(tmp_path / "a-table.yaml", policy_table.suite(*policy_table.RULES))
    passed = states(judged(tmp_path, binaries)[1], "a-table.yaml")
    assert (len(passed), [name for name, good in passed.items() if not good]) == (policy_table.JOBSETS, [])


def test_namespaces_exceptions_defaults_and_updates_are_as_offline(ran: tuple[int, JSON, str]):
    passed = states(ran[1], "b-behaviour.yaml")
    assert (len(passed), [name for name, good in passed.items() if not good]) == (7, [])


def test_policies_of_the_api_server_are_judged_there_and_a_difference_is_said(ran: tuple[int, JSON, str]):
    code, report, err = ran
    assert states(report, "c-admission.yaml") == {"x may not": True, "a gets a queue": True, "forgotten": False}
    assert (code, report["problems"]) == (3, [])
    assert [test["name"] for test in report["tests"] if test["differs"]] == ["forgotten"]
    (found,) = report["findings"]
    assert (found["path"], found["rule"]) == ("tests[2]", "policy-test-differs")
    assert "only this command says: Deny by requiredQueue of queues at metadata.labels" in found["message"]
    assert "asking it about 10 JobSets: done" in err


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_each_of_30_policies_alone_judges_300_jobsets_as_offline(tmp_path: Path, binaries: Path):
    for name in policy_table.RULES:
        written(tmp_path / f"{name}.yaml", policy_table.suite(name))
    code, report, _ = judged(tmp_path, binaries)
    assert (code, len(report["tests"]), report["findings"]) == (0, 30 * policy_table.JOBSETS, [])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_examples_of_all_rules_are_judged_as_offline(binaries: Path):
    code, report, _ = judged(ROOT / "examples" / "policies", binaries)
    assert (code, report["findings"]) == (0, [])
