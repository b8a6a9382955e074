"""Requests that no node can hold: admission warns, from the nodes' allocatable, which it reads once for many sets."""

import asyncio
from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.keys import QUEUE_NAME
from kube.client import PAGE_SIZE
from kube.transport import Request, Response
from tests.support.model.scripted_server import GATES, Script, checks, status, warnings
from tests.support.objects.jobsets import JSON, jobset, rjob, stored
from webhooks.jobset.cluster.nodes import MAX_PAGES, MAX_RESOURCES

pytestmark = pytest.mark.looptime

GPU = "nvidia.com/gpu"
RESOURCES = "spec.replicatedJobs[0].template.spec.template.spec.containers[0].resources"


def node(**offers: object) -> JSON:
    """A node of 8 CPU and 32Gi, and with what is given; `gpu` stands for nvidia.com/gpu."""
    given = {name.replace("gpu", GPU): amount for name, amount in offers.items()}
    return {"metadata": {"name": "secret-name"}, "status": {"allocatable": {"cpu": "8", "memory": "32Gi"} | given}}


class Cluster(Script):
    """Has these nodes, and answers in pages; after so many seconds each."""

    def __init__(self, nodes: Iterable[JSON], seconds_a_page: float = 0.0) -> None:
        super().__init__()
        self.nodes, self.seconds_a_page = list(nodes), seconds_a_page

    async def send(self, request: Request) -> Response:
        if request.path != "/api/v1/nodes":
            return await super().send(request)
        self.requests.append(request)
        await asyncio.sleep(self.seconds_a_page)
        query = dict(request.query)
        begin, limit = int(query.get("continue", 0)), int(query["limit"])
        more = {"continue": str(begin + limit)} if begin + limit < len(self.nodes) else {}
        body = {"metadata": more, "items": self.nodes[begin : begin + limit]}
        return Response(200, {}, msgspec.json.encode(body))


def reads(script: Script) -> int:
    return sum(request.path == "/api/v1/nodes" for request in script.requests)


def pod(*requests: JSON, **more: object) -> JSON:
    """One container for each of the requests."""
    named = [{"name": f"c{i}", "image": "i", "resources": {"requests": of}} for i, of in enumerate(requests)]
    return {"containers": named, **more}


def queued(js: JSON) -> JSON:
    return {**js, "metadata": {**js["metadata"], "labels": {QUEUE_NAME: "users"}}}


async def said(script: Script, js: JSON, **options: bool) -> list[str]:
    return warnings(await checks(script, **options).findings_about_new(stored(js), (), GATES, namespace="default"))


@pytest.mark.parametrize(
    ("spec", "place", "words"),
    [
        (
            pod({"nvidia.com/gpus": 1}),
            "requests[nvidia.com/gpus]",
            f"no node offers nvidia.com/gpus: pods wait for one that does; did you mean {GPU}?",
        ),
        (
            {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"google.com/tpu": 4}}}]},
            "limits[google.com/tpu]",
            "no node offers google.com/tpu: pods wait for one that does; does its device plugin run?",
        ),
        (
            pod({"hugepages-2Mi": "2Mi"}),
            "requests.hugepages-2Mi",
            "no node offers hugepages-2Mi: pods wait for one that does; add such nodes",
        ),
        (
            pod({GPU: 9}),
            f"requests[{GPU}]",
            f"a pod needs 9 {GPU}, more than any node has: it waits for a larger one; request less, or add larger nodes",
        ),
        (
            pod({"cpu": "4"}, {"cpu": "4500m"}),
            None,
            "a pod needs 8500m cpu, more than any node has: it waits for a larger one; request less, or add larger nodes",
        ),
        (
            pod({"memory": "20Gi"}, overhead={"memory": "13Gi"}),
            "requests.memory",
            "a pod needs 33Gi memory, more than any node has: it waits for a larger one; request less, or add larger nodes",
        ),
    ],
)
async def test_a_pod_that_no_node_can_hold(spec: JSON, place: str | None, words: str):
    where = f"{RESOURCES}.{place}" if place else f"{RESOURCES.replace('[0].resources', '[1].resources')}.requests.cpu"
    script = Cluster([node(), node(gpu="8"), node(gpu="4", cpu="7999m")])
    assert await said(script, jobset(rjob(pod=spec))) == [f"{where}: {words}"]


@pytest.mark.parametrize(
    "spec",
    [
        pod({"cpu": "8", "memory": "32Gi", GPU: 8}),
        pod({"cpu": "1", "google.com/tpu": 0}),
        pod({"cpu": "8"}, initContainers=[{"name": "init", "image": "i", "resources": {"requests": {"cpu": "8"}}}]),
    ],
)
async def test_a_pod_that_fits_an_idle_node(spec: JSON):
    script = Cluster([node(), node(gpu="8")])
    assert await said(script, jobset(rjob(pod=spec))) == []
    assert reads(script) == 1


