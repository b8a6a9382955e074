"""What `jobset explain` says of a set that holds the nodes itself: each has too little left, all together have enough."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from diagnose.nodes import Nodes, SeenNode
from tests.support.explain.objects import causes, explanation_of
from tests.support.explain.stuck import a_set, node, started, unscheduled
from tests.support.objects.jobsets import rjob

JSON = dict[str, Any]
GPU = "nvidia.com/gpu"


def explained(nodes: list[JSON], *, running: int, replicas: int, **pod: Any) -> tuple[str, JSON]:
    """A set of pods of 5 GPUs, of which the first waits and so many run."""
    js = a_set(rjob(replicas=replicas))
    others = [started(js, index, ready=int(index <= running)) for index in range(1, replicas)]
    return explanation_of(unscheduled(f"Insufficient {GPU}", *nodes, needs={GPU: "5"}, js=js, jobs=others, **pod))


def test_a_set_that_holds_every_node_itself():
    nodes = [node(f"node-{number}") for number in range(20)]
    text, body = explained(nodes, running=20, replicas=25)
    assert "of the 25 pods of its ReplicatedJob only 20 fit on the nodes at once (1 per node)" in text
    assert "; 20 pods of its own hold them now\n" in text
    assert "add nodes, or run fewer pods at once: lower replicas or parallelism in a new JobSet" in text
    assert (body["level"], causes(body)[0]) == ("fault", "too-many-at-once")
    assert "wait for other pods to end" not in text


def test_a_set_that_fits_waits_for_others():
    nodes = [node(f"node-{number}") for number in range(4)]
    _, body = explained(nodes, running=1, replicas=4)
    assert causes(body)[0] == "in-use"


@pytest.mark.parametrize(
    ("nodes", "pod", "fit"),
    [
        ([node("small", gpus=4), node("a"), node("b", gpus=16)], {}, 4),
        ([node("a", {"key": "gpu", "value": "only", "effect": "NoSchedule"}), node("b")], {}, 1),
        ([node("a", labels={"pool": "x"}), node("b")], {"nodeSelector": {"pool": "x"}}, 1),
    ],
)
def test_only_nodes_that_a_pod_may_go_to_count(nodes: list[JSON], pod: JSON, fit: int):
    text, _ = explained(nodes, running=0, replicas=fit + 1, **pod)
    assert (
        f"of the {fit + 1} pods of its ReplicatedJob only {fit} {'fits' if fit == 1 else 'fit'} on the nodes at once"
        in text
    )
    assert "of its own" not in text, "none of them runs"
    _, body = explained(nodes, running=0, replicas=fit, **pod)
    assert causes(body)[0] == "in-use"


def test_a_node_takes_no_more_pods_than_it_says():
    full = Nodes([msgspec.convert({**node("a"), "status": {"allocatable": {"pods": "3", "cpu": "64"}}}, SeenNode)])
    [pod] = unscheduled("Insufficient cpu", needs={"cpu": "1"}).pods or ()
    assert full.too_many(pod.spec, 3, 0) is None
    assert full.too_many(pod.spec, 4, 0) is not None
