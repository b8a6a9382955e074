"""Sets whose ReplicatedJobs start one after the other, as gangs: stages under a basic root that carries the zone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.cluster import kubectl
from tests.support.gangs import CUBE, ZONE, Yard, slices, topology
from tests.support.jobs import manifest

JSON = dict[str, Any]

# as in docs/concepts/gangs.md#stages
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
    """The trainer starts once the initializer is ready, and what comes last once the trainer is done."""
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


def names(yard: Yard) -> set[str]:
    """Templates of the groups that there are."""
    return {of["spec"]["workloadRef"]["templateName"] for kind in KINDS for of in yard.groups(kind)}


KINDS = ("compositepodgroups", "podgroups")


def attempt_of(pod: JSON) -> str:
    return pod["metadata"]["labels"]["jobset.sigs.k8s.io/restart-attempt"]


def make_ready(yard: Yard, rjob: str) -> None:
    for pod in yard.pods(f"jobset.sigs.k8s.io/replicatedjob-name={rjob}"):
        yard.annotate(pod, **{READY: "true"})


@pytest.mark.parametrize("order", [by_dependence, by_policy, by_startup])
def test_each_stage_gets_its_groups_when_it_starts_and_the_zone_of_the_first(yard, order):
    spec = order()
    yard.gang(*spec.pop("replicatedJobs"), scheduling=STAGES, **spec)
    [first] = yard.wait_bound(1)
    home = yard.where(ZONE)
    assert names(yard) == {"jobset", "rj-initializer"}
    taken = [node for node in yard.nodes(zone=home) if node not in yard.at()]
    yard.fill(*taken[1:])
    make_ready(yard, "initializer")
    yard.wait_refused(4)
    assert [pod["metadata"]["uid"] for pod in yard.bound()] == [first["metadata"]["uid"]], "the other zone is empty"
    assert names(yard) == {"jobset", "rj-initializer", "rj-trainer", "job-trainer"}
    yard.free(*taken[1:])
    yard.wait_bound(5)
    assert yard.where(ZONE) == home
    trainers = [found for job, found in yard.domains(CUBE).items() if "trainer" in job]
    assert [len(cubes) for cubes in trainers] == [1, 1]
    if order is by_dependence:
        for pod in yard.pods("jobset.sigs.k8s.io/replicatedjob-name=trainer"):
            yard.end(pod)
    else:
        make_ready(yard, "trainer")
    yard.until(lambda: any("post" in job for job in yard.domains(ZONE)), "the last stage is bound")
    assert yard.where(ZONE) == home
    assert "rj-post" in names(yard)


@pytest.mark.parametrize("order", [by_dependence, by_policy, by_startup])
def test_a_gang_across_stages_is_refused_with_the_way_out(yard, order):
    """It would wait for pods that wait for it."""
    body = manifest(**{"scheduling": {**STAGES, "schedulingPolicy": {"gang": {}}}, **order()})
    printed = kubectl(yard.cluster, "apply", "-f", "-", namespace=yard.namespace, stdin=json.dumps(body), check=False)
    assert 'The JobSet "js" is invalid: spec.scheduling.schedulingPolicy: ' in printed
    assert "`basic: {}`" in printed, "the way out"
    assert yard.get() is None


def test_without_a_word_about_levels_each_replicated_job_is_a_gang(yard):
    policy = {"executionPolicyOrder": "InOrder", "replicatedJobsStatus": "Succeeded"}
    yard.gang(slices("one", jobs=1, pods=1), slices("two", jobs=1), scheduling={}, executionPolicy=policy)
    [pod] = yard.wait_bound(1)
    assert names(yard) == {"rj-one"}
    yard.fill(*yard.nodes()[1:])
    yard.end(pod)
    yard.wait_refused(2)
    assert yard.bound() == []
    yard.free(yard.nodes()[1])
    yard.wait_bound(2)


def test_a_set_with_stages_restarts_with_the_first_one(yard):
    """Groups of later stages stay meanwhile; nobody waits for their pods."""
    spec = by_policy()
    yard.gang(*spec.pop("replicatedJobs"), scheduling=STAGES, failurePolicy={"maxRestarts": 1}, **spec)
    yard.wait_bound(1)
    make_ready(yard, "initializer")
    yard.wait_bound(5)
    groups = yard.all_stored()
    yard.end(yard.of_job("js-trainer-1")[0], 1)
    yard.until(lambda: yard.status()["restarts"] == 1, "the restart")
    again = yard.until(lambda: [pod for pod in yard.bound() if attempt_of(pod) == "1"], "pods of the new attempt")
    assert ["initializer" in pod["metadata"]["name"] for pod in again] == [True]
    make_ready(yard, "initializer")
    yard.wait_bound(5)
    assert yard.all_stored() == groups
