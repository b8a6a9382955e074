"""The domain of a spare goes to a Job that has lost its own, and to no other (docs/concepts/spares.md#domains)."""

from typing import Any

import pytest

from api import keys
from tests.support.cluster.racks import LITTLE, PER_RACK, RackNamespace, exclusive, label
from tests.support.cluster.requests import uids
from tests.support.played.agents import Lose

JSON = dict[str, Any]
GATES = {"JobSetSpares": True, "JobSetNodeFailure": True, "JobSetAvoidNodes": True, "RestartJob": True}
pytestmark = [pytest.mark.manager(featureGates=GATES), pytest.mark.slow]
LOST = {"nodeFailure": {"afterSeconds": 0, "forceDeletePods": True}}
ALONE = {"rules": [{"name": "alone", "action": "RestartJob"}]}
SPARE = {"name": "spare", "replicas": 1, "spareFor": "w", "template": {}}


def apply(rack_namespace: RackNamespace, pods: int, **policy: Any) -> None:
    """Two Jobs and a spare, in a rack each."""
    body = exclusive(jobs=2, pods=pods)
    body["spec"]["replicatedJobs"].append(SPARE)
    body["spec"]["failurePolicy"] |= policy
    rack_namespace.apply(body)


def spares(rack_namespace: RackNamespace) -> tuple[int, int, int]:
    [entry] = rack_namespace.status().get("spares") or [{}]
    return entry.get("ready", 0), entry.get("missing", 0), entry.get("used", 0)


def settled(rack_namespace: RackNamespace, used: int, *, ready: int = 1) -> dict[str, str]:
    """Wait until all workers run, and so many spares are ready; gives the rack of each Job."""
    rack_namespace.until(lambda: running(rack_namespace, "w") == 2, "all workers")
    rack_namespace.until(lambda: running(rack_namespace, "spare") == ready, "the spares")
    rack_namespace.until(lambda: spares(rack_namespace) == (ready, 1 - ready, used), "the numbers of the status")
    found = {job: [*racks] for job, racks in rack_namespace.racks().items() if racks}
    assert all(len(racks) == 1 for racks in found.values()), found
    racks = {job: rack for job, [rack] in found.items()}
    assert len({*racks.values()}) == len(racks), found
    return racks


def running(rack_namespace: RackNamespace, name: str) -> int:
    """Jobs of a ReplicatedJob of which all pods have a node and are ready."""
    jobs = [job for job in rack_namespace.jobs() if label(job, keys.REPLICATED_JOB_NAME) == name]
    racks = rack_namespace.racks()
    sizes = {job["metadata"]["name"]: job["spec"]["parallelism"] for job in jobs if "ready" in job["status"]}
    ready = {job["metadata"]["name"]: job["status"].get("ready", 0) for job in jobs}
    return sum(ready[job] == size == racks[job].total() for job, size in sizes.items() if job in racks)


def compete(rack_namespace: RackNamespace) -> None:
    """Little Jobs that want a rack each, and fit onto any node: one gets a rack, the others wait."""
    rack_namespace.apply(exclusive("greedy", jobs=6, pods=1, cpu=LITTLE))
    rack_namespace.until(lambda: rack_namespace.racks("greedy"), "a rack is taken")


@pytest.mark.parametrize("index", [0, 1], ids=["leader", "follower"])
@pytest.mark.parametrize("pods", [PER_RACK, PER_RACK - 1], ids=["whole rack", "with a free node"])
def test_the_domain_of_a_spare_goes_to_the_job_that_lost_its_own(
    rack_namespace: RackNamespace, lose: Lose, pods: int, index: int
) -> None:
    apply(rack_namespace, pods, **LOST, **ALONE)
    before = settled(rack_namespace, 0)
    compete(rack_namespace)
    stay = uids(rack_namespace.of_job("js-w-1"))
    lose(rack_namespace.of_job("js-w-0")[index])
    rack_namespace.until(lambda: spares(rack_namespace)[2] == 1, "the spare gives way")
    after = settled(rack_namespace, 1, ready=0)
    assert after["js-w-0"] == before["js-spare-0"]
    assert uids(rack_namespace.of_job("js-w-1")) == stay
    [key] = {label(pod, keys.JOB_KEY) for pod in rack_namespace.of_job("js-w-0")}
    kept = "no pod of a spare has the key of the Job any more"
    rack_namespace.until(lambda: key not in {label(p, keys.JOB_KEY) for p in rack_namespace.of_job("js-spare-0")}, kept)
    [event] = rack_namespace.jobset_events("js", "SpareUsed")
    assert "comes in the place of one that lost its node" in event["note"]
    rack_namespace.until(lambda: "promisedTo" not in rack_namespace.status()["spares"][0], "the promise is over")


def test_a_job_that_finds_no_domain_gets_that_of_a_spare(rack_namespace: RackNamespace) -> None:
    apply(rack_namespace, PER_RACK, **ALONE)
    before = settled(rack_namespace, 0)
    compete(rack_namespace)
    rack_namespace.nodes.cordon(*rack_namespace.nodes.of(before["js-w-0"]))
    rack_namespace.fail(rack_namespace.of_job("js-w-0")[1])
    rack_namespace.until(lambda: spares(rack_namespace)[2] == 1, "the spare gives way")
    after = settled(rack_namespace, 1, ready=0)
    assert after["js-w-0"] == before["js-spare-0"]
    [event] = rack_namespace.jobset_events("js", "SpareUsed")
    assert "found no node" in event["note"]


def test_in_a_restart_only_the_job_that_lost_its_domain_moves_to_that_of_the_spare(
    rack_namespace: RackNamespace, lose: Lose
) -> None:
    apply(rack_namespace, PER_RACK, **LOST, avoidNodes={"scope": "Domain"})
    before = settled(rack_namespace, 0)
    lose(rack_namespace.of_job("js-w-0")[0])
    rack_namespace.until(lambda: spares(rack_namespace)[2] == 1, "the spare gives way")
    after = settled(rack_namespace, 1)
    assert after["js-w-0"] == before["js-spare-0"]
    assert before["js-w-0"] not in after.values()
    assert after["js-spare-0"] != before["js-spare-0"]
    assert len(rack_namespace.jobset_events("js", "SpareUsed")) == 1
