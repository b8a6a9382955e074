"""Which ReplicatedJobs make a stage, and how many Jobs or pods make a share."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api import share
from api.policies import SuccessPolicy
from api.stages import stage_name, stages
from tests.support.objects.stored_sets import jobset, rjob

ABCD = [rjob(name) for name in "abcd"]


def names(**policy):
    js = jobset(*ABCD, executionPolicy={"executionPolicyOrder": "InOrder", **policy})
    return [[of.name for of in stage] for stage in stages(js.spec)]


def test_every_replicated_job_is_a_stage_by_default():
    assert names() == [["a"], ["b"], ["c"], ["d"]]


@pytest.mark.parametrize(
    ("number", "wanted"),
    [
        (1, [["a"], ["b", "c", "d"]]),
        (2, [["a"], ["b"], ["c", "d"]]),
        (3, [["a"], ["b"], ["c"], ["d"]]),
        (4, [["a"], ["b"], ["c"], ["d"]]),
        (9, [["a"], ["b"], ["c"], ["d"]]),
    ],
)
def test_the_first_ones_run_alone_and_the_rest_together(number, wanted):
    assert names(sequentialReplicatedJobs=number) == wanted


def test_a_stage_of_many_names_the_first_few():
    js = jobset(*[rjob(f"r{i}") for i in range(6)], executionPolicy={"executionPolicyOrder": "InOrder"})
    assert stage_name(js.spec.replicated_jobs) == "r0, r1, r2 and 3 more"
    assert stage_name(js.spec.replicated_jobs[:2]) == "r0, r1"


@given(st.integers(1, 100), st.integers(0, 10_000))
def test_shares_round_up_and_never_ask_for_more_than_there_is(percent, of):
    needed = share.required_successes(SuccessPolicy(min_succeeded=f"{percent}%"), of)
    assert needed == math.ceil(percent * of / 100 - 1e-9)
    assert needed <= of
    assert needed > 0 or of == 0


@pytest.mark.parametrize("text", ["", "%", "0%", "101%", "1000%", "-5%", "07%", "5", "5.5%", " 5%", "5%\n", "५%"])
def test_what_is_no_share_asks_for_nothing(text):
    assert share.required_successes(SuccessPolicy(min_succeeded=text), 10) is None


def spec(*rjobs, **policy):
    return jobset(*rjobs, successPolicy={"operator": "All", **policy}).spec


def test_totals_count_targeted_jobs_or_their_completions():
    ten = [rjob("a", 4, parallelism=2, completions=5), rjob("b", 3)]
    assert share.possible_successes(spec(*ten)) == 7
    assert share.possible_successes(spec(*ten, targetReplicatedJobs=["a"])) == 4
    assert share.possible_successes(spec(*ten, unit="Pod")) == 4 * 5 + 3
    assert share.possible_successes(spec(*ten, unit="Pod", targetReplicatedJobs=["b"])) == 3


def test_jobs_that_do_not_say_how_many_pods_have_to_succeed_have_no_total_of_pods():
    assert share.possible_successes(spec(rjob("a", 2, parallelism=3), unit="Pod")) is None
