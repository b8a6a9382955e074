"""The benchmark of many JobSets under the simulated API server: what is measured, and how figures grow."""

import sys

import pytest

from dev.bench.simulated import many, sizes


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


def test_what_one_more_jobset_costs_is_fitted_through_all_sizes():
    lines = [{"sets": sets, "rss_mib": 50 + sets / 4} for sets in (0, 100, 400)]
    assert many.slope(lines, "rss_mib") == pytest.approx(0.25)
    assert many.slope(lines[:1], "rss_mib") == 0


@pytest.mark.parametrize(
    ("base", "power"), [(0, 1.0), (84, 1.0), (84, 2.0), (0.8, 0.5)], ids=["linear", "a base", "square", "root"]
)
def test_the_exponent_of_growth_leaves_out_what_there_is_at_size_0(base, power):
    lines = [{"sets": sets, "figure": base + 3 * sets**power} for sets in (0, 10, 1000, 5000, 20_000)]
    assert sizes.exponent(lines, "sets", "figure") == pytest.approx(power)


def test_two_sizes_that_are_large_enough_and_have_a_figure_give_an_exponent():
    lines = [{"sets": sets, "figure": figure} for sets, figure in ((0, 7), (999, 8), (1000, 7), (5000, 9))]
    assert sizes.exponent(lines, "sets", "figure") is None, "at 1,000 it is that of 0"
    assert sizes.exponent(lines[1:], "sets", "figure") == pytest.approx(0.156, abs=0.001)


def line_of(sets: int, **figures: float) -> dict[str, float]:
    """A line of the table in which all grows with the number of JobSets but what is given."""
    return {"sets": sets, **dict.fromkeys(many.GROWING.values(), sets / 1000), **figures}


def test_what_grows_faster_than_the_number_of_jobsets_is_said():
    lines = [line_of(sets, relist_seconds=sets**1.2, takeover_ms=5) for sets in (0, 1000, 5000)]
    text = many.growth(lines)
    assert "start 1.00" in text
    assert text.endswith("steeper: relist.")
    assert many.growth([line_of(sets) for sets in (1000, 5000)]).endswith("none is steeper.")
    assert "from two sizes" in many.growth([line_of(1000)])
