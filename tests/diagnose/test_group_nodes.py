"""What no node has that pods of a group ask for: `jobset explain` says it as for pods without groups."""

from typing import Any

import msgspec
import pytest

from diagnose.gather import gather
from diagnose.nodes import Nodes
from kube.client import Client
from tests.diagnose.test_nodes import node, nodes, requests
from tests.support.explain.gangs import EACH, GANG, NESTED, WORDS, Played
from tests.support.explain.objects import NOW, causes, held, walk
from tests.support.model.fake_cluster import Cluster
from tests.support.objects.jobsets import rjob

JSON = dict[str, Any]
SUPERSLICE, CUBE = "example.com/superslice", "example.com/cube"


def waiting(message: str = WORDS, scheduling: JSON = EACH, *rjobs: JSON, **amounts: str) -> Played:
    played = Played(scheduling, *rjobs)
    played.refuse_all(message)
    for pod in played.pods.values():
        pod["spec"] |= requests(**amounts)
    return played


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


def labelled(*labels: JSON, **of_all: Any) -> Nodes:
    """Nodes of eight GPUs with these labels."""
    return nodes(*(node(f"node-{n}", gpu="8", labels=found, **of_all) for n, found in enumerate(labels)))


def where(superslice: int | None, cube: int | None) -> JSON:
    named = {SUPERSLICE: superslice, CUBE: cube}
    return {key: f"{key[-5:]}-{number}" for key, number in named.items() if number is not None}


def found(played: Played, *names: str, **known: Any) -> list[JSON]:
    """The findings of these causes."""
    return [one for one in walk(played.explain(**known)[1]) if one["cause"] in names]


NO_DOMAIN = "no feasible placements found"


def test_labels_of_two_levels_on_different_nodes_make_no_domain():
    played = waiting(NO_DOMAIN, NESTED, gpu="1")
    [finding] = found(played, "no-such-label", node_offers=labelled(where(None, 0), where(0, None)))
    assert finding["what"] == f"no node has the labels {SUPERSLICE} and {CUBE} at once"
    assert f"kubectl label node NODE {SUPERSLICE}=VALUE {CUBE}=VALUE" in finding["remedy"]


def test_where_all_labels_are_there_the_domains_are_to_be_looked_at():
    played = waiting(NO_DOMAIN, NESTED, gpu="1")
    there = labelled(*(where(0, cube) for cube in range(6)), cpu="16")
    [first, *_] = found(played, "scheduler-said", node_offers=there)
    assert first["remedy"].startswith(f"kubectl get nodes -L {SUPERSLICE},{CUBE} shows the domains")


def test_a_gang_that_is_larger_than_any_domain_never_fits():
    there = labelled(where(0, 0), where(0, 1), where(1, 2), where(1, 3), where(1, 4), where(None, 5))
    text, body = waiting(WORDS, NESTED, gpu="4").explain(node_offers=there)
    assert "├ the largest superslice holds 6 of its 6 pods" not in text, "it is free in the second one"
    played = waiting(WORDS, NESTED, gpu="8")
    text, body = played.explain(node_offers=there)
    group = played.of_job("train-workers-0")
    assert "  ├ the largest superslice holds 3 of its 6 pods: it never fits\n" in text
    assert f"  ├ PodGroup {group}: the largest cube holds 1 of its 2 pods: it never fits\n" in text
    assert text.count("the largest cube") == 1, "the other Jobs are alike"
    assert (
        f"add nodes to one superslice, or in a new JobSet run fewer pods (replicas, parallelism) or leave out topology {SUPERSLICE}"
        in text
    )
    assert "it goes on by itself" not in text
    assert body["level"] == "fault"


def test_pods_of_a_gang_that_never_fits_do_not_wait_for_others_to_end():
    there = labelled(*(where(number % 2, number) for number in range(6)))
    short = "0/6 nodes are available: 6 Insufficient nvidia.com/gpu"
    holders = held("a", "node-0"), held("b", "node-1")
    text, body = waiting(short, NESTED, gpu="8").explain(node_offers=there, holder_pods=holders)
    assert "the largest superslice holds 3 of its 6 pods: it never fits" in text
    assert "could take it" not in text
    assert "wait for other pods" not in text
    assert not {"in-use", "kept-out"} & set(causes(body))


def test_a_domain_with_no_node_for_such_pods():
    played = waiting(WORDS, NESTED, gpu="8")
    there = nodes(node("bare", gpu="8"), node("cpu", labels=where(0, 0)))
    assert "no superslice holds any of its 6 pods: it never fits" in played.explain(node_offers=there)[0]


def test_pods_of_different_kinds_are_counted_apart():
    one = {"schedulingPolicy": GANG, "schedulingConstraints": {"topology": [{"key": CUBE}]}}
    rjobs = rjob("driver", parallelism=1, completions=1), rjob(parallelism=2, completions=2)
    played = Played(one, *rjobs)
    for name, pod in played.pods.items():
        kind = played.jobs["train-driver-0" if "driver" in name else "train-workers-0"]
        played.pod(kind["metadata"]["name"], int(name[-1]), unscheduled=WORDS)
        played.pods[name]["spec"] |= requests(gpu="1" if "driver" in name else "8")
        assert pod
    for group in played.groups:
        played.say(group, WORDS)
    [finding] = found(played, "too-large-for-a-domain", node_offers=labelled(where(0, 0)))
    assert finding["what"] == "the largest cube holds 1 of its 2 pods of one kind: it never fits"
    [finding] = found(played, "too-large-for-a-domain", node_offers=labelled(where(0, 0), where(1, 0), where(1, 1)))
    in_all = "its 3 pods need 17 nvidia.com/gpu in all, the largest cube has 16: it never fits"
    assert finding["what"] == in_all
    three = labelled(where(0, 0), where(1, 0), where(1, 0))
    assert not found(played, "too-large-for-a-domain", node_offers=three)


def test_jobs_that_keep_nothing_out_of_a_gang_are_not_named():
    played = waiting(gpu="8")
    small = nodes(node("node-0", gpu="4"), node("node-1", gpu="8"))
    holders = held("a", "node-0"), held("low", "node-1", -1), held("plain", "node-1", exclusive=False)
    assert not found(played, "kept-out", node_offers=small, holder_pods=holders)


@pytest.mark.looptime
async def test_the_labels_of_all_levels_are_read_with_the_nodes():
    played = waiting(NO_DOMAIN, NESTED)
    there = node("node-0", labels={**where(0, 0), "rack": "r"})
    objects = [played.js, *played.jobs.values(), *played.groups.values(), *played.pods.values(), there]
    facts = await gather(Client(Cluster(*msgspec.to_builtins(objects))), "team-a", "train", NOW)
    assert facts.node_offers is not None
    assert facts.node_offers.labels([SUPERSLICE, CUBE, "rack"]) == {"node-0": where(0, 0)}
