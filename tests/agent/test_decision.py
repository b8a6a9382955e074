"""What a JobSet means for one pod (docs/reference/in-place-restart.md#how-it-works)."""

import pytest

from agent.decision import DISABLE, Action, Progress, attempt_to_join, decide

STARTED = Progress()


def reporting(attempt):
    return Progress(attempt, reported=True)


def running(attempt):
    return Progress(attempt, reported=True, lifted=True)


def jobset(previous=None, current=None, *, strategy="InPlaceRestart", annotations=None):
    attempts = {"previousInPlaceRestartAttempt": previous, "currentInPlaceRestartAttempt": current}
    return {
        "metadata": {"name": "js", **({"annotations": annotations} if annotations else {})},
        "spec": {"failurePolicy": {"restartStrategy": strategy}},
        "status": {key: value for key, value in attempts.items() if value is not None},
    }


@pytest.mark.parametrize(
    ("js", "own", "wanted"),
    [
        (None, STARTED, Action.WAIT),
        (None, running(3), Action.WAIT),
        (jobset(), STARTED, Action.REPORT),
        (jobset(2, 3), Progress(4), Action.REPORT),
        (jobset(), reporting(0), Action.WAIT),
        (jobset(None, 0), reporting(0), Action.LIFT),
        (jobset(None, 0), running(0), Action.WAIT),
        (jobset(None, 0), reporting(1), Action.WAIT),
        (jobset(0, 0), reporting(1), Action.WAIT),
        (jobset(0, 1), reporting(1), Action.LIFT),
        (jobset(0, 0), running(0), Action.RESTART),
        (jobset(0, 0), reporting(0), Action.RESTART),
        (jobset(4, 3), reporting(4), Action.RESTART),
        (jobset(4, 3), running(2), Action.RESTART),
        (jobset(4, 5), running(5), Action.WAIT),
        (jobset(4, 6), reporting(5), Action.WAIT),
    ],
)
def test_decisions(js, own, wanted):
    assert decide(js, own) is wanted


@pytest.mark.parametrize(
    "js",
    [
        jobset(9, 9, annotations={DISABLE: ""}),
        jobset(9, 9, strategy="Recreate"),
        {"metadata": {}, "spec": {}},
        {"metadata": {"annotations": None}, "spec": {"failurePolicy": None}, "status": None},
    ],
)
def test_bypass_lifts_once_and_asks_for_nothing_else(js):
    assert decide(js, STARTED) is Action.LIFT
    assert decide(js, reporting(3)) is Action.LIFT, "also where a report was under way"
    assert decide(js, Progress(lifted=True)) is Action.WAIT
    assert decide(js, running(3)) is Action.WAIT


def test_a_worker_that_ran_bypassed_takes_part_once_the_bypass_is_gone():
    assert decide(jobset(0, 1), Progress(lifted=True)) is Action.REPORT
    assert decide(jobset(0, 2), running(2)) is Action.WAIT


@pytest.mark.parametrize(("current", "attempt"), [(None, 0), (0, 1), (7, 8)])
def test_the_attempt_is_the_one_after_the_current(current, attempt):
    assert attempt_to_join(jobset(None, current)) == attempt
    assert attempt_to_join({"metadata": {}}) == 0
