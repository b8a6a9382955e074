"""The acts of scenarios: which results are refused. `test_bench.py` plays them on a control plane."""

from typing import Any

import pytest

from api import keys
from dev.bench.scene import BenchmarkError
from dev.bench.sets import running_pods


class Pods:
    """A scene whose pods are these."""

    def __init__(self, *pods: tuple[str, int, str]) -> None:
        self.pods = pods

    def path(self, plural: str) -> str:
        return plural

    def items(self, path: str) -> list[Any]:
        assert path == "pods"
        return [
            {"metadata": {"uid": uid, "labels": {keys.RESTART_ATTEMPT: str(attempt)}}, "status": {"phase": phase}}
            for uid, attempt, phase in self.pods
        ]


def test_pods_of_another_attempt_and_pods_that_do_not_run_are_a_wrong_result():
    assert len(running_pods(Pods(("a", 1, "Running"), ("b", 1, "Running")), 2, restarts=1)) == 2
    wrong = Pods(("a", 0, "Running"), ("b", 1, "Pending"))
    with pytest.raises(
        BenchmarkError,
        match="expected 2 running pods of attempt 1 and no others, found: 1 Running of attempt 0, 1 Pending of",
    ):
        running_pods(wrong, 2, restarts=1)
