"""A JobSet from creation to its end, on the full control plane, as users and clients see it."""

import json
from pathlib import Path

import yaml

from tests.support.cluster.jobs import group, manifest
from tests.support.cluster.requests import kubectl, wait_for

EXAMPLE = Path(__file__).parents[2] / "examples" / "training.yaml"


def test_training_example_survives_a_failure_and_completes(sets):
    sets.apply(yaml.safe_load(EXAMPLE.read_text()))
    sets.wait_ready(3, "training")
    workers = sets.pods("jobset.sigs.k8s.io/replicatedjob-name=workers", "training")
    assert len(workers) == 8
    sets.end(workers[3], 1)
    wait_for(lambda: sets.status("training").get("restarts") == 1, what="the restart")
    sets.wait_ready(3, "training")
    assert {p["metadata"]["uid"] for p in workers}.isdisjoint(
        p["metadata"]["uid"] for p in sets.pods("", "training")
    ), "no pod of the old attempt lives"
    for pod in sets.pods("", "training"):
        sets.end(pod)
    sets.wait_state("Completed", "training")
    reasons = [
        "DefaultFailurePolicy",
        "RestartJobSetFailurePolicyAction",
        "JobsReady",
        "AllJobsCompleted",
        "JobSetCompleted",
    ]
    wait_for(lambda: [reason for _, reason, _ in sets.events("training")] == reasons, what="these events and no others")


def test_pods_find_each_other_by_the_names_that_clients_expect(sets):
    sets.apply(manifest(group("driver"), group("workers", 2, 2), coordinator={"replicatedJob": "driver"}))
    sets.wait_ready(3)
    names = {(p["spec"]["hostname"], p["spec"]["subdomain"]) for p in sets.pods()}
    assert names == {
        ("js-driver-0-0", "js"),
        ("js-workers-0-0", "js"),
        ("js-workers-0-1", "js"),
        ("js-workers-1-0", "js"),
        ("js-workers-1-1", "js"),
    }
    service = json.loads(kubectl(sets.cluster, "get", "service", "js", "-o", "json", namespace=sets.namespace))
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {"jobset.sigs.k8s.io/jobset-name": "js"}
    for pod in sets.pods():
        for where in ("labels", "annotations"):
            assert pod["metadata"][where]["jobset.sigs.k8s.io/coordinator"] == "js-driver-0-0.js"
