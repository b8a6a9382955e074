"""In place, a node of a gang is lost: its pod comes back into its group and domain, or Jobs move as a whole."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cluster import gangs
from tests.support.cluster.gangs import CUBE, CUBES_IN_A_SUPERSLICE, SUPERSLICE, ZONE, GangNamespace, slices, topology
from tests.support.cluster.requests import uids
from tests.support.played import agents as played_agents
from tests.support.played.agents import JOB, POLICY, Lose, PlayedAgents, losing, played

JSON = dict[str, Any]
GATES = {**gangs.GATES, **played_agents.GATES, "JobSetStartTimeout": True}
pytestmark = [pytest.mark.slow, pytest.mark.manager(featureGates=GATES)]


def each_in(key: str, **above: Any) -> JSON:
    """A group for each Job, in a domain of this key."""
    job = {"schedulingConstraints": topology(key)}
    return {**above, "replicatedJobs": [{"targetReplicatedJobs": ["slice"], "job": job}]}


@pytest.fixture
def agents(gang_namespace: GangNamespace) -> Iterator[PlayedAgents]:
    with played(gang_namespace) as of_set:
        yield of_set


@pytest.fixture
def lose(gang_namespace: GangNamespace) -> Iterator[Lose]:
    with losing(gang_namespace) as make:
        yield make


def apply(gang_namespace: GangNamespace, scheduling: JSON, *, pods: int, action: str = "") -> None:
    """Two Jobs whose pods restart in place; `action`: what is done about a pod that does not start in time."""
    rule = {"name": "move", "action": action, "onJobFailureReasons": ["StartTimeout"]}
    policy = {**POLICY, **({"startTimeoutSeconds": 15, "rules": [rule]} if action else {})}
    workers = slices(pods=pods, job=JOB, pod={"restartPolicy": "OnFailure"})
    gang_namespace.gang(workers, scheduling=scheduling, failurePolicy=policy)


def runs(gang_namespace: GangNamespace, agents: PlayedAgents, attempt: int, pods: int) -> list[JSON]:
    """The pods once so many run in this attempt."""

    def look() -> list[JSON]:
        here = gang_namespace.bound()
        return here if len(here) == pods and agents.all_in(attempt, here) else []

    return gang_namespace.until(look, f"{pods} workers in attempt {attempt}")


def group_of(pod: JSON) -> str:
    return str(pod["spec"]["schedulingGroup"]["podGroupName"])


@pytest.mark.parametrize(
    "scheduling",
    [each_in(SUPERSLICE), each_in(SUPERSLICE, schedulingPolicy={"gang": {}}, schedulingConstraints=topology(ZONE))],
    ids=["gangs", "gang-of-gangs"],
)
def test_the_pod_joins_its_group_in_its_domain_and_the_others_stay(
    gang_namespace: GangNamespace, agents: PlayedAgents, lose: Lose, scheduling: JSON
) -> None:
    apply(gang_namespace, scheduling, pods=3)
    before = runs(gang_namespace, agents, 0, pods=6)
    groups, domains = gang_namespace.all_stored(), gang_namespace.domains(SUPERSLICE)
    lost = before[0]
    lose(lost)
    after = runs(gang_namespace, agents, 1, pods=6)
    assert uids(before) - uids(after) == uids([lost])
    [new] = [pod for pod in after if pod["metadata"]["uid"] not in uids(before)]
    assert group_of(new) == group_of(lost)
    assert (gang_namespace.all_stored(), gang_namespace.domains(SUPERSLICE)) == (groups, domains)
    assert gang_namespace.status()["restarts"] == 0


def test_where_the_domain_has_no_room_the_job_alone_moves_as_a_whole(
    gang_namespace: GangNamespace, agents: PlayedAgents, lose: Lose
) -> None:
    apply(gang_namespace, each_in(CUBE), pods=2, action="RestartJob")
    runs(gang_namespace, agents, 0, pods=4)
    moved, stay, before = (
        gang_namespace.of_job("js-slice-0"),
        gang_namespace.of_job("js-slice-1"),
        cubes(gang_namespace),
    )
    lose(moved[0])
    gang_namespace.wait_refused(1)
    assert uids(gang_namespace.bound()) == uids([*moved[1:], *stay]), "the others wait for it"
    gang_namespace.wait_explained(
        "Job js-slice-0: 1 of 2 pods bound; all 2 pods have to fit at once, in one cube", "untolerated taint"
    )
    runs(gang_namespace, agents, 1, pods=4)
    after = cubes(gang_namespace)
    assert after["js-slice-0"] not in before.values()
    assert after["js-slice-1"] == before["js-slice-1"]
    assert uids(gang_namespace.of_job("js-slice-1")) == uids(stay)
    assert gang_namespace.status()["restarts"] == 0


def test_a_gang_of_the_whole_set_moves_with_all_its_jobs(
    gang_namespace: GangNamespace, agents: PlayedAgents, lose: Lose
) -> None:
    apply(gang_namespace, CUBES_IN_A_SUPERSLICE, pods=2, action="RestartJobSet")
    before = runs(gang_namespace, agents, 0, pods=4)
    home = gang_namespace.where(SUPERSLICE)
    lose(before[0])
    gang_namespace.wait_refused(1)
    gang_namespace.wait_explained("3 of 4 pods bound; all 2 groups have to fit at once, in one superslice")
    after = runs(gang_namespace, agents, 1, pods=4)
    assert not uids(before) & uids(after)
    assert gang_namespace.where(SUPERSLICE) != home
    assert gang_namespace.status()["restarts"] == 1


def cubes(gang_namespace: GangNamespace) -> dict[str, str]:
    """The cube of each Job."""
    return {job: cube for job, [cube] in gang_namespace.domains(CUBE).items()}
