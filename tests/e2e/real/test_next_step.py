"""Seconds until a training makes its next step, by what fails and what the set does about it (docs/concepts/recovery.md).

Six ranks on three nodes, two on each. The free node has neither their image nor that of the agent, and pulls them at a
limited speed. The summary of pytest has the figures. NEXT_STEP_IMAGE_MB is the size of the layer that is added to the
image of Python, which has 34 MB: 200 without it. With 2000 each node takes 4 GB of the disk.
"""

import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dev import local
from dev.cluster.cluster import Cluster
from dev.cluster.real import faults
from dev.cluster.real.enter import CTR, run_in_node
from dev.cluster.real.layout import real_nodes
from dev.cluster.real.preflight import real_nodes_missing
from dev.cluster.spec import ClusterSpec
from dev.hack.node_images import AGENT, PYTHON, locate_images
from kube.model.images import stored_name
from tests.e2e.real.test_elastic import BACK_WITHIN, ready_at
from tests.e2e.real.test_life import MANAGERS
from tests.e2e.real.test_lost_nodes import IN_PLACE, account, tainted_at
from tests.e2e.real.test_three_nodes import leader
from tests.support.cluster import registry, training
from tests.support.cluster.jobs import Sets, group, manifest
from tests.support.cluster.requests import MERGE, OwnCluster, kubectl, listed, new_namespace, request, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
GATES = ("ElasticJobSet", "InPlaceRestart", "JobSetElasticReplicas", "JobSetNodeFailure", "JobSetSpares")
SYSTEM, WARM, SPARE, COLD = "real-0", ("real-1", "real-2", "real-3"), "real-4", "real-5"
"""Manager and storage; the ranks; the spares; and the free node that does not have the image."""
RANKS, ON_EACH = 6, 2
IMAGE, IMAGE_MB = "train:1", int(os.environ.get("NEXT_STEP_IMAGE_MB", "200"))
BYTES_PER_SECOND = 20_000_000
AFTER_SECONDS, SHRINK_SECONDS = 5, 10
MAX_SECONDS = 10
"""With a spare, beyond `AFTER_SECONDS`: twice what an idle machine is to take."""
AGAIN, IN_PLACE_SET, SPARES, FEWER = "created again", "in place", "in place with spares", "fewer ranks"
AGAIN_SPARES, SIDECAR_SPARES = "created again with spares", "in place with spares, mode Sidecar"
SPARE_PODS = "the pods of the spares"
LOST_WITHIN = 5
"""Seconds between two lost nodes."""
WITH_SPARES = (SPARES, AGAIN_SPARES, SIDECAR_SPARES)


class Place:
    """Six nodes, and the registry that has the image of the ranks."""

    def __init__(self, cluster: Cluster, images: registry.Registry, slow: Mapping[str, Path]) -> None:
        self.cluster = cluster
        self.images = images
        self.slow = slow
        self.nodes = {node.name: node for node in real_nodes(cluster.plan.layout, 6)}

    def open(self, *names: str) -> None:
        """Pods get these nodes only."""
        for name in self.nodes:
            change = {"spec": {"unschedulable": None if name in names else True}}
            code, answer = request(self.cluster, "PATCH", f"/api/v1/nodes/{name}", change, MERGE)
            assert code == 200, answer

    @contextmanager
    def power_cut(self, *names: str) -> Iterator[None]:
        """The nodes have no power for the length of the block, one after the other."""
        lost = [self.nodes[name] for name in names]
        for node in lost:
            faults.cut_power(node)
        try:
            yield
        finally:
            self.open(*WARM, *names)
            with self.cluster.connect() as connection:
                for node in lost:
                    faults.come_back(node, connection)

    def limit(self, rate: int) -> None:
        """Pull at so many bytes a second from now on; 0: at full speed. What was sent counts from now on, too."""
        self.images.rate = rate
        self.images.sent.clear()

    def pulled(self, name: str) -> bool:
        """Whether the node has got the whole image since the last limit."""
        return self.sent(name) >= IMAGE_MB * 1_000_000

    def sent(self, name: str) -> int:
        """Bytes of images that the node has got since the last limit."""
        return self.images.sent[str(self.nodes[name].address.ip)]

    def has_of_images(self, name: str) -> set[str]:
        """What a node has of the images of the ranks and their agent, by digest."""
        there = run_in_node(self.nodes[name], *CTR, "content", "list", "--quiet").split()
        return {digest for layout in self.slow.values() for digest in registry.blobs_of(layout)} & set(there)

    def forget_images(self, name: str) -> None:
        """Have a node remove these images, with their layers. A pull that was begun for an earlier test goes on first."""
        node = self.nodes[name]
        used = [f'image=="{stored_name(image)}"' for image in self.slow]
        called = [f'target.digest=="{registry.digest_of(layout)}"' for layout in self.slow.values()]

        def left() -> str | set[str]:
            if users := run_in_node(node, *CTR, "containers", "list", "--quiet", *used):
                return users
            if names := run_in_node(node, *CTR, "images", "list", "--quiet", *called).split():
                run_in_node(node, *CTR, "images", "remove", "--sync", *names)
            return self.has_of_images(name)

        wait_for(lambda: not left(), timeout=180, what=f"{name} without images", last=left)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, own_cluster: OwnCluster) -> Iterator[Place]:
    """The nodes, with the manager on the first: a minute."""
    if missing := real_nodes_missing():
        pytest.skip(missing)
    large = tmp_path_factory.mktemp("large") / "train"
    images = locate_images()
    registry.write_larger_image(images[PYTHON], large, IMAGE_MB * 1_000_000)
    spec = ClusterSpec(name="six", real_nodes=6)
    try:
        with (
            own_cluster(spec) as cluster,
            registry.serving(cluster, {**images, IMAGE: large}) as served,
        ):
            found = Place(cluster, served, {IMAGE: large, AGENT: images[AGENT]})
            found.open(SYSTEM)
            local.install_in_pods(cluster, gates=GATES)
            yield found
    finally:
        shutil.rmtree(large)


