"""`jobset explain` of gangs that wait, on the real kube-scheduler: what it reports, and why the scheduler has not reported."""

from __future__ import annotations

from typing import Any

import pytest

from api import keys
from tests.support.cluster.gangs import (
    CUBES_IN_A_SUPERSLICE,
    GANG,
    GATES,
    SCHEDULING,
    TPU,
    ZONE,
    GangNamespace,
    slices,
    topology,
)
from tests.support.cluster.jobs import manifest
from tests.support.cluster.manager import ManagerProcess
from tests.support.cluster.requests import DELETE_OPTIONS, request, wait_for
from tests.support.explain.objects import causes

JSON = dict[str, Any]


def sized(name: str, cpu: str) -> JSON:
    body = slices(name, jobs=1, pods=1, tpus=0)
    [container] = body["template"]["spec"]["template"]["spec"]["containers"]
    container["resources"] = {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}
    return body


def test_a_gang_that_does_not_fit_is_explained_with_its_level_and_message(gang_namespace: GangNamespace) -> None:
    gang_namespace.gang(slices(jobs=3), scheduling=CUBES_IN_A_SUPERSLICE)
    gang_namespace.wait_refused(6)
    text = gang_namespace.wait_explained("the scheduler says: ")
    [root] = gang_namespace.groups("compositepodgroups")
    name = root["metadata"]["name"]
    lines = text.splitlines()
    rule = "all 3 groups have to fit at once, in one superslice"
    assert lines[1] == f"└ CompositePodGroup {name}: 0 of 6 pods bound; {rule}"
    assert "0 of 2 pods bound; all 2 pods have to fit at once, in one cube" in lines[4]
    short = f"; that is: CompositePodGroup {name} needs 3 groups at once, and there is room for 2"
    assert f"minCount (3) cannot be satisfied: 2 scheduled, 0 remaining{short} in the first of 4 superslices" in text
    assert "nodes are available: 2 Insufficient example.com/tpu" in text
    assert "the largest superslice holds 4 of its 6 pods: it never fits" in text
    body = gang_namespace.explanation()
    assert (body["level"], body["notLookedAt"], causes(body)[0]) == ("fault", [], "gang-waits")
    gang_namespace.fill(*gang_namespace.nodes())
    gang_namespace.gang(slices(), name="small", scheduling=CUBES_IN_A_SUPERSLICE)
    gang_namespace.wait_refused(4, "small")
    fits = "to fix: it goes on by itself when there is room for all that has to fit in one superslice"
    wait_for(lambda: fits in gang_namespace.explain("small"), last=lambda: gang_namespace.explain("small"))


def test_a_label_that_no_node_has(gang_namespace: GangNamespace) -> None:
    gang_namespace.gang(slices(), scheduling={**GANG, "schedulingConstraints": topology("example.com/block")})
    gang_namespace.wait_refused(4)
    text = gang_namespace.wait_explained("the scheduler says: no feasible placements found")
    assert "kubectl label node NODE example.com/block=VALUE" in text
    assert gang_namespace.explanation()["level"] == "fault"


def test_a_label_that_no_node_has_above_one_that_nodes_have(gang_namespace: GangNamespace) -> None:
    """The scheduler says only that there is no placement."""
    scheduling = {**CUBES_IN_A_SUPERSLICE, "schedulingConstraints": topology("example.com/superslice")}
    gang_namespace.gang(slices(), scheduling=scheduling)
    gang_namespace.wait_refused(4)
    text = gang_namespace.wait_explained("no node has a label example.com/superslice at all")
    assert "kubectl label node NODE example.com/superslice=VALUE" in text


@pytest.mark.slow
def test_a_gang_that_exclusive_jobs_keep_out(gang_namespace: GangNamespace) -> None:
    """Two Jobs of one pod hold both zones."""
    apart = slices("apart", pods=1, tpus=1)
    apart["template"]["metadata"] = {"annotations": {keys.EXCLUSIVE_TOPOLOGY: ZONE}}
    gang_namespace.apply(manifest(apart, name="first"))
    gang_namespace.wait_bound(2, "first")
    gang_namespace.gang(slices(), scheduling=CUBES_IN_A_SUPERSLICE)
    gang_namespace.wait_refused(4)
    here = gang_namespace.namespace
    named = f"{here}/first-apart-0, {here}/first-apart-1"
    gang_namespace.wait_explained(
        f"2 exclusive Jobs keep other pods of priority 0 out of their domains: {named}",
        "give its ReplicatedJob a priorityClassName of another priority in a new JobSet",
    )


