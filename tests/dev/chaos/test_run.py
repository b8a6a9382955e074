"""A whole run in short, on a real control plane, and its command line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dev.chaos.checks.outcomes import EXPECTED
from dev.chaos.driver import WOKEN_ANNOTATION
from dev.chaos.faults import Kind
from dev.chaos.run import all_events, require_fault_ends
from dev.cluster.nodes import EXIT_CODE
from dev.local import LocalError
from kube.model.validation import qualified_name

ROOT = Path(__file__).parents[3]
SHORT = [Kind.PAUSE, Kind.EXPIRE, Kind.STALE_KILL, Kind.HOSTILE]
"""Faults of the short run: with its seed a leader that sleeps, missed events, and a leader that dies while all are
stale."""


def chaos(*arguments: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dev.chaos", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=timeout)  # noqa: S603


@pytest.mark.parametrize("key", [WOKEN_ANNOTATION, EXIT_CODE, EXPECTED])
def test_annotations_of_a_run_are_keys_that_the_api_server_takes(key):
    assert qualified_name(key) == []


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.timeout(300)
def test_nothing_is_lost_or_done_twice_while_replicas_die_sleep_and_are_abused(binaries, tmp_path):
    faults = ",".join(SHORT)
    done = chaos(
        "--seed", "99", "--minutes", "0.7", "--faults", faults, "--out", str(tmp_path), "-o", "json", timeout=280
    )
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads(done.stdout)
    assert results == json.loads((tmp_path / "results.json").read_text())
    assert results["violations"] == []
    assert {fault["kind"] for fault in results["faults"]} == set(SHORT)
    assert results["sets_ended"] >= 8, "every kind of set has come to its end"
    assert results["restarts"] > 0
    assert results["jobs_created"] > results["sets"]
    assert results["looks_at_pods"] > 10
    assert all(results["hostile_connections"][serves] > 50 for serves in ("webhooks", "probes", "metrics"))
    assert 0 < results["stuck_requests_per_second"] < 5


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--faults", "kill,earthquake"], "earthquake: not among kill, pause"),
        (["--minutes", "0"], "0 is not between 0 and a day"),
    ],
)
def test_wrong_usage_ends_with_2_and_says_what_is_wrong(arguments, said):
    done = chaos(*arguments)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_folder_with_results_is_not_written_to(tmp_path):
    (tmp_path / "results.json").write_text("{}")
    done = chaos("--out", str(tmp_path))
    assert done.returncode == 2
    assert "is not empty" in done.stderr


def test_a_run_without_all_of_a_fault_is_not_judged():
    ended = {"kind": "kill", "begin": 1.0, "end": 1.0}
    require_fault_ends([ended])
    with pytest.raises(LocalError, match=r"broke off.*: neighbour"):
        require_fault_ends([ended, {"kind": "neighbour", "begin": 8.0}])


def test_half_an_audit_log_is_not_judged(tmp_path):
    log = tmp_path / "audit.log"
    log.write_text("")
    assert all_events(log) == []
    (tmp_path / "audit-2026-01-01T00-00-00.000.log").write_text("")
    with pytest.raises(LocalError, match="has moved older ones to audit-2026"):
        all_events(log)
