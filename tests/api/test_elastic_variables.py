"""What the containers of elastic ReplicatedJobs read about the number of Jobs (docs/concepts/elastic.md)."""

from typing import Any

import msgspec
import pytest

from api.children import build_job
from api.elastic import ReducedReplicas
from api.features import FeatureGates
from api.jobset import JobSet
from api.layout import layout_of
from tests.support.objects.stored_sets import JSON, jobset, rjob

GATES = FeatureGates({"JobSetElasticReplicas": True})
NUMBER = {"valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['jobset.sigs.k8s.io/replicatedjob-replicas']"}}}
REPLICAS = {"name": "JOBSET_REPLICAS", **NUMBER}
NODES = {"name": "PET_NNODES", **NUMBER}


def fixed(value: str, name: str = "PET_NNODES") -> JSON:
    return {"name": name, "value": value}


def workers(*env: JSON, replicas: int = 4, pods: int = 1) -> JSON:
    """Elastic, 2 to 6 Jobs."""
    return {**group("workers", *env, replicas=replicas, pods=pods), "elastic": {"min": 2, "max": 6}}


def group(name: str, *env: JSON, replicas: int = 1, pods: int = 1, **more: Any) -> JSON:
    containers = [{"name": "train", "image": "i", **({"env": [*env]} if env else {})}]
    return rjob(name, replicas, parallelism=pods, completions=pods, pod={"containers": containers}, **more)


def pods_of_first_job(js: JobSet, gates: FeatureGates = GATES) -> JSON:
    """The pod template of the first Job."""
    layout = layout_of(js)
    [jobs, *_] = layout.ranges
    position = next(iter(jobs.positions(js.metadata.name)))
    body = build_job(js, layout, jobs, position, gates=gates)
    template: JSON = body["spec"]["template"]
    return template


def variables(js: JobSet, gates: FeatureGates = GATES) -> Any:
    [container] = pods_of_first_job(js, gates)["spec"]["containers"]
    return container.get("env")


def test_every_container_reads_the_number_of_jobs_from_the_label():
    js = jobset(workers(fixed("x", "A")))
    js.spec.replicated_jobs[0].pod_spec["initContainers"] = [{"name": "init", "image": "i"}]
    pod = pods_of_first_job(js)["spec"]
    assert [each["env"] for each in pod["containers"]] == [[fixed("x", "A"), REPLICAS]]
    assert [each["env"] for each in pod["initContainers"]] == [[REPLICAS]]
    smaller = msgspec.structs.replace(
        js, status=msgspec.structs.replace(js.status, reduced_replicas=(ReducedReplicas(name="workers", replicas=3),))
    )
    template = pods_of_first_job(smaller.with_current_replicas)
    assert template["metadata"]["labels"]["jobset.sigs.k8s.io/replicatedjob-replicas"] == "3"
    assert template["spec"] == pod, "so a resume, which may change labels only, is right, too"


def test_a_variable_of_that_name_stays():
    own = fixed("7", "JOBSET_REPLICAS")
    assert variables(jobset(workers(own))) == [own]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (fixed("4"), NODES),
        (fixed("6"), NODES),
        (fixed("2:4"), fixed("2:4")),
        (fixed("8"), fixed("8")),
        (fixed("1"), fixed("1")),
        (fixed("9" * 5000), fixed("9" * 5000)),
        ({"name": "PET_NNODES", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},) * 2,
    ],
    ids=["the number", "after a change of replicas", "a range", "above max", "below min", "very long", "a reference"],
)
def test_a_number_of_jobs_in_the_variable_of_torchrun_follows(written, read):
    assert variables(jobset(workers(written))) == [read, REPLICAS]


def test_a_number_of_nodes_stays_where_it_is_none_of_jobs():
    driver, spares = group("driver", fixed("5")), group("spare", fixed("4"), spareFor="workers")
    assert variables(jobset(workers(fixed("4"), pods=2)))[0] == fixed("4")
    assert variables(jobset(workers(fixed("4")), driver))[0] == fixed("4")
    assert variables(jobset(workers(fixed("4")), spares))[0] == NODES


def test_a_number_of_nodes_stays_beside_one_in_a_command():
    leader = group("leader")
    leader["template"]["spec"]["template"]["spec"]["containers"][0]["command"] = ["torchrun", "--nnodes=5", "train.py"]
    assert variables(jobset(workers(fixed("5")), leader))[0] == fixed("5")


def test_one_node_is_no_number_of_jobs():
    apart = {**workers(fixed("1")), "elastic": {"min": 1, "max": 6}}
    assert variables(jobset(apart))[0] == fixed("1")


def test_nothing_is_added_without_the_gate_or_the_field():
    assert variables(jobset(workers(fixed("4"))), FeatureGates({})) == [fixed("4")]
    assert variables(jobset(group("workers", fixed("4")))) == [fixed("4")]
