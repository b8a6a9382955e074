"""What `jobset explain` says of pods that nodes could take, if they were free, in order, or newer: who holds them."""

from dataclasses import replace
from typing import Any

import pytest

from diagnose.facts import SeenPod
from diagnose.nodes import Nodes
from kube.client import PAGE_SIZE
from kube.reader import MAX_PAGES
from tests.diagnose.test_look_ups import a_set as plain_set
from tests.diagnose.test_look_ups import read
from tests.diagnose.test_nodes import CORDON, node, nodes, requests, unscheduled
from tests.support.explain.objects import (
    RACK,
    causes,
    explained,
    explanation_of,
    facts,
    held,
    job_of,
    made,
    pod_of,
    walk,
)
from tests.support.explain.stuck import a_set, started
from tests.support.explain.stuck import node as gpu_node
from tests.support.explain.stuck import unscheduled as without_node
from tests.support.explain.stuck_pods import HOLDERS, exclusive_leader
from tests.support.objects.jobsets import jobset, rjob, stored

JSON = dict[str, Any]
GPU = "nvidia.com/gpu"
ONLY = {"key": "gpu", "value": "only", "effect": "NoSchedule"}


def hold(jobset: str, node: str, gpus: int, namespace: str = "team-b") -> SeenPod:
    return held(jobset, node, namespace=namespace, needs={GPU: gpus, "cpu": 1})


def in_use(*placed: SeenPod, said: str = f"Insufficient {GPU}") -> str:
    """Two nodes of eight GPUs, and one that is for others."""
    there = gpu_node("a"), gpu_node("b"), gpu_node("other", ONLY)
    found = without_node(said, *there, needs={GPU: "8", "cpu": "1"})
    return explanation_of(replace(found, placed_pods=placed))[0]


def test_the_jobsets_that_hold_most_on_nodes_that_could_take_the_pod_are_named():
    placed = (
        hold("small", "a", 1),
        hold("big", "a", 2),
        hold("big", "b", 4),
        hold("big", "other", 8),
        hold("cpu", "b", 0),
    )
    text = in_use(*placed, hold("train", "b", 1, "team-a"))
    assert "; JobSets hold 8 of their 16 nvidia.com/gpu: team-b/big (6), team-b/small (1), this JobSet (1)\n" in text
    assert "wait for other pods to end, or add nodes; kubectl describe nodes" in text


def test_of_many_jobsets_three_are_named():
    text = in_use(*(hold(f"j{number}", "a", 1) for number in range(7)))
    assert ": team-b/j0 (1), team-b/j1 (1), team-b/j2 (1) and 4 more\n" in text


def test_the_resource_counts_that_most_nodes_lack():
    both = f"Insufficient cpu, 2 Insufficient {GPU}"
    assert "JobSets hold 1 of their 128 cpu: team-b/big (1)\n" in in_use(hold("big", "a", 8), said=both)
    either = f"Insufficient cpu, 3 Insufficient {GPU}"
    assert f"JobSets hold 8 of their 16 {GPU}: team-b/big (8)\n" in in_use(hold("big", "a", 8), said=either)


def test_without_jobsets_there_nothing_is_said_of_them():
    assert "JobSets hold" not in in_use(hold("big", "other", 8), hold("cpu", "a", 0))


def waiting(message: str, **amounts: str) -> list[JSON]:
    job = made(job_of(plain_set(), 0), active=1)
    waits = made(pod_of(job, unscheduled=message))
    return [plain_set(), job, {**waits, "spec": {**waits["spec"], **requests(**amounts)}}, node("big", gpu="8")]


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
        assert found.placed_pods is None
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
    assert f"pods of JobSets beyond the first {PAGE_SIZE * MAX_PAGES}" in found.unread_notes
    assert asked.count("/api/v1/pods") == MAX_PAGES


def too_many(nodes: list[JSON], *, running: int, replicas: int, **pod: Any) -> tuple[str, JSON]:
    """A set of pods of 5 GPUs, of which the first waits and so many run."""
    js = a_set(rjob(replicas=replicas))
    others = [started(js, index, ready=int(index <= running)) for index in range(1, replicas)]
    return explanation_of(without_node(f"Insufficient {GPU}", *nodes, needs={GPU: "5"}, js=js, jobs=others, **pod))


