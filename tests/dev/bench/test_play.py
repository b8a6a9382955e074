"""The acts of scenarios: what is waited for, how long a fault lasts, and which results are refused."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from api import keys
from dev.bench import play, scenarios
from dev.bench.play import Play
from dev.bench.scene import BenchmarkError
from dev.bench.sets import jobs_of

NODES = 3


class Stage:
    """A cluster on which everything happens at once, and in which order. Each Job has a pod on the next of three nodes."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.manifest: Any = None
        self.restarts = 0
        self.recreated: set[str] = set()
        self.cluster = self
        self.audit_log = None

    def path(self, plural: str, group: str = "") -> str:
        return plural

    def items(self, plural: str, group: str = "", query: str = "") -> list[Any]:
        return self.pods() if plural == "pods" and self.manifest else []

    def request(self, method: str, path: str, body: Any = None, content: str = "") -> Any:
        self.log.append(f"{method} {path.partition('/')[0]}")
        if method == "POST":
            self.manifest, self.restarts = body, 0
        if method == "DELETE":
            self.manifest = None
        return {"kind": "JobSet"}

    def pods(self) -> list[Any]:
        count = jobs_of(self.manifest)[1]
        names = [f"pod-{n}" for n in range(count)]
        return [
            {
                "metadata": {
                    "name": name,
                    "uid": f"{name}-{name in self.recreated}",
                    "labels": {"job-name": f"job-{n}", keys.RESTART_ATTEMPT: str(self.restarts)},
                },
                "spec": {"nodeName": f"node-{n % NODES}"},
                "status": {"phase": "Running"},
            }
            for n, name in enumerate(names)
        ]

    @contextlib.contextmanager
    def silence(self, _: Any, pods: list[Any]) -> Any:
        policy, node = self.manifest["spec"]["failurePolicy"], pods[0]["spec"]["nodeName"]
        self.restarts += not {"rules", "restartStrategy"} & policy.keys()
        self.log.append(f"{node} is silent")
        yield 1.0
        self.log.append(f"{node} is back")

    @contextlib.contextmanager
    def measure(self, _: Any, pods: int, *, selector: str, until: str = "ADDED", reported: Any) -> Any:
        phase = {"begun": 0.0, "manager": {"status_writes": 2}}
        yield phase
        phase.pop("begun")
        self.log.append(f"{pods} pods: {until} {selector.rpartition('/')[2]}")

    @contextlib.contextmanager
    def count(self, _: Any) -> Any:
        yield {"manager": {"status_writes": 2}}

    @contextlib.contextmanager
    def order(self, _: Any, *, old: int, jobs: int, pods: int) -> Any:
        yield
        self.log.append(f"order of {jobs} Jobs after attempt {old}")


class Agents:
    """All agents have begun whatever attempt is asked for."""

    def __init__(self, stage: Stage, worker_only: bool) -> None:
        self.stage, self.worker_only = stage, worker_only

    @contextlib.contextmanager
    def running(self: Any, *, worker_only: bool) -> Any:
        yield Agents(self, worker_only)

    def fail_worker(self) -> None:
        self.stage.log.append("a worker fails")

    def wait(self, attempt: int, count: int, timeout: float = 0) -> None:
        self.stage.log.append(f"{count} agents: attempt {attempt}{' of workers' if self.worker_only else ''}")

    def moments(self, attempt: int) -> list[float]:
        return [3.0, 5.0]


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    stage = Stage()

    def fail(_: Any, __: Any) -> None:
        stage.log.append("a pod fails")
        stage.restarts += 1

    monkeypatch.setattr(play, "measure_pods", stage.measure)
    monkeypatch.setattr(play, "count_requests", stage.count)
    monkeypatch.setattr(play, "ordered_restart", stage.order)
    monkeypatch.setattr(play, "fail_one", fail)
    monkeypatch.setattr(play, "wait_for_status", lambda _: 9.0)
    monkeypatch.setattr(play.AgentProcess, "running", Agents.running)
    monkeypatch.setattr(play.audit, "size", lambda _: 0)
    monkeypatch.setattr(play.audit, "calls", lambda *_: ())
    monkeypatch.setattr(scenarios, "silent_node", stage.silence)
    return stage


def play_scenario(stage: Stage, code: str) -> dict[str, Any]:
    """The phases of a scenario at a fiftieth of its size."""
    [scenario] = [scenario for scenario in scenarios.SCENARIOS if code in scenario.codes]
    return dict(scenario.play(Play(stage, 0.02), frozenset(scenario.codes)))


def test_a_restart_after_a_failure_is_held_to_its_order(stage):
    assert list(play_scenario(stage, "P1")) == ["P1", "P2", "P5 suspend", "P5 resume"]
    assert stage.log == [
        "POST jobsets",
        "6 pods: ADDED restart-attempt=0",
        "a pod fails",
        "6 pods: ADDED restart-attempt=1",
        "order of 6 Jobs after attempt 0",
        "PATCH jobsets",
        "6 pods: DELETED restart-attempt=1",
        "PATCH jobsets",
        "6 pods: ADDED restart-attempt=1",
    ]


@pytest.mark.parametrize(
    ("code", "phases"),
    [
        (
            "P14",
            {
                "recreate": ["node-0 is silent", "6 pods: ADDED restart-attempt=1", "node-0 is back"],
                "recreate 10": ["node-0 is silent", "20 pods: ADDED restart-attempt=1", "node-0 is back"],
                "recreate lost": ["node-0 is silent", "7 pods: ADDED job-restart-attempt=1", "node-0 is back"],
                "in place": ["6 agents: attempt 0", "node-0 is silent", "6 agents: attempt 1", "node-0 is back"],
                "worker only": [
                    "6 agents: attempt 2 of workers",
                    "node-2 is silent",
                    "6 agents: attempt 3 of workers",
                    "node-2 is back",
                ],
            },
        ),
        (
            "P15",
            {
                "": ["4 agents: attempt 0", "a worker fails", "4 agents: attempt 1"],
                "worker only": [
                    "4 agents: attempt 2 of workers",
                    "a worker fails",
                    "4 agents: attempt 3 of workers",
                ],
            },
        ),
    ],
)
def test_a_fault_lasts_until_its_pods_or_agents_have_begun_again(stage, code, phases):
    assert list(play_scenario(stage, code)) == [f"{code} {form}".strip() for form in phases]
    setup = ("POST", "DELETE", "GET")
    shown = [line for line in stage.log if not line.startswith(setup) and "restart-attempt=0" not in line]
    assert shown == [line for lines in phases.values() for line in lines]
    assert stage.log.count("POST jobsets") == stage.log.count("DELETE jobsets") + 1, "one JobSet at a time"


@pytest.mark.parametrize("recreated", ["pod-1", "pod-0"], ids=["of another node", "of the lost node"])
def test_pods_of_other_nodes_must_stay(stage, monkeypatch, recreated):
    monkeypatch.setattr(Agents, "moments", lambda *_: stage.recreated.add(recreated) or [3.0])
    stays = (
        contextlib.nullcontext() if recreated == "pod-0" else pytest.raises(BenchmarkError, match="1 pods that were")
    )
    with stays:
        in_place = Play(stage, 0.02)
        scenarios.lose_node_in_place()(in_place)


def test_pods_of_another_attempt_are_a_wrong_result(stage, monkeypatch):
    monkeypatch.setattr(play, "fail_one", lambda *_: None)
    with pytest.raises(BenchmarkError, match="expected 6 running pods of attempt 1 and no others, found: 6 Running of"):
        play_scenario(stage, "P1")
