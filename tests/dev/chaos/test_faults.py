"""The schedule of faults and the scripts of sets: the same for the same seed, bounded, and of every kind."""

from itertools import islice

import pytest

from api import keys
from dev.chaos import load
from dev.chaos.faults import ALONE_SECONDS, CALM_SECONDS, GENTLE_KINDS, LONG_RUN, STRANGERS, WARM_UP, Kind, schedule
from dev.cluster.nodes import EXIT_CODE


def test_a_seed_repeats_the_schedule_and_another_changes_it():
    assert schedule(3, 1200) == schedule(3, 1200)
    assert schedule(3, 1200) != schedule(4, 1200)


@pytest.mark.parametrize("seed", range(20))
def test_faults_end_within_the_run_and_every_kind_comes_before_any_comes_twice(seed):
    faults = schedule(seed, 1200)
    assert [fault.at for fault in faults] == sorted(fault.at for fault in faults)
    assert all(fault.at >= WARM_UP and fault.end <= 1200.1 for fault in faults)
    first = [fault.kind for fault in faults[: len(Kind)]]
    assert sorted(first) == sorted(Kind)
    assert all((fault.target != "") == (fault.kind in {Kind.KILL, Kind.PAUSE, Kind.PARTITION}) for fault in faults)


def test_a_short_run_has_no_fault_that_takes_a_minute():
    assert all(fault.kind is not Kind.ALL_DOWN for seed in range(20) for fault in schedule(seed, LONG_RUN - 1))


def test_strangers_are_there_all_the_time_and_after_each_turn_nothing_else_is():
    hostile, neighbour, *others = schedule(1, 1200)
    assert (hostile.kind, hostile.at, hostile.end) == (Kind.HOSTILE, WARM_UP, 1200)
    assert (neighbour.kind, neighbour.at, neighbour.end) == (Kind.NEIGHBOUR, WARM_UP + ALONE_SECONDS, 1200)
    assert min(fault.at for fault in others) == neighbour.at, "it is seen how quick the machine is without them"
    assert schedule(1, 1200, [kind for kind in Kind if kind is not Kind.NEIGHBOUR])[1].at == WARM_UP
    turn = len(Kind) - len(STRANGERS)
    last, first = others[turn - 1 : turn + 1]
    assert first.at - last.at > CALM_SECONDS
    assert not {fault.kind for fault in others} & set(STRANGERS)
    assert schedule(1, WARM_UP, STRANGERS) == []


def test_only_the_kinds_that_were_asked_for_come_and_none_without_any():
    assert {fault.kind for fault in schedule(1, 600, GENTLE_KINDS)} == set(GENTLE_KINDS)
    assert schedule(1, 600, []) == []


def test_scripts_repeat_with_the_seed_and_have_every_kind():
    some = list(islice(load.scripts(5), 2 * len(load.KINDS)))
    assert some == list(islice(load.scripts(5), 2 * len(load.KINDS)))
    assert {script.name.rpartition("-")[0] for script in some[: len(load.KINDS)]} == set(load.KINDS)
    assert len({script.name for script in some}) == len(some)


def pod(name: str, attempt: int = 0, *, index: str = "0", phase: str = "Running", **metadata) -> dict:
    labels = {
        "jobset.sigs.k8s.io/restart-attempt": str(attempt),
        "jobset.sigs.k8s.io/replicatedjob-name": "workers",
        "jobset.sigs.k8s.io/job-index": index,
        "batch.kubernetes.io/job-completion-index": "0",
    }
    return {"metadata": {"name": name, "labels": labels, **metadata}, "status": {"phase": phase}}


def jobset(*, suspend: bool = False, **status) -> dict:
    return {"spec": {"suspend": suspend}, "status": status}


def test_one_pod_fails_in_each_attempt_that_has_to_fail_and_all_complete_in_the_next():
    script = load.Script({"metadata": {"name": "s"}, "spec": {}}, failures=1)
    assert load.next_steps(script, jobset(), [pod("a"), pod("b", index="1")]) == [load.End("a", 1)]
    assert load.next_steps(script, jobset(), [pod("a", 1), pod("b", 1, index="1")]) == [
        load.End("a", 0),
        load.End("b", 0),
    ]


def test_pods_that_are_told_already_or_end_or_do_not_run_are_left_alone():
    script = load.Script({"metadata": {"name": "s"}, "spec": {}})
    told = pod("a", annotations={EXIT_CODE: "0"})
    pods = [told, pod("b", deletionTimestamp="now"), pod("c", phase="Pending"), pod("d", phase="Succeeded")]
    assert load.next_steps(script, jobset(), pods) == []
    assert load.next_steps(script, jobset(terminalState="Completed"), [pod("a")]) == []


def test_pods_of_an_exclusive_job_end_when_all_of_them_are_bound():
    script = load.Script({"metadata": {"name": "s", "annotations": {keys.EXCLUSIVE_TOPOLOGY: "rack"}}, "spec": {}})

    def of_job(name: str, job: str, node: str = "n", **more) -> dict:
        made = pod(name, **more)
        made["metadata"]["labels"]["job-name"] = job
        return {**made, "spec": {"nodeName": node}}

    leader = of_job("leader", "a")
    old = of_job("old", "a", deletionTimestamp="now")
    for follower in (of_job("follower", "a", node="", phase="Pending"), of_job("other", "b")):
        assert load.next_steps(script, jobset(), [leader, old, follower]) == [], "it keeps others out of its domain"
    pods = [leader, old, of_job("follower", "a", phase="Pending")]
    assert load.next_steps(script, jobset(), pods) == [load.End("leader", 0)]


def test_a_suspended_set_is_resumed_as_often_as_its_script_says_before_its_pods_end():
    script = load.Script({"metadata": {"name": "s"}, "spec": {}}, resumes=2)
    suspended = {"conditions": [{"type": "Suspended", "status": "True"}]}
    assert load.next_steps(script, jobset(suspend=True), []) == [], "not known to be suspended yet"
    assert load.next_steps(script, jobset(suspend=True, **suspended), [pod("a")]) == [], "its pods still end"
    assert load.next_steps(script, jobset(suspend=True, **suspended), []) == [load.Suspend(False)]
    assert load.next_steps(script, jobset(executionAttempts=0), [pod("a")]) == [load.Suspend(True)]
    assert load.next_steps(script, jobset(executionAttempts=1), [pod("a")]) == [load.End("a", 0)]
