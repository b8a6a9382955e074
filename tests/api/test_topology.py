"""What is kept of pods and nodes, and how little."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api import keys
from api.pod import DetailedPod, PodMetadata
from api.topology import (
    LONGEST_REASON,
    NodeMetadata,
    follower,
    leader,
    node_keeping,
)
from controllers.placement.watches import BY_JOB, COMMON_KEYS, PlacementWatches
from kube.client import Client
from kube.indexes import IndexKey
from kube.store import Store
from tests.support.model.memory_api import MemoryApi
from tests.support.objects.placement import RACK, moment, placed, pod_json, read_leader
from tests.support.work import retained_memory

UNSCHEDULED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/20 nodes are available",
    "lastTransitionTime": moment(7),
}


def annotated(index: int | None = 0, drop: str = "", **added: str) -> dict:
    pod = pod_json(index=index)
    pod["metadata"]["annotations"] |= added
    pod["metadata"]["annotations"].pop(drop, None)
    return pod


class TestLeader:
    def test_what_is_kept(self):
        pod = pod_json(spec={"nodeName": "n1"}, status={"phase": "Running"})
        pod["metadata"]["labels"][keys.RESTART_ATTEMPT] = "12"
        kept = read_leader(pod)
        assert (kept.namespace, kept.name, kept.resource_version) == ("ns", "js-w-0-0-abcde", "1")
        assert (kept.job, kept.job_uid, kept.jobset, kept.jobset_uid) == ("js-w-0", "uid-js-w-0", "js", "uid-js")
        assert (kept.topology, kept.attempt, kept.node, kept.is_live, kept.created) == (RACK, 12, "n1", True, moment())
        assert (kept.reason, kept.since) == ("", "")

    @pytest.mark.parametrize(
        "pod",
        [
            annotated(1),
            annotated(None),
            annotated(drop=keys.EXCLUSIVE_TOPOLOGY),
            annotated(drop=keys.JOBSET_NAME),
            annotated(**{keys.NODE_SELECTOR_STRATEGY: ""}),
        ],
        ids=["follower", "no index", "ordinary", "not of a JobSet", "node-selector strategy"],
    )
    def test_every_other_pod_is_dropped(self, pod):
        assert read_leader(pod) is None

    @given(
        st.sampled_from(["", "Pending", "Running", "Succeeded", "Failed", "Unknown"]),
        st.booleans(),
    )
    def test_it_lives_until_it_has_ended_or_is_asked_to(self, phase, deleted):
        meta = {"deletionTimestamp": moment(9)} if deleted else {}
        kept = read_leader(pod_json(meta=meta, status={"phase": phase}))
        assert kept.is_live is (phase not in {"Succeeded", "Failed"} and not deleted)
        assert kept.succeeded is (phase == "Succeeded" and not deleted)

    @pytest.mark.parametrize(
        ("condition", "reason", "since"),
        [
            pytest.param({}, "0/20 nodes are available", moment(7), id="the message of the scheduler"),
            pytest.param({"message": ""}, "Unschedulable", moment(7), id="the reason where there is no message"),
            pytest.param({"status": "True"}, "", "", id="no message of a pod that is scheduled"),
            pytest.param({"message": "x" * 30000}, "x" * LONGEST_REASON, moment(7), id="a long message is cut"),
        ],
    )
    def test_why_it_has_no_node(self, condition, reason, since):
        kept = read_leader(pod_json(status={"phase": "Pending", "conditions": [UNSCHEDULED | condition]}))
        assert (kept.reason, kept.since) == (reason, since)

    @pytest.mark.parametrize(
        ("text", "attempt"),
        [("0", 0), ("3", 3), ("999999999", 999999999), ("", 0), ("x", 0), ("-1", 0), ("٣", 0), ("9" * 4000, 0)],
    )
    def test_an_attempt_that_is_none_is_the_first(self, text, attempt):
        pod = pod_json()
        pod["metadata"]["labels"][keys.RESTART_ATTEMPT] = text
        assert read_leader(pod).attempt == attempt

    def test_a_pod_that_nobody_controls_belongs_to_no_job(self):
        owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}
        kept = read_leader(pod_json(meta={"ownerReferences": [owner]}))
        assert (kept.job, kept.job_uid) == ("", "")


class TestFollower:
    def read(self, pod: dict):
        return follower(msgspec.convert({"metadata": pod["metadata"]}, PodMetadata))

    def test_what_is_kept(self):
        kept = self.read(pod_json(index=3))
        assert (kept.namespace, kept.name, kept.uid) == ("ns", "js-w-0-3-abcde", "uid-js-w-0-3")
        assert (kept.job, kept.job_uid, kept.topology) == ("js-w-0", "uid-js-w-0", RACK)

    def test_one_in_deletion_is_dropped(self):
        assert self.read(pod_json(index=3, meta={"deletionTimestamp": moment()})) is None

    @pytest.mark.parametrize(
        "pod", [annotated(1, keys.EXCLUSIVE_TOPOLOGY), annotated(1, **{keys.NODE_SELECTOR_STRATEGY: "x"})]
    )
    def test_a_pod_that_is_not_ours_to_place_is_dropped(self, pod):
        assert self.read(pod) is None


class TestDetailedPod:
    @pytest.mark.parametrize(
        ("pod", "follows"),
        [
            (pod_json(index=1), True),
            (pod_json(index=None), True),
            (pod_json(index=0), False),
            (pod_json(index=1, status={"phase": "Running"}), True),
            (pod_json(index=1, status={"phase": "Failed"}), False),
            (pod_json(index=1, status={"phase": "Succeeded"}), False),
            (pod_json(index=1, meta={"deletionTimestamp": moment()}), False),
            (annotated(1, keys.EXCLUSIVE_TOPOLOGY), False),
            (annotated(1, **{keys.NODE_SELECTOR_STRATEGY: "true"}), False),
        ],
    )
    def test_who_follows(self, pod, follows):
        assert placed(pod).follows is follows


class TestNode:
    def test_a_key_that_comes_later_is_kept_from_then_on(self):
        asked = ["zone"]
        keep = node_keeping(lambda: tuple(asked))
        node = msgspec.convert({"metadata": {"name": "n", "labels": {"rack": "r", "zone": "z"}}}, NodeMetadata)
        before = keep(node)
        asked.append(RACK)
        assert (before.label(RACK), before.kept_keys) == (None, ("zone",))
        assert keep(node).label(RACK) == "r"


# Memory: what a cached object costs, its share of the store and of the index included.

MANY = 3000


def leader_json(number: int, *, bound: bool) -> bytes:
    """Leaders that wait do so for one of a few reasons; those that are bound have names of nodes of their own."""
    job = f"some-rather-long-name-of-a-training-workers-{number}"
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": moment(number)}
    waits = {
        **UNSCHEDULED,
        "message": f"0/5000 nodes are available: {number % 20} did not match: " + "y" * 900,
        "lastTransitionTime": moment(number),
    }
    node = {"nodeName": f"gke-cluster-with-a-long-name-pool-{number:05d}-0a1b2c3d"} if bound else {}
    pod = pod_json(
        job,
        spec={**node, "containers": [{"name": "main", "image": "x" * 200}]},
        status={"phase": "Pending", "conditions": [scheduled if bound else waits]},
    )
    meta = pod["metadata"]
    meta["uid"] = f"{number:08d}-aaaa-4222-8333-444444444444"
    meta["resourceVersion"] = str(10**9 + number)
    meta["creationTimestamp"] = moment(number)
    meta["ownerReferences"][0]["uid"] = f"{number:08d}-1111-4222-8333-444444444444"
    meta["labels"] |= {f"label-{n}": "v" * 60 for n in range(30)}
    return msgspec.json.encode(pod)


def node_json(number: int) -> bytes:
    """As GKE labels nodes: some 40 labels, five of them topologies."""
    name = f"gke-cluster-with-a-long-name-pool-{number:05d}-0a1b2c3d"
    labels = {f"cloud.google.com/label-{n}": "v" * 40 for n in range(36)}
    labels |= {
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/zone": "europe-west4-a",
        "cloud.google.com/gke-nodepool": f"a-node-pool-with-a-long-name-{number // 16}",
        RACK: f"rack-{number // 10}",
    }
    return msgspec.json.encode({"metadata": {"name": name, "resourceVersion": str(10**9 + number), "labels": labels}})


def bytes_per_object(store: Store, lines: list[bytes], read) -> float:
    def fill() -> None:
        store.begin()
        store.commit(1)
        store.begin()
        for line in lines:
            store.apply(read(line))
        store.commit(2)

    return retained_memory(fill) / len(lines)


@pytest.mark.no_cover
@pytest.mark.parametrize("bound", [True, False], ids=["bound", "waiting"])
async def test_a_cached_leader_costs_at_most_a_kibibyte(bound):
    store = PlacementWatches(Client(MemoryApi())).leaders.store
    lines, decoder = [leader_json(number, bound=bound) for number in range(MANY)], msgspec.json.Decoder(DetailedPod)
    assert bytes_per_object(store, lines, lambda line: leader(decoder.decode(line))) <= 1024
    assert len(store) == MANY
    assert len(store.by_index(BY_JOB, IndexKey("ns", "00000007-1111-4222-8333-444444444444"))) == 1


@pytest.mark.no_cover
async def test_a_cached_node_costs_at_most_a_kibibyte():
    store = PlacementWatches(Client(MemoryApi())).nodes.store
    lines, decoder = [node_json(number) for number in range(MANY)], msgspec.json.Decoder(NodeMetadata)
    keep = node_keeping(lambda: (*COMMON_KEYS, RACK))
    assert bytes_per_object(store, lines, lambda line: keep(decoder.decode(line))) <= 1024
    assert store.list()[7].label(RACK) == "rack-0"
