"""The simulated controllers: Jobs that wait for a domain get one, and what is written about a Job is of its pods."""

import pytest

from api import keys
from dev.simulator.cluster import TOPOLOGY, SteppedCluster, Topology

NS = "ns"


class TwoDomains(SteppedCluster):
    """A cluster of two domains with one node each."""

    def __init__(self) -> None:
        super().__init__(Topology(domains=2))

    def add(self, *names: str, **spec: object) -> None:
        """Create exclusive Jobs."""
        annotations = {keys.EXCLUSIVE_TOPOLOGY: TOPOLOGY}
        for name in names:
            template = {"metadata": {"annotations": annotations}, "spec": {}}
            self.create("jobs", NS, {"metadata": {"name": name}, "spec": {"template": template, **spec}})

    def suspend(self, name: str, *, value: bool = True) -> None:
        self.patch("jobs", (NS, name), {"spec": {"suspend": value}})

    def status(self, name: str) -> dict[str, object]:
        return self.get("jobs", (NS, name)).body()["status"]

    def running(self) -> set[str]:
        """Jobs that have pods which run."""
        pods = (item.body() for item in self.storage["pods"].objects.values())
        return {pod["metadata"]["labels"]["job-name"] for pod in pods if pod["status"]["phase"] == "Running"}


@pytest.fixture
def cluster() -> TwoDomains:
    cluster = TwoDomains()
    cluster.add("a", "b", "c", "d")
    cluster.settle()
    assert cluster.running() == {"a", "b"}
    return cluster


def delete(cluster: TwoDomains, name: str) -> None:
    cluster.delete("jobs", (NS, name))


@pytest.mark.parametrize("leave", [delete, TwoDomains.suspend, lambda cluster, name: cluster.fail((NS, name))])
def test_a_domain_goes_to_the_next_job_when_the_first_in_line_cannot_run(cluster, leave):
    leave(cluster, "c")
    cluster.settle()
    delete(cluster, "a")
    cluster.settle()
    assert cluster.running() == {"b", "d"}


def test_a_job_that_is_changed_while_it_waits_has_one_place_in_line(cluster):
    for number in range(3):
        cluster.patch("jobs", (NS, "c"), {"metadata": {"labels": {"number": str(number)}}})
        cluster.settle()
    for name in ("a", "b"):
        delete(cluster, name)
    cluster.settle()
    assert cluster.running() == {"c", "d"}
    cluster.fail((NS, "c"))
    cluster.settle()
    assert cluster.running() == {"d"}, "a Job that has failed does not start again"


def test_a_job_without_pods_takes_no_domain(cluster):
    cluster.add("none", parallelism=0, completions=0)
    cluster.settle()
    assert cluster.status("none")["conditions"][-1]["type"] == "Complete"
    for name in ("a", "b"):
        delete(cluster, name)
    cluster.settle()
    cluster.add("paused", parallelism=0, completions=2)
    cluster.settle()
    assert cluster.running() == {"c", "d"}
    assert (cluster.status("paused")["active"], cluster.status("paused")["ready"]) == (0, 0)
    for name in ("c", "d"):
        delete(cluster, name)
    cluster.add("e", "f")
    cluster.settle()
    assert cluster.running() == {"e", "f"}


def test_a_suspended_job_says_so_whether_it_had_pods_or_not(cluster):
    cluster.add("new", suspend=True)
    for name in ("a", "c"):
        cluster.suspend(name)
    cluster.settle()
    for name in ("new", "a", "c"):
        conditions = {c["type"]: c["status"] for c in cluster.status(name)["conditions"]}
        assert conditions == {"Suspended": "True"}


@pytest.mark.parametrize("turns", range(5))
def test_pods_of_a_job_suspended_while_it_starts_are_not_counted_as_running(cluster, turns):
    for name in ("b", "c", "d"):
        delete(cluster, name)
    cluster.suspend("a")
    cluster.settle()
    cluster.suspend("a", value=False)
    for _ in range(turns):
        if cluster.reactions:
            cluster.step()
    cluster.suspend("a")
    cluster.settle()
    assert (cluster.status("a")["active"], cluster.status("a")["ready"]) == (0, 0)
    assert "a" not in cluster.running()
