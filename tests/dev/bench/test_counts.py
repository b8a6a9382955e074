"""What the benchmark counts in the audit log: whose calls, what is a duplicate, a conflict, a deletion."""

import pytest

from dev.bench.counts import counts
from dev.cluster.audit import Call

MANAGER = "system:serviceaccount:jobset-system:jobset-controller-manager"
JOB_CONTROLLER = "system:serviceaccount:kube-system:job-controller"


def call(user: str, verb: str = "create", resource: str = "pods", code: int = 201, *, dry_run: bool = False) -> Call:
    return Call(verb, resource, "ns", "name", user, "agent", code, dry_run)


def count_calls(*calls: Call) -> dict:
    return counts(calls, "jobset-controller-manager")


def test_refused_creations_are_counted_apart():
    phase = count_calls(
        call(JOB_CONTROLLER),
        call(JOB_CONTROLLER, code=403),
        call(JOB_CONTROLLER, "patch", code=200),
        call(MANAGER, "patch", code=200),
        call(MANAGER, "patch", "pods/status", code=200),
    )
    assert (phase["pods_created"], phase["pod_creates_refused"]) == (1, 1)
    assert phase["requests_by_client"] == {"job-controller": 3, "jobset-controller-manager": 2}
    assert phase["requests"] == 5
    assert phase["manager"]["requests"] == 2


def test_what_the_benchmark_and_the_fake_nodes_ask_is_not_counted():
    phase = count_calls(
        call("kubernetes-admin", "list"), call("kwok", "patch", "pods/status"), call(JOB_CONTROLLER, dry_run=True)
    )
    assert phase["requests"] == 0
    assert phase["calls"] == []


@pytest.mark.parametrize(
    ("made", "figures"),
    [
        (call(MANAGER, resource="jobs"), {"creates": 1, "duplicates": 0, "refused": 0}),
        (call(MANAGER, resource="jobs", code=409), {"creates": 0, "duplicates": 1, "conflicts": 0, "refused": 1}),
        (call(MANAGER, resource="services"), {"creates": 0, "writes": 1}),
        (call(MANAGER, "patch", "jobs", 409), {"conflicts": 1, "duplicates": 0, "refused": 1}),
        (call(MANAGER, "update", "jobsets/status", 409), {"conflicts": 1, "status_writes": 1}),
        (call(MANAGER, "patch", "jobsets/status", 200), {"status_writes": 1, "conflicts": 0}),
        (call(MANAGER, "patch", "jobs/status", 200), {"status_writes": 0, "writes": 1}),
        (call(MANAGER, "delete", "jobs", 200), {"deletes": 1}),
        (call(MANAGER, "delete", "jobs", 404), {"deletes": 1, "refused": 1, "conflicts": 0}),
        (call(MANAGER, "deletecollection", "pods", 200), {"deletes": 1, "writes": 1}),
        (call(MANAGER, "delete", "services", 200), {"deletes": 0, "writes": 1}),
        (call(MANAGER, "list", "pods", 200), {"requests": 1, "writes": 0}),
        (call(JOB_CONTROLLER, "delete", "pods", 200), {"requests": 0, "deletes": 0}),
    ],
)
def test_a_call_counts_as_what_it_is(made, figures):
    assert figures.items() <= count_calls(made)["manager"].items()


def test_calls_are_counted_by_verb_resource_and_code():
    phase = count_calls(
        *[call(MANAGER, resource="jobs")] * 3, call(MANAGER, resource="jobs", code=409), call(JOB_CONTROLLER)
    )
    assert phase["calls"] == [
        {"verb": "create", "resource": "jobs", "code": 201, "count": 3},
        {"verb": "create", "resource": "jobs", "code": 409, "count": 1},
    ]
