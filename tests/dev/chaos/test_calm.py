"""What has to hold while no fault acts but hostile clients: each check finds its violation, and nothing without one."""

import pytest

from dev.chaos.checks import calm
from dev.chaos.checks.leaders import LEASE
from dev.chaos.events import MANAGER
from dev.cluster.audit import Call

CALM = [(100.0, 200.0)]


def test_times_are_calm_when_every_fault_has_been_over_for_a_while():
    settle = calm.SETTLE_SECONDS
    assert calm.calm_windows(0, 200, []) == [(settle, 200)]
    assert calm.calm_windows(0, 200, [(100, 110), (50, 50)]) == [
        (settle, 49),
        (50 + settle, 99),
        (110 + settle, 200),
    ]
    assert calm.calm_windows(0, 200, [(20, 150), (30, 40)]) == [(settle, 19), (150 + settle, 200)], "one within another"
    assert calm.calm_windows(0, 200, [(10, 190)]) == []
    assert calm.calm_windows(0, 200, [(settle + 0.5, 190)]) == []


@pytest.mark.parametrize(("at", "found"), [(99, 0), (150, 1), (201, 0)])
def test_a_replica_that_stops_without_a_reason_is_found(at, found):
    violations = calm.check_stops([calm.Stop(at, "replica-0-1", "it ended with exit code 1")], CALM)
    assert [violation.rule for violation in violations] == [calm.STOPPED] * found


def lease(holder: str, at: float) -> Call:
    answer = {"metadata": {"resourceVersion": str(int(at))}, "spec": {"holderIdentity": holder}}
    return Call(verb="patch", resource="leases", name=LEASE, response_body=answer, started=at, ended=at + 0.1)


def test_a_lease_that_changes_hands_without_a_reason_is_found():
    before = [lease("a", 10), lease("a", 90)]
    assert calm.check_lease([*before, lease("a", 150)], CALM) == [], "it is renewed"
    assert calm.check_lease([*before, lease("b", 95), lease("b", 150)], CALM) == [], "there was a fault"
    [violation] = calm.check_lease([*before, lease("b", 150)], CALM)
    assert (violation.rule, violation.subject, violation.at) == (calm.LOST, "b", 150.1)


def admission(at: float, seconds: float, **fields) -> Call:
    event = {"verb": "create", "resource": "jobsets", "user": "admin", "started": at, "ended": at + seconds}
    return Call(**{**event, **fields})


QUICK = [admission(110 + number / 10, 0.1) for number in range(calm.MIN_SAMPLES)]


def test_admissions_of_which_more_than_one_in_100_are_slow_are_found():
    one, two = (admission(150 + number, 1.5, verb="patch") for number in range(2))
    assert calm.check_times([*QUICK, one], CALM) == (101, 0.1, [])
    count, most, [violation] = calm.check_times([*QUICK, one, two], CALM)
    assert (count, most, violation.rule) == (102, 1.5, calm.SLOW)


@pytest.mark.parametrize(
    "fields",
    [{"user": MANAGER}, {"resource": "jobsets/status"}, {"verb": "list"}, {"started": 99.0}, {"ended": 300.0}],
    ids=["of the manager", "no webhook", "a read", "with a fault before", "with a fault after"],
)
def test_other_requests_are_not_judged(fields):
    others = [admission(150, 1.5, **fields)] * 10
    assert calm.check_times([*QUICK, *others], CALM) == (100, 0.1, [])


def test_few_admissions_are_not_judged():
    assert calm.check_times([admission(150, 9)] * 99, CALM) == (99, 9, [])
    assert calm.check_times([], CALM) == (0, 0.0, [])
