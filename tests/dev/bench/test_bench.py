"""`python -m dev.bench`: its command line, the promise it holds restarts to, and one whole run, as small as can be."""

import argparse
import dataclasses
import json
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from dev.bench import __main__ as command_line
from dev.bench import managers, once, proc, run
from dev.bench.history import jobs_created_early
from dev.bench.phases import pods_at
from dev.bench.play import Play
from dev.bench.scenarios import SCENARIOS
from dev.bench.scene import Event
from dev.bench.sets import placement_errors
from dev.bench.show import TITLES
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


def test_the_admission_of_the_go_jobset_is_measured_with_one_process(monkeypatch):
    measured = []
    monkeypatch.setattr(once, "_measure_admission", lambda workers, entry: measured.append((entry.name, workers)) or ())
    entries = [managers.parse_entry(text) for text in ("jobset", "floor-background", "go=/opt/manager")]
    results = once.measure(SimpleNamespace(entries=entries, wanted={"P8"}, say=lambda _: None))
    assert measured == [("jobset", 1), ("jobset", 2), ("go", 1)]
    assert results["errors"] == []


def test_a_manager_is_named_known_or_called_after_its_program():
    assert managers.parse_entry("floor-background").is_floor
    assert managers.parse_entry("mine=/opt/manager --zap-log-level=2") == managers.Entry(
        "mine", ("/opt/manager", "--zap-log-level=2")
    )
    assert managers.parse_entry("/opt/manager --flag=a=b").name == "manager"
    assert managers.parse_entry("/opt/manager --flag=a=b").command == ("/opt/manager", "--flag=a=b")
    with pytest.raises(argparse.ArgumentTypeError):
        managers.parse_entry("")


def test_a_job_that_comes_before_its_last_old_pod_has_gone_breaks_the_promise():
    gone = {"a": 10, "b": 20, "c": 30}
    assert jobs_created_early({"a": 11, "b": 21, "c": 31, "new": 1}, gone) == []
    assert jobs_created_early({"a": 9, "b": 21, "c": 29}, gone) == ["a", "c"]


def test_each_pod_counts_once_and_only_for_the_event_that_is_waited_for():
    kinds = [("ADDED", "a"), ("MODIFIED", "a"), ("ADDED", "a"), ("DELETED", "a"), ("ADDED", "b"), ("ADDED", "c")]
    events = [Event(float(n), kind, {"uid": uid}) for n, (kind, uid) in enumerate(kinds)]
    assert [moment for moment, _ in pods_at(iter(events), "ADDED", 2)] == [0.0, 4.0]
    assert [moment for moment, _ in pods_at(iter(events), "DELETED", 1)] == [3.0]


@pytest.mark.parametrize(("scale", "count", "scaled"), [(1, 300, 300), (0.05, 300, 15), (0.01, 40, 2)])
def test_a_scaled_scenario_keeps_two_of_everything(scale, count, scaled):
    assert Play(None, scale, [], None).scale_count(count) == scaled


def test_each_phase_has_a_title_and_a_scenario_that_can_be_asked_for():
    names = [name for scenario in SCENARIOS for name in scenario.phases]
    assert sorted(names) == sorted(TITLES)
    assert {code for scenario in SCENARIOS for code in scenario.codes} < set(command_line.ALL_CODES)


@pytest.mark.parametrize(
    ("wanted", "played"),
    [("P1", ["P1"]), ("P2", ["P1", "P2"]), ("P5", ["P1", "P5 suspend", "P5 resume"])],
)
def test_a_scenario_plays_its_first_phase_and_the_wanted_ones(wanted, played):
    [scenario] = [scenario for scenario in SCENARIOS if wanted in scenario.codes]
    phases = dict.fromkeys(scenario.phases, lambda _: {})
    scenario = dataclasses.replace(scenario, phases=phases)
    assert [name for name, _ in scenario.play(Play(None, 1, [], None), frozenset({wanted}))] == played


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
        assert turn["idle_rss_mib"] > turn["idle_pss_mib"] > 20
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