@pytest.fixture
def sets(place: Place) -> Iterator[Sets]:
    """A namespace of the test. Before it the last two nodes do not have the image, and pulls are fast."""
    place.limit(0)
    for name in (SPARE, COLD):
        place.forget_images(name)
    found = Sets(place.cluster, new_namespace(place.cluster))
    yield found
    found.close()


def start(place: Place, sets: Sets, how: str) -> None:
    """The training makes steps, on the nodes that are for it; its spares are ready, and pulls are slow from now on."""
    policy: dict[str, Any] = {"maxRestarts": 3}
    policy["nodeFailure"] = {"afterSeconds": AFTER_SECONDS, "forceDeletePods": True}
    more: dict[str, Any] = {}
    job: dict[str, Any] = {}
    if how not in {AGAIN, AGAIN_SPARES}:
        more = {"serviceAccountName": account(sets), "restartPolicy": "OnFailure"}
        job = IN_PLACE
        in_main = {"mode": "MainContainer", "imageVolume": True}
        agent = {"image": AGENT, **({"mode": "Sidecar"} if how == SIDECAR_SPARES else in_main)}
        policy |= {"restartStrategy": "InPlaceRestart", "agent": agent}
    pod = training.rank(IMAGE, training.create_store(sets, SYSTEM), half_a_node(place.cluster), **more)
    groups = [group(replicas=RANKS, pod=pod, job=job)]
    if how in WITH_SPARES:
        groups.append({"name": "spare", "replicas": ON_EACH, "spareFor": "workers", "template": {}})
    if how == FEWER:
        groups[0]["elastic"] = {"min": 1, "max": RANKS}
        policy["nodeFailure"]["whenNoCapacity"] = {"shrinkAfterSeconds": SHRINK_SECONDS}
    place.open(*WARM)
    sets.apply(manifest(*groups, failurePolicy=policy))
    training.wait_step(sets, RANKS, since=0, timeout=180)
    assert Counter(pod["spec"].get("nodeName") for pod in workers(sets)) == dict.fromkeys(WARM, ON_EACH)
    if how in WITH_SPARES:
        place.open(*WARM, SPARE)
        wait_for(lambda: sets.status()["spares"][0].get("ready") == ON_EACH, timeout=120, what="the spares")
    place.limit(BYTES_PER_SECOND)
    assert not place.has_of_images(COLD), "the free node is to pull all of it"


def half_a_node(cluster: Cluster) -> dict[str, dict[str, str]]:
    """Resources of which a node has enough for `ON_EACH` pods and no more."""
    sizes = [node["status"]["allocatable"]["memory"] for node in listed(cluster, "/api/v1/nodes")]
    return {"requests": {"memory": f"{min(int(size.removesuffix('Ki')) for size in sizes) * 4 // 10}Ki"}}


def workers(sets: Sets) -> list[dict[str, Any]]:
    return sets.pods("jobset.sigs.k8s.io/replicatedjob-name=workers")


def end_pod(cluster: Cluster, pods: str, name: str) -> None:
    """Remove a pod without the time to end that it asks for. `pods`: the path of the pods of its namespace."""
    assert request(cluster, "DELETE", f"{pods}/{name}?gracePeriodSeconds=0")[0] == 200


def longest_pause(sets: Sets, since: float) -> float:
    """Seconds of the longest time without a step after a time."""
    times = [step.at for step in training.steps(sets)]
    return max(later - sooner for sooner, later in pairwise(times) if later > since)


@pytest.mark.parametrize("how", [AGAIN, IN_PLACE_SET])
def test_a_rank_fails(place: Place, sets: Sets, how: str, record_property):
    start(place, sets, how)
    failed, since = workers(sets)[0]["metadata"]["name"], time.time()
    kubectl(place.cluster, "exec", failed, "--", *training.FAIL, namespace=sets.namespace)

    def restarts() -> int:
        return int(sets.status().get("restarts" if how == AGAIN else "currentInPlaceRestartAttempt", 0))

    wait_for(lambda: restarts() == 1, timeout=60, what="the restart", last=sets.explain)
    training.wait_step(sets, RANKS, since=time.time(), timeout=60)
    record_property(f"ms without a step after a rank failed, {how}", round(longest_pause(sets, since) * 1000))
    assert sum(place.images.sent.values()) == 0, "the nodes have the image"


