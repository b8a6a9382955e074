"""What `jobset explain` says of pods that were ended from outside, and of nodes that failed, from facts made by hand."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from api.event import SeenEvent
from controllers.planning.node_failure import OUT_OF_SERVICE, UNREACHABLE
from diagnose.facts import Facts, SeenPod
from tests.support.explain.objects import MOMENT, NOW, a_set, at, causes, event, explanation_of, facts, lease, walk
from tests.support.explain.stuck import (
    JSON,
    POD,
    failed,
    gone,
    looping,
    node,
    on_node,
    replaced,
    restarting,
    silent_node,
    started,
)


@pytest.mark.parametrize(
    ("ago", "policy", "says", "fix"),
    [
        (300, None, "spec.failurePolicy.nodeFailure is not set: nothing is done about it", ""),
        (60, 120, "its Job fails in 1 min: spec.failurePolicy.nodeFailure.afterSeconds is 120", ""),
        (150, 120, "the failure policy decides: spec.failurePolicy.nodeFailure.afterSeconds is 120", ""),
        (300, 120, "no manager has acted on it: ", "--feature-gates=JobSetNodeFailure=true"),
    ],
)
def test_what_the_failure_policy_does_about_a_failed_node(ago: float, policy: int | None, says: str, fix: str):
    spec = {} if policy is None else {"failurePolicy": {"nodeFailure": {"afterSeconds": policy}}}
    text, body = explanation_of(on_node(silent_node(ago), **spec))
    assert says in text
    assert fix in next(finding["remedy"] for finding in walk(body) if finding["cause"] == "node-failure-policy")


def test_a_pod_of_a_set_that_restarts_in_place_may_be_replaced():
    policy = {"restartStrategy": "InPlaceRestart", "nodeFailure": {"afterSeconds": 120}}
    text, _ = explanation_of(on_node(silent_node(60), failurePolicy=policy))
    assert "its Job fails, or in place the pod is replaced, in 1 min" in text


def test_pods_that_were_ended_in_the_same_way_share_one_line():
    ends = [gone("Evicted", "low on memory"), gone("Evicted", "low on memory")]
    ends[1]["regarding"] = {"name": f"{POD}-y", "namespace": "team-a"}
    text, _ = explanation_of(replaced(*ends, ends[0]))
    assert f"pod {POD}-x and 1 more were evicted: low on memory" in text


@pytest.mark.parametrize(
    "other",
    [
        gone("TaintManagerEviction", "Cancelling deletion of Pod team-a/x"),
        {**gone("Evicted", "low on memory"), "eventTime": at(NOW.replace(hour=NOW.hour - 3))},
        {**event("Evicted", "low on memory"), "regarding": {"name": "other-0", "namespace": "team-a"}},
    ],
)
def test_what_is_no_end_of_a_pod_of_the_set_is_left_out(other: JSON):
    assert "evicted" not in explanation_of(replaced(other))[0]


def test_a_deletion_that_was_cancelled_ended_no_attempt():
    cancelled = gone("TaintManagerEviction", f"Cancelling deletion of Pod team-a/{POD}-x")
    text, _ = explanation_of(looping(failed(0, 20), failed(1, 10), disruption_events=[cancelled]))
    assert "evicted" not in text
    evicted = gone("TaintManagerEviction", f"Marking for deletion Pod team-a/{POD}-x")
    text, _ = explanation_of(looping(failed(0, 20), failed(1, 10), disruption_events=[cancelled, evicted]))
    assert f"pod {POD}-x was evicted, because its node got a taint with the effect NoExecute" in text


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (gone("Preempted", "Preempted by pod 1234 on node n"), "was preempted: Preempted by pod 1234 on node n"),
        (gone("Evicted", ""), "was evicted (since "),
        (gone("NodeNotReady", "Node is not ready"), "was marked as not ready, because its node is not ready"),
    ],
)
def test_how_a_pod_was_ended(given: dict[str, Any], says: str):
    assert says in f"{explanation_of(replaced(given))[0]}\n"


ENDING = f"pod {POD} and 1 more are being deleted on node node-3"
FORCE = f"kubectl delete pod -n team-a {POD} train-workers-0-1 --grace-period=0 --force"
FENCE = f"kubectl taint nodes node-3 {OUT_OF_SERVICE}=nodeshutdown:NoExecute"


def tainted(key: str, effect: str = "NoExecute") -> JSON:
    return node("node-3", {"key": key, "effect": effect, "timeAdded": at(MOMENT)})


@pytest.mark.parametrize(
    ("state", "level", "says", "fix"),
    [
        (
            None,
            "waits",
            "which does not exist any more",
            f"wait: Kubernetes deletes such pods within two minutes; or {FORCE}",
        ),
        (
            tainted(OUT_OF_SERVICE),
            "waits",
            f"which has the taint {OUT_OF_SERVICE}",
            "wait: Kubernetes deletes the pods of",
        ),
        (tainted("example.com/gpu-broken"), "fault", "which has the taint example.com/gpu-broken", FENCE),
        (tainted("node.kubernetes.io/not-ready"), "fault", "which has the taint node.kubernetes.io/not-ready", FENCE),
    ],
)
def test_what_ends_the_pods_of_a_node_depends_on_what_is_wrong_with_it(state, level, says, fix):
    text, body = explanation_of(restarting(state))
    held = next(finding for finding in walk(body) if finding["cause"] == "restart-waits-for-node")
    assert f"{ENDING}, {says}" in text
    assert held["level"] == level
    assert fix in held["remedy"]


@pytest.mark.parametrize("state", [node("node-3"), tainted("example.com/busy", "NoSchedule")])
def test_a_node_that_ends_its_pods_by_itself_is_not_named(state: JSON):
    text, body = explanation_of(restarting(state, event("RestartWaitsForNode", "pod x on node node-9")))
    assert "node-3, which" not in text
    assert causes(body) == ["restarting", "pod-overdue", "warning"], "what the manager says is repeated"


OVERDUE = (
    "pod train-workers-0-0 on node node-3 and 1 more there are being deleted, overdue by 1 min: the grace period of"
)


def test_pods_that_do_not_end_on_a_node_that_works_are_named_with_how_late_they_are():
    _, body = explanation_of(restarting(node("node-3")))
    [late] = [finding for finding in walk(body) if finding["cause"] == "pod-overdue"]
    assert (late["level"], late["since"]) == ("fault", at(NOW - timedelta(seconds=60)))
    assert late["what"].startswith(OVERDUE)
    assert "kubectl delete pod -n team-a train-workers-0-0 --grace-period=0 --force" in late["remedy"]


def test_so_are_they_where_nodes_may_not_be_read():
    known = restarting(node("node-3"))
    known.nodes_by_name = {}
    assert OVERDUE in explanation_of(known)[0]


def test_pods_within_their_grace_period_are_waited_for():
    _, body = explanation_of(restarting(node("node-3"), seconds=90))
    [late] = [finding for finding in walk(body) if finding["cause"] == "pod-ending"]
    assert (late["level"], late["remedy"]) == ("waits", "wait until then")
    assert late["what"].endswith("are being deleted: the grace period of 0 s ends in 1 min")


def test_a_pod_that_a_finalizer_holds_is_told_from_one_that_hangs():
    known = restarting(node("node-3"))
    pod = known.ending_pods[0]
    meta = msgspec.structs.replace(pod.metadata, finalizers=("batch.kubernetes.io/job-tracking",))
    assert "finalizer" not in explanation_of(with_pod(known, msgspec.structs.replace(pod, metadata=meta)))[0]
    meta = msgspec.structs.replace(pod.metadata, finalizers=(*meta.finalizers, "example.com/keep"))
    text, _ = explanation_of(with_pod(known, msgspec.structs.replace(pod, metadata=meta)))
    assert "is over: finalizer example.com/keep holds it" in text


def with_pod(known: Facts, pod: SeenPod) -> Facts:
    known.ending_pods = (pod,)
    return known


@pytest.mark.parametrize("field", ["suspend", "deletionTimestamp"])
def test_a_set_that_ends_its_pods_names_those_that_do_not_end(field: str):
    js = a_set(**({"suspend": True} if field == "suspend" else {}))
    if field != "suspend":
        js["metadata"] |= {field: at(NOW), "finalizers": ["foregroundDeletion"]}
    known = facts(js, [started(js)], lease=lease())
    known.ending_pods = restarting(node("node-3")).ending_pods
    known.nodes_by_name = restarting(node("node-3")).nodes_by_name
    assert OVERDUE in explanation_of(known)[0]


@pytest.mark.parametrize(
    ("key", "named"),
    [(UNREACHABLE, True), ("node.kubernetes.io/not-ready", False), ("example.com/gpu-broken", False)],
)
def test_a_kubelet_that_may_work_has_the_grace_period_of_the_pod(key: str, named: bool):
    assert (f"taint {key}" in explanation_of(restarting(tainted(key), seconds=10))[0]) is named


@pytest.mark.parametrize(
    ("ago", "level", "says"),
    [
        (60, "waits", "the manager deletes it in 1 min: spec.failurePolicy.nodeFailure.forceDeletePods is true"),
        (130, "waits", "the manager deletes it now: "),
        (300, "fault", "no manager has deleted it: "),
    ],
)
def test_with_force_delete_pods_it_says_when_the_manager_ends_them(ago: float, level: str, says: str):
    text, body = explanation_of(restarting(silent_node(ago), afterSeconds=120, forceDeletePods=True))
    assert says in text
    assert body["level"] == level
    assert ("--feature-gates=JobSetNodeFailure=true" in text) is (level == "fault")


GATE_OFF = event(
    "FeatureGateDisabled",
    "spec.failurePolicy.nodeFailure has no effect without the feature gate JobSetNodeFailure: start the manager with"
    " --feature-gates=JobSetNodeFailure=true",
)


def test_a_manager_without_the_gate_does_nothing_about_a_failed_node():
    policy = {"nodeFailure": {"afterSeconds": 120}}
    given = on_node(silent_node(60), failurePolicy=policy)
    text, _ = explanation_of(replace(given, warnings=(msgspec.convert(GATE_OFF, SeenEvent),)))
    assert "its Job fails in" not in text
    assert "nothing is done about it: the manager runs without the feature gate JobSetNodeFailure" in text
    held = restarting(silent_node(60), GATE_OFF, afterSeconds=120, forceDeletePods=True)
    text, body = explanation_of(held)
    assert "the manager deletes it in" not in text
    assert "the manager does not delete it: it runs without the feature gate JobSetNodeFailure" in text
    assert body["level"] == "fault"


@pytest.mark.parametrize(
    ("status", "meta", "cause"),
    [
        ({"active": 0, "terminating": 2}, {}, "pods-ending"),
        ({"active": 2}, {"deletionTimestamp": at(NOW)}, "job-deleted"),
    ],
)
def test_a_job_that_waits_for_pods_that_end_names_those_that_do_not(status: JSON, meta: JSON, cause: str):
    js = a_set()
    job = started(js, **status)
    job["metadata"] |= meta
    known = facts(js, [job], [], lease=lease())
    assert causes(explanation_of(known)[1])[0] == cause
    known.ending_pods, known.nodes_by_name = (
        restarting(node("node-3")).ending_pods,
        restarting(node("node-3")).nodes_by_name,
    )
    text, body = explanation_of(known)
    assert causes(body)[:2] == [cause, "pod-overdue"]
    assert OVERDUE in text
