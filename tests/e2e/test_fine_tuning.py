"""examples/fine-tuning as it is: initializers, then trainers with accelerators, then the post-processor."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cluster.requests import (
    create_volume,
    history,
    kubectl,
    more_capacity,
    request,
    version_now,
    wait_for,
)

EXAMPLE = Path(__file__).parents[2] / "examples" / "fine-tuning" / "jobset.yaml"
NAME = "fine-tuning"
GPU = "nvidia.com/gpu"
GPU_NODES = [f"node-{index:04d}" for index in range(4)]
COLLECTIONS = {
    "pods": "/api/v1/namespaces/{}/pods",
    "jobs": "/apis/batch/v1/namespaces/{}/jobs",
    "claims": "/api/v1/namespaces/{}/persistentvolumeclaims",
}
RJOB = "jobset.sigs.k8s.io/replicatedjob-name"


@pytest.fixture
def volumes(full_cluster, namespace) -> Iterator[None]:
    """Volumes for the claims of the example, and accelerators."""
    create_volume(full_cluster, namespace, f"workspace-{NAME}", "200Gi", "ReadWriteMany")
    create_volume(full_cluster, namespace, f"export-{NAME}", "50Gi", "ReadWriteOnce")
    with more_capacity(full_cluster, GPU_NODES, GPU, "8"):
        yield
    for claim in ("workspace", "export"):
        request(full_cluster, "DELETE", f"/api/v1/persistentvolumes/{namespace}-{claim}-{NAME}")


def of(sets, name: str) -> dict[str, Any]:
    """The status of one ReplicatedJob."""
    found = sets.status(NAME)["replicatedJobsStatus"]
    return next((entry for entry in found if entry["name"] == name), {})


def progress(sets) -> dict[str, tuple[bool, int]]:
    """(released, remaining) of each ReplicatedJob."""
    return {
        entry["name"]: (entry.get("released", False), entry["remaining"])
        for entry in sets.status(NAME)["replicatedJobsStatus"]
    }


def names(sets, resource: str) -> list[str]:
    return kubectl(sets.cluster, "get", resource, "-o", "name", namespace=sets.namespace).split()


def stage_column(sets) -> str:
    head, row = kubectl(sets.cluster, "get", "jobset", NAME, namespace=sets.namespace).splitlines()
    return row[head.index("STAGE") :].strip()


def pods_of(sets, rjob: str) -> list[dict[str, Any]]:
    return sets.pods(f"{RJOB}={rjob}", NAME)


def wants_accelerator(pod: dict[str, Any]) -> bool:
    return any(GPU in (c.get("resources", {}).get("limits") or {}) for c in pod["spec"]["containers"])


def phases_when_first_seen(changes: list[dict[str, Any]]) -> list[str]:
    """Phases of all pods at the moment when the first one that wants an accelerator appeared."""
    phases: dict[str, str] = {}
    for change in changes:
        pod = change["object"]
        if wants_accelerator(pod):
            return sorted(phases.values())
        phases[pod["metadata"]["name"]] = pod["status"]["phase"]
    raise AssertionError("no pod wanted an accelerator at all")


def first_seen(changes: list[dict[str, Any]]) -> list[str]:
    """Names in the order of creation."""
    return list(dict.fromkeys(change["object"]["metadata"]["name"] for change in changes))


def test_trainers_wait_for_initializers_and_the_post_processor_for_trainers(sets, volumes):
    paths = {kind: path.format(sets.namespace) for kind, path in COLLECTIONS.items()}
    since = {kind: version_now(sets.cluster, path) for kind, path in paths.items()}
    sets.apply(yaml.safe_load(EXAMPLE.read_text()))

    wait_for(lambda: of(sets, "initializer").get("ready") == 2, what="both initializers run")
    assert progress(sets) == {"initializer": (True, 2), "trainer": (False, 4), "post-processor": (False, 1)}
    assert stage_column(sets) == "initializer (1/3)"
    model, data = sorted(pods_of(sets, "initializer"), key=lambda pod: pod["metadata"]["name"])
    sets.end(model)
    wait_for(lambda: of(sets, "initializer")["succeeded"] == 1, what="the model is there")
    assert progress(sets) == {"initializer": (True, 1), "trainer": (False, 4), "post-processor": (False, 1)}
    assert names(sets, "jobs") == [f"job.batch/{NAME}-initializer-{index}" for index in range(2)]
    assert names(sets, "pvc") == [f"persistentvolumeclaim/workspace-{NAME}"]
    assert len(names(sets, "pods")) == 2
    sets.end(data)

    wait_for(lambda: of(sets, "trainer").get("ready") == 4, what="four ranks are ready")
    assert progress(sets) == {"initializer": (True, 0), "trainer": (True, 4), "post-processor": (False, 1)}
    assert stage_column(sets) == "trainer (2/3)"
    trainers = pods_of(sets, "trainer")
    assert {pod["spec"]["nodeName"] for pod in trainers} == set(GPU_NODES)
    readiness(sets, trainers[0], ready=False)
    wait_for(lambda: of(sets, "trainer")["ready"] == 3, what="a rank that has lost the others")
    readiness(sets, trainers[0], ready=True)
    wait_for(lambda: of(sets, "trainer")["ready"] == 4, what="it has joined again")
    for pod in trainers[:3]:
        sets.end(pod)
    wait_for(lambda: of(sets, "trainer")["succeeded"] == 3, what="three ranks are done")
    assert progress(sets)["trainer"] == (True, 1)
    assert names(sets, "pvc") == [f"persistentvolumeclaim/workspace-{NAME}"]
    assert pods_of(sets, "post-processor") == []
    sets.end(trainers[3])

    wait_for(lambda: of(sets, "post-processor").get("ready") == 1, what="the post-processor runs")
    assert progress(sets) == {"initializer": (True, 0), "trainer": (True, 0), "post-processor": (True, 1)}
    assert stage_column(sets) == "post-processor (3/3)"
    assert names(sets, "pvc") == [f"persistentvolumeclaim/{name}-{NAME}" for name in ("export", "workspace")]
    sets.end(pods_of(sets, "post-processor")[0])
    sets.wait_state("Completed", NAME)
    assert [remaining for _, remaining in progress(sets).values()] == [0, 0, 0]
    releases = [note for _, reason, note in sets.events(NAME) if reason == "StageReleased"]
    assert releases == [
        "stage 1 of 3 is released: initializer (2 Jobs)",
        "stage 2 of 3 is released: trainer (4 Jobs)",
        "stage 3 of 3 is released: post-processor (1 Job)",
    ]

    changes = {kind: history(sets.cluster, path, since[kind]) for kind, path in paths.items()}
    assert phases_when_first_seen(changes["pods"]) == ["Succeeded", "Succeeded"], "and before it there was no other"
    jobs = [name.removeprefix(f"{NAME}-").rpartition("-")[0] for name in first_seen(changes["jobs"])]
    assert jobs == ["initializer"] * 2 + ["trainer"] * 4 + ["post-processor"]
    assert first_seen(changes["claims"]) == [f"workspace-{NAME}", f"export-{NAME}"]
    export = next(c["object"] for c in changes["claims"] if c["object"]["metadata"]["name"] == f"export-{NAME}")
    last_trainer = max(end_of(job) for job in sets.jobs(NAME) if "-trainer-" in job["metadata"]["name"])
    assert export["metadata"]["creationTimestamp"] >= last_trainer


def readiness(sets, pod: dict[str, Any], *, ready: bool) -> None:
    """What its readiness probe finds from now on."""
    text = "true" if ready else "false"
    name = pod["metadata"]["name"]
    kubectl(
        sets.cluster, "annotate", "--overwrite", "pod", name, f"kwok.jobset.dev/ready={text}", namespace=sets.namespace
    )


def end_of(job: dict[str, Any]) -> str:
    end: str = job["status"]["completionTime"]
    return end
