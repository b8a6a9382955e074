"""JobSets, Jobs, pods and nodes on a real API server for `jobset explain` to look at."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from api import keys
from api.keys import LEASE
from dev.cluster.cluster import Cluster
from tests.support.cluster.requests import request
from tests.support.explain.objects import RACK, exclusive, leader_of, pod_of
from tests.support.explain.world import LEASES, NO_NODE, World, post
from tests.support.objects.jobsets import jobset


@pytest.fixture
def cluster(jobset_server: Cluster) -> Iterator[Cluster]:
    """With the lease of a manager that has just renewed it."""
    request(jobset_server, "DELETE", f"{LEASES}/{LEASE}")
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "somebody", "leaseDurationSeconds": 3600, "renewTime": now, "acquireTime": now}
    post(jobset_server, LEASES, {"metadata": {"name": LEASE}, "spec": spec})
    yield jobset_server
    request(jobset_server, "DELETE", f"{LEASES}/{LEASE}")


@pytest.fixture
def world(cluster: Cluster, namespace: str) -> Iterator[World]:
    made = World(cluster, namespace)
    yield made
    for path in made.left:
        request(cluster, "DELETE", path)


@pytest.fixture
def racks(cluster: Cluster) -> Iterator[list[str]]:
    """Two nodes, each a rack of its own."""
    names = ["explained-0", "explained-1"]
    for number, name in enumerate(names):
        post(cluster, "/api/v1/nodes", {"metadata": {"name": name, "labels": {RACK: f"rack-{number}"}}})
    yield names
    for name in names:
        request(cluster, "DELETE", f"/api/v1/nodes/{name}")


@pytest.fixture
def waiting(world: World, racks: list[str]) -> World:
    """Two racks: one holds `other`, one holds a Job of `train` itself, whose second leader waits."""
    other = world.jobset(jobset(exclusive(), name="other"))
    train = world.jobset(jobset(exclusive(replicas=2, parallelism=3, completions=3)))
    world.pod(leader_of(world.job(other, 0, active=1, ready=1), node=racks[0]))
    world.pod(leader_of(world.job(train, 0, active=3, ready=3), node=racks[1]))
    last = world.job(train, 1, active=3, ready=0)
    world.pod(leader_of(last, unscheduled=NO_NODE))
    for index in (1, 2):
        world.pod(pod_of(last, index, gates=(keys.PLACEMENT_GATE,), labels={keys.AWAITS_LEADER: "true"}))
    return world
