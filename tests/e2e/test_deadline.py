"""The deadline of a set on the full control plane (docs/concepts/deadlines.md)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.support.cluster.jobs import group, manifest
from tests.support.cluster.requests import wait_for

pytestmark = pytest.mark.manager(featureGates={"JobSetActiveDeadlineSeconds": True})
SECONDS = 6


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def pass_second_of(start: str) -> None:
    """Wait until a start that is stored from now on is later than this one: times have whole seconds."""
    wait_for(lambda: datetime.now(UTC) >= moment(start) + timedelta(seconds=1))


def failed_after(sets, start: str) -> float:
    """Seconds from a start until the set has failed by its deadline."""
    sets.wait_state("Failed")
    failed = sets.condition("Failed")
    assert failed["reason"] == "DeadlineExceeded"
    assert failed["message"] == f"JobSet was active for longer than the specified deadline of {SECONDS} seconds"
    assert sets.status()["startTime"] == start
    return (moment(failed["lastTransitionTime"]) - moment(start)).total_seconds()


def test_a_set_that_hangs_fails_and_frees_its_nodes(sets):
    sets.apply(manifest(group(replicas=2), activeDeadlineSeconds=SECONDS))
    sets.wait_ready(2)
    assert SECONDS <= failed_after(sets, sets.status()["startTime"]) <= SECONDS + 3
    wait_for(lambda: sets.pods() == [], what="no pods")
    wait_for(lambda: "DeadlineExceeded" in {reason for _, reason, _ in sets.events()}, what="the event")


def test_a_restart_and_a_resume_begin_the_time_again(sets):
    policy = {"maxRestarts": 1}
    sets.apply(manifest(group(replicas=2), activeDeadlineSeconds=SECONDS, failurePolicy=policy))
    sets.wait_ready(2)
    first = sets.status()["startTime"]
    pass_second_of(first)
    sets.end(sets.pods()[0], 1)
    wait_for(lambda: sets.status().get("restarts") == 1, what="the restart")
    restarted = sets.status()["startTime"]
    assert moment(restarted) > moment(first)
    assert restarted == sets.status()["lastRestart"]["startTime"]
    pass_second_of(restarted)
    sets.patch({"suspend": True})
    wait_for(lambda: "startTime" not in sets.status() and sets.pods() == [], what="the suspension")
    wait_for(lambda: sets.counts()["suspended"] == 2)
    sets.patch({"suspend": False})
    resumed = wait_for(lambda: sets.status().get("startTime"), what="the resume")
    assert moment(resumed) > moment(restarted)
    assert SECONDS <= failed_after(sets, resumed) <= SECONDS + 3


def test_a_set_without_one_has_no_start_and_may_get_one(sets):
    sets.apply(manifest(group()))
    sets.wait_ready(1)
    assert "startTime" not in sets.status()
    sets.patch({"activeDeadlineSeconds": 3600})
    wait_for(lambda: sets.status().get("startTime"), what="the start")
    sets.patch({"activeDeadlineSeconds": 1})
    sets.wait_state("Failed")
    assert sets.condition("Failed")["reason"] == "DeadlineExceeded"
