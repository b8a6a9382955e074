"""Every example on the cluster of the demo, with the manager of the demo: each runs, and completes when its pods do."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from dev import local
from dev.cluster.cluster import Cluster
from dev.demo.demo import SPEC
from dev.demo.stories import STORIES
from tests.support.cluster.jobs import Sets
from tests.support.cluster.requests import OwnCluster, empty, kubectl, listed, new_namespace, wait_for
from tests.support.pages.files import ROOT

EXAMPLES = ROOT / "examples"
REFUSED, POLICIES = "mistakes.yaml", "policies"
"""The first is there to be refused; the folder has policies, and JobSets that they are tried on."""
VOLUMES = "/api/v1/persistentvolumes"
NAME = "jobset.sigs.k8s.io/replicatedjob-name"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def jobset_in(path: Path) -> str:
    """The name of the JobSet that a file has; "" if it has none, as policies."""
    documents = filter(None, yaml.load_all(path.read_text(encoding="utf-8"), yaml.CSafeLoader))
    return next((body["metadata"]["name"] for body in documents if body["kind"] == "JobSet"), "")


FILES = [
    path
    for path in sorted(EXAMPLES.rglob("*.yaml"))
    if path.name != REFUSED and path.parent.name != POLICIES and jobset_in(path)
]


@pytest.fixture(scope="module")
def demo_cluster(own_cluster: OwnCluster) -> Iterator[Cluster]:
    """What `make demo KEEP=1` leaves."""
    with own_cluster(SPEC) as cluster:
        local.keep(cluster, flags=STORIES["training"].flags)
        yield cluster


@pytest.fixture
def demo_sets(demo_cluster: Cluster) -> Iterator[Sets]:
    """A namespace; nothing in it takes up a node afterwards."""
    sets = Sets(demo_cluster, new_namespace(demo_cluster))
    yield sets
    kubectl(demo_cluster, "delete", "jobsets", "--all", "--wait=false", namespace=sets.namespace)
    wait_for(lambda: empty(demo_cluster, sets.namespace), timeout=120, what="the end of its pods")
    sets.close()


def test_there_are_examples_of_every_kind():
    assert {path.parent.name for path in FILES} == {"examples", "fine-tuning", "frameworks", "gangs", "platform"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(EXAMPLES)))
def test_an_example_runs_and_completes(demo_sets, path):
    sets, name = demo_sets, jobset_in(path)
    kubectl(sets.cluster, "apply", "-f", str(path), namespace=sets.namespace)
    ended: set[str] = set()
    groups = pods_of(path)

    def completed() -> bool:
        """Pods that run are told to end: the next stage has its pods then."""
        for pod in sets.pods("", name):
            meta = pod["metadata"]
            if meta["labels"][NAME] in groups and pod["status"]["phase"] == "Running" and meta["uid"] not in ended:
                ended.add(meta["uid"])
                sets.end(pod)
        return sets.status(name).get("terminalState") == "Completed"

    wait_for(completed, timeout=120, what=f"the end of {name}", last=lambda: sets.explain(name))
    assert len(ended) == sum(groups.values())


def pods_of(path: Path) -> dict[str, int]:
    """How many pods each ReplicatedJob has when none of them fails. Spares are not among them: they never end."""
    [body] = [
        body for body in yaml.safe_load_all(path.read_text(encoding="utf-8")) if body and body["kind"] == "JobSet"
    ]
    return {
        rjob["name"]: rjob.get("replicas", 1) * rjob["template"]["spec"].get("parallelism", 1)
        for rjob in body["spec"]["replicatedJobs"]
        if "spareFor" not in rjob
    }


def test_a_volume_whose_claim_is_gone_is_free_for_the_next_one(demo_sets):
    cluster, namespace = demo_sets.cluster, demo_sets.namespace
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "10Ti"}}},
    }

    def phases() -> set[str]:
        return {volume["status"]["phase"] for volume in listed(cluster, VOLUMES)}

    def bound() -> bool:
        return (
            listed(cluster, f"/api/v1/namespaces/{namespace}/persistentvolumeclaims")[0]["status"]["phase"] == "Bound"
        )

    wait_for(lambda: phases() == {"Available"}, what="no claims of other tests", last=phases)
    kubectl(cluster, "apply", "-f", "-", namespace=namespace, stdin=yaml.safe_dump(claim))
    wait_for(bound, what="a claim that names no class is bound")
    assert phases() == {"Available", "Bound"}
    kubectl(cluster, "delete", "pvc", "data", namespace=namespace)
    wait_for(lambda: phases() == {"Available"}, what="the volume is free again", last=phases)
