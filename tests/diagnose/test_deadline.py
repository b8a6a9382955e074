"""What `jobset explain` says of a set with a deadline. It began to run at `MOMENT`, 12 minutes ago."""

from __future__ import annotations

from typing import Any

from tests.support.explain.objects import MOMENT, a_set, at, causes, condition, explanation_of, facts, lease, running

JSON = dict[str, Any]


def of(start: str, seconds: int = 3600, **status: Any) -> tuple[str, JSON]:
    count = {"name": "workers", "ready": 1, "succeeded": 0, "failed": 0, "active": 1, "suspended": 0}
    begun = {"replicatedJobsStatus": [count], "startTime": start}
    js = a_set(activeDeadlineSeconds=seconds, status={**begun, **status})
    return explanation_of(facts(js, [running(js, 0)], lease=lease()))


def test_how_much_time_is_left():
    text, body = of(at(MOMENT))
    assert (body["state"], body["level"], causes(body)) == ("runs", "note", ["active-deadline"])
    assert "it fails in 48 min unless it completes before: spec.activeDeadlineSeconds is 3600 (since 14:05" in text


def test_one_that_is_over():
    text, body = of(at(MOMENT), 600)
    assert causes(body) == ["active-deadline"]
    assert "it has run for longer than spec.activeDeadlineSeconds, which is 600: the manager ends it" in text


def test_one_that_nobody_counts():
    text, body = of("")
    assert causes(body) == ["active-deadline"]
    assert "spec.activeDeadlineSeconds is 3600, and no manager counts them" in text
    assert "to fix: start the manager with --feature-gates=JobSetActiveDeadlineSeconds=true" in text


def test_nothing_before_the_first_status():
    js = a_set(activeDeadlineSeconds=3600)
    assert causes(explanation_of(facts(js, [running(js, 0)], lease=lease()))[1]) == []


def test_a_set_that_has_failed_by_it():
    why = condition("Failed", "DeadlineExceeded", "JobSet was active for longer than ...")
    attempt = {"attempt": 2, "reason": "DeadlineExceeded", "message": "it took too long", "time": at(MOMENT)}
    text, body = of(at(MOMENT), terminalState="Failed", conditions=[why], attemptHistory=[attempt])
    assert causes(body) == ["failed", "attempt"]
    assert "attempt 2: it took too long" in text
    assert "to fix: find out what took so long, delete the JobSet and create it again, if need be with more" in text
