"""What `jobset policy eval` and `export` say about policies and exceptions that do not count."""

from pathlib import Path
from typing import Any

import pytest

from app.check.policies import NAME_LABEL
from tests.app.test_policy_commands import SMALL, run, write
from tests.support.policies import manifest


class TestNoMatch:
    """No policy is about a JobSet: that is said, for nothing was checked."""

    def decide(self, tmp_path: Path, capsys: Any, *policies: Any, flags: tuple[str, ...] = ()) -> tuple[int, str]:
        files = write(tmp_path / "set.yaml", SMALL), write(tmp_path / "p.yaml", *policies)
        return run(capsys, "policy", "eval", "-f", files[0], "-p", files[1], *flags)[:2]

    @pytest.mark.parametrize(
        ("match", "why", "remedy"),
        [
            (
                {"namespaceSelector": {"matchLabels": {"x.com/tenant": "true"}}},
                "namespaceSelector wants x.com/tenant=true, and namespace default has no such label",
                "pass --namespace-label x.com/tenant=true if its namespace has that label",
            ),
            (
                {"namespaceSelector": {"matchLabels": {NAME_LABEL: "team-a"}}},
                f"namespaceSelector wants {NAME_LABEL}=team-a, and namespace default has {NAME_LABEL}=default",
                "write `namespace: team-a` into its metadata, or -n team-a",
            ),
            (
                {"objectSelector": {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}]}},
                "objectSelector wants tier in (a,b), and the JobSet has no such label",
                "change the labels of the JobSet",
            ),
        ],
    )
    def test_the_selector_is_named(self, match: Any, why: str, remedy: str, tmp_path: Path, capsys: Any):
        code, out = self.decide(tmp_path, capsys, manifest(match=match, maxJobs={"max": 0}))
        assert code == 0
        said = "note: metadata.name: no policy matches JobSet default/small, so no rule of 1 policy was checked: "
        assert f"{said}policy limits: {why}; {remedy}, or correct the selectors\n" in out
        assert out.endswith("0 errors, 0 warnings, 1 note\n")

    def test_what_the_remedy_says_helps(self, tmp_path: Path, capsys: Any):
        match = {"namespaceSelector": {"matchLabels": {"x.com/tenant": "true"}}}
        policy = manifest(match=match, maxJobs={"max": 0})
        code, out = self.decide(tmp_path, capsys, policy, flags=("--namespace-label", "x.com/tenant=true"))
        assert (code, "no policy matches" in out) == (1, False)

    def test_one_that_matches_is_enough(self, tmp_path: Path, capsys: Any):
        other = manifest("other", match={"objectSelector": {"matchLabels": {"a": "b"}}}, maxJobs={"max": 0})
        assert self.decide(tmp_path, capsys, other, manifest(maxJobs={"max": 9})) == (
            0,
            "1 file, 1 JobSet, 0 errors, 0 warnings\n",
        )

    def test_the_rest_of_many_is_counted(self, tmp_path: Path, capsys: Any):
        match = {"objectSelector": {"matchLabels": {"a": "b"}}}
        policies = [manifest(f"p{i}", match=match, maxJobs={"max": 0}) for i in range(5)]
        _, out = self.decide(tmp_path, capsys, *policies)
        assert [f"policy p{i}: " in out for i in range(5)] == [True, True, True, False, False]
        assert "so no rule of 5 policies was checked: " in out
