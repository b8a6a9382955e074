"""`jobset explain` of gangs that wait, on the real kube-scheduler: what it reports, and why the scheduler has not reported."""

import pytest

from tests.support.cluster.gangs import CUBES_IN_A_SUPERSLICE, GANG, GangNamespace, slices, topology
from tests.support.cluster.requests import wait_for
from tests.support.explain.objects import causes


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


@pytest.mark.slow
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
