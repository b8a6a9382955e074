"""The manifests of docs/concepts/gang-patterns.md and examples/gangs, as they stand there: every pod is bound where it should be.

By the tree that each asks for: all pods of a group with a topology key are on nodes with one value of that label.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import yaml

from api.gangs import Forest, forest
from api.jobset import JobSet
from dev.cluster.cluster import Cluster
from tests.support.cluster.gangs import CUBE, SUPERSLICE, ZONE, GangNamespace
from tests.support.cluster.requests import MERGE, listed, request
from tests.support.pages.files import ROOT, yaml_blocks

JSON = dict[str, Any]
LABELS = {"example.com/superslice": SUPERSLICE, "example.com/cube": CUBE, "topology.kubernetes.io/zone": ZONE}
PAGE = [yaml.load(text, yaml.CSafeLoader) for text in yaml_blocks(ROOT / "docs/concepts/gang-patterns.md")]
EXAMPLES = {
    path.stem: yaml.load(path.read_text(), yaml.CSafeLoader)
    for path in sorted((ROOT / "examples/gangs").glob("*.yaml"))
}
TOO_LARGE = "tpu-slices"
"""It needs 256 nodes: test_superslices.py has that shape of that size."""
SMALL = [*PAGE, *(body for name, body in EXAMPLES.items() if name != TOO_LARGE)]


@pytest.fixture(scope="module")
def labelled(gang_cluster: Cluster) -> Iterator[None]:
    """Nodes carry the labels that the manifests name."""
    nodes = listed(gang_cluster, "/api/v1/nodes")

    def label(node: JSON, labels: dict[str, str | None]) -> None:
        path = f"/api/v1/nodes/{node['metadata']['name']}"
        assert request(gang_cluster, "PATCH", path, {"metadata": {"labels": labels}}, MERGE)[0] == 200

    for node in nodes:
        label(node, {key: node["metadata"]["labels"][of] for key, of in LABELS.items()})
    yield
    for node in nodes:
        label(node, dict.fromkeys(LABELS))


@pytest.mark.usefixtures("labelled")
@pytest.mark.parametrize("manifest", SMALL, ids=lambda body: body["metadata"]["name"])
def test_every_pod_is_bound_in_the_domains_of_its_groups(gang_namespace: GangNamespace, manifest: JSON) -> None:
    name = manifest["metadata"]["name"]
    gang_namespace.apply(manifest)
    for stage in stages(manifest):
        there = gang_namespace.wait_bound(sum(pods_of(manifest, rjob) for rjob in stage), name)
        check_domains(gang_namespace, name, there)
        if stage is not stages(manifest)[-1]:
            for pod in there:
                gang_namespace.end(pod)
            gang_namespace.until(lambda: done(gang_namespace, name, stage), "the stage is done")  # noqa: B023 - called at once


def test_the_large_one_is_admitted_without_a_warning(gang_namespace: GangNamespace) -> None:
    gang_namespace.apply({**EXAMPLES[TOO_LARGE], "spec": {**EXAMPLES[TOO_LARGE]["spec"], "suspend": True}})
    stored = gang_namespace.get(TOO_LARGE)
    assert stored is not None
    [root] = tree(stored).roots
    assert (root.gang_size, root.topology_key, root.disruption_mode) == (16, "example.com/superslice", "all")
    assert {(job.gang_size, job.topology_key, job.disruption_mode) for job in root.children} == {
        (16, "example.com/cube", "all")
    }


def stages(manifest: JSON) -> list[list[str]]:
    """Names of the ReplicatedJobs that run together."""
    names = [rjob["name"] for rjob in manifest["spec"]["replicatedJobs"]]
    return [[name] for name in names] if "executionPolicy" in manifest["spec"] else [names]


def done(gang_namespace: GangNamespace, name: str, stage: list[str]) -> bool:
    jobs = [
        job
        for job in gang_namespace.jobs(name)
        if job["metadata"]["labels"]["jobset.sigs.k8s.io/replicatedjob-name"] in stage
    ]
    return bool(jobs) and all("completionTime" in job["status"] for job in jobs)


def pods_of(manifest: JSON, name: str) -> int:
    [rjob] = [rjob for rjob in manifest["spec"]["replicatedJobs"] if rjob["name"] == name]
    return int(rjob.get("replicas", 1) * rjob["template"]["spec"].get("parallelism", 1))


def tree(stored: JSON) -> Forest:
    found = forest(msgspec.convert(stored, JobSet))
    assert found is not None
    return found


def check_domains(gang_namespace: GangNamespace, name: str, pods: list[JSON]) -> None:
    stored, labels = gang_namespace.get(name), gang_namespace.labels()
    assert stored is not None
    for group in tree(stored).groups():
        if group.topology_key:
            jobs = {job for below in group.walk() for job, _ in below.jobs}
            here = [pod for pod in pods if pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] in jobs]
            domains = {labels[pod["spec"]["nodeName"]][group.topology_key] for pod in here}
            assert len(domains) == (1 if here else 0), (group.name, domains)
