"""Which Job is in which domain."""

from tests.support.objects.page_rows import a_node, a_pod
from ui import topology
from ui.topology import domain_map

NODES = [a_node(f"n{index}", rack=f"rack-{index}") for index in (10, 2, 1)] + [a_node("bare")]


def jobs(domain):
    return {job["job"]: (job["ready"], job["pods"], job["own"]) for job in domain["jobs"]}


def drawn(*pods, **more):
    found = domain_map("rack", NODES, pods, **more)
    return found, {domain["name"]: jobs(domain) for domain in found["domains"]}


def test_domains_are_counted_up_and_jobs_are_in_those_of_their_nodes():
    found, there = drawn(a_pod("a", "n1"), a_pod("a", "n1", state="Running"), a_pod("b", "n2"))
    assert there == {"rack-1": {"a": (1, 2, True)}, "rack-2": {"b": (1, 1, True)}, "rack-10": {}}
    assert list(there) == ["rack-1", "rack-2", "rack-10"]
    assert (found["noun"], found["nodesWithoutLabel"], found["scope"]) == ("rack", 1, "")


def test_pods_without_a_domain_wait():
    found, _ = drawn(a_pod("a", state="Pending"), a_pod("b", "bare"))
    assert jobs(found["waiting"]) == {"a": (0, 1, True), "b": (1, 1, True)}


def test_pods_that_have_ended_hold_nothing():
    _, there = drawn(a_pod("a", "n1", state="Succeeded"), a_pod("b", "n1", state="Failed"))
    assert there["rack-1"] == {}


def test_of_one_set_its_domains_come_first_and_only_its_jobs_wait():
    pods = [a_pod("mine", "n10"), a_pod("theirs", "n1", jobset="other"), a_pod("late", state="Pending", jobset="other")]
    found, there = drawn(*pods, focus=("default", "train"))
    assert list(there) == ["rack-10", "rack-1", "rack-2"]
    assert there["rack-1"] == {"theirs": (1, 1, False)}
    assert jobs(found["waiting"]) == {}


def test_a_map_is_bounded(monkeypatch):
    monkeypatch.setattr(topology, "MAX_DOMAINS", 1)
    monkeypatch.setattr(topology, "MAX_JOBS", 2)
    found, _ = drawn(*[a_pod(f"job-{index}", "n1") for index in range(5)])
    (domain,) = found["domains"]
    assert (len(domain["jobs"]), domain["jobsLeftOut"], found["domainsLeftOut"]) == (2, 3, 2)