def test_a_set_that_holds_every_node_itself():
    nodes = [gpu_node(f"node-{number}") for number in range(20)]
    text, body = too_many(nodes, running=20, replicas=25)
    assert "of the 25 pods of its ReplicatedJob only 20 fit on the nodes at once (1 per node)" in text
    assert "; 20 pods of its own hold them now\n" in text
    assert "add nodes, or run fewer pods at once: lower replicas or parallelism in a new JobSet" in text
    assert (body["level"], causes(body)[0]) == ("fault", "too-many-at-once")
    assert "wait for other pods to end" not in text


@pytest.mark.parametrize(
    ("nodes", "pod", "fit"),
    [
        ([gpu_node("small", gpus=4), gpu_node("a"), gpu_node("b", gpus=16)], {}, 4),
        ([gpu_node("a", {"key": "gpu", "value": "only", "effect": "NoSchedule"}), gpu_node("b")], {}, 1),
        ([gpu_node("a", labels={"pool": "x"}), gpu_node("b")], {"nodeSelector": {"pool": "x"}}, 1),
    ],
)
def test_only_nodes_that_a_pod_may_go_to_count(nodes: list[JSON], pod: JSON, fit: int):
    text, _ = too_many(nodes, running=0, replicas=fit + 1, **pod)
    assert (
        f"of the {fit + 1} pods of its ReplicatedJob only {fit} {'fits' if fit == 1 else 'fit'} on the nodes at once"
        in text
    )
    assert "of its own" not in text, "none of them runs"
    _, body = too_many(nodes, running=0, replicas=fit, **pod)
    assert causes(body)[0] == "in-use"


EIGHT = {"containers": [{"name": "main", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 8}}}]}
IN_ALL = "the pods of its JobSet need {} nvidia.com/gpu in all, the nodes offer 16: they never run all at once"


def in_all(*rjobs: JSON, ended: int = 0, status: JSON | None = None, **spec: Any) -> str:
    """What is said of the last Job of the first ReplicatedJob; the others run, and so many of them have ended."""
    js = made(stored(jobset(*rjobs, namespace="team-a", **spec)), **(status or {}))
    of = rjobs[0]
    done = {"conditions": [{"type": "Complete", "status": "True"}], "succeeded": 1, "active": 0}
    jobs = [
        made(job_of(js, index, of["name"]), **{"active": 1, "ready": 1, **(done if index < ended else {})})
        for index in range(of["replicas"])
    ]
    jobs[-1]["status"]["ready"] = 0
    pod = unscheduled(jobs[-1], "0/2 nodes are available: 2 Insufficient nvidia.com/gpu", **requests(gpu="8"))
    there = nodes(node("a", gpu="8"), node("b", gpu="8"))
    return "\n".join(one["what"] for one in walk(explanation_of(facts(js, jobs, [pod], node_offers=there))[1]))


def test_a_set_that_needs_more_than_all_nodes_have():
    assert IN_ALL.format(24) in in_all(rjob(replicas=3, pod=EIGHT))
    assert IN_ALL.format(32) in in_all(rjob(replicas=1, parallelism=4, completions=4, pod=EIGHT))
    assert "in all" not in in_all(rjob(replicas=2, pod=EIGHT))


def test_jobs_that_have_ended_need_nothing_more():
    assert "in all" not in in_all(rjob(replicas=3, pod=EIGHT), ended=1)


def test_a_later_stage_needs_nothing_yet():
    first, second = rjob("first", replicas=2, pod=EIGHT), rjob("second", replicas=2, pod=EIGHT)
    assert IN_ALL.format(32) in in_all(first, second)
    second["dependsOn"] = [{"name": "first", "status": "Complete"}]
    assert "in all" not in in_all(first, second)


def test_a_resource_that_no_node_has_is_not_counted_in_all():
    assert nodes(node()).shortage({"nvidia.com/gpu": 8, "cpu": 8}) is None


SAID = "0/2 nodes are available: 2 node(s) didn't match Pod's required features"
IN_PLACE = {"failurePolicy": {"restartStrategy": "InPlaceRestart", "maxRestarts": 3}}
FEATURE = "RestartAllContainersOnContainerExits"
SHOW = "kubectl get nodes -o custom-columns='NODE:.metadata.name,VERSION:.status.nodeInfo.kubeletVersion"


