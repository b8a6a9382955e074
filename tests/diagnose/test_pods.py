"""What `jobset explain` says of leaders, followers and other pods, from facts made by hand."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from api import keys
from diagnose.facts import SeenPod
from tests.support.explain.objects import (
    MOMENT,
    RACK,
    at,
    causes,
    event,
    exclusive,
    explained,
    explanation_of,
    facts,
    held,
    job_of,
    leader_of,
    lease,
    made,
    pod_of,
    walk,
)
from tests.support.explain.stuck import waiting as waiting_container
from tests.support.explain.stuck_restarts import waiting_for_device, without_pool
from tests.support.objects.jobsets import jobset, rjob, stored

JSON = dict[str, Any]
FULL = "0/20 nodes are available: 20 node(s) didn't match pod anti-affinity rules"
RACKS = {f"node-{number}": {RACK: f"rack-{number // 2}"} for number in range(4)}
"""Two racks of two nodes."""


def a_set(*rjobs: JSON, **spec: Any) -> JSON:
    return made(stored(jobset(*(rjobs or (exclusive(parallelism=3, completions=3),)), namespace="team-a", **spec)))


def started(js: JSON, index: int = 0, **status: Any) -> JSON:
    return made(job_of(js, index), **{"active": 3, "ready": 0, **status})


def waiting(*holders: SeenPod, priority: int = 0, jobs: int = 1, nodes: Any = RACKS, **pod: Any) -> tuple[str, JSON]:
    """The explanation of a set whose leaders wait."""
    js = a_set(exclusive(replicas=jobs, parallelism=3, completions=3))
    all_jobs = [started(js, index) for index in range(jobs)]
    leaders = [made(leader_of(job, unscheduled=f"{FULL}.", priority=priority, **pod)) for job in all_jobs]
    gated = {job["metadata"]["uid"]: 2 for job in all_jobs}
    return explained(js, all_jobs, leaders, gated_followers=gated, node_labels=nodes, holder_pods=holders)


def by_cause(body: JSON, cause: str) -> JSON:
    return next(finding for finding in walk(body) if finding["cause"] == cause)


@pytest.mark.parametrize(("seconds", "level"), [(10, "waits"), (60, "fault")])
def test_a_missing_claim_of_a_device_is_a_fault_after_half_a_minute(seconds: int, level: str):
    seen = waiting_for_device({"resourceClaimName": "rdma"}, there={"rdma": False})
    now = MOMENT + timedelta(seconds=seconds)
    assert by_cause(explanation_of(replace(seen, now=now))[1], "device-claim")["level"] == level


def test_a_leader_that_waits_behind_jobs_of_equal_priority():
    text, body = waiting(held("other-workers-0", "node-0"), held("other-workers-1", "node-3"))
    fix = "wait until one ends, add a rack, or give this JobSet a higher priority"
    fix += " (docs/concepts/exclusive-placement.md)"
    assert text.splitlines() == [
        "JobSet team-a/train: waits, 0 of 1 Job ready or done (since 14:05:03Z, 12 min)",
        "└ Job train-workers-0: waits for a rack of its own",
        f"  └ leader pod train-workers-0-0: not scheduled: {FULL}; 2 followers wait for it",
        "    └ 2 of 2 racks hold Jobs of equal priority (0): team-b/other-workers-0, team-b/other-workers-1",
        f"      to fix: {fix}",
    ]
    assert causes(body) == ["leader-waits", "leader-unscheduled", "equal-priority"]
    assert body["level"] == "waits"


def test_higher_lower_and_free_racks_are_told_apart():
    nodes = {f"node-{number}": {RACK: f"rack-{number}"} for number in range(4)} | {"bare": {}}
    holders = [
        held("same", "node-0", 100),
        held("low-beside-same", "node-0", 1),
        held("high", "node-1", 1000),
        held("low", "node-2", 5, exclusive=False, deletionTimestamp=at(MOMENT)),
        held("nowhere", "bare", 100),
    ]
    text, body = waiting(*holders, priority=100, nodes=nodes)
    assert causes(body)[2:] == ["equal-priority", "higher-priority", "lower-priority", "free"]
    assert "1 of 4 racks holds Jobs of equal priority (100): team-b/same\n" in text
    assert (
        "1 of 4 racks holds Jobs of higher priority (1000), which leave no room and are not preempted: team-b/high"
        in text
    )
    assert "1 of 4 racks holds Jobs of lower priority (5): team-b/low (ending, not exclusive)" in text
    assert "1 of 4 racks holds no other Job (rack-3)" in text


@pytest.mark.parametrize(
    ("pod", "says"),
    [
        ({"preemptionPolicy": "Never"}, "preemptionPolicy: Never, so they are not preempted"),
        ({}, "the scheduler preempts them if their nodes fit otherwise"),
    ],
)
def test_jobs_of_lower_priority_and_preemption(pod: JSON, says: str):
    _, body = waiting(held("low", "node-0"), held("lower", "node-2", -5), priority=10, **pod)
    finding = by_cause(body, "lower-priority")
    assert "2 of 2 racks hold Jobs of lower priority (-5, 0)" in finding["what"]
    assert says in finding["remedy"]


def test_a_preemption_that_is_under_way():
    js = a_set()
    job = started(js)
    leader = made(leader_of(job, unscheduled=FULL, priority=10), nominatedNodeName="node-1")
    holders = (held("low", "node-0"),)
    text, _ = explained(js, [job], [leader], node_labels=RACKS, holder_pods=holders)
    assert "the scheduler makes room on node node-1" in text


def test_at_most_five_holders_are_named():
    text, _ = waiting(*(held(f"other-{number}", "node-0") for number in range(8)))
    assert "team-b/other-0, team-b/other-1, team-b/other-2, team-b/other-3, team-b/other-4 and 3 more" in text


def test_its_own_leader_does_not_hold_a_rack_against_it():
    _, body = waiting(held("train-workers-0", "node-0", namespace="team-a"))
    assert causes(body)[2:] == ["free"]


def test_many_jobs_with_one_reason_are_reported_once():
    nodes = {f"node-{number}": {RACK: f"rack-{number}"} for number in range(50)}
    text, body = waiting(*(held(f"other-{number}", f"node-{number}") for number in range(50)), jobs=40, nodes=nodes)
    assert text.count("leader pod") == 1
    assert "39 more Jobs (train-workers-1 … train-workers-39): likewise" in text
    assert len(body["because"]) == 2


def test_a_follower_that_finds_no_node_in_the_rack_of_its_job():
    js = a_set()
    job = started(js, ready=2)
    leader = made(leader_of(job, node="node-2"))
    late = made(pod_of(job, 1, unscheduled="0/4 nodes are available: 2 Too many pods", nodeSelector={RACK: "rack-1"}))
    text, _ = explanation_of(facts(js, [job], [leader, late], node_labels=RACKS))
    assert "pod train-workers-0-1 is not scheduled in rack rack-1, where its Job is: 0/4 nodes are available" in text


def test_without_the_right_to_read_nodes_there_is_something_to_do():
    _, body = waiting(nodes=None)
    assert causes(body) == ["leader-waits", "leader-unscheduled", "domains"]
    assert by_cause(body, "domains")["remedy"].startswith("jobset validate FILE --server and the warnings")


def test_without_the_right_to_read_other_namespaces_racks_are_counted():
    js = a_set()
    job = started(js)
    pods = [made(leader_of(job, unscheduled=FULL))]
    text, _ = explained(js, [job], pods, node_labels=RACKS, holder_pods=None)
    assert "there are 2 racks; who holds them is not known" in text


@pytest.mark.parametrize(
    ("topology", "says"),
    [
        ("cloud.google.com/gke-nodepool", "waits for a gke-nodepool of its own"),
        ("kubernetes.io/hostname", "waits for a node of its own"),
        ("example.com/island", "waits for an island of its own"),
        ("racks", "waits for a rack of its own"),
        ("example.com/class", "waits for a class of its own"),
    ],
)
def test_domains_are_called_by_the_label(topology: str, says: str):
    group = exclusive()
    group["template"]["metadata"]["annotations"][keys.EXCLUSIVE_TOPOLOGY] = topology
    js = a_set(group)
    job = started(js)
    text, _ = explained(js, [job], [made(leader_of(job, unscheduled=FULL))])
    assert says in text


@pytest.mark.parametrize(
    ("nodes", "says"),
    [
        ({"node-1": {RACK: "rack-0"}}, "is bound to node node-0, which does not exist (any more)"),
        ({"node-0": {}}, "is on node node-0, which lacks the label rack"),
    ],
)
def test_a_leader_whose_node_has_no_domain(nodes: Any, says: str):
    js = a_set()
    job = started(js, ready=1)
    gated = {job["metadata"]["uid"]: 2}
    text, body = explained(js, [job], [made(leader_of(job, node="node-0"))], gated_followers=gated, node_labels=nodes)
    assert (body["level"], causes(body)) == ("fault", ["leader-without-domain"])
    assert says in text
    assert "kubectl label node NODE rack=VALUE" in text


@pytest.mark.parametrize(
    ("silent", "level", "fix"),
    [(False, "waits", "the manager lifts the gate"), (True, "fault", "a manager lifts the gate")],
)
def test_followers_of_a_leader_that_is_placed(silent: bool, level: str, fix: str):
    js = a_set()
    job = started(js, ready=1)
    known: JSON = {
        "gated_followers": {job["metadata"]["uid"]: 2},
        "node_labels": RACKS,
        "lease": lease(ago=600 if silent else 1),
    }
    _, body = explanation_of(facts(js, [job], [made(leader_of(job, node="node-0"))], **known))
    finding = by_cause(body, "followers-gated")
    assert finding["what"] == "Job train-workers-0: 2 followers are gated: the leader is placed"
    assert (finding["level"], fix in finding["remedy"]) == (level, True)
    assert ("no-manager" in causes(body)) is silent


def test_followers_without_a_leader():
    js = a_set()
    job = started(js)
    text, _ = explained(js, [job], [], gated_followers={job["metadata"]["uid"]: 1})
    assert "Job train-workers-0: 1 follower is gated: there is no leader pod (yet)" in text


def test_the_leader_that_counts_is_the_newest_that_lives():
    js = a_set()
    job = started(js)
    gone = made(leader_of(job, node="node-0"), uid="old")
    gone["metadata"] |= {"name": "old", "deletionTimestamp": at(MOMENT)}
    text, body = explained(js, [job], [made(leader_of(job, unscheduled=FULL)), gone], node_labels=RACKS, holder_pods=())
    assert causes(body)[:2] == ["leader-waits", "leader-unscheduled"]
    gated = {job["metadata"]["uid"]: 2}
    text, _ = explained(js, [job], [gone], gated_followers=gated, node_labels=RACKS)
    assert "the leader pod is being deleted or has ended, and there is no new one yet" in text


def test_the_gate_of_placement_is_not_for_templates():
    js = a_set()
    job = started(js)
    ours = made(leader_of(job, gates=(keys.PLACEMENT_GATE,)))
    text, body = explained(js, [job], [ours], gated_followers={job["metadata"]["uid"]: 2})
    assert causes(body) == ["gated"]
    assert "remove it from the pod template in a new" in text


def test_the_node_selector_strategy_names_the_label_that_nodes_need():
    group = exclusive()
    group["template"]["metadata"]["annotations"][keys.NODE_SELECTOR_STRATEGY] = "true"
    js = a_set(group)
    job = started(js)
    text, body = explained(js, [job], [made(leader_of(job, unscheduled="no"))])
    assert causes(body) == ["unscheduled"]
    assert f"{keys.NAMESPACED_JOB}=team-a_train-workers-0" in text


def test_pods_that_may_not_be_read():
    js = a_set(rjob())
    text, body = explained(js, [started(js, active=1)], None)
    assert causes(body) == ["not-ready"]
    assert "0 of 1 pod ready; its pods are not known" in text


@pytest.mark.parametrize("reason", ["ExclusivePlacementPending", "PodsUnschedulable"])
def test_without_pods_the_event_about_them_is_reported(reason):
    js = a_set()
    said = {"reason": reason, "note": "leader pod x waits", "eventTime": at(MOMENT)}
    text, body = explained(js, [started(js)], None, warnings=[said])
    assert causes(body) == ["not-ready", "warning"]
    assert "leader pod x waits" in text


def test_explanations_that_all_differ_are_cut():
    js = a_set(exclusive(replicas=20))
    jobs = [started(js, index) for index in range(20)]
    leaders = [made(leader_of(job, unscheduled=f"reason {index}")) for index, job in enumerate(jobs)]
    text, body = explained(js, jobs, leaders)
    assert len(body["because"]) == 9
    assert "12 more Jobs (train-workers-8, train-workers-9 and 10 more): waiting for reasons of this kind, too" in text


KEPT_OUT = "0/4 nodes are available: 4 node(s) didn't satisfy existing pods anti-affinity rules."


def driver(*holders: SeenPod, message: str = KEPT_OUT, **pod: Any) -> JSON:
    """What is found about a driver beside an exclusive Job, whose uid is `uid-train-workers-0`."""
    js = a_set(exclusive(), rjob("driver"))
    jobs = [started(js, active=1, ready=1), made(job_of(js, 0, "driver"), active=1, ready=0)]
    waits = made(pod_of(jobs[1], unscheduled=message, **pod))
    _, body = explained(js, jobs, [waits], holder_pods=holders)
    return body["because"][0]


def test_a_pod_that_its_own_set_keeps_out_never_gets_a_node_by_waiting():
    found = driver(held("train-workers-0", "node-0"))
    assert found["what"].endswith("out of its domain: team-b/train-workers-0, all of its own JobSet")
    assert found["remedy"].startswith("add nodes for it, or give its ReplicatedJob a priorityClassName")


@pytest.mark.parametrize("holders", [(), (held("low-0", "node-0", -1),), (held("plain", "node-0", exclusive=False),)])
def test_what_is_not_known_to_keep_a_pod_out_is_not_named(holders: tuple[SeenPod, ...]):
    found = driver(*holders)
    assert "existing pods anti-affinity" in found["what"]
    assert found["remedy"].startswith("pods that run there keep it out by their podAntiAffinity")


def crashed(code: int, times: int, reason: str = "Error") -> JSON:
    last = {"terminated": {"exitCode": code, "reason": reason}}
    return waiting_container("CrashLoopBackOff", f"back-off {times}m0s", restartCount=times, lastState=last)


def crashing_pods(*containers: JSON) -> list[str]:
    """The lines about the pods of two Jobs, each of which has one pod for each of these containers."""
    js = a_set(rjob(replicas=2, parallelism=len(containers), completions=len(containers)))
    jobs = [made(job_of(js, index), active=len(containers)) for index in range(2)]
    pods = [
        made(pod_of(job, index, node="node-1", phase="Pending", containers=[container]))
        for job in jobs
        for index, container in enumerate(containers)
    ]
    text, _ = explained(js, jobs, pods)
    return [line.lstrip("├└│ ") for line in text.splitlines()[1:]]


def test_pods_that_were_restarted_more_or_less_often_are_alike():
    lines = crashing_pods(crashed(1, 7), crashed(1, 2))
    assert lines[0].startswith("Job train-workers-0: pod train-workers-0-0 and 1 more are not ready: container main: ")
    assert len([line for line in lines if "CrashLoopBackOff" in line]) == 1


def test_jobs_with_many_different_reasons_are_counted_once():
    lines = crashing_pods(*(crashed(code, 1) for code in range(1, 12)))
    assert lines[-1].startswith("2 more Jobs (train-workers-0, train-workers-1): waiting for reasons of this kind")


@pytest.mark.parametrize(("ago", "named"), [(60, True), (3000, False)])
def test_what_the_kubelet_has_not_said_again_is_over(ago: float, named: bool):
    js = a_set(rjob())
    job = started(js, active=1)
    pod = made(pod_of(job, node="n", phase="Pending", containers=[waiting_container("ContainerCreating")]))
    said = {**event("FailedMount", "secret not found", ago=ago), "regarding": {"name": pod["metadata"]["name"]}}
    text, _ = explained(js, [job], [pod], pod_warnings=[said])
    assert ("FailedMount: secret not found" in text) is named
    assert ("is starting on node n" in text) is not named


def test_a_crash_loop_is_named_while_its_pod_is_ready():
    js = a_set(rjob())
    job, pod = started(js, active=1), pod_of(started(js), node="n")
    ended = {"terminated": {"exitCode": 1, "reason": "Error"}}
    main = {"name": "main", "ready": True, "restartCount": 4, "state": {"running": {}}, "lastState": ended}
    pod["status"]["containerStatuses"] = [main]
    text, _ = explained(js, [job], [made(pod)])
    assert "0 of 3 pods ready" not in text
    assert "its pod is ready at this moment: container main: CrashLoopBackOff, restarted 4 times, it ended with" in text
    assert "jobset logs train -n team-a --job train-workers-0 -c main shows what its pods write" in text


def test_how_many_pods_an_autoscaler_sees_where_no_node_has_the_labels():
    text, body = explanation_of(without_pool())
    assert "an autoscaler sees 1 of its 4 pods: the followers are gated until the leader has a node" in text
    assert "holds no other Job" not in text
    assert "autoscaler" not in causes(explanation_of(without_pool(gated=0))[1])
    assert "an autoscaler may add such nodes, too" in by_cause(body, "no-such-label")["remedy"]
