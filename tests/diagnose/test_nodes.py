"""What `jobset explain` says of pods that no node takes, from what the nodes offer."""

from typing import Any

import msgspec
import pytest

from api.node_offers import format_amount
from diagnose.gather import gather
from diagnose.needs import SeenSpec
from diagnose.nodes import Nodes, SeenNode
from kube.client import PAGE_SIZE, Client
from kube.model.node_affinity import Requirement, Toleration
from kube.reader import MAX_PAGES
from kube.transport import Request, Response
from tests.support.explain.objects import (
    NOW,
    causes,
    exclusive,
    explained,
    explanation_of,
    facts,
    job_of,
    lease,
    made,
    pod_of,
)
from tests.support.model.fake_cluster import Cluster
from tests.support.objects.jobsets import jobset, rjob, stored

JSON = dict[str, Any]
MISFIT = (
    "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector, 2 Insufficient"
)


def node(name: str = "node-0", *taints: JSON, labels: JSON | None = None, **offers: str) -> JSON:
    """A node of 8 CPU, 32Gi and what is given; `gpu` stands for nvidia.com/gpu."""
    devices = {"nvidia.com/gpu": offers.pop("gpu")} if "gpu" in offers else {}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/os": "linux", **(labels or {})}},
        "spec": {"taints": list(taints)},
        "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110", **offers, **devices}},
    }


def nodes(*bodies: JSON) -> Nodes:
    return Nodes(msgspec.convert(list(bodies), list[SeenNode]))


def requests(**amounts: str) -> JSON:
    devices = {"nvidia.com/gpu": amounts.pop("gpu")} if "gpu" in amounts else {}
    return {"containers": [{"name": "main", "resources": {"requests": {**amounts, **devices}}}]}


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> JSON:
    return {"key": key, "value": value, "effect": effect}


def unscheduled(job: JSON, message: str = MISFIT, *, containers: tuple[JSON, ...] = (), **spec: Any) -> JSON:
    """The first pod of a Job, with these containers."""
    pod = made(pod_of(job, unscheduled=message, **spec))
    return {**pod, "spec": {**pod["spec"], "containers": list(containers)}}


def said(there: Nodes, *, message: str = MISFIT, **pod: Any) -> JSON:
    """The finding about a Job with one such pod."""
    js = made(stored(jobset(rjob(), namespace="team-a")))
    job = made(job_of(js, 0), active=1, ready=0)
    given = facts(js, [job], [unscheduled(job, message, **pod)], lease=lease(), node_offers=there)
    finding: JSON = explanation_of(given)[1]["because"][0]
    return finding


BIG, SMALL = node("big", gpu="8", labels={"pool": "a100"}), node("small", gpu="4", labels={"pool": "v100"})
ONLY, CORDON = taint("gpu", "only"), taint("node.kubernetes.io/unschedulable")
AGAIN = (
    "kubectl get jobset train -n team-a -o yaml | sed '/^  resourceVersion:/d; s#{}#{}#' | kubectl replace --force -f -"
)


