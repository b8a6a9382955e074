"""The benchmark of many JobSets under the simulated API server: what is measured, and how figures grow."""

import sys

import pytest

from dev.bench import goals, report
from dev.bench.simulated import many


@pytest.mark.slow
@pytest.mark.timeout(400)  # three managers start, and each has to come to rest
def test_jobsets_at_rest_fail_one_after_the_other():
    """The real manager as a process: each failure is counted, and the figures are there."""
    result = many.measure([sys.executable, "-m", "cli", "manager"], 3, rest_seconds=0.1, failures=2)
    assert (result["sets"], result["failures"]) == (3, 2)
    assert 0 < result["delay_p50_ms"] <= result["delay_p99_ms"]
    assert result["calls_per_restart"] >= 5, "five Jobs are created again"
    assert result["rss_mib"] > result["pss_mib"] > 10, "two processes share the program"
    assert 0 < result["first_write_seconds"] <= result["start_seconds"], "a Job has failed before the manager starts"
    assert 0 < result["relist_cpu_seconds"] < result["relist_seconds"]
    assert result["relist_calls"] >= 5, "JobSets, Jobs, Services and more are listed again"
    assert result["takeover_ms"] > 0
    assert result["deletion_calls"] == 0, "the garbage collector does it all"


@pytest.mark.parametrize(
    ("base", "power"), [(0, 1.0), (84, 1.0), (84, 2.0), (0.8, 0.5)], ids=["linear", "a base", "square", "root"]
)
def test_the_exponent_of_growth_leaves_out_what_there_is_at_size_0(base, power):
    rows = [{"sets": sets, "figure": base + 3 * sets**power} for sets in (0, 10, 1000, 5000, 20_000)]
    assert report.growth(rows, "sets", "figure") == pytest.approx(power)


def test_two_sizes_that_are_large_enough_and_have_a_figure_give_an_exponent():
    rows = [{"sets": sets, "figure": figure} for sets, figure in ((0, 7), (999, 8), (1000, 7), (5000, 9))]
    assert report.growth(rows, "sets", "figure") is None, "at 1,000 it is that of 0"
    assert report.growth(rows[1:], "sets", "figure") == pytest.approx(0.156, abs=0.001)


def test_what_grows_faster_than_the_number_of_jobsets_misses_its_goal():
    figures = dict.fromkeys((*many.GROWING, "rest_percent"), 0.0)
    rows = [
        {"sets": sets, **figures, "start_seconds": sets / 1000, "relist_seconds": sets**1.2, "pss_mib": 50 + sets / 100}
        for sets in (0, 1000, 5000)
    ]
    results = {"turns": [], "managers": [], "admission": {}, "simulated": {}, "many": {"jobset": rows}}
    judged = {goal.name: goal for goal in goals.goals(results, "jobset")}
    growing = {name: goal.reached for name, goal in judged.items() if "growth" in name}
    assert growing == {
        "P20: growth of start seconds": True,
        "P20: growth of relist seconds": False,
        "P20: growth of pss mib": True,
    }
    assert judged["P20: memory of one more JobSet"].value == pytest.approx(10.24)
    assert judged["P20, 5,000 sets: of a core at rest"].reached
