"""`jobset policy eval`, `jobset policy test` and `jobset validate --policies`: reports and exit codes."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from api.features import FeatureGates
from cli import main as cli
from cli.check.policies import judged_of
from tests.support.objects.jobsets import jobset, rjob
from tests.support.objects.policies import exception, manifest, setting
from tests.support.pages.files import ROOT

EXAMPLES = ROOT / "examples" / "policies"
GATES = "--feature-gates=JobSetActiveDeadlineSeconds=true"
GPUS = {"resources": {"limits": {"cpu": "1", "x.com/gpu": 4}}}
LARGE = jobset(
    rjob(replicas=9, pod={"restartPolicy": "Never", "containers": [{"name": "m", "image": "a", **GPUS}]}), name="large"
)
SMALL = jobset(rjob(pod={"restartPolicy": "Never", "containers": [{"name": "m", "image": "a"}]}), name="small")
TOTALS = {"resources": [{"name": "x.com/gpu", "max": 8, "fromNamespaceLabel": "gpus"}]}


def write(path: Path, *documents: dict[str, Any]) -> str:
    path.write_text("\n---\n".join(json.dumps(document, indent=1) for document in documents))
    return str(path)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli.main(arguments)
    done = capsys.readouterr()
    return code, done.out, done.err


def suite(*tests: dict[str, Any], **more: Any) -> dict[str, Any]:
    head = {"apiVersion": "policy.jobset.x-k8s.io/v1alpha1", "kind": "JobSetPolicySuite"}
    return {**head, **more, "tests": list(tests)}


class TestEval:
    """What policies decide about JobSets in files."""

    def decide(
        self, tmp_path: Path, capsys: Any, *flags: str, actions: tuple[str, ...] = ("Deny",)
    ) -> tuple[int, str, str]:
        sets = write(tmp_path / "set.yaml", LARGE)
        policies = write(tmp_path / "policy.yaml", manifest(actions=actions, maxTotals=TOTALS, maxJobs={"max": 20}))
        return run(capsys, "policy", "eval", "-f", sets, "-p", policies, *flags)

    def test_a_violation_is_an_error_at_its_line(self, tmp_path: Path, capsys: Any):
        code, out, _ = self.decide(tmp_path, capsys)
        assert code == 1
        assert (
            "containers[0].resources.limits[x.com/gpu]: Forbidden: policy limits: 36 x.com/gpu, and at most 8 allowed"
            in out
        )
        line = next(
            i for i, text in enumerate((tmp_path / "set.yaml").read_text().splitlines(), 1) if "x.com/gpu" in text
        )
        assert f"set.yaml:{line}:" in out

    @pytest.mark.parametrize(("actions", "severity"), [(("Warn",), "warning: "), (("Audit",), "")])
    def test_without_deny_it_is_no_error(self, actions: tuple[str, ...], severity: str, tmp_path: Path, capsys: Any):
        code, out, _ = self.decide(tmp_path, capsys, actions=actions)
        assert (code, "policy limits" in out) == (0, bool(severity))
        assert severity in out

    def test_the_namespace_has_its_own_limit(self, tmp_path: Path, capsys: Any):
        assert self.decide(tmp_path, capsys, "--namespace-label", "gpus=36")[0] == 0

    def test_explain_shows_every_rule_with_its_numbers(self, tmp_path: Path, capsys: Any):
        _, out, _ = self.decide(tmp_path, capsys, "--explain", "--namespace-label", "gpus=10")
        assert out.splitlines()[-8:-1] == [
            "default/large: policy limits (Deny)",
            "  maxTotals: violated at spec.replicatedJobs[0].template.spec.template.spec.containers[0].resources.limits[x.com/gpu]",
            "    36 x.com/gpu, limit 10 by label gpus of the namespace",
            "      workers has 9 x 4 = 36",
            "  maxJobs: met",
            "    9 Jobs, limit 20 by the policy",
            "      workers has 9",
        ]
        _, out, _ = self.decide(tmp_path, capsys, "--explain", "-o", "json")
        (explained,) = json.loads(out)["policies"]
        assert [rule["numbers"][0]["limit"] for rule in explained["rules"]] == ["8", "20"]

    def test_explain_names_a_policy_that_is_not_about_the_set(self, tmp_path: Path, capsys: Any):
        other = manifest(
            "other", match={"namespaceSelector": {"matchLabels": {"a": "b"}}}, maxJobs={"fromNamespaceLabel": "x"}
        )
        files = write(tmp_path / "set.yaml", SMALL), write(tmp_path / "p.yaml", other)
        ask = ("policy", "eval", "--explain", "-f", files[0], "-p", files[1])
        why = "namespaceSelector wants a=b, and namespace default has no such label"
        assert f"  is not about this JobSet: {why}\n" in run(capsys, *ask)[1]
        assert "    1 Jobs, no limit" in run(capsys, *ask, "--namespace-label", "a=b")[1]

    def test_namespaces_are_known_by_name(self, tmp_path: Path, capsys: Any):
        named = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}
        files = (
            write(tmp_path / "set.yaml", LARGE),
            write(tmp_path / "p.yaml", manifest(match=named, maxJobs={"max": 1})),
        )
        assert run(capsys, "policy", "eval", "-f", files[0], "-p", files[1])[0] == 1
        assert run(capsys, "policy", "eval", files[0], "-p", files[1])[0] == 1, "a file needs no flag"

    def test_a_policy_with_faults_is_explained_and_not_applied(self, tmp_path: Path, capsys: Any):
        good, bad = manifest("good", maxJobs={"max": 20}), manifest("bad", maxJob={"max": 1})
        files = write(tmp_path / "set.yaml", LARGE), write(tmp_path / "p.yaml", good, bad, good)
        code, out, _ = run(capsys, "policy", "eval", "-f", files[0], "-p", files[1])
        assert (code, 'did you mean "maxJobs"?' in out, "Duplicate value" in out) == (1, True, True)

    def test_a_file_that_is_no_yaml_is_a_fault(self, tmp_path: Path, capsys: Any):
        (tmp_path / "p.yaml").write_text("kind: [")
        sets = write(tmp_path / "set.yaml", SMALL)
        code, out, _ = run(capsys, "policy", "eval", "-f", sets, "-p", str(tmp_path / "p.yaml"))
        assert (code, "p.yaml:1:" in out) == (1, True)

    def test_without_policies_nothing_was_checked(self, tmp_path: Path, capsys: Any):
        files = write(tmp_path / "set.yaml", SMALL), write(tmp_path / "p.yaml", SMALL)
        code, _, err = run(capsys, "policy", "eval", "-f", files[0], "-p", files[1])
        assert (code, "jobset policy eval: no JobSetPolicy" in err) == (2, True)
        assert run(capsys, "policy", "eval", "-f", files[0], "-p", str(tmp_path / "none"))[0] == 2

    def test_a_wrong_pair_is_a_wrong_flag(self, tmp_path: Path, capsys: Any):
        with pytest.raises(SystemExit) as stopped:
            self.decide(tmp_path, capsys, "--namespace-label", "gpus")
        assert (stopped.value.code, "write KEY=VALUE" in capsys.readouterr().err) == (2, True)


class TestExceptions:
    """Exceptions among the policies count until they end."""

    limits = manifest(maxJobs={"max": 4})
    limits["spec"]["exceptions"] = {"allowedNamespaces": {}, "maxDuration": "1d"}

    @pytest.mark.parametrize(
        ("at", "code"), [("2030-01-01T23:59:59Z", 0), ("2030-01-02T00:00:00Z", 1), ("2029-01-01T00:00:00Z", 0)]
    )
    def test_eval_asks_at_which_time(self, at: str, code: int, tmp_path: Path, capsys: Any):
        sets = write(tmp_path / "set.yaml", LARGE)
        policies = write(tmp_path / "p.yaml", self.limits, exception())
        found, out, _ = run(capsys, "policy", "eval", "-f", sets, "-p", policies, "--at", at, "--explain")
        assert (found, "maxJobs: does not count by exception big-run" in out) == (code, not code)

    def test_one_with_a_fault_is_explained_and_does_not_count(self, tmp_path: Path, capsys: Any):
        sets = write(tmp_path / "set.yaml", LARGE)
        policies = write(tmp_path / "p.yaml", self.limits, exception(rules=["maxJob"]), exception(rules=[]))
        code, out, _ = run(capsys, "validate", "-f", sets, "--policies", policies)
        assert (code, 'did you mean "maxJobs"?' in out, "name the rules that are not to count" in out) == (
            1,
            True,
            True,
        )
        assert "9 Jobs, and at most 4 allowed" in out

    def test_a_wrong_time_is_a_wrong_flag(self, tmp_path: Path, capsys: Any):
        sets = write(tmp_path / "set.yaml", LARGE)
        with pytest.raises(SystemExit):
            run(capsys, "policy", "eval", "-f", sets, "-p", sets, "--at", "tomorrow")
        assert "write a time such as" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("more", "code"),
        [({}, 0), ({"time": "2030-01-03T00:00:00Z"}, 1), ({"namespace": {"name": "other"}}, 1)],
    )
    def test_a_suite_says_when_it_is(self, more: dict[str, Any], code: int, tmp_path: Path, capsys: Any):
        file = write(
            tmp_path / "s.yaml", suite({"name": "a", "jobset": "large", **more}), LARGE, self.limits, exception()
        )
        assert run(capsys, "policy", "test", file)[0] == code


class TestDefaults:
    """A new JobSet is judged with the defaults that it gets."""

    sets = setting("tenants", labels={"team": "a"}, ttlSecondsAfterFinished=9)
    demands = manifest("demands", requiredLabels=[{"key": "team"}], ttl={"required": True})

    def test_eval_sets_them_and_explain_names_them(self, tmp_path: Path, capsys: Any):
        files = write(tmp_path / "set.yaml", SMALL), write(tmp_path / "p.yaml", self.demands)
        ask = ("policy", "eval", "--explain", "-f", files[0], "-p", files[1])
        assert run(capsys, *ask)[0] == 1
        write(tmp_path / "p.yaml", self.demands, self.sets)
        code, out, _ = run(capsys, *ask)
        assert (code, "  defaults: labels[team], ttlSecondsAfterFinished\n" in out) == (0, True)

    def test_validate_finds_what_is_wrong_with_the_set_as_it_would_be_stored(self, tmp_path: Path, capsys: Any):
        sets = write(tmp_path / "set.yaml", SMALL)
        deadline = write(tmp_path / "p.yaml", setting("times", activeDeadlineSeconds=60))
        code, out, _ = run(capsys, "validate", "-f", sets, "--policies", deadline)
        assert (code, "not set without the feature gate JobSetActiveDeadlineSeconds" in out) == (0, True)
        assert run(capsys, "validate", "-f", sets, "--policies", deadline, GATES, "--strict")[0] == 0

    def test_conflicts_of_policies_are_warnings_at_the_policies(self, tmp_path: Path, capsys: Any):
        short = manifest("short", ttl={"max": 3})
        files = write(tmp_path / "set.yaml", SMALL), write(tmp_path / "p.yaml", self.sets, short)
        code, out, _ = run(capsys, "policy", "eval", "-f", files[0], "-p", files[1])
        assert code == 0
        assert "p.yaml:15:" in out
        assert "warning: spec.defaults.ttlSecondsAfterFinished: rule ttl of policy short refuses it" in out
        assert "refuses the default" not in out, "it is said once"

    @pytest.mark.parametrize(
        ("expected", "old", "code"),
        [
            (["labels[team]", "ttlSecondsAfterFinished"], {}, 0),
            ([], {}, 1),
            (["labels[team]"], {}, 1),
            ([], {"oldJobset": "small"}, 0),
        ],
    )
    def test_a_suite_says_which_ones_a_new_jobset_gets(
        self, expected: list[str], old: dict[str, str], code: int, tmp_path: Path, capsys: Any
    ):
        test = {"name": "small", "jobset": "small", "defaults": expected, **old}
        file = write(tmp_path / "suite.yaml", suite(test), SMALL, self.sets)
        found, out, _ = run(capsys, "policy", "test", file)
        assert (found, "the JobSet gets other defaults; those set are: labels[team], ttl" in out) == (code, bool(code))


def test_validate_reports_violations_among_the_other_faults(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    wrong = {
        **LARGE,
        "spec": {**LARGE["spec"], "coordinator": {"replicatedJob": "worker"}, "ttlSecondsAfterFinished": "x"},
    }
    files = (
        write(tmp_path / "set.yaml", wrong),
        write(tmp_path / "p.yaml", manifest(maxJobs={"max": 1}, ttl={"required": True})),
    )
    code, out, _ = run(capsys, "validate", "-f", files[0], "--policies", files[1], "-o", "json")
    found = {finding["path"]: finding["rule"] for finding in json.loads(out)["findings"]}
    assert code == 1
    assert found["spec.replicatedJobs[0].replicas"] == "policy-max-jobs-exceeded"
    assert found["spec.ttlSecondsAfterFinished"] == "schema-type", "a consequence of the wrong type is left out"
    assert "spec.coordinator.replicatedJob" in found


def test_what_cannot_be_read_is_not_judged():
    assert judged_of({"spec": {"replicatedJobs": 3}}, FeatureGates()) is None


class TestSuites:
    """What is expected, and what is found."""

    denied = {
        "name": "large",
        "jobset": "large",
        "expect": [{"rule": "maxJobs", "action": "Deny", "message": "at most 4"}],
    }

    def result(
        self, tmp_path: Path, capsys: Any, *tests: dict[str, Any], output: str = "table"
    ) -> tuple[int, str, str]:
        write(tmp_path / "policies.yaml", manifest(maxJobs={"max": 4}))
        write(tmp_path / "sets.json", LARGE, SMALL)
        write(tmp_path / "suite.yaml", suite(*tests, policies=["policies.yaml"], manifests=["sets.json"]))
        return run(capsys, "policy", "test", "-o", output, str(tmp_path))

    def test_what_is_expected_passes(self, tmp_path: Path, capsys: Any):
        stays = {"name": "stays", "jobset": "large", "oldJobset": "large"}
        code, out, _ = self.result(tmp_path, capsys, self.denied, {"name": "small", "jobset": "small"}, stays)
        assert (code, out.count("ok    "), out.splitlines()[-1]) == (0, 3, "1 suite, 3 tests, 0 failed")

    @pytest.mark.parametrize(
        ("expect", "failures"),
        [
            ([], ["maxJobs was not expected"]),
            (
                [{"rule": "maxJobs", "action": "Warn"}],
                ["maxJobs was expected to warn", "Deny by maxJobs was not expected"],
            ),
            ([{"rule": "maxJobs", "action": "Pass"}], ["maxJobs was expected to pass"]),
            ([{"rule": "maxJobs", "action": "Deny", "policy": "other"}], ["expected to deny", "not expected"]),
            (
                [{"rule": "maxJobs", "action": "Deny", "path": "spec"}],
                ["but not at this path; it was found at: spec.rep"],
            ),
            ([{"rule": "maxJobs", "action": "Deny", "message": "at most 5"}], ["does not contain this text"]),
            (
                [{"rule": "maxJobs", "action": "Deny"}, {"rule": "maxJobs", "action": "Deny", "message": "at most 5"}],
                ["maxJobs was expected to deny"],
            ),
            ([{"rule": "ttl", "action": "Deny"}], ["found was: nothing by this rule", "not expected"]),
        ],
    )
    def test_what_is_not_found_or_not_expected_fails(
        self, expect: Any, failures: list[str], tmp_path: Path, capsys: Any
    ):
        code, out, _ = self.result(tmp_path, capsys, {"name": "large", "jobset": "large", "expect": expect})
        assert (code, "FAIL  " in out) == (1, True)
        assert all(text in out for text in failures)
        assert out.count(": error: ") == len(failures)

    def test_another_message_is_said_with_both_texts(self, tmp_path: Path, capsys: Any):
        expect = [{"rule": "maxJobs", "action": "Deny", "message": "at most 5"}]
        _, out, _ = self.result(tmp_path, capsys, {"name": "large", "jobset": "large", "expect": expect})
        assert (
            'error: tests[0].expect[0].message: Invalid value: "at most 5": Deny by maxJobs was found as expected, but its'
            " message does not contain this text; it says: spec.replicatedJobs[0].replicas: Forbidden: policy limits: "
            "9 Jobs, and at most 4 allowed"
        ) in out

    @pytest.mark.parametrize("action", ["Warn", "Audit"])
    def test_actions_are_those_of_the_policy(self, action: str, tmp_path: Path, capsys: Any):
        expect = [{"rule": "maxJobs", "action": action}]
        file = write(
            tmp_path / "s.yaml",
            suite({"name": "a", "jobset": "large", "expect": expect}),
            LARGE,
            manifest(actions=(action,), maxJobs={"max": 4}),
        )
        assert run(capsys, "policy", "test", file)[0] == 0

    def test_programs_read_junit_json_and_sarif(self, tmp_path: Path, capsys: Any):
        tests = self.denied, {"name": "wrong \x1b", "jobset": "small", "expect": self.denied["expect"]}
        code, out, _ = self.result(tmp_path, capsys, *tests, output="junit")
        root = ET.fromstring(out)  # noqa: S314 (our own)
        assert (code, root.get("tests"), root.get("failures")) == (1, "2", "1")
        assert [len(case.findall("failure")) for case in root.iter("testcase")] == [0, 1]
        _, out, _ = self.result(tmp_path, capsys, *tests, output="json")
        assert [test["passed"] for test in json.loads(out)["tests"]] == [True, False]
        _, out, _ = self.result(tmp_path, capsys, *tests, output="sarif")
        assert [result["ruleId"] for result in json.loads(out)["runs"][0]["results"]] == ["policy-test-missing"]

    def test_what_only_an_api_server_can_judge_is_skipped(self, tmp_path: Path, capsys: Any):
        code, out, _ = self.result(tmp_path, capsys, {"name": "x", "jobset": "large", "serverOnly": True})
        assert (code, out.splitlines()) == (
            0,
            [
                f"skip  {tmp_path}/suite.yaml: x",
                "1 suite, 1 test, 0 failed, 1 skipped: run them with --server",
            ],
        )
        _, out, _ = self.result(tmp_path, capsys, {"name": "x", "jobset": "large", "serverOnly": True}, output="junit")
        assert len(list(ET.fromstring(out).iter("skipped"))) == 1  # noqa: S314 (our own)

    def test_without_binaries_there_is_no_api_server(self, tmp_path: Path, capsys: Any, monkeypatch: Any):
        monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
        self.result(tmp_path, capsys, self.denied)
        code, out, err = run(capsys, "policy", "test", "--server", str(tmp_path))
        assert (code, out.splitlines()[-1]) == (2, "1 suite, 1 test, 0 failed")
        assert err == (
            "jobset policy test: --server needs kube-apiserver and etcd: `jobset cluster fetch` brings them here, once\n"
        )

    def test_a_jobset_that_is_missing_or_wrong_fails_the_test(self, tmp_path: Path, capsys: Any):
        code, out, _ = self.result(tmp_path, capsys, {"name": "a", "jobset": "huge"})
        assert (code, "the names there are large, small" in out) == (1, True)
        wrong = {**SMALL, "spec": {**SMALL["spec"], "coordinator": {"replicatedJob": "x"}}}
        file = write(
            tmp_path / "wrong.yaml", suite({"name": "a", "jobset": "small"}), wrong, manifest(maxJobs={"max": 1})
        )
        code, out, _ = run(capsys, "policy", "test", file)
        assert (code, "the JobSet has faults of its own; correct it: spec.coordinator" in out) == (1, True)

    def test_a_suite_with_faults_is_explained(self, tmp_path: Path, capsys: Any):
        code, out, _ = self.result(tmp_path, capsys, {"name": "a", "jobSet": "small"})
        assert (code, 'did you mean "jobset"?' in out) == (1, True)
        (tmp_path / "suite.yaml").write_text("kind: [")
        assert run(capsys, "policy", "test", str(tmp_path / "suite.yaml"))[0] == 1

    def test_what_is_not_there_was_not_checked(self, tmp_path: Path, capsys: Any):
        file = write(tmp_path / "none.yaml", SMALL)
        code, _, err = run(capsys, "policy", "test", file)
        assert (code, err) == (2, f"jobset policy test: no JobSetPolicySuite found in {file}\n")
        file = write(tmp_path / "s.yaml", suite({"name": "a", "jobset": "b"}, policies=["none/"]))
        code, out, err = run(capsys, "policy", "test", "-o", "junit", file)
        assert (code, "<error message=" in out, "none" in err) == (2, True, True)
