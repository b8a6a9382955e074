"""What no node has that pods of a group ask for: `jobset explain` says it as for pods without groups."""

from __future__ import annotations

from tests.app.test_explain_groups import EACH, WORDS, Played
from tests.app.test_explain_nodes import node, nodes, requests
from tests.support.explained import causes


def waiting(message: str = WORDS, **amounts: str) -> Played:
    played = Played(EACH)
    played.refuse_all(message)
    for pod in played.pods.values():
        pod["spec"] |= requests(**amounts)
    return played


def test_a_misspelt_resource_is_named_though_the_scheduler_does_not_say_it():
    text, body = waiting(**{"nvidia.com/gpus": "1"}).explain(node_offers=nodes(node(gpu="8")))
    pods = "pod train-workers-0-0 and 1 more are not scheduled"
    assert f"└ {pods}: no node offers nvidia.com/gpus; nodes offer nvidia.com/gpu\n" in text
    assert "sed 's#nvidia.com/gpus:#nvidia.com/gpu:#' | kubectl replace --force -f -" in text
    assert "it goes on by itself" not in text
    assert body["level"] == "fault"


def test_nodes_that_are_in_use_are_said_where_resources_are_short():
    short = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu"
    text, body = waiting(short, gpu="1").explain(node_offers=nodes(node(gpu="8")))
    assert "are not scheduled: 1 of 1 node could take it, and too little is free there" in text
    assert "it goes on by itself when there is room" in text
    assert body["level"] == "waits"


def test_nodes_that_could_take_a_pod_are_no_reason_why_the_group_waits():
    assert causes(waiting(gpu="1").explain(node_offers=nodes(node(gpu="8")))[1]) == [
        "gang-waits", "scheduler-said", "gang-waits",
    ]  # fmt: skip


def test_pods_that_ask_for_different_things_are_different_findings():
    played = waiting(**{"nvidia.com/gpus": "1"})
    played.pods["train-workers-0-1"]["spec"] |= requests(gpu="16")
    text, _ = played.explain(node_offers=nodes(node(gpu="8")))
    assert "pod train-workers-0-0 is not scheduled: no node offers nvidia.com/gpus" in text
    assert "pod train-workers-0-1 is not scheduled: it needs 16 nvidia.com/gpu, the largest node has 8" in text
