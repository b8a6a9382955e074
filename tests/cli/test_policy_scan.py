"""`jobset policy scan` and `jobset policy which`: what policies say about a cluster, read with the rights of the user."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.policy import scan
from kube.clock import now
from tests.support.objects.jobsets import jobset, rjob
from tests.support.objects.policies import exception, manifest, setting

JSON = dict[str, Any]
LIMITS = manifest("limits", ("Audit",), maxJobs={"max": 4, "fromNamespaceAnnotation": "jobs"}, ttl={"required": True})
LIMITS["spec"]["exceptions"] = {"allowedNamespaces": {}, "maxDuration": "1d"}
TEAM = {"kind": "Namespace", "metadata": {"name": "team-a", "labels": {"tier": "x"}, "annotations": {"jobs": "5"}}}
LARGE = jobset(rjob(replicas=9), name="large", namespace="team-a", ttlSecondsAfterFinished=5)
SMALL = jobset(rjob(replicas=5), name="small", namespace="team-a")

NONE = "JobSets would be refused now, 0 more if all policies denied\n"
NINE = "9 Jobs, and at most 5 allowed by annotation jobs of the namespace"
FEWER = "reduce replicas: workers has 9"


def granted(**spec: Any) -> JSON:
    """An exception from maxJobs that was created now."""
    found = exception(expiresAt="9999-01-01T00:00:00Z", **spec)
    found["metadata"] |= {"namespace": "team-a", "creationTimestamp": now().isoformat()}
    return found


class TestScan:
    def test_shows_what_would_be_refused_whatever_the_policies_do_now(self, connected: Any, command: Any):
        connected(LIMITS, TEAM, LARGE, SMALL)
        code, out, _ = command("policy", "scan")
        lines = [line.split("   ") for line in out.splitlines()]
        rows = [[cell.strip() for cell in line if cell.strip()] for line in lines]
        assert (code, rows) == (
            1,
            [
                ["POLICY", "RULE", "ACTIONS", "JOBSETS"],
                ["limits", "maxJobs", "Audit", "1"],
                ["limits", "ttl", "Audit", "1"],
                [],
                ["NAMESPACE", "JOBSET", "RULE", "PATH", "MESSAGE"],
                [
                    "team-a",
                    "large",
                    "maxJobs",
                    "spec.replicatedJobs[0].replicas",
                    f"Forbidden: policy limits: {NINE}; {FEWER}",
                ],
                [
                    "team-a",
                    "small",
                    "ttl",
                    "spec.ttlSecondsAfterFinished",
                    "Required value: policy limits; set after how many seconds a finished set is deleted",
                ],
                ["0 of 2 JobSets would be refused now, 2 more if all policies denied"],
            ],
        )

    def test_exceptions_count(self, connected: Any, command: Any):
        connected(LIMITS, TEAM, LARGE, granted())
        assert command("policy", "scan") == (0, f"0 of 1 {NONE}", "")

    def test_programs_read_json_and_the_rest_is_counted(
        self, connected: Any, command: Any, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr(scan, "MAX_SHOWN", 1)
        connected(LIMITS, TEAM, LARGE, SMALL)
        code, out, _ = command("policy", "scan", "-A", "-o", "json")
        found = json.loads(out)
        assert (code, found["jobsets"], found["refused"], found["leftOut"]) == (1, 2, 2, 1)
        assert found["counts"][0] == {"policy": "limits", "rule": "maxJobs", "actions": ["Audit"], "jobsets": 1}
        assert [each["jobset"] for each in found["violations"]] == ["large"]
        assert command("policy", "scan", "-A")[1].splitlines()[-2] == "and 1 more"

    def test_policies_in_files_are_tried_before_they_are_stored(self, connected: Any, command: Any, tmp_path: Path):
        file = tmp_path / "p.yaml"
        file.write_text(json.dumps(manifest("new", maxJobs={"max": 1})))
        connected(TEAM, LARGE)
        assert command("policy", "scan", "-p", str(file))[0] == 1
        file.write_text(json.dumps(manifest("new", maxJob={"max": 1})))
        code, _, err = command("policy", "scan", "-p", str(file))
        assert (code, 'did you mean "maxJobs"?' in err) == (2, True)

    def test_faults_of_policies_in_files_have_their_place(self, connected: Any, command: Any, tmp_path: Path):
        (tmp_path / "p.yaml").write_text(yaml.safe_dump(manifest("new", maxJob={"max": 1})))
        connected(TEAM, LARGE)
        _, _, err = command("policy", "scan", "-p", str(tmp_path))
        assert err.startswith(f"{tmp_path}/p.yaml:7:5: error: spec.rules.maxJob: ")

    def test_violations_have_the_place_of_the_rule(self, connected: Any, command: Any, tmp_path: Path):
        (tmp_path / "p.yaml").write_text(yaml.safe_dump(manifest("new", maxJobs={"max": 1}, ttl={"required": True})))
        connected(TEAM, LARGE)
        _, out, _ = command("policy", "scan", "-p", str(tmp_path))
        place = f"{tmp_path}/p.yaml:7"
        assert [line.split() for line in out.splitlines()[:2]] == [
            ["POLICY", "RULE", "ACTIONS", "JOBSETS", "WHERE"],
            ["new", "maxJobs", "Deny", "1", place],
        ]
        head, row = (line.split() for line in out.splitlines()[3:5])
        assert dict(zip(head, row, strict=False))["WHERE"] == place
        found = json.loads(command("policy", "scan", "-p", str(tmp_path), "-o", "json")[1])
        for each in (found["counts"][0], found["violations"][0]):
            assert (each["file"], each["line"]) == (f"{tmp_path}/p.yaml", 7)

    def test_what_is_refused_now_is_told_from_what_would_be(self, connected: Any, command: Any):
        connected(LIMITS, manifest("denies", maxJobs={"max": 8}), TEAM, LARGE, SMALL)
        _, out, _ = command("policy", "scan")
        assert out.splitlines()[-1] == "1 of 2 JobSets would be refused now, 1 more if all policies denied"

    def test_a_namespace_that_is_gone_is_passed_over(self, connected: Any, command: Any):
        connected(LIMITS, LARGE).has_namespaces = False
        assert command("policy", "scan", "-A") == (0, f"0 of 0 {NONE}", "")

    def test_a_namespace_without_jobsets_is_good(self, connected: Any, command: Any):
        connected(LIMITS, TEAM).has_namespaces = False
        assert command("policy", "scan", "-n", "team-a") == (0, f"0 of 0 {NONE}", "")

    def test_a_jobset_that_cannot_be_read_is_reported(self, connected: Any, command: Any):
        connected(LIMITS, TEAM, {**SMALL, "spec": {"replicatedJobs": 3}})
        code, _, err = command("policy", "scan")
        assert (code, err) == (2, "jobset policy scan: JobSets that cannot be read: 1\n")


def test_programs_read_yaml_that_is_the_json(connected: Any, command: Any):
    connected(LIMITS, TEAM, LARGE, SMALL)
    for part in ("scan", "which"):
        as_json, as_yaml = (command("policy", part, "-o", form)[1] for form in ("json", "yaml"))
        assert yaml.safe_load(as_yaml) == json.loads(as_json)
        assert (as_yaml.startswith("{"), "&id" in as_yaml) == (False, False)


class TestWhich:
    def test_shows_policies_that_are_about_the_namespace_and_exceptions(self, connected: Any, command: Any):
        here = setting("sets", {"objectSelector": {"matchLabels": {"a": "b"}}}, labels={"team": "a"})
        elsewhere = manifest("other", match={"namespaceSelector": {"matchLabels": {"tier": "y"}}}, maxJobs={"max": 1})
        connected(LIMITS, here, elsewhere, TEAM, granted(), granted(policy="none"))
        code, out, _ = command("policy", "which")
        lines = out.splitlines()
        assert (code, lines[:4]) == (
            0,
            [
                "POLICY   ACTIONS   JOBSETS                 API-SERVER   RULES",
                "limits   Audit     all                     not asked    maxJobs, ttl",
                "sets     Deny      some, by their labels   not asked    default labels[team]=a",
                "",
            ],
        )
        assert lines[5].startswith("big-run     limits   maxJobs   until ")
        assert lines[6] == "big-run     none     maxJobs   there is no policy none"

    def test_says_which_defaults_are_not_set_because_policies_contradict(self, connected: Any, command: Any):
        short = manifest("short", ttl={"max": 1})
        connected(TEAM, short, setting(ttlSecondsAfterFinished=60))
        _, out, _ = command("policy", "which")
        (conflict,) = out.splitlines()[3:]
        assert conflict.startswith(
            "policy short: spec.rules.ttl: refuses the default ttlSecondsAfterFinished of policy"
        )
        assert "default ttlSecondsAfterFinished=60" in out

    def test_says_that_the_api_server_does_not_hold_a_policy_that_asks_for_it(self, connected: Any, command: Any):
        asks = {**LIMITS, "spec": {**LIMITS["spec"], "apiServer": "Enforce"}}
        refused = {
            "type": "InAPIServer",
            "status": "False",
            "reason": "Forbidden",
            "message": "no right; grant it",
            "lastTransitionTime": "2030-01-01T00:00:00Z",
        }
        held = {**refused, "status": "True"}
        for conditions, says in (
            ([], "policy limits may not be held by the API server: the manager has said nothing about it\n"),
            ([refused], "policy limits is not held by the API server: no right; grant it\n"),
            ([held], ""),
        ):
            connected({**asks, "status": {"conditions": conditions}}, TEAM)
            _, out, _ = command("policy", "which")
            assert ("held by the API server" in out, says in out) == (bool(says), True)
        assert "holds it" in out
        found = json.loads(command("policy", "which", "-o", "json")[1])["policies"][0]["apiServer"]
        assert found == {"holds": True, "message": "no right; grant it"}

    def test_says_that_there_are_none(self, connected: Any, command: Any):
        connected(TEAM)
        assert command("policy", "which") == (0, "no policy is about namespace team-a\n", "")

    def test_programs_read_json(self, connected: Any, command: Any):
        connected(LIMITS, TEAM)
        found = json.loads(command("policy", "which", "-n", "team-a", "-o", "json")[1])
        assert (found["namespace"], found["policies"][0]["rules"]) == ("team-a", ["maxJobs", "ttl"])


@pytest.mark.parametrize(
    ("refused", "code", "says"),
    [
        ("jobsetpolicies", 404, "the cluster does not serve JobSetPolicies: apply manifests/policy first"),
        (
            "jobsetpolicies",
            403,
            "read jobsetpolicies.policy.jobset.x-k8s.io, which the ClusterRole jobset-policy-viewer-role has",
        ),
        ("jobsetpolicyexceptions", 403, "which the ClusterRole jobset-policy-viewer-role has"),
        ("team-a", 403, "ask for the right to read namespaces\n"),
        ("jobsetpolicyexceptions", 404, ""),
    ],
)
def test_what_cannot_be_read_is_said(refused: str, code: int, says: str, connected: Any, command: Any):
    for part, otherwise in (("scan", 1), ("which", 0)):
        connected(LIMITS, TEAM, SMALL).refuse(
            f"/{refused}$", f'cannot list resource "{refused}" in API group "x"', code
        )
        found, _, err = command("policy", part)
        assert says in err
        assert err.count("ask for") <= 1
        assert found == (2 if says else otherwise)
