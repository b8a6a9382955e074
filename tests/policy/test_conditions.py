"""What the conditions of policies and exceptions say, and when their times change."""

import dataclasses
from datetime import UTC, datetime
from typing import Any

import msgspec

from api.features import FeatureGates
from kube.model.meta import Condition, find
from policy.conditions import EnforcementState, exception_status, policy_status, reportable_conditions
from policy.exception_types import JobSetPolicyException, read_exception
from policy.exceptions import Standing, standing
from policy.status_types import JobSetPolicyExceptionStatus, JobSetPolicyStatus
from policy.types import JobSetPolicy, read_policy
from tests.support.objects.policies import exception, policy, setting

FIRST, LATER = "2030-01-01T00:00:00Z", "2030-01-02T00:00:00Z"
COUNTS = Standing("", datetime(2030, 6, 1, tzinfo=UTC))
ENDED = Standing("it ended at 2030-06-01T00:00:00Z", datetime(2030, 6, 1, tzinfo=UTC), "Expired")
NOWHERE = Standing("policy limits allows no exceptions", reason="NotAllowed")
GATES = FeatureGates()


def policy_mismatch(found: JobSetPolicy, *others: JobSetPolicy, before: JobSetPolicyStatus | None = None) -> Any:
    at = LATER if before else FIRST
    return policy_status(found, before or JobSetPolicyStatus(), [found, *others], GATES, at)


def told(status: Any) -> dict[str, tuple[str, str, str]]:
    return {each.type: (each.status, each.reason, each.last_transition_time) for each in status.conditions}


def test_a_good_policy_is_ready():
    status = policy_mismatch(policy(maxJobs={"max": 1}))
    assert told(status) == {"Ready": ("True", "InForce", FIRST)}


def test_counts_stay_and_the_generation_is_told():
    found = policy(maxJobs={"max": 1})
    newer = msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, generation=3))
    status = policy_status(newer, JobSetPolicyStatus(denied=5), [newer], GATES, FIRST)
    assert (status.observed_generation, status.denied) == (3, 5)


def test_a_policy_with_faults_is_not_ready_and_says_why():
    status = policy_mismatch(policy(actions=("Deny", "Warn"), maxJobs={"max": "many"}))
    ready = find(status.conditions, "Ready")
    assert ready is not None
    assert (ready.status, ready.reason) == ("False", "Faulty")
    assert "spec.rules.maxJobs" in ready.message
    assert "Deny and Warn exclude each other" in ready.message


def test_a_conflict_is_told_at_both_policies_until_it_is_gone():
    sets = read_policy(setting("sets", ttlSecondsAfterFinished=60))
    limits = policy("limits", ttl={"max": 1})
    at_sets, at_limits = policy_mismatch(sets, limits), policy_mismatch(limits, sets)
    for status in (at_sets, at_limits):
        assert told(status)["Conflicting"] == ("True", "ContradictingDefaults", FIRST)
    conflict = find(at_sets.conditions, "Conflicting")
    assert conflict is not None
    assert conflict.message.startswith("spec.defaults.ttlSecondsAfterFinished: rule ttl of policy limits refuses it; ")
    assert policy_mismatch(sets, limits, before=at_sets) == at_sets, "the same says nothing new"
    gone = policy_mismatch(sets, before=at_sets)
    assert told(gone) == {"Ready": ("True", "InForce", FIRST), "Conflicting": ("False", "NoConflict", LATER)}


def test_a_message_is_bounded_however_many_policies_conflict():
    sets = read_policy(setting("sets", ttlSecondsAfterFinished=60))
    others = [policy(f"limits-{number:03}-{'x' * 200}", ttl={"max": 1}) for number in range(200)]
    conflict = find(policy_mismatch(sets, *others).conditions, "Conflicting")
    assert conflict is not None
    assert conflict.message.endswith("; and 195 more")
    assert len(conflict.message) < 2000


def of_exception(stands: Standing, before: JobSetPolicyExceptionStatus | None = None) -> JobSetPolicyExceptionStatus:
    found: JobSetPolicyException = read_exception(exception())
    found = msgspec.structs.replace(found, status=before or JobSetPolicyExceptionStatus())
    return exception_status(found, stands, LATER if before else FIRST)


def test_an_exception_counts_or_ended_or_is_not_allowed():
    assert told(of_exception(COUNTS)) == {"InForce": ("True", "InForce", FIRST)}
    assert told(of_exception(ENDED)) == {"InForce": ("False", "Expired", FIRST)}
    status = of_exception(NOWHERE)
    assert told(status) == {"InForce": ("False", "NotAllowed", FIRST)}
    gone = standing(read_exception(exception()), None, None, datetime(2040, 1, 1, tzinfo=UTC))
    assert told(of_exception(gone)) == {"InForce": ("False", "NoPolicy", FIRST)}
    assert (status.conditions[0].message, status.until) == (NOWHERE.why_not, None)
    assert of_exception(COUNTS).until == "2030-06-01T00:00:00Z"
    some = of_exception(dataclasses.replace(COUNTS, missing_rules=("ttl",)))
    assert some.conditions[0].message == "it counts until 2030-06-01T00:00:00Z; the policy has no rule ttl"


def test_each_thing_happens_to_an_exception_once():
    def reasons(before: JobSetPolicyExceptionStatus, after: JobSetPolicyExceptionStatus) -> list[str]:
        return [each.reason for each in reportable_conditions(before, after)]

    empty = JobSetPolicyExceptionStatus()
    counts = of_exception(COUNTS)
    assert reasons(empty, counts) == []
    by_a_replica = msgspec.structs.replace(counts, first_used=FIRST)
    used = of_exception(COUNTS, by_a_replica)
    assert reasons(by_a_replica, used) == ["FirstUsed"]
    assert of_exception(COUNTS, used) == used
    ended = of_exception(ENDED, used)
    assert reasons(used, ended) == ["Expired"]
    assert reasons(ended, of_exception(ENDED, ended)) == []
    assert reasons(empty, of_exception(ENDED)) == ["Expired"], "it ended while no manager ran"
    assert reasons(ended, of_exception(NOWHERE, ended)) == []
    assert isinstance(reportable_conditions(used, ended)[0], Condition)


def test_a_policy_that_asks_for_the_api_server_says_whether_it_holds_it():
    found = policy(maxJobs={"max": 1})
    asking = msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, api_server="Enforce"))
    refused = EnforcementState(False, "Forbidden", "no right")
    status = policy_status(asking, JobSetPolicyStatus(), [asking], GATES, FIRST, refused)
    assert told(status)["InAPIServer"] == ("False", "Forbidden", FIRST)
    assert policy_status(asking, status, [asking], GATES, LATER) == status, "what is not known yet changes nothing"
    status = policy_status(asking, status, [asking], GATES, LATER, EnforcementState(True, "Applied", "yes"))
    assert told(status)["InAPIServer"] == ("True", "Applied", LATER)
    assert "InAPIServer" not in told(policy_status(found, status, [found], GATES, LATER)), "it does not ask any more"
