"""The placement benchmark: what it counts, what it calls wrong, what it prints; and one whole run, as small as can be."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dev.bench import placement, sets
from dev.bench.placement import Size
from dev.bench.play import Play
from tests.dev.bench.commands import run_module

MODULE = "dev.bench.placement"


def test_a_job_on_two_racks_and_two_jobs_on_one_are_both_reported():
    assert sets.placement_errors([("a", "rack-0"), ("a", "rack-0"), ("b", "rack-1")]) == []
    reported = sets.placement_errors([("a", "rack-0"), ("a", "rack-1"), ("b", "rack-1")])
    assert reported == ["Job a is on rack-0, rack-1", "rack-1 holds a, b"]


@pytest.mark.parametrize(
    ("size", "running"),
    [(Size(60, 10, 40, 10), 40), (Size(30, 10, 40, 10), 30)],
)
def test_exclusive_jobs_without_a_rack_are_not_waited_for(size, running):
    assert Play(None, manifest=sets.jobset(size.jobs, size.pods), room=placement.room(size)).jobs == running


def run(variant: str, seconds: float, **more: object) -> dict[str, object]:
    counts = dict.fromkeys(
        ("pods_created", "pod_creates_refused", "pods_patched_by_manager", "pod_webhook_calls", "requests"), 4
    )
    times = {"seconds": seconds, "half_seconds": 1.0, "manager_cpu_seconds": 0.5, "pod_webhook_seconds": 0.0}
    return {"variant": variant, "idle_rss_mib": 130.0, "peak_rss_mib": 140.0, "start": {**counts, **times}, **more}


def test_a_row_has_the_median_its_range_and_its_ratio_to_plain_pods():
    runs = [run("plain", 4.0), run("webhook", 3.0), run("plain", 2.0), run("webhook", 9.0), run("webhook", 6.0)]
    plain, webhook = placement.phase_rows(runs, "start")
    assert (plain["variant"], plain["runs"], plain["all run (s)"], plain["x plain"]) == (
        "plain",
        "2",
        "3.0 (2.0-4.0)",
        "1.00",
    )
    assert (webhook["runs"], webhook["all run (s)"], webhook["x plain"]) == ("3", "6.0 (3.0-9.0)", "2.00")
    assert placement.phase_rows(runs, "waiting") == []


def test_without_plain_runs_there_is_no_ratio():
    (row,) = placement.phase_rows([run("webhook", 3.0)], "start")
    assert row["x plain"] == "-"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--pods", "1"], "no followers"),
        (["--pods", "21"], "no more than 20"),
        (["--jobs", "0"], "less than 1"),
        (["--jobs", "121"], "not all pods of the plain variant have room"),
        (["--variants", "plain,magic"], "magic: not among plain, webhooks, policies, policies-without-manager"),
    ],
)
def test_sizes_that_cannot_be_measured_are_refused_before_anything_starts(arguments, said):
    done = run_module(MODULE, *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert "control plane" not in done.stderr


def test_help_says_what_the_flags_do():
    done = run_module(MODULE, "--help")
    assert done.returncode == 0
    assert all(flag in done.stdout for flag in ("--racks", "--repeat", "--variants", "--wait-seconds", "--output"))


SMALL = ("--racks", "2", "--nodes", "3", "--jobs", "3", "--pods", "3", "--wait-seconds", "1")


def run_bench(*args: str) -> tuple[list[dict[str, Any]], str]:
    """The runs of a benchmark in which no pod is refused, and what it printed of its progress."""
    done = run_module(MODULE, "-o", "json", "--repeat", "1", *args, timeout=380)
    assert done.returncode == 0, done.stderr
    runs: list[dict[str, Any]] = json.loads(done.stdout)["runs"]
    for run in runs:
        for phase in ("start", "restart"):
            assert run[phase]["seconds"] >= run[phase]["half_seconds"] > 0
            assert run[phase]["pod_creates_refused"] == 0
    return runs, done.stderr


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.timeout(400)
def test_a_run_of_one_variant(binaries):
    """Three Jobs on two racks: the third has to wait, and its pods are created once all the same."""
    [webhook], _ = run_bench("--variants", "webhooks", *SMALL)
    assert webhook["variant"] == "webhooks"
    for count in ("pods_created", "pod_webhook_calls"):
        assert webhook["start"][count] + webhook["waiting"][count] == 9, "once each"


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_whole_run(binaries):
    (plain, webhook, policies), reported = run_bench(*SMALL)
    assert "run 3 of 3: policies" in reported
    assert [run["variant"] for run in (plain, webhook, policies)] == ["plain", "webhooks", "policies"]
    assert plain["start"]["pod_webhook_calls"] == policies["start"]["pod_webhook_calls"] == 0
    assert webhook["start"]["pod_webhook_calls"] + webhook["waiting"]["pod_webhook_calls"] == 9
    assert policies["start"]["pods_patched_by_manager"] == 4, "the followers of the two Jobs that have a rack"
    assert "waiting" not in plain
    assert plain["start"]["pods_created"] == 9
    for exclusive in (webhook, policies):
        assert exclusive["start"]["pods_created"] + exclusive["waiting"]["pods_created"] == 9, "once each"


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_forty_jobs_of_ten_pods_on_sixty_racks(binaries):
    """Every Job on one rack alone, after the start and after a restart; the run fails where that is not so."""
    [run], _ = run_bench("--variants", "webhooks")
    for phase in ("start", "restart"):
        assert run[phase]["pods_created"] == 400, "once each"
        assert run[phase]["pod_webhook_calls"] == 400