@pytest.mark.parametrize(
    ("there", "pod", "cause", "says", "fix"),
    [
        (
            [BIG, node(gpu="0", **{"amd.com/gpu": "0"})],
            requests(**{"google.com/tpu": "4"}),
            "no-such-resource",
            "no node offers google.com/tpu; nodes offer nvidia.com/gpu",
            r"plugin for google.com/tpu run? kubectl get nodes -o custom-columns='NODE:.metadata.name,OFFERS:.status.a",
        ),
        (
            [node()],
            requests(gpu="1"),
            "no-such-resource",
            "no node offers nvidia.com/gpu; nodes offer cpu, memory, pods",
            "does the device plugin",
        ),
        (
            [BIG, node(labels={"pool": "cpu"})],
            {"nodeSelector": {"pool": "cpu"}, **requests(gpu="8")},
            "too-large",
            "the largest of the 1 node that its labels choose has none",
            "add larger nodes",
        ),
        (
            [node("a", cpu="16"), node("b", memory="64Gi")],
            requests(cpu="12500m", memory="48Gi"),
            "too-large",
            "needs 12500m cpu and 48Gi memory, no node has all of that",
            "kubectl describe nodes",
        ),
        (
            [BIG, SMALL],
            {"nodeSelector": {"pool": "h100"}},
            "no-such-label",
            "no node has the label pool=h100 of its nodeSelector; nodes have pool=a100, pool=v100",
            AGAIN.format("pool: h100$", "pool: a100"),
        ),
        (
            [node(str(i), labels={"pool": pool}) for i, pool in enumerate(("a", "b", "c", "d", "e", "f", "h200"))],
            {"nodeSelector": {"pool": "h100"}},
            "no-such-label",
            "nodes have pool=h200, pool=a, pool=b, pool=c, pool=d and 2 more",
            "choose a value of pool that nodes have (h200, a, b, c, d and 2 more) in a new JobSet, or kubectl label node",
        ),
        (
            [BIG],
            {"nodeSelector": {"pool": "tpu-v5"}},
            "no-such-label",
            "no node has the label pool=tpu-v5 of its nodeSelector; nodes have pool=a100",
            "choose a value of pool that nodes have (a100) in a new JobSet, or kubectl label node NODE pool=tpu-v5; kub",
        ),
        (
            [BIG, node(labels={"arch": "arm64"})],
            {"nodeSelector": {"pool": "a100", "arch": "arm64"}},
            "no-such-label",
            "no node has all labels of its nodeSelector (arch=arm64,pool=a100)",
            "write another one in a new JobSet, or kubectl label node NODE arch=arm64 pool=a100; ",
        ),
        (
            [node("a", ONLY), node("b", ONLY), node("c", taint("node.kubernetes.io/unschedulable"))],
            {},
            "tainted",
            "does not tolerate the taints of 3 nodes that could hold it: gpu=only:NoSchedule (2), cordoned (1)",
            "{key: gpu, operator: Equal, value: only, effect: NoSchedule}; or kubectl taint node NODE gpu-",
        ),
        (
            [node("a", taint("spot", effect="NoExecute")), node("small", cpu="1")],
            requests(cpu="4"),
            "tainted",
            "does not tolerate the taints of 1 node that could hold it: spot:NoExecute (1)",
            "{key: spot, operator: Exists, effect: NoExecute}",
        ),
        (
            [BIG, SMALL, node("c", ONLY, gpu="8")],
            requests(gpu="8"),
            "in-use",
            "too little is free there; 1 more node could hold it but for taints: gpu=only:NoSchedule (1)",
            "wait for other pods to end",
        ),
        (
            [BIG, *(node(f"c{number}", CORDON, gpu="8") for number in range(7))],
            requests(gpu="8"),
            "in-use",
            "; 7 more nodes could hold it but for taints: cordoned (7)",
            "kubectl uncordon c0 c1 c2 c3 c4; kubectl get nodes shows the other 2 (SchedulingDisabled); or wait for other",
        ),
    ],
)
def test_why_no_node_takes_a_pod(there: list[JSON], pod: JSON, cause: str, says: str, fix: str):
    finding = said(nodes(*there), **pod)
    assert finding["cause"] == cause
    assert finding["level"] == ("waits" if cause == "in-use" else "fault")
    assert finding["what"].startswith("Job train-workers-0: pod train-workers-0-0 is not scheduled: ")
    assert says in finding["what"]
    assert fix in finding["remedy"]
    assert [under["what"] for under in finding["because"]] == [f"kube-scheduler: {MISFIT}"]


def affinity(*terms: JSON) -> JSON:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": required}}


def expression(key: str, operator: str, *values: str) -> JSON:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("pod", "words", "fix"),
    [
        (
            affinity(expression("pool", "In", "h100")),
            "(pool In [h100]); nodes have pool=a100, pool=v100",
            "choose a value of pool that nodes have (a100, v100)",
        ),
        (
            affinity(expression("pol", "Exists")),
            "(pol Exists); no node has a label pol at all: did you mean pool?",
            "write pool for pol",
        ),
        (affinity(expression("pool", "DoesNotExist"), {}), "(pool DoesNotExist or )", "write another node affinity"),
        (
            affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["x"]}]}),
            " In [x])",
            "write another node affinity",
        ),
        (
            {"nodeSelector": {"pool": "a100"}, **affinity(expression("pool", "In", "v100"))},
            " and has pool=a100",
            "write another node affinity",
        ),
    ],
)
def test_a_node_affinity_that_no_node_meets(pod: JSON, words: str, fix: str):
    finding = said(nodes(BIG, SMALL), **pod)
    assert finding["cause"] == "no-such-label"
    assert "no node meets its required node affinity (" in finding["what"]
    assert finding["what"].endswith(words)
    show = "or label a node; kubectl get nodes --show-labels shows the labels of the nodes; an autoscaler may add such nodes, too"
    assert finding["remedy"] == f"{fix} in a new JobSet, {show}"