@pytest.mark.parametrize("how", [AGAIN, IN_PLACE_SET, SPARES, SIDECAR_SPARES])
def test_a_node_is_lost(place: Place, sets: Sets, how: str, record_property):
    start(place, sets, how)
    new = [SPARE] if how in WITH_SPARES else [COLD]
    place.open(*WARM, *new, COLD)
    cut = time.time()
    with place.power_cut(WARM[0]):
        since = wait_for(lambda: tainted_at(place.cluster, WARM[0]), timeout=90, what="the taint") + AFTER_SECONDS
        nodes = [*WARM[1:], *new]
        step = training.wait_step(sets, ON_EACH * len(nodes), since, timeout=300)
        record_property(
            f"ms beyond afterSeconds until a step after a lost node, {how}", round(1000 * (step.at - since))
        )
        record_property(f"ms until a step after a lost node, {how}", round(1000 * (step.at - cut)))
        assert Counter(pod["spec"].get("nodeName") for pod in workers(sets)) == dict.fromkeys(nodes, ON_EACH)
        if new == [COLD]:
            assert place.pulled(COLD)
        else:
            assert step.at - since <= MAX_SECONDS
            assert place.sent(SPARE) == 0, "it has both images"


@pytest.mark.parametrize("then", [WARM[0], COLD])
def test_a_node_is_lost_and_none_is_free(place: Place, sets: Sets, then: str, record_property):
    """Until the lost node is back, which has the images, or another one is free."""
    what = "another node is free" if then == COLD else "the node is ready again"
    start(place, sets, FEWER)
    with place.power_cut(WARM[0]):
        since = wait_for(lambda: tainted_at(place.cluster, WARM[0]), timeout=90, what="the taint") + AFTER_SECONDS
        step = training.wait_step(sets, RANKS - ON_EACH, since, timeout=120)
        late = round(1000 * (step.at - since))
        record_property(f"ms beyond afterSeconds until a step of fewer ranks, before {what}", late)
        assert step.at - since <= SHRINK_SECONDS + MAX_SECONDS
        back = time.time()
        if then == COLD:
            place.open(*WARM, COLD)
            step = training.wait_step(sets, RANKS, back, timeout=300)
            assert place.pulled(COLD)
    if then != COLD:
        [node] = [node for node in listed(place.cluster, "/api/v1/nodes") if node["metadata"]["name"] == then]
        step = training.wait_step(sets, RANKS, back := ready_at(node), timeout=120)
        assert step.at - back <= BACK_WITHIN
        assert sum(place.images.sent.values()) == 0, "the node has the images"
    record_property(f"ms from when {what} until a step of all ranks", round(1000 * (step.at - back)))
    record_property(f"ms without a step when {what}", round(1000 * longest_pause(sets, back)))


@pytest.mark.parametrize("how", [SPARES, AGAIN_SPARES])
@pytest.mark.parametrize("also", [SPARE, WARM[1], SPARE_PODS])
def test_a_node_is_lost_and_something_else_with_it(place: Place, sets: Sets, how: str, also: str, record_property):
    """The node of the spares, while the leader dies; another node of ranks; or the pods of the spares."""
    start(place, sets, how)
    place.open(*WARM, SPARE, COLD)
    lost, cut = [WARM[0], *({also} & place.nodes.keys())], time.time()
    with place.power_cut(*lost):
        assert time.time() - cut < LOST_WITHIN
        wait_for(lambda: tainted_at(place.cluster, WARM[0]), timeout=90, what="the taint")
        if also == SPARE:
            end_pod(place.cluster, MANAGERS, leader(place.cluster))
        elif also == SPARE_PODS:
            for pod in sets.pods("jobset.sigs.k8s.io/replicatedjob-name=spare"):
                end_pod(place.cluster, f"/api/v1/namespaces/{sets.namespace}/pods", pod["metadata"]["name"])
        taints = [wait_for(partial(tainted_at, place.cluster, node), timeout=90, what="the taint") for node in lost]
        step = training.wait_step(sets, RANKS, since := max(taints) + AFTER_SECONDS, timeout=300)
        what = f"ms beyond afterSeconds until a step after a lost node and {also}, {how}"
        record_property(what, round(1000 * (step.at - since)))
        nodes = Counter(pod["spec"].get("nodeName") for pod in workers(sets))
        assert nodes.total() == RANKS
        assert nodes.keys() <= {*WARM, SPARE, COLD} - {*lost}
        status = sets.status()
        assert status.get("terminalState") is None
        # The taints may be further apart than afterSeconds: then each of them is a restart.
        attempt = status["restarts"] if how == AGAIN_SPARES else status["currentInPlaceRestartAttempt"]
        assert 1 <= attempt <= len(lost)
        if also == WARM[1]:
            assert nodes == dict.fromkeys([WARM[2], SPARE, COLD], ON_EACH)
            # More if the next pod of a spare is on a rank's node first, as when all are created again: it gives way, too.
            assert status["spares"][0]["used"] >= ON_EACH
