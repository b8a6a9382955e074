"""The deadline of a set on the full control plane (docs/concepts/deadlines.md)."""

from datetime import datetime

import pytest

from tests.support.cluster.jobs import group, manifest
from tests.support.cluster.requests import wait_for

pytestmark = pytest.mark.manager(featureGates={"JobSetActiveDeadlineSeconds": True})
SECONDS = 6


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


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
