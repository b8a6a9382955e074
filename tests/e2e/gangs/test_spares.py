"""The place of a spare goes to the lost pod of a gang, and to no other (docs/concepts/spares.md#gangs)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cluster import gangs
from tests.support.cluster.gangs import GANG, SUPERSLICE, GangNamespace, slices, topology
from tests.support.cluster.requests import uids
from tests.support.played import agents
from tests.support.played.agents import JOB, Lose, losing

JSON = dict[str, Any]
GATES = {**gangs.GATES, **agents.GATES, "JobSetSpares": True}
pytestmark = [pytest.mark.slow, pytest.mark.manager(featureGates=GATES)]
EACH = {"replicatedJobs": [{"targetReplicatedJobs": ["slice"], "job": {}}]}
IN_ONE = {"schedulingConstraints": topology(SUPERSLICE)}
CONSTRAINED = {
    "set-in-one-domain": {**GANG, **IN_ONE},
    "entry-in-one-domain": {"replicatedJobs": [{"targetReplicatedJobs": ["slice"], "job": {}, **IN_ONE}]},
}
EACH_IN_ONE = {**GANG, "replicatedJobs": [{"targetReplicatedJobs": ["slice"], "job": IN_ONE}]}
SPARE = {"name": "spare", "replicas": 1, "spareFor": "slice", "template": {}}
LOST = {"maxRestarts": 5, "nodeFailure": {"afterSeconds": 0, "forceDeletePods": True}}
IN_PLACE = {**LOST, "restartStrategy": "InPlaceRestart"}
WORKERS, SPARES, NODES = 4, 2, 16


@pytest.fixture
def lose(gang_namespace: GangNamespace) -> Iterator[Lose]:
    with losing(gang_namespace) as make:
        yield make


def start(gang_namespace: GangNamespace, scheduling: JSON, policy: JSON) -> tuple[list[JSON], set[str]]:
    """A gang of two Jobs of two pods, and a spare: its pods, and the nodes of the spare."""
    gang_namespace.gang(slices(job=JOB), SPARE, scheduling=scheduling, failurePolicy=policy)
    gang_namespace.until(lambda: spares(gang_namespace) == (1, 0, 0), "the spare")
    places = {pod["spec"]["nodeName"] for pod in gang_namespace.of_job("js-spare-0")}
    assert len(places) == SPARES
    return workers(gang_namespace), places


def spares(gang_namespace: GangNamespace) -> tuple[int, int, int]:
    """How many spares are ready and missing, and how many places were given."""
    [entry] = gang_namespace.status().get("spares") or [{}]
    return entry.get("ready", 0), entry.get("missing", 0), entry.get("used", 0)


def workers(gang_namespace: GangNamespace) -> list[JSON]:
    """The pods of the gang that have a node and are to stay."""
    found = gang_namespace.pods("jobset.sigs.k8s.io/replicatedjob-name=slice")
    return [pod for pod in found if pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]]


def compete(gang_namespace: GangNamespace, free: int = NODES - WORKERS - SPARES) -> None:
    """As many pods of the same size and priority as there are nodes: each free node is taken, and others wait."""
    for number in range(NODES):
        gang_namespace.lone_pod(f"greedy-{number}")
    gang_namespace.until(lambda: taken(gang_namespace) == free, "every free node is taken")


def taken(gang_namespace: GangNamespace) -> int:
    return sum(bool(node) for node in gang_namespace.lone().values())


def replaced(gang_namespace: GangNamespace, lost: JSON, number: int = WORKERS) -> list[JSON]:
    """The workers once all have nodes, and another pod is in the place of the lost one."""

    def look() -> list[JSON]:
        here = workers(gang_namespace)
        return here if len(here) == number and uids(here).isdisjoint(uids([lost])) else []

    return gang_namespace.until(look, "all workers have nodes")


@pytest.mark.parametrize("scheduling", [GANG, EACH, {**GANG, **EACH}], ids=["set", "Jobs", "gang-of-gangs"])
def test_the_place_goes_to_the_lost_pod_however_many_wait(
    gang_namespace: GangNamespace, lose: Lose, scheduling: JSON
) -> None:
    before, places = start(gang_namespace, scheduling, IN_PLACE)
    compete(gang_namespace)
    lose(before[0])
    after = replaced(gang_namespace, before[0])
    [new] = [pod for pod in after if pod["metadata"]["uid"] not in uids(before)]
    assert new["spec"]["nodeName"] in places
    assert new["spec"]["schedulingGroup"] == before[0]["spec"]["schedulingGroup"]
    assert taken(gang_namespace) == NODES - WORKERS - SPARES, "no other pod has got a node"
    assert [note for _, reason, note in gang_namespace.events() if reason == "SpareUsed" and "lost its node" in note]
    gang_namespace.until(lambda: spares(gang_namespace) == (0, 1, 1), "the spare is missing")


def test_a_pod_of_a_gang_that_finds_no_node_gets_the_place_and_the_spare_ends(gang_namespace: GangNamespace) -> None:
    before, places = start(gang_namespace, GANG, LOST)
    compete(gang_namespace)
    gang_namespace.cordon(before[0]["spec"]["nodeName"])
    gang_namespace.drop_pod(before[0]["metadata"]["name"])
    after = replaced(gang_namespace, before[0])
    [new] = [pod for pod in after if pod["metadata"]["uid"] not in uids(before)]
    assert new["spec"]["nodeName"] in places
    gang_namespace.until(lambda: spares(gang_namespace) == (0, 1, 1), "the spare is missing")
    assert taken(gang_namespace) <= NODES - WORKERS - SPARES + 1, "one node of the spare's two was left"


def test_with_free_nodes_the_lost_pod_of_a_gang_that_restarts_goes_to_the_place(
    gang_namespace: GangNamespace, lose: Lose
) -> None:
    before, places = start(gang_namespace, GANG, LOST)
    lose(before[0])
    after = replaced(gang_namespace, before[0])
    assert not uids(before) & uids(after)
    rank = before[0]["metadata"]["name"].rpartition("-")[0]
    [new] = [pod for pod in after if pod["metadata"]["name"].rpartition("-")[0] == rank]
    assert new["spec"]["nodeName"] in places
    gang_namespace.until(lambda: spares(gang_namespace) == (1, 0, 1), "the spare is whole again")


def start_small(
    gang_namespace: GangNamespace, scheduling: JSON, policy: JSON, job: JSON
) -> tuple[list[JSON], set[str]]:
    """A gang of two pods in a superslice of four nodes, and two spares: its pods, and the nodes of the spares."""
    two = {**SPARE, "replicas": SPARES}
    gang_namespace.gang(slices(pods=1, job=job), two, scheduling=scheduling, failurePolicy=policy)
    gang_namespace.until(lambda: spares(gang_namespace) == (2, 0, 0), "the spares")
    places = {pod["spec"]["nodeName"] for job in ("js-spare-0", "js-spare-1") for pod in gang_namespace.of_job(job)}
    return workers(gang_namespace), places


@pytest.mark.parametrize("shape", CONSTRAINED)
def test_spares_follow_a_gang_into_its_domain_and_give_the_place_there(
    gang_namespace: GangNamespace, lose: Lose, shape: str
) -> None:
    before, places = start_small(gang_namespace, CONSTRAINED[shape], IN_PLACE, JOB)
    assert gang_namespace.where(SUPERSLICE), "workers and spares are in one superslice"
    compete(gang_namespace, NODES - 4)
    lose(before[0])
    after = replaced(gang_namespace, before[0], number=2)
    [new] = [pod for pod in after if pod["metadata"]["uid"] not in uids(before)]
    assert new["spec"]["nodeName"] in places
    assert new["spec"]["schedulingGroup"] == before[0]["spec"]["schedulingGroup"]
    assert taken(gang_namespace) == NODES - 4, "no other pod has got a node"
    gang_namespace.until(lambda: spares(gang_namespace) == (1, 1, 1), "one spare is left")


def test_spares_follow_a_gang_that_moves_to_another_domain(gang_namespace: GangNamespace) -> None:
    before, _ = start_small(gang_namespace, CONSTRAINED["set-in-one-domain"], LOST, {"backoffLimit": 0})
    left = gang_namespace.where(SUPERSLICE)
    gang_namespace.cordon(*gang_namespace.nodes(**{SUPERSLICE: left}))
    gang_namespace.end(before[0], 1)
    gang_namespace.until(lambda: spares(gang_namespace)[:2] == (2, 0) and moved(gang_namespace, left), "all have moved")


def moved(gang_namespace: GangNamespace, left: str) -> bool:
    """Whether workers and spares are in one superslice, another one than before."""
    found = set.union(set(), *gang_namespace.domains(SUPERSLICE).values())
    return len(gang_namespace.bound()) == 4 and len(found) == 1 and left not in found


def start_jobs(gang_namespace: GangNamespace, policy: JSON, job: JSON) -> None:
    """Two Jobs of three pods, and a spare of one pod for each: a Job and its spare fill a superslice."""
    two = {**SPARE, "replicas": 2, "template": {"spec": {"parallelism": 1, "completions": 1}}}
    gang_namespace.gang(slices(pods=3, job=job), two, scheduling=EACH_IN_ONE, failurePolicy=policy)
    gang_namespace.until(lambda: spares(gang_namespace) == (2, 0, 0), "the spares")
    assert len(domains(gang_namespace)) == 2


def domains(gang_namespace: GangNamespace) -> list[str]:
    """The superslices of Jobs that have three pods with nodes, and a spare beside them."""
    found = gang_namespace.domains(SUPERSLICE)
    pairs = [(found.get(f"js-slice-{index}", set()), found.get(f"js-spare-{index}", set())) for index in range(2)]
    return [domain for of_job, of_spare in pairs if of_job == of_spare for domain in of_job]


def test_a_place_goes_to_a_lost_pod_of_the_job_in_whose_domain_it_is(gang_namespace: GangNamespace, lose: Lose) -> None:
    start_jobs(gang_namespace, IN_PLACE, JOB)
    compete(gang_namespace, NODES - 8)
    before = workers(gang_namespace)
    [place] = [pod["spec"]["nodeName"] for pod in gang_namespace.of_job("js-spare-1")]
    first, second, _ = gang_namespace.of_job("js-slice-1")
    lose(first)
    after = replaced(gang_namespace, first, number=6)
    [new] = [pod for pod in after if pod["metadata"]["uid"] not in uids(before)]
    assert new["spec"]["nodeName"] == place
    assert taken(gang_namespace) == NODES - 8, "no other pod has got a node"
    gang_namespace.until(lambda: spares(gang_namespace) == (1, 1, 1), "the spare is missing")
    lose(second)
    refused = {pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] for pod in gang_namespace.wait_refused(2)}
    assert refused == {"js-slice-1", "js-spare-1"}
    assert spares(gang_namespace) == (1, 1, 1), "the spare beside the other Job holds no place for this one"


def test_a_spare_follows_the_job_that_moves_to_another_domain(gang_namespace: GangNamespace) -> None:
    start_jobs(gang_namespace, LOST, {"backoffLimit": 0})
    left = domains(gang_namespace)[0]
    gang_namespace.cordon(*gang_namespace.nodes(**{SUPERSLICE: left}))
    gang_namespace.end(gang_namespace.of_job("js-slice-0")[0], 1)

    def moved() -> bool:
        here = domains(gang_namespace)
        return len(here) == 2 and left not in here and spares(gang_namespace)[:2] == (2, 0)

    gang_namespace.until(moved, "all have moved")