def test_a_misspelt_resource(gang_namespace: GangNamespace) -> None:
    body = slices(tpus=0)
    [container] = body["template"]["spec"]["template"]["spec"]["containers"]
    container["resources"] = {"requests": {f"{TPU}s": "4"}, "limits": {f"{TPU}s": "4"}}
    gang_namespace.gang(body, scheduling=CUBES_IN_A_SUPERSLICE)
    gang_namespace.wait_explained(f"not scheduled: no node offers {TPU}s; nodes offer {TPU}")
    assert gang_namespace.explanation()["level"] == "fault"


def test_a_minimum_of_jobs_and_how_many_pods_are_bound(gang_namespace: GangNamespace) -> None:
    """Six of eight Jobs fit: the other two wait for free nodes, which no other set holds."""
    policy = {"schedulingPolicy": {"gang": {"minGroupCount": 6}}}
    gang_namespace.fill(*gang_namespace.nodes(zone="zone-1")[:4])
    gang_namespace.gang(
        slices(jobs=8), scheduling={"replicatedJobs": [{"targetReplicatedJobs": ["slice"], "job": {}, **policy}]}
    )
    gang_namespace.wait_bound(12)
    gang_namespace.wait_explained("12 of 16 pods bound; 6 of 8 groups have to fit at once")
    gang_namespace.wait_explained("waits, 6 of 8 Jobs ready or done")


@pytest.mark.slow
def test_a_missing_group_that_no_manager_creates(gang_namespace: GangNamespace, gang_manager: ManagerProcess) -> None:
    gang_namespace.gang(slices(job={"backoffLimit": 6}), scheduling=CUBES_IN_A_SUPERSLICE)
    gang_namespace.wait_bound(4)
    [root] = gang_namespace.groups("compositepodgroups")
    gang_manager.stop()
    try:
        name = root["metadata"]["name"]
        path = f"{SCHEDULING}/v1alpha3/namespaces/{gang_namespace.namespace}/compositepodgroups/{name}"
        assert request(gang_namespace.cluster, "DELETE", path, DELETE_OPTIONS)[0] == 200
        for pod in gang_namespace.bound():
            gang_namespace.drop_pod(pod["metadata"]["name"])
        text = gang_namespace.wait_explained(
            f"CompositePodGroup {name} is missing: no pod of the whole tree is scheduled without"
        )
        assert "0 of 4 pods bound" in text
        # As soon as the Job controller has made the pods again.
        wait_for(lambda: causes(gang_namespace.explanation())[-2:] == ["gang-waits", "group-missing"])
    finally:
        gang_manager.start(featureGates=GATES)
    gang_namespace.wait_bound(4)


def test_a_gate_on_one_pod_holds_the_tree(gang_namespace: GangNamespace) -> None:
    gated = slices("gated", jobs=1, pods=1, pod={"schedulingGates": [{"name": "example.com/quota"}]})
    gang_namespace.gang(slices(), gated, scheduling=GANG)
    text = gang_namespace.wait_explained(
        "held back by scheduling gate example.com/quota: one such pod holds the whole tree"
    )
    assert "0 of 5 pods bound; all 5 pods have to fit at once" in text

    def warned() -> list[str]:
        return [note for _, reason, note in gang_namespace.events() if reason == "GangWaiting"]

    [note] = gang_namespace.until(warned, "the Warning after 30 s")
    assert "its 5 pods wait and the scheduler says nothing: pod js-gated-0-0" in note
    assert "Warning GangWaiting" in gang_namespace.explain()


def test_pods_that_are_refused_keep_the_others_waiting(gang_namespace: GangNamespace) -> None:
    limits = {"metadata": {"name": "small"}, "spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]}}
    path = f"/api/v1/namespaces/{gang_namespace.namespace}/limitranges"
    assert request(gang_namespace.cluster, "POST", path, limits)[0] == 201
    small, large = sized("small", cpu="1"), sized("large", cpu="2")
    gang_namespace.gang(small, large, scheduling=GANG)
    text = gang_namespace.wait_explained(
        "needs 2 pods, 1 exist; Jobs that lack pods: js-large-0 (0 of 1)", "FailedCreate"
    )
    assert "maximum cpu usage per Pod is 1" in text