def declaring(*features: str) -> Nodes:
    body = node()
    body["status"]["declaredFeatures"] = list(features)
    return nodes(body, node("old"))


def rules(action: str) -> JSON:
    return {"name": "main", "restartPolicy": "Never", "restartPolicyRules": [{"action": action}]}


def undeclared(
    there: Nodes | None, *, js: JSON | None = None, message: str = SAID, main: JSON | None = None, **pod: Any
) -> JSON:
    """The finding about a pod that the scheduler says this of."""
    stuck = made(stored(jobset(rjob(), namespace="team-a", **(js or {}))))
    job = made(job_of(stuck, 0), active=1, ready=0)
    body = unscheduled(job, message, containers=(main or rules("RestartAllContainers"),), **pod)
    found: JSON = explained(stuck, [job], [body], node_offers=there)[1]["because"][0]
    return found


@pytest.mark.parametrize(
    ("there", "who"), [(declaring(), "no node declares"), (None, "nodes that it may use do not declare")]
)
def test_the_feature_that_a_pod_needs_is_named(there: Nodes | None, who: str):
    finding = undeclared(there, js=IN_PLACE)
    by = "restartPolicyRules with action RestartAllContainers"
    assert finding["what"].endswith(f"is not scheduled: {who} the feature {FEATURE}, which it needs for {by}")
    assert (finding["level"], finding["cause"]) == ("fault", "no-such-feature")
    assert finding["remedy"].startswith("write failurePolicy.agent.mode: MainContainer in a new JobSet")
    assert SHOW in finding["remedy"]


def test_a_set_that_does_not_restart_in_place_does_without_the_rules():
    by = "restartPolicyRules with action RestartAllContainers"
    assert undeclared(declaring())["remedy"].startswith(f"do without {by} in a new JobSet, or have an administrator")


def test_user_namespaces_on_the_network_of_the_node():
    finding = undeclared(declaring(FEATURE), js=IN_PLACE, hostNetwork=True, hostUsers=False)
    assert "the feature UserNamespacesHostNetworkSupport, which it needs for hostNetwork with hostUsers: false" in str(
        finding
    )
    assert finding["remedy"].startswith("do without hostNetwork with hostUsers: false in a new JobSet")


@pytest.mark.parametrize(
    "given",
    [
        {"there": declaring(FEATURE)},
        {"there": declaring(), "main": rules("Restart")},
        {"there": declaring(), "hostNetwork": True, "main": {"name": "main"}},
        {"there": declaring(), "message": "0/2 nodes are available: 2 Too many pods"},
    ],
)
def test_features_that_are_declared_or_not_needed_are_not_named(given: JSON):
    finding = undeclared(given.pop("there"), **given)
    assert "no-such-feature" not in [finding["cause"], *causes(finding)]


def free(there: Nodes) -> tuple[str, str]:
    """The finding about the second of two racks, the first of which is held, and what to do."""
    given = exclusive_leader(HOLDERS[0])
    _, body = explanation_of(replace(given, node_offers=there))
    [found] = [one for one in walk(body) if one["cause"] == "free"]
    return found["what"], found["remedy"]


def test_cordoned_nodes_of_a_free_domain_are_named():
    held = node("n0", CORDON, labels={RACK: "rack-0"})
    what, fix = free(nodes(held, node("n1", CORDON, labels={RACK: "rack-1"}), node("bare", CORDON)))
    assert what == (
        "1 of 2 racks holds no other Job (rack-1): there it is something else, such as free resources, taints or cordons;"
        " 1 node there could hold it but for taints: cordoned (1)"
    )
    assert fix.startswith("kubectl uncordon n1; the scheduler's reason above counts the nodes")


def test_of_free_domains_without_tainted_nodes_nothing_is_said_of_taints():
    what, fix = free(nodes(node("n0", CORDON, labels={RACK: "rack-0"}), node("n1", labels={RACK: "rack-1"})))
    assert what.endswith("free resources, taints or cordons")
    assert fix.startswith("the scheduler's reason above counts the nodes")
