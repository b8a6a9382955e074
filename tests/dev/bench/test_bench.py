"""`python -m dev.bench`: its command line, the promise it holds restarts to, and one whole run, as small as can be."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dev.bench import __main__ as command_line
from dev.bench import agents, managers, proc, run
from dev.bench.hang import DEADLINE_SECONDS, Programs
from dev.bench.history import too_early
from dev.bench.phases import figures, reaching
from dev.bench.play import Play, watched_mib
from dev.bench.scenarios import AFTER_SECONDS, SCENARIOS
from dev.bench.scene import Event
from dev.bench.sets import placement_errors
from dev.bench.show import TITLES
from kube.store import ChangeKind
from tests.dev.bench.commands import run_module


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--scenarios", "P1,P99"], "P99: not among P1"),
        (["--rounds", "0"], "0 is less than 1"),
        (["--nodes", "0"], "0 is less than 1"),
        (["--scale", "1.5"], "1.5 is not between 0 and 1"),
        (["--manager", "mine="], "names no command"),
        (["--manager", "jobset", "--manager", "jobset"], "jobset is given twice"),
        (["--from", "nowhere.json"], "nowhere.json is not a file of results"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_starts(arguments, said, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["bench", *arguments])
    monkeypatch.setattr(run, "turns", lambda _: pytest.fail("it was measured"))
    with pytest.raises(SystemExit, match="2"):
        command_line.main()
    assert said in capsys.readouterr().err


def test_a_manager_is_named_known_or_called_after_its_program():
    assert managers.entry("floor-background").floor
    assert managers.entry("mine=/opt/manager --zap-log-level=2") == managers.Entry(
        "mine", ("/opt/manager", "--zap-log-level=2")
    )
    assert managers.entry("/opt/manager --flag=a=b").name == "manager"
    assert managers.entry("/opt/manager --flag=a=b").command == ("/opt/manager", "--flag=a=b")
    with pytest.raises(argparse.ArgumentTypeError):
        managers.entry("")


def test_a_job_that_comes_before_its_last_old_pod_has_gone_breaks_the_promise():
    gone = {"a": 10, "b": 20, "c": 30}
    assert too_early({"a": 11, "b": 21, "c": 31, "new": 1}, gone) == []
    assert too_early({"a": 9, "b": 21, "c": 29}, gone) == ["a", "c"]


def test_each_pod_counts_once_and_only_for_the_event_that_is_waited_for():
    kinds = [("ADDED", "a"), ("MODIFIED", "a"), ("ADDED", "a"), ("DELETED", "a"), ("ADDED", "b"), ("ADDED", "c")]
    events = [Event(float(n), kind, {"uid": uid}) for n, (kind, uid) in enumerate(kinds)]
    assert [moment for moment, _ in reaching(iter(events), "ADDED", 2)] == [0.0, 4.0]
    assert [moment for moment, _ in reaching(iter(events), "DELETED", 1)] == [3.0]


@pytest.mark.parametrize(("scale", "count", "scaled"), [(1, 300, 300), (0.05, 300, 15), (0.01, 40, 2)])
def test_a_scaled_scenario_keeps_two_of_everything(scale, count, scaled):
    assert Play(None, scale).scale_count(count) == scaled


def test_each_phase_has_a_title_and_a_scenario_that_can_be_asked_for():
    names = [name for scenario in SCENARIOS for name in scenario.phases]
    assert sorted(names) == sorted(TITLES)
    assert {code for scenario in SCENARIOS for code in scenario.codes} < set(command_line.SCENARIOS)


@pytest.mark.parametrize(
    ("wanted", "played"),
    [("P1", ["P1"]), ("P2", ["P1", "P2"]), ("P5", ["P1", "P5 suspend", "P5 resume"])],
)
def test_a_scenario_plays_its_first_phase_and_the_wanted_ones(wanted, played):
    [scenario] = [scenario for scenario in SCENARIOS if wanted in scenario.codes]
    phases = dict.fromkeys(scenario.phases, lambda _: {})
    scenario = dataclasses.replace(scenario, phases=phases)
    assert [name for name, _ in scenario.play(Play(None), frozenset({wanted}))] == played


CHILD = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
BUSY = (
    "import time; x = bytearray(50_000_000); end = time.process_time() + {}\nwhile time.process_time() < end: pass\n{}"
)


def python(*args: str) -> subprocess.Popen[bytes]:
    """A program that ends when its input does."""
    return subprocess.Popen(  # noqa: S603 - ourselves
        [sys.executable, "-c", *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def test_children_count_as_the_process_that_started_them():
    with python(CHILD, BUSY.format(0.3, "input()")) as process:
        deadline = time.monotonic() + 30
        while proc.cpu_seconds(process.pid) < 0.3:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert len(proc.family(process.pid)) == 2
        assert proc.memory_mib(process.pid) > 48
        assert proc.memory_mib(process.pid, "VmHWM") >= proc.memory_mib(process.pid)
        process.stdin.close()
        process.wait(30)
    assert proc.memory_mib(process.pid) == 0, "a process that is gone holds nothing"


def test_what_a_child_used_counts_after_its_end():
    with python(CHILD + "\nprint(flush=True)\ninput()", BUSY.format(0.2, "")) as process:
        process.stdout.readline()
        assert len(proc.family(process.pid)) == 1
        assert proc.cpu_seconds(process.pid) >= 0.2
        process.stdin.close()


def test_the_memory_peak_is_reset():
    with python("x = bytearray(50_000_000); del x\nprint(flush=True)\ninput()") as process:
        process.stdout.readline()
        assert proc.memory_mib(process.pid, "VmHWM") > 48
        proc.reset_peak(process.pid)
        assert proc.memory_mib(process.pid, "VmHWM") < 48
        process.stdin.close()


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.timeout(240)
def test_a_whole_run(binaries, tmp_path):
    """A restart of three Jobs by the manager and by a floor: kept, shown, drawn, and shown again."""
    arguments = ["--scenarios", "P2", "--rounds", "1", "--nodes", "2", "--scale", "0.01", "--out", str(tmp_path)]
    done = run_module("dev.bench", *arguments, "-o", "json", timeout=220)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert results == json.loads((tmp_path / "results.json").read_text())
    assert [turn["manager"] for turn in results["turns"]] == ["jobset", "floor-background"]
    for turn in results["turns"]:
        assert turn["idle_rss_mib"] > 20
        for name in ("P1", "P2"):
            phase = turn["phases"][name]
            assert phase["reported_seconds"] >= phase["seconds"] >= phase["half_seconds"] > 0
            assert phase["peak_rss_mib"] >= phase["rss_mib"] > 20
            assert (phase["pods"], phase["pods_created"]) == (3, 3)
            assert (phase["manager"]["creates"], phase["manager"]["duplicates"]) == (3, 0)
            assert {"verb": "create", "resource": "jobs", "code": 201, "count": 3} in phase["calls"]
    ours, floor = (turn["phases"]["P2"]["manager"] for turn in results["turns"])
    assert 1 <= ours["deletes"] <= 3
    assert floor["deletes"] == 4, "each Job, and once the pods"
    assert floor["status_writes"] == 1
    assert {path.name for path in tmp_path.iterdir()} >= {"times.svg", "calls.svg", "memory.svg"}

    again = run_module("dev.bench", "--from", str(tmp_path), "--calls")
    assert again.returncode == 0, again.stderr
    assert "P2: time over floor-background" in again.stdout
    assert "Scaled to 0.01" in again.stdout


def test_a_job_on_two_racks_and_two_jobs_on_one_are_both_reported():
    assert placement_errors([("a", "rack-0"), ("a", "rack-0"), ("b", "rack-1")]) == []
    reported = placement_errors([("a", "rack-0"), ("a", "rack-1"), ("b", "rack-1")])
    assert reported == ["Job a is on rack-0, rack-1", "rack-1 holds a, b"]


def turns_of(scenarios: str, folder: Path, *, nodes: int, scale: float) -> list[dict[str, Any]]:
    """One round of these scenarios with our manager; fails with what the run says if it has errors."""
    size = ("--rounds", "1", "--nodes", str(nodes), "--scale", str(scale), "--out", str(folder))
    flags = ("--scenarios", scenarios, *size, "--manager", "jobset", "-o", "json")
    done = run_module("dev.bench", *flags, timeout=380)
    turns = json.loads(done.stdout)["turns"]
    assert not any(turn["errors"] for turn in turns), done.stderr
    return turns


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_each_job_has_a_rack_alone_by_webhooks_and_by_policies(binaries, tmp_path):
    """P3 and P17: the run fails where a rack is shared; each pod is created once, and reviewed once or not at all."""
    turns = turns_of("P3,P17", tmp_path, nodes=60, scale=0.1)
    for step in ("create", "restart"):
        webhooks, policies = turns[0]["phases"][f"P3 {step}"], turns[1]["phases"][f"P17 {step}"]
        for phase in (webhooks, policies):
            assert (phase["pods_created"], phase["pod_creates_refused"]) == (40, 0), "once each"
        assert (webhooks["pod_webhook_calls"], policies["pod_webhook_calls"]) == (40, 0)
        assert policies["gates_lifted"] == 36, "of all followers"


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_lost_node_costs_the_time_that_the_set_leaves_it(binaries, tmp_path):
    """P14, as small as can be: what counts is that all sets run again, and whose calls those were."""
    [turn] = turns_of("P14", tmp_path, nodes=4, scale=0.02)
    names = ("P14 recreate", "P14 recreate 10", "P14 recreate lost", "P14 in place", "P14 worker only")
    phases = [turn["phases"][name] for name in names]
    assert [phase["pods"] for phase in phases] == [6, 20, phases[2]["pods_created"], 6, 6]
    for phase in phases:
        assert phase["reported_seconds"] >= phase["seconds"] >= AFTER_SECONDS - 1  # a taint's time has whole seconds
    again, of_ten, lost, *in_place = phases
    assert again["pods_created"] == again["manager"]["creates"] == 6
    assert (of_ten["pods_created"], of_ten["manager"]["creates"]) == (20, 2)
    assert lost["pods_created"] == 10 * lost["manager"]["creates"]
    for phase in in_place:
        assert phase["pods_created"] == phase["pods_replaced"] < 6
        assert phase["manager"]["creates"] == 0
        # Two for the attempt; and each Job of a lost pod says at a time of its own that it is not ready, has a new pod,
        # and is ready again. Jobs whose pods stay cause none.
        assert phase["manager"]["status_writes"] <= 2 + 3 * phase["pods_replaced"]


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_restarts_in_place_after_a_failure_and_after_a_hang(binaries, tmp_path):
    """P15 and P16, as small as can be."""
    turns = turns_of("P15,P16", tmp_path, nodes=4, scale=0.02)
    failed, alone = (turns[0]["phases"][name] for name in ("P15", "P15 worker only"))
    hung = turns[1]["phases"]["P16"]
    for phase in (failed, alone, hung):
        assert phase["reported_seconds"] >= phase["half_seconds"] > 0
        assert (phase["pods"], phase["pods_created"]) == (4, 0)
        assert phase["manager"]["status_writes"] <= 4
    for phase in (failed, alone):
        assert (phase["writes_per_agent"], phase["manager"]["creates"]) == (1, 0)
        assert phase["watched_mib"] > 0
    assert hung["seconds"] >= DEADLINE_SECONDS


async def test_the_container_whose_worker_fails_starts_again_and_no_other(monkeypatch):
    started = []

    class Agent:
        def __init__(self, _client, _second, pod, *_):
            started.append(pod.metadata.name)

        async def run(self):
            await asyncio.Event().wait()

    monkeypatch.setattr(agents, "SimulatedAgent", Agent)
    async with asyncio.TaskGroup() as tasks:
        containers = agents.Containers(None, None, ("ns", "js"), None, tasks)
        for name in "ab":
            meta = agents.SeenMeta(name=name, namespace="ns", uid=name)
            pod = agents.SeenPod(metadata=meta, status=agents.SeenStatus(phase="Running"))
            containers.on_pod(ChangeKind.ADDED, None, pod)
        await asyncio.sleep(0)
        containers.fail_one()
        await asyncio.sleep(0)
        assert started == ["a", "b", "a"]
        for container in "ab":
            containers._running[container][1].cancel()


def test_what_programs_print_gives_the_last_heartbeat_and_each_start():
    programs = Programs()
    lines = [("a", "begun", 1.0), ("b", "begun", 2.0), ("a", "hangs", 3.0), ("a", "begun", 9.0), ("b", "begun", 8.0)]
    for pod, event, moment in lines:
        programs.read(json.dumps({"pod": pod, "said": event, "moment": moment}))
    starts = [programs.starts(run) for run in (1, 2, 3)]
    assert (starts[0], programs.last_heartbeat, *starts[1:]) == ([1.0, 2.0], 3.0, [9.0, 8.0], [])


def test_what_watches_are_sent_is_each_change_to_each_agent():
    assert watched_mib(2**20, 3, 5) == 15


def test_times_of_a_lost_node_begin_with_its_taint():
    found = figures([12.0, 17.0, 13.0], 10.0)
    assert (found["pods"], found["half_seconds"], found["seconds"]) == (3, 3.0, 7.0)