@pytest.mark.parametrize(
    ("operator", "values", "value", "met"),
    [
        ("In", ("a", "b"), "b", True),
        ("In", ("a",), None, False),
        ("NotIn", ("a",), "a", False),
        ("NotIn", ("a",), None, True),
        ("Exists", (), "x", True),
        ("Exists", (), None, False),
        ("DoesNotExist", (), None, True),
        ("Gt", ("5",), "6", True),
        ("Gt", ("5",), "5", False),
        ("Lt", ("5",), "4", True),
        ("Lt", ("5",), None, False),
        ("Lt", (), "4", False),
    ],
)
def test_operators_of_node_affinity(operator: str, values: tuple[str, ...], value: str | None, met: bool):
    assert Requirement(key="k", operator=operator, values=values).is_met(value) is met


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"key": "gpu", "value": "only"}, True),
        ({"key": "gpu", "operator": "Equal", "value": "only", "effect": "NoSchedule"}, True),
        ({"key": "gpu", "value": "other"}, False),
        ({"key": "cpu", "operator": "Exists"}, False),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
    ],
)
def test_tolerations(toleration: JSON, tolerates: bool):
    assert msgspec.convert(toleration, Toleration).tolerates("gpu", "only", "NoSchedule") is tolerates


def test_requests_of_a_pod_are_added_up_as_the_scheduler_does():
    def one(cpu: str, **more: Any) -> JSON:
        return {"resources": {"requests": {"cpu": cpu}}, **more}

    def of(**spec: Any) -> dict[str, str]:
        needs = msgspec.convert(spec, SeenSpec).requests()
        return {name: format_amount(amount, name) for name, amount in needs.items()}

    assert of(containers=[one("1"), one("500m"), {}]) == {"cpu": "1500m cpu"}
    assert of(containers=[one("1")], initContainers=[one("4")], overhead={"cpu": "1"}) == {"cpu": "5 cpu"}
    sidecar = one("2", restartPolicy="Always")
    assert of(containers=[one("1")], initContainers=[one("2"), sidecar, one("3")]) == {"cpu": "5 cpu"}
    assert of(containers=[one("1")], initContainers=[sidecar]) == {"cpu": "3 cpu"}
    assert of(containers=[one("1")], resources={"requests": {"cpu": "7"}}) == {"cpu": "7 cpu"}
    assert of(containers=[one("0")]) == {}


def test_what_else_the_scheduler_says_keeps_its_words():
    finding = said(nodes(BIG), message="0/1 nodes are available: 1 node(s) didn't have free ports")
    assert finding["cause"] == "unscheduled"
    untaint = said(nodes(BIG), message="0/1 nodes are available: 1 node(s) had untolerated taint(s)")
    assert untaint["cause"] == "unscheduled", "the node has none any more"
    assert said(nodes())["cause"] == "unscheduled"


def test_a_leader_that_no_node_takes():
    js = made(stored(jobset(exclusive(), namespace="team-a")))
    job = made(job_of(js, 0), active=1, ready=0)
    pod = unscheduled(job, **requests(gpu="16"))
    _, body = explained(js, [job], [pod], node_offers=nodes(BIG))
    assert causes(body) == ["leader-waits", "leader-unscheduled", "too-large"], "whoever holds the domains"


def waiting(*pods: JSON) -> list[JSON]:
    js = made(stored(jobset(rjob())))
    job = made(job_of(js, 0), active=1)
    return [js, job, *(made(pod_of(job, index, **pod)) for index, pod in enumerate(pods))]


@pytest.mark.looptime
async def test_nodes_are_read_once_with_the_labels_that_are_asked_for():
    cluster = Cluster(*waiting({"unscheduled": MISFIT, "nodeSelector": {"pool": "x"}}), BIG)
    found = await gather(Client(cluster), "default", "train", NOW)
    assert found.node_offers is not None
    assert found.node_offers.labels(["pool", "kubernetes.io/os"]) == {"big": {"pool": "a100"}}
    assert sum(request.path.endswith("/nodes") for request in cluster.asked) == 1
    other = Cluster(*waiting({"unscheduled": "no"}), BIG)
    assert (await gather(Client(other), "default", "train", NOW)).node_offers is None
    assert not any(request.path.endswith("/nodes") for request in other.asked)


@pytest.mark.looptime
async def test_more_nodes_than_are_read_are_not_judged():
    cluster = Cluster(*waiting({"unscheduled": MISFIT}), BIG, endless=("nodes",))
    found = await gather(Client(cluster), "default", "train", NOW)
    assert found.node_offers is None
    assert f"what nodes beyond the first {PAGE_SIZE * MAX_PAGES} offer" in found.unread_notes


@pytest.mark.looptime
async def test_without_the_right_to_list_nodes_the_rest_is_explained():
    class Refuses(Cluster):
        async def send(self, request: Request) -> Response:
            if request.path.endswith("/nodes"):
                return Response(403, {}, b'{"kind":"Status","reason":"Forbidden","details":{"kind":"nodes"}}')
            return await super().send(request)

    found = await gather(Client(Refuses(*waiting({"unscheduled": MISFIT}))), "default", "train", NOW)
    text, body = explanation_of(found)
    assert causes(body)[-1] == "unscheduled"
    assert "not looked at: nodes: you may not list nodes, so what they offer is not known" in text
