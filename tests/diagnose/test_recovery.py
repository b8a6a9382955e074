"""What `jobset explain` says of the last recovery of a set, from facts made by hand."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.support.explain.objects import (
    MOMENT,
    NOW,
    a_set,
    at,
    causes,
    condition,
    explanation_of,
    facts,
    lease,
    running,
)

JSON = dict[str, Any]
START = {"attempt": 0, "since": at(MOMENT - timedelta(hours=1)), "createdAfterSeconds": 1, "readyAfterSeconds": 9}
PHASES = {
    "attempt": 1,
    "since": at(MOMENT),
    "detectedAfterSeconds": 2,
    "drainedAfterSeconds": 12,
    "createdAfterSeconds": 13,
    "readyAfterSeconds": 64,
}
GOODPUT = "goodput 98.2%: 4127 s running, 73 s lost"
FAILED = {
    "attempt": 0,
    "failedJob": "train-workers-0",
    "reason": "DefaultFailurePolicy",
    "message": "boom",
    "time": at(MOMENT - timedelta(hours=2)),
}


def of(*attempts: JSON, ran: bool = True, **status: Any) -> tuple[str, JSON]:
    """A set that has run for an hour without 73 s, and for 10 minutes more."""
    counted = {"runningSeconds": 3527, "lostSeconds": 73, "running": ran, "since": at(NOW - timedelta(minutes=10))}
    recovery = {**counted, "attempts": list(attempts)}
    js = a_set(status={"restarts": 0, "recovery": recovery, "attemptHistory": [FAILED], **status})
    return explanation_of(facts(js, [running(js, 0)], lease=lease()))


def test_a_recovery_is_a_time_line():
    text, body = of(START, PHASES)
    assert text.splitlines()[1:] == [
        f"└ last recovery, of attempt 1: 64 s from the failure until all Jobs were ready; {GOODPUT}",
        "  ├ 14:05:03Z +0 s: failure: Job train-workers-0: boom",
        "  ├ 14:05:05Z +2 s: restart decided",
        "  ├ 14:05:15Z +12 s: old Jobs and pods gone",
        "  ├ 14:05:16Z +13 s: all Jobs created",
        "  └ 14:06:07Z +64 s: all Jobs ready",
    ]
    assert (body["state"], body["level"]) == ("runs", "fine")
    assert causes(body) == ["recovery"] + ["recovery-phase"] * 5


def test_one_that_is_not_over_shows_how_far_it_has_come():
    text, body = of(START, {**PHASES, "readyAfterSeconds": None, "createdAfterSeconds": None}, ran=False)
    assert "last recovery, of attempt 1: it is not over; goodput 83.9%" in text
    assert causes(body) == ["recovery"] + ["recovery-phase"] * 3


def test_a_set_that_has_ended_shows_it_too():
    done = condition("Completed", "AllJobsCompleted", "jobset completed successfully")
    _, body = of(START, PHASES, terminalState="Completed", conditions=[done])
    assert causes(body)[:2] == ["completed", "recovery"]


@pytest.mark.parametrize("attempts", [[], [START]])
def test_a_start_is_no_recovery(attempts):
    assert causes(of(*attempts)[1]) == []


def test_a_time_that_cannot_be_read_is_left_out():
    text, _ = of({**PHASES, "since": "x"})
    assert "  ├ +2 s: restart decided" in text
