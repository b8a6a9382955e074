"""The status of a JobSet stays small, and admission knows how large it may become."""

from typing import Any

import msgspec
import pytest

from api.elastic import ReducedReplicas
from api.indexes import Indexes, format_indexes, max_text_bytes
from api.jobset import JobSet
from api.jobset_status import (
    MAX_PROMISED,
    FailedAttempt,
    FailedNode,
    JobSetStatus,
    LastRestart,
    LeftNode,
    MaintenanceStatus,
    ReplicatedJobStatus,
    RuleRestarts,
    RuleStep,
    SpareStatus,
)
from api.maintenance import MAX_LEFT_NODES
from api.policies import MAX_FAILED_NODES
from api.recovery_times import AttemptTimes, Recovery
from api.spares import MAX_GROUPS
from api.status_size import largest_status_size
from kube.model.meta import MAX_INT32, Condition
from tests.support.objects.jobsets import jobset, rjob

KIB = 1024
NOW = "2026-01-01T00:00:00Z"
NAME = "n" * 253
LABEL = "l" * 63
RANK = f"{LABEL}-100000"
"""Job and completion index: the name of a pod without its last part."""
TEXT = "t" * 1024
"""As long as a message in the history may be."""

CONDITIONS = (
    *("Completed", "Failed", "Suspended", "RestartingJobSet", "StartupPolicyInProgress", "StartupPolicyCompleted"),
    *("SchedulingObjectsReady", "PodGroupsInitiallyScheduled"),
)
ATTEMPT = FailedAttempt(
    attempt=MAX_INT32,
    time=NOW,
    reason=LABEL,
    message=TEXT,
    failed_job=LABEL,
    pod=NAME,
    node=NAME,
    container=LABEL,
    exit_code=255,
    step=5,
)
TIMES = AttemptTimes(
    attempt=MAX_INT32,
    since=NOW,
    detected_after_seconds=MAX_INT32,
    drained_after_seconds=MAX_INT32,
    created_after_seconds=MAX_INT32,
    ready_after_seconds=MAX_INT32,
    running_seconds=MAX_INT32,
)


def shape(groups: int, replicas: int, rules: int = 0, elastic: Any = None, spares: int = 0, **more: Any) -> JobSet:
    policy = {"rules": [{"name": f"rule{n}", "action": "RestartJob"} for n in range(rules)], **more}
    own = {} if elastic is None else {"elastic": elastic}
    held = (rjob(f"spare-{n}", replicas=1, spareFor=f"workers-{n % groups}") for n in range(spares))
    workers = (rjob(f"workers-{n}", replicas=replicas, **own) for n in range(groups))
    raw = jobset(*workers, *held, failurePolicy=policy)
    return msgspec.convert({"metadata": raw["metadata"], "spec": raw["spec"]}, JobSet)


def fullest(js: JobSet, *, alone: bool = False) -> JobSetStatus:
    """Everything has happened as often as is remembered, in the longest words."""
    entries = tuple(
        _entry(each.name, each.replicas, max_text_bytes(len(js.spec.replicated_jobs)), alone)
        for each in js.spec.replicated_jobs
    )
    rules = js.spec.failure_policy.rules if js.spec.failure_policy else ()
    return JobSetStatus(
        conditions=tuple(
            Condition(type=kind, status="False", reason=LABEL, message=TEXT, last_transition_time=NOW)
            for kind in CONDITIONS
        ),
        restarts=MAX_INT32,
        restarts_count_towards_max=MAX_INT32,
        terminal_state="Completed",
        replicated_jobs_status=entries,
        ready_jobs=f"{MAX_INT32}/{MAX_INT32}",
        current_stage=f"{LABEL} ({len(entries)}/{len(entries)})",
        failure_policy_restarts=tuple(RuleRestarts(name=rule.name, restarts=MAX_INT32) for rule in rules),
        failure_policy_steps=tuple(
            RuleStep(name=rule.name, step=5, restarts=MAX_INT32, times=(NOW,) * 10) for rule in rules
        ),
        execution_attempts=MAX_INT32,
        start_time=NOW,
        last_restart=LastRestart(reason=f"FailurePolicy_{LABEL}", start_time=NOW, duration_seconds=MAX_INT32),
        attempt_history=(ATTEMPT,) * 10,
        recovery=Recovery(
            running_seconds=2**62,
            lost_seconds=2**62,
            spare_seconds=2**62,
            goodput="99.9%",
            running=True,
            since=NOW,
            attempts=(TIMES,) * 10,
        ),
        failed_nodes=tuple(
            FailedNode(
                name=f"{n:0>253}", failures=MAX_INT32, last_time=NOW, reason="r" * 256, topology_key=LABEL, domain=LABEL
            )
            for n in range(MAX_FAILED_NODES)
        ),
        maintenance=_nodes_left() if js.spec.failure_policy and js.spec.failure_policy.maintenance else None,
        reduced_replicas=tuple(
            ReducedReplicas(name=each.name, replicas=each.replicas, since=NOW, held=MAX_INT32, held_since=NOW)
            for each in js.spec.replicated_jobs
            if each.elastic
        ),
        spares=tuple(
            SpareStatus(
                name=each.name, ready=MAX_INT32, missing=MAX_INT32, used=MAX_INT32, promised_to=(RANK,) * MAX_PROMISED
            )
            for each in js.spec.replicated_jobs
            if each.spare_for
        ),
        previous_in_place_restart_attempt=MAX_INT32,
        current_in_place_restart_attempt=MAX_INT32,
    )


