"""What `jobset explain` says of nodes that are in use: which JobSets hold there what the pod lacks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as replace_struct

from diagnose.case import case
from diagnose.facts import PlacedPod
from diagnose.pod_causes import misfit
from diagnose.reader import MOST_PAGES, PAGE
from tests.diagnose.test_look_ups import a_set, read
from tests.diagnose.test_nodes import node, requests
from tests.support.explain.objects import explanation_of, job_of, made, pod_of
from tests.support.explain.stuck import node as gpu_node
from tests.support.explain.stuck import unscheduled
from tests.support.objects.jobsets import jobset, rjob, stored

JSON = dict[str, Any]
GPU = "nvidia.com/gpu"
ONLY = {"key": "gpu", "value": "only", "effect": "NoSchedule"}


def held(jobset: str, node: str, gpus: int, namespace: str = "team-b") -> PlacedPod:
    return PlacedPod(namespace, jobset, node, {GPU: gpus, "cpu": 1})


def explained(*placed: PlacedPod, said: str = f"Insufficient {GPU}") -> str:
    """Two nodes of eight GPUs, and one that is for others."""
    there = gpu_node("a"), gpu_node("b"), gpu_node("other", ONLY)
    found = unscheduled(said, *there, needs={GPU: "8", "cpu": "1"})
    return explanation_of(replace(found, placed=placed))[0]


def test_the_jobsets_that_hold_most_on_nodes_that_could_take_the_pod_are_named():
    placed = (
        held("small", "a", 1),
        held("big", "a", 2),
        held("big", "b", 4),
        held("big", "other", 8),
        held("cpu", "b", 0),
    )
    text = explained(*placed, held("train", "b", 1, "team-a"))
    assert "; JobSets hold 8 of their 16 nvidia.com/gpu: team-b/big (6), team-b/small (1), this JobSet (1)\n" in text
    assert "wait for other pods to end, or add nodes; kubectl describe nodes" in text


def test_of_many_jobsets_three_are_named():
    text = explained(*(held(f"j{number}", "a", 1) for number in range(7)))
    assert ": team-b/j0 (1), team-b/j1 (1), team-b/j2 (1) and 4 more\n" in text


def test_the_resource_counts_that_most_nodes_lack():
    both = f"Insufficient cpu, 2 Insufficient {GPU}"
    assert "JobSets hold 1 of their 128 cpu: team-b/big (1)\n" in explained(held("big", "a", 8), said=both)
    either = f"Insufficient cpu, 3 Insufficient {GPU}"
    assert f"JobSets hold 8 of their 16 {GPU}: team-b/big (8)\n" in explained(held("big", "a", 8), said=either)


def test_without_jobsets_there_nothing_is_said_of_them():
    assert "JobSets hold" not in explained(held("big", "other", 8), held("cpu", "a", 0))


def test_pods_that_are_alike_are_judged_once():
    found = unscheduled(f"Insufficient {GPU}", gpu_node("a"), needs={GPU: "8", "cpu": "1"})
    of = case(replace(found, placed=(held("big", "a", 8),)))
    [pod] = found.pods or ()
    assert misfit(of, pod) is misfit(of, replace_struct(pod, metadata=replace_struct(pod.metadata, name="other")))


def waiting(message: str, **amounts: str) -> list[JSON]:
    job = made(job_of(a_set(), 0), active=1)
    waits = made(pod_of(job, unscheduled=message))
    return [a_set(), job, {**waits, "spec": {**waits["spec"], **requests(**amounts)}}, node("big", gpu="8")]


def running(**amounts: str) -> JSON:
    js = made(stored(jobset(rjob(), name="eval", namespace="team-b")))
    pod = made(pod_of(made(job_of(js, 0)), node="big"))
    return {**pod, "spec": {**pod["spec"], **requests(**amounts)}}


SHORT = f"0/1 nodes are available: 1 Insufficient {GPU}."


@pytest.mark.looptime
async def test_pods_on_nodes_are_read_where_too_little_is_free():
    found, asked = await read(*waiting(SHORT, gpu="4"), running(gpu="6"))
    assert f"JobSets hold 6 of their 8 {GPU}: team-b/eval (6)\n" in explanation_of(found)[0]
    assert asked.count("/api/v1/pods") == 1
    for message, amounts in ((SHORT, {"gpu": "16"}), ("0/1 nodes are available: 1 node(s) were unschedulable", {})):
        found, asked = await read(*waiting(message, **amounts), running(gpu="6"))
        assert found.placed is None
        assert "/api/v1/pods" not in asked


@pytest.mark.looptime
async def test_who_may_not_list_pods_of_other_namespaces_is_told_what_is_not_known():
    found, _ = await read(*waiting(SHORT, gpu="4"), running(gpu="6"), refused=("/api/v1/pods",))
    text, _ = explanation_of(found)
    assert "1 of 1 node could take it, and too little is free there\n" in text
    assert "not looked at: pods of other namespaces: you may not list them, so which JobSets hold what its pods" in text


@pytest.mark.looptime
async def test_of_very_many_pods_on_nodes_the_first_are_read():
    found, asked = await read(*waiting(SHORT, gpu="4"), running(gpu="6"), endless=("pods",))
    assert f"pods of JobSets beyond the first {PAGE * MOST_PAGES}" in found.unseen
    assert asked.count("/api/v1/pods") == MOST_PAGES + 1
