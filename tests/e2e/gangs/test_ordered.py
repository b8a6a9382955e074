"""Gangs of sets with stages: the stages are groups below a basic root, which has the zone."""

from typing import Any

import pytest

from tests.support.cluster.gangs import CUBE, ZONE, GangNamespace, slices, topology

JSON = dict[str, Any]

# as in docs/concepts/gang-patterns.md#stages
STAGES = {
    "schedulingPolicy": {"basic": {}},
    "schedulingConstraints": topology(ZONE),
    "replicatedJobs": [
        {"targetReplicatedJobs": ["initializer"], "schedulingPolicy": {"basic": {}}},
        {
            "targetReplicatedJobs": ["trainer"],
            "schedulingPolicy": {"gang": {}},
            "disruptionMode": {"all": {}},
            "job": {"schedulingConstraints": topology(CUBE)},
        },
        {"targetReplicatedJobs": ["post"], "schedulingPolicy": {"basic": {}}},
    ],
}
READY = "kwok.jobset.dev/ready"


def by_dependence() -> JSON:
    """The trainer starts once the initializer is ready, post starts once the trainer is done."""
    return ordered(
        {"dependsOn": [{"name": "initializer", "status": "Ready"}]},
        {"dependsOn": [{"name": "trainer", "status": "Complete"}]},
    )


def by_policy() -> JSON:
    policy = {"executionPolicyOrder": "InOrder", "replicatedJobsStatus": "Ready"}
    return {**ordered({}, {}), "executionPolicy": policy}


def by_startup() -> JSON:
    return {**ordered({}, {}), "startupPolicy": {"startupPolicyOrder": "InOrder"}}


def ordered(trainer: JSON, post: JSON) -> JSON:
    waits = {"annotations": {READY: "false"}}
    return {
        "replicatedJobs": [
            slices("initializer", jobs=1, pods=1, **waits),
            slices("trainer", **waits, **trainer),
            slices("post", jobs=1, pods=1, tpus=0, **post),
        ]
    }


def names(gang_namespace: GangNamespace) -> set[str]:
    """Templates of the existing groups."""
    return {of["spec"]["workloadRef"]["templateName"] for kind in KINDS for of in gang_namespace.groups(kind)}


KINDS = ("compositepodgroups", "podgroups")


def attempt_of(pod: JSON) -> str:
    return pod["metadata"]["labels"]["jobset.sigs.k8s.io/restart-attempt"]


def make_ready(gang_namespace: GangNamespace, rjob: str) -> None:
    for pod in gang_namespace.pods(f"jobset.sigs.k8s.io/replicatedjob-name={rjob}"):
        gang_namespace.annotate(pod, **{READY: "true"})


@pytest.mark.parametrize("order", [by_dependence, by_policy, by_startup])
def test_each_stage_gets_its_groups_when_it_starts_and_the_zone_of_the_first(gang_namespace, order):
    spec = order()
    gang_namespace.gang(*spec.pop("replicatedJobs"), scheduling=STAGES, **spec)
    [first] = gang_namespace.wait_bound(1)
    home = gang_namespace.where(ZONE)
    assert names(gang_namespace) == {"jobset", "rj-initializer"}
    taken = [node for node in gang_namespace.nodes(zone=home) if node not in gang_namespace.at()]
    gang_namespace.fill(*taken[1:])
    make_ready(gang_namespace, "initializer")
    gang_namespace.wait_refused(4)
    assert [pod["metadata"]["uid"] for pod in gang_namespace.bound()] == [first["metadata"]["uid"]], (
        "the other zone is empty"
    )
    assert names(gang_namespace) == {"jobset", "rj-initializer", "rj-trainer", "job-trainer"}
    gang_namespace.free(*taken[1:])
    gang_namespace.wait_bound(5)
    assert gang_namespace.where(ZONE) == home
    trainers = [found for job, found in gang_namespace.domains(CUBE).items() if "trainer" in job]
    assert [len(cubes) for cubes in trainers] == [1, 1]
    if order is by_dependence:
        for pod in gang_namespace.pods("jobset.sigs.k8s.io/replicatedjob-name=trainer"):
            gang_namespace.end(pod)
    else:
        make_ready(gang_namespace, "trainer")
    gang_namespace.until(lambda: any("post" in job for job in gang_namespace.domains(ZONE)), "the last stage is bound")
    assert gang_namespace.where(ZONE) == home
    assert "rj-post" in names(gang_namespace)


def test_without_policies_each_replicated_job_is_a_gang(gang_namespace):
    policy = {"executionPolicyOrder": "InOrder", "replicatedJobsStatus": "Succeeded"}
    gang_namespace.gang(slices("one", jobs=1, pods=1), slices("two", jobs=1), scheduling={}, executionPolicy=policy)
    [pod] = gang_namespace.wait_bound(1)
    assert names(gang_namespace) == {"rj-one"}
    gang_namespace.fill(*gang_namespace.nodes()[1:])
    gang_namespace.end(pod)
    gang_namespace.wait_refused(2)
    assert gang_namespace.bound() == []
    gang_namespace.free(gang_namespace.nodes()[1])
    gang_namespace.wait_bound(2)


def test_a_set_with_stages_restarts_with_the_first_one(gang_namespace):
    """Groups of later stages stay meanwhile, and no other group waits for their pods."""
    spec = by_policy()
    gang_namespace.gang(*spec.pop("replicatedJobs"), scheduling=STAGES, failurePolicy={"maxRestarts": 1}, **spec)
    gang_namespace.wait_bound(1)
    make_ready(gang_namespace, "initializer")
    gang_namespace.wait_bound(5)
    groups = gang_namespace.all_stored()
    gang_namespace.end(gang_namespace.of_job("js-trainer-1")[0], 1)
    gang_namespace.until(lambda: gang_namespace.status()["restarts"] == 1, "the restart")
    again = gang_namespace.until(
        lambda: [pod for pod in gang_namespace.bound() if attempt_of(pod) == "1"], "pods of the new attempt"
    )
    assert ["initializer" in pod["metadata"]["name"] for pod in again] == [True]
    make_ready(gang_namespace, "initializer")
    gang_namespace.wait_bound(5)
    assert gang_namespace.all_stored() == groups