async def test_a_device_whose_plugin_has_gone_is_offered_by_no_node():
    [found] = await said(Cluster([node(gpu="0")]), jobset(rjob(pod=pod({GPU: 1}))))
    assert f"no node offers {GPU}" in found


async def test_who_asks_with_rights_of_his_own_hears_how_large_the_largest_node_is():
    script = Cluster([node(gpu="4"), node(gpu="8")])
    [found] = await said(script, jobset(rjob(pod=pod({GPU: 16}))), has_author_rights=True)
    assert f"a pod needs 16 {GPU}, the largest node has 8: it waits for a larger one" in found


@pytest.mark.parametrize(
    "js",
    [
        jobset(rjob()),
        jobset(rjob(replicas=0, pod=pod({"cpu": "9"}))),
        jobset(rjob(pod=pod({"cpu": "9"})), managedBy="kueue.x-k8s.io/multikueue"),
        queued(jobset(rjob(pod=pod({"cpu": "9"})), suspend=True)),
    ],
)
async def test_of_these_sets_nodes_are_not_read(js: JSON):
    script = Cluster([node()])
    assert await said(script, js) == []
    assert reads(script) == 0


async def test_without_dry_runs_nodes_are_not_read():
    script = Cluster([node()])
    assert await said(script, jobset(rjob(pod=pod({"cpu": "9"}))), dry_run=False) == []
    assert script.requests == []


async def test_a_set_without_pods_at_once_is_told_nothing():
    js = jobset(rjob(parallelism=0, pod=pod({"cpu": "9"})))
    assert await said(Cluster([node()]), js) == []


NAMES = {f"x.com/d{i}": "1" for i in range(MAX_RESOURCES)}


@pytest.mark.parametrize(
    ("nodes", "pages"),
    [
        ([], 1),
        ([{"metadata": {}}, {"status": None}, {"status": {"allocatable": None}}, {"status": {"allocatable": {}}}], 1),
        ([node()] * (MAX_PAGES * PAGE_SIZE + 1), MAX_PAGES),
        ([node(**NAMES)], 1),
    ],
)
async def test_where_the_nodes_are_not_known_nothing_is_said(nodes: list[JSON], pages: int):
    script = Cluster(nodes)
    assert await said(script, jobset(rjob(pod=pod({"cpu": "9", "x.com/y": 1})))) == []
    assert reads(script) == pages


async def test_without_the_right_to_list_nodes_nothing_is_said():
    script = Script({"list nodes": lambda _: status(403, "Forbidden", "no right")})
    assert await said(script, jobset(rjob(pod=pod({"cpu": "9"})))) == []


async def test_nodes_of_all_pages_count():
    nodes = [node()] * (MAX_PAGES * PAGE_SIZE - 1) + [node(gpu="8")]
    script = Cluster(nodes)
    found = await said(script, jobset(rjob("a", pod=pod({GPU: 8})), rjob("b", pod=pod({GPU: 9}))))
    assert [text.partition(",")[0].rpartition(": ")[2] for text in found] == [f"a pod needs 9 {GPU}"]
    assert reads(script) == MAX_PAGES


async def test_an_update_reads_no_nodes():
    script = Cluster([node()])
    old, new = (stored(jobset(rjob(pod=pod({"cpu": cpu})), suspend=True)) for cpu in ("1", "9"))
    await checks(script).findings_about_update(old, new, (), GATES, namespace="default")
    assert reads(script) == 0


_AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", GPU, "x.com/y"]), st.integers(0, 3), max_size=4)


@given(st.lists(_AMOUNTS, min_size=1, max_size=4), _AMOUNTS)
def test_a_warning_means_that_every_single_node_lacks_that_resource(nodes: list[dict[str, int]], needs: dict[str, int]):
    script = Cluster({"status": {"allocatable": of}} for of in nodes)
    found = asyncio.run(said(script, jobset(rjob(pod=pod(needs)))))
    most = {name: max(of.get(name, 0) for of in nodes) for name in needs}
    missing = sorted(name for name in needs if most[name] == 0 < needs[name])[:1]
    small = sorted(name for name in needs if 0 < most[name] < needs[name])[:1]
    nothing_is_known = not any(amount for of in nodes for amount in of.values())
    expected = {f"no node offers {name}" for name in missing} | {f"a pod needs {needs[name]} {name}" for name in small}
    assert {text.partition(": ")[2].partition(":")[0].partition(",")[0] for text in found} == (
        set() if nothing_is_known else expected
    )