def _nodes_left() -> MaintenanceStatus:
    nodes = (LeftNode(name=f"{n:0>253}", taint="t" * 317, pods_until=NOW, moved=True) for n in range(MAX_LEFT_NODES))
    return MaintenanceStatus(notice_time=NOW, move_time=NOW, nodes=tuple(nodes))


def _entry(name: str, replicas: int, long: int, alone: bool) -> ReplicatedJobStatus:
    """Two of three Jobs have completed: the longest text of indexes."""
    completed = Indexes.from_iterable(index for index in range(replicas) if index % 3)
    restarts = (99,) * replicas if alone else ()
    return ReplicatedJobStatus(
        name=name,
        ready=replicas,
        succeeded=replicas,
        failed=replicas,
        active=replicas,
        suspended=replicas,
        completed_indexes=format_indexes(completed, long),
        job_restarts=restarts,
        job_restarts_count_towards_max=restarts,
        started=True,
        released=True,
        remaining=replicas,
    )


def managed(value: Any) -> Any:
    """What metadata.managedFields say of a value: the names of its fields; of a list by name, those of its items."""
    if isinstance(value, dict):
        return {f"f:{key}": managed(each) for key, each in value.items()}
    if isinstance(value, list | tuple) and value and isinstance(value[0], dict) and "attempt" not in value[0]:
        key = "type" if "type" in value[0] else "name"
        return {"k:" + _json({key: each[key]}): {".": {}, **managed(each)} for each in value}
    return {}


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def size(status: JobSetStatus) -> int:
    return len(msgspec.json.encode(status))


def size_stored(status: JobSetStatus) -> int:
    """With what managedFields say of it."""
    return size(status) + len(_json(managed(msgspec.to_builtins(status))))


@pytest.mark.parametrize(("groups", "replicas"), [(1, 100_000), (4, 25_000), (30, 3_333), (97, 1_024)])
def test_the_status_of_100000_jobs_stays_below_100_kib(groups, replicas):
    assert size(fullest(shape(groups, replicas))) < 100 * KIB


@pytest.mark.parametrize(
    "more",
    [{}, {"maintenance": {"taintKeys": ["drain"]}}, {"elastic": {"min": 1, "max": 9}}, {"spares": MAX_GROUPS}],
)
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize(
    ("groups", "replicas", "rules"),
    [(1, 0, 0), (1, 1, 1), (1, 100_000, 0), (4, 1_024, 90), (97, 1_024, 3), (1_000, 100, 0), (5_000, 1, 0)],
)
def test_admission_expects_no_less_than_there_may_be(groups, replicas, rules, alone, more):
    js = shape(groups, replicas, rules, **more)
    alone = alone and replicas <= 1_024
    assert size_stored(fullest(js, alone=alone)) <= largest_status_size(js, restarts_single_jobs=alone)


def test_admission_expects_not_much_more_than_there_may_be():
    for js, alone in ((shape(97, 1_024), True), (shape(97, 1_024), False), (shape(5_000, 1), False)):
        assert largest_status_size(js, restarts_single_jobs=alone) < 1.5 * size_stored(fullest(js, alone=alone))


def test_lists_of_restarts_may_be_much_longer():
    """Their form is that of the Go JobSet (gate RestartJob): two numbers for each Job."""
    assert 590 * KIB < size(fullest(shape(97, 1_024), alone=True)) < 700 * KIB
