"""What failures cost, and rules that do more each time, with real pods and the real Job controller."""

from typing import Any

import pytest

from tests.e2e.test_exit_codes import end_one, of_job, running
from tests.support.cluster.jobs import Sets, group, manifest
from tests.support.cluster.requests import wait_for

JSON = dict[str, Any]
GATES = {"JobSetRecoveryTimes": True, "JobSetFailureEscalation": True, "RestartJob": True}
pytestmark = pytest.mark.manager(featureGates=GATES)
RULE = {
    "name": "rule",
    "action": "RestartJob",
    "then": [{"afterRestarts": 1, "action": "RestartJobSet"}, {"afterRestarts": 1, "action": "FailJobSet"}],
}
PHASES = [f"{phase}AfterSeconds" for phase in ("detected", "drained", "created", "ready")]


def recovered(sets: Sets, entries: int) -> JSON:
    """The times of the set, once so many starts and recoveries are over."""

    def found() -> JSON | None:
        recovery: JSON = sets.status().get("recovery", {})
        over = [of for of in recovery.get("attempts", ()) if "readyAfterSeconds" in of]
        return recovery if len(over) == entries and recovery.get("running") else None

    return wait_for(found, what=f"the end of {entries} starts and recoveries")


def test_a_rule_goes_up_and_every_recovery_is_measured(sets: Sets) -> None:
    policy = {"maxRestarts": 5, "rules": [RULE]}
    sets.apply(manifest(group("workers", replicas=2), failurePolicy=policy))
    [start] = recovered(sets, 1)["attempts"]
    assert "detectedAfterSeconds" not in start
    end_one(sets, "js-workers-0", 1)
    alone = recovered(sets, 2)["attempts"][-1]
    assert sets.status()["restarts"] == 0
    end_one(sets, "js-workers-0", 1)
    recovery = recovered(sets, 3)
    whole = recovery["attempts"][-1]
    assert (sets.status()["restarts"], alone.get("attempt", 0), whole["attempt"]) == (1, 0, 1)
    for entry in (alone, whole):
        known = [entry[phase] for phase in PHASES]
        assert known == sorted(known), entry
    assert sets.status()["failurePolicySteps"] == [{"name": "rule", "step": 2, "restarts": 1}]
    [pod] = running(sets, 1, of_job("js-workers-1"))
    sets.end(pod, 1)
    sets.wait_state("Failed")
    status = sets.status()
    assert [attempt["step"] for attempt in status["attemptHistory"]] == [2, 3]
    assert not {"running", "since"} & status["recovery"].keys()
    wait_for(
        lambda: [note for _, reason, note in sets.events() if reason == "FailurePolicyEscalated"][1:],
        what="an event for each step",
    )
