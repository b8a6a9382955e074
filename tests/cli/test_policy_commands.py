"""`jobset policy eval`, `jobset policy test` and `jobset validate --policies`: reports and exit codes."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from api.features import FeatureGates
from authoring.policies import judged_of
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


def suite(*tests: dict[str, Any], **more: Any) -> dict[str, Any]:
    head = {"apiVersion": "policy.jobset.x-k8s.io/v1alpha1", "kind": "JobSetPolicySuite"}
    return {**head, **more, "tests": list(tests)}


class TestEval:
    """What policies decide about JobSets in files."""

    def decide(self, tool, *flags: str, actions: tuple[str, ...] = ("Deny",)) -> tuple[int, str, str]:
        return tool.eval(LARGE, manifest(actions=actions, maxTotals=TOTALS, maxJobs={"max": 20}), flags=flags)

    def test_the_namespace_has_its_own_limit(self, tool):
        assert self.decide(tool, "--namespace-label", "gpus=36")[0] == 0

    def test_explain_shows_every_rule_with_its_numbers(self, tool):
        _, out, _ = self.decide(tool, "--explain", "--namespace-label", "gpus=10")
        assert out.splitlines()[-8:-1] == [
            "default/large: policy limits (Deny)",
            "  maxTotals: violated at spec.replicatedJobs[0].template.spec.template.spec.containers[0].resources.limits[x.com/gpu]",
            "    36 x.com/gpu, limit 10 by label gpus of the namespace",
            "      workers has 9 x 4 = 36",
            "  maxJobs: met",
            "    9 Jobs, limit 20 by the policy",
            "      workers has 9",
        ]
        _, out, _ = self.decide(tool, "--explain", "-o", "json")
        (explained,) = json.loads(out)["policies"]
        assert [rule["numbers"][0]["limit"] for rule in explained["rules"]] == ["8", "20"]

    def test_explain_names_a_policy_that_is_not_about_the_set(self, tool):
        other = manifest(
            "other", match={"namespaceSelector": {"matchLabels": {"a": "b"}}}, maxJobs={"fromNamespaceLabel": "x"}
        )
        why = "namespaceSelector wants a=b, and namespace default has no such label"
        assert f"  is not about this JobSet: {why}\n" in tool.eval(SMALL, other, flags=["--explain"])[1]
        flags = ["--explain", "--namespace-label", "a=b"]
        assert "    1 Jobs, no limit" in tool.eval(SMALL, other, flags=flags)[1]

    def test_namespaces_are_known_by_name(self, tool):
        named = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}
        assert tool.eval(LARGE, manifest(match=named, maxJobs={"max": 1}))[0] == 1
        assert tool("eval", "set.yaml", "-p", "p.yaml")[0] == 1, "a file needs no flag"

    def test_a_policy_with_faults_is_explained_and_not_applied(self, tool):
        good, bad = manifest("good", maxJobs={"max": 20}), manifest("bad", maxJob={"max": 1})
        code, out, _ = tool.eval(LARGE, good, bad, good)
        assert (code, 'did you mean "maxJobs"?' in out, "Duplicate value" in out) == (1, True, True)

    def test_a_file_that_is_no_yaml_is_a_fault(self, tool):
        Path("p.yaml").write_text("kind: [")
        sets = tool.put("set.yaml", SMALL)
        code, out, _ = tool("eval", "-f", sets, "-p", "p.yaml")
        assert (code, "p.yaml:1:" in out) == (1, True)

    def test_without_policies_nothing_was_checked(self, tool):
        code, _, err = tool.eval(SMALL, SMALL)
        assert (code, "jobset policy eval: no JobSetPolicy" in err) == (2, True)
        assert tool("eval", "-f", "set.yaml", "-p", "none")[0] == 2

    def test_a_wrong_pair_is_a_wrong_flag(self, tool):
        code, _, err = self.decide(tool, "--namespace-label", "gpus")
        assert (code, "write KEY=VALUE" in err) == (2, True)


class TestExceptions:
    """Exceptions among the policies count until they end."""

    limits = manifest(maxJobs={"max": 4})
    limits["spec"]["exceptions"] = {"allowedNamespaces": {}, "maxDuration": "1d"}

    @pytest.mark.parametrize(
        ("at", "code"), [("2030-01-01T23:59:59Z", 0), ("2030-01-02T00:00:00Z", 1), ("2029-01-01T00:00:00Z", 0)]
    )
    def test_eval_asks_at_which_time(self, at: str, code: int, tool):
        found, out, _ = tool.eval(LARGE, self.limits, exception(), flags=["--at", at, "--explain"])
        assert (found, "maxJobs: does not count by exception big-run" in out) == (code, not code)

    def test_one_with_a_fault_is_explained_and_does_not_count(self, tool):
        sets = tool.put("set.yaml", LARGE)
        policies = tool.put("p.yaml", self.limits, exception(rules=["maxJob"]), exception(rules=[]))
        code, out, _ = tool.command("validate", "-f", sets, "--policies", policies)
        assert (code, 'did you mean "maxJobs"?' in out, "name the rules that are not to count" in out) == (
            1,
            True,
            True,
        )
        assert "9 Jobs, and at most 4 allowed" in out

    def test_a_wrong_time_is_a_wrong_flag(self, tool):
        code, _, err = tool.eval(LARGE, self.limits, flags=["--at", "tomorrow"])
        assert (code, "write a time such as" in err) == (2, True)

    @pytest.mark.parametrize(
        ("more", "code"),
        [({}, 0), ({"time": "2030-01-03T00:00:00Z"}, 1), ({"namespace": {"name": "other"}}, 1)],
    )
    def test_a_suite_says_when_it_is(self, more: dict[str, Any], code: int, tool):
        asked = suite({"name": "a", "jobset": "large", **more})
        assert tool.test(asked, LARGE, self.limits, exception())[0] == code


class TestDefaults:
    """A new JobSet is judged with the defaults that it gets."""

    sets = setting("tenants", labels={"team": "a"}, ttlSecondsAfterFinished=9)
    demands = manifest("demands", requiredLabels=[{"key": "team"}], ttl={"required": True})

    def test_eval_sets_them_and_explain_names_them(self, tool):
        assert tool.eval(SMALL, self.demands)[0] == 1
        code, out, _ = tool.eval(SMALL, self.demands, self.sets, flags=["--explain"])
        assert (code, "  defaults: labels[team], ttlSecondsAfterFinished\n" in out) == (0, True)

    def test_validate_finds_what_is_wrong_with_the_set_as_it_would_be_stored(self, tool):
        sets = tool.put("set.yaml", SMALL)
        deadline = tool.put("p.yaml", setting("times", activeDeadlineSeconds=60))
        code, out, _ = tool.command("validate", "-f", sets, "--policies", deadline)
        assert (code, "not set without the feature gate JobSetActiveDeadlineSeconds" in out) == (0, True)
        assert tool.command("validate", "-f", sets, "--policies", deadline, GATES, "--strict")[0] == 0

    def test_conflicts_of_policies_are_warnings_at_the_policies(self, tool):
        short = manifest("short", ttl={"max": 3})
        code, out, _ = tool.eval(SMALL, self.sets, short)
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
    def test_a_suite_says_which_ones_a_new_jobset_gets(self, expected: list[str], old: dict[str, str], code: int, tool):
        test = {"name": "small", "jobset": "small", "defaults": expected, **old}
        found, out, _ = tool.test(suite(test), SMALL, self.sets)
        assert (found, "the JobSet gets other defaults; those set are: labels[team], ttl" in out) == (code, bool(code))


def test_what_cannot_be_read_is_not_judged():
    assert judged_of({"spec": {"replicatedJobs": 3}}, FeatureGates()) is None


class TestSuites:
    """What is expected, and what is found."""

    denied = {
        "name": "large",
        "jobset": "large",
        "expect": [{"rule": "maxJobs", "action": "Deny", "message": "at most 4"}],
    }

    def result(self, tool, *tests: dict[str, Any], output: str = "table") -> tuple[int, str, str]:
        tool.put("policies.yaml", manifest(maxJobs={"max": 4}))
        tool.put("sets.json", LARGE, SMALL)
        tool.put("suite.yaml", suite(*tests, policies=["policies.yaml"], manifests=["sets.json"]))
        return tool("test", "-o", output, ".")

    def test_what_is_expected_passes(self, tool):
        stays = {"name": "stays", "jobset": "large", "oldJobset": "large"}
        code, out, _ = self.result(tool, self.denied, {"name": "small", "jobset": "small"}, stays)
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
    def test_what_is_not_found_or_not_expected_fails(self, expect: Any, failures: list[str], tool):
        code, out, _ = self.result(tool, {"name": "large", "jobset": "large", "expect": expect})
        assert (code, "FAIL  " in out) == (1, True)
        assert all(text in out for text in failures)
        assert out.count(": error: ") == len(failures)

    def test_another_message_is_said_with_both_texts(self, tool):
        expect = [{"rule": "maxJobs", "action": "Deny", "message": "at most 5"}]
        _, out, _ = self.result(tool, {"name": "large", "jobset": "large", "expect": expect})
        assert (
            'error: tests[0].expect[0].message: Invalid value: "at most 5": Deny by maxJobs was found as expected, but its'
            " message does not contain this text; it says: spec.replicatedJobs[0].replicas: Forbidden: policy limits: "
            "9 Jobs, and at most 4 allowed"
        ) in out

    def test_programs_read_junit_json_and_sarif(self, tool):
        tests = self.denied, {"name": "wrong \x1b", "jobset": "small", "expect": self.denied["expect"]}
        code, out, _ = self.result(tool, *tests, output="junit")
        root = ET.fromstring(out)  # noqa: S314 (our own)
        assert (code, root.get("tests"), root.get("failures")) == (1, "2", "1")
        assert [len(case.findall("failure")) for case in root.iter("testcase")] == [0, 1]
        _, out, _ = self.result(tool, *tests, output="json")
        assert [test["passed"] for test in json.loads(out)["tests"]] == [True, False]
        _, out, _ = self.result(tool, *tests, output="sarif")
        assert [result["ruleId"] for result in json.loads(out)["runs"][0]["results"]] == ["policy-test-missing"]

    def test_what_only_an_api_server_can_judge_is_skipped(self, tool):
        code, out, _ = self.result(tool, {"name": "x", "jobset": "large", "serverOnly": True})
        assert (code, out.splitlines()) == (
            0,
            [
                "skip  suite.yaml: x",
                "1 suite, 1 test, 0 failed, 1 skipped: run them with --server",
            ],
        )
        _, out, _ = self.result(tool, {"name": "x", "jobset": "large", "serverOnly": True}, output="junit")
        assert len(list(ET.fromstring(out).iter("skipped"))) == 1  # noqa: S314 (our own)

    def test_without_binaries_there_is_no_api_server(self, tool, monkeypatch: Any):
        monkeypatch.setenv("KUBEBUILDER_ASSETS", ".")
        self.result(tool, self.denied)
        code, out, err = tool("test", "--server", ".")
        assert (code, out.splitlines()[-1]) == (2, "1 suite, 1 test, 0 failed")
        assert err == (
            "jobset policy test: --server needs kube-apiserver and etcd: `jobset cluster fetch` brings them here, once\n"
        )

    def test_a_jobset_that_is_missing_or_wrong_fails_the_test(self, tool):
        code, out, _ = self.result(tool, {"name": "a", "jobset": "huge"})
        assert (code, "the names there are large, small" in out) == (1, True)
        wrong = {**SMALL, "spec": {**SMALL["spec"], "coordinator": {"replicatedJob": "x"}}}
        code, out, _ = tool.test(suite({"name": "a", "jobset": "small"}), wrong, manifest(maxJobs={"max": 1}))
        assert (code, "the JobSet has faults of its own; correct it: spec.coordinator" in out) == (1, True)

    def test_a_suite_with_faults_is_explained(self, tool):
        code, out, _ = self.result(tool, {"name": "a", "jobSet": "small"})
        assert (code, 'did you mean "jobset"?' in out) == (1, True)
        Path("suite.yaml").write_text("kind: [")
        assert tool("test", "suite.yaml")[0] == 1

    def test_what_is_not_there_was_not_checked(self, tool):
        file = tool.put("none.yaml", SMALL)
        code, _, err = tool("test", file)
        assert (code, err) == (2, f"jobset policy test: no JobSetPolicySuite found in {file}\n")
        file = tool.put("s.yaml", suite({"name": "a", "jobset": "b"}, policies=["none/"]))
        code, out, err = tool("test", "-o", "junit", file)
        assert (code, "<error message=" in out, "none" in err) == (2, True, True)
