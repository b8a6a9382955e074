"""Exclusive Jobs while no manager runs at all: the policies, the Job controller and the scheduler among themselves."""

import json
from collections import defaultdict

import msgspec
import pytest

from api.children import build_job
from api.jobset import JobSet
from api.layout import layout_of
from dev.cluster.spec import ClusterSpec, FakeNodes
from manifests import pod_policies
from tests.support.cluster import requests as support
from tests.support.cluster.requests import drop_namespace, kubectl, new_namespace, request, wait_for
from tests.support.corpus.exclusive_pods import BY_NAME, Shown, shown
from tests.support.objects.jobsets import jobset, rjob, stored
from tests.support.objects.pods import exclusive

JOBS, RACKS, NODES_A_RACK, PODS = 4, 6, 3, 5
SELECTOR = "jobset.sigs.k8s.io/jobset-name"


@pytest.fixture(scope="module")
def cluster(own_cluster):
    nodes = FakeNodes(count=RACKS * NODES_A_RACK, label_every={"rack": NODES_A_RACK})
    with own_cluster(ClusterSpec(name="alone", nodes=nodes)) as cluster:
        yield cluster


@pytest.fixture
def namespace(cluster):
    name = new_namespace(cluster)
    yield name
    drop_namespace(cluster, name)


def install(cluster, followers):
    """Put the policies in force, in the place of those of the other variant."""
    listing = json.dumps({"apiVersion": "v1", "kind": "List", "items": pod_policies(followers)})
    kubectl(cluster, "apply", "--server-side", "-f", "-", stdin=listing)
    gated = followers == "gate"
    wait_for_row(cluster, "leader", lambda pod: pod.spread)
    wait_for_row(cluster, "not exclusive, wrong label", lambda pod: pod.priority == "0")
    wait_for_row(cluster, "follower", lambda pod: bool(pod.gates) == gated and bool(pod.gather) != gated)


def wait_for_row(cluster, name, holds):
    """Until a pod of the table is stored so; it may be refused while one policy is new and another is not yet."""

    def probe():
        seen = shown(cluster, BY_NAME[name])
        return isinstance(seen, Shown) and holds(seen)

    wait_for(probe, what=name)


def start_jobs(cluster, namespace, js):
    """Create the child Jobs that the controller would create, and nothing else."""
    js["metadata"]["namespace"] = namespace
    whole = msgspec.convert(stored(js), JobSet)
    places = layout_of(whole)
    for jobs in places.ranges:
        for position in jobs.positions(whole.metadata.name):
            job = json.loads(msgspec.json.encode(build_job(whole, places, jobs, position)))
            job["metadata"].pop("ownerReferences")
            status, answer = request(cluster, "POST", f"/apis/batch/v1/namespaces/{namespace}/jobs", job)
            assert status == 201, answer


def racks_of_jobs(cluster, pods):
    """Job -> the racks of its pods; a pod that is bound to no node counts as rack None."""
    nodes = json.loads(kubectl(cluster, "get", "nodes", "-o", "json"))["items"]
    rack = {node["metadata"]["name"]: node["metadata"]["labels"]["rack"] for node in nodes}
    jobs = defaultdict(set)
    for pod in pods:
        jobs[pod["metadata"]["labels"]["job-name"]].add(rack.get(pod["spec"].get("nodeName")))
    return dict(jobs)


@pytest.mark.slow
def test_each_job_runs_alone_on_one_rack(cluster, namespace):
    install(cluster, "affinity")
    workers = rjob(replicas=JOBS, parallelism=PODS, completions=PODS)
    start_jobs(cluster, namespace, exclusive(workers))

    def running_pods():
        pods = support.pods(cluster, namespace, SELECTOR)
        return pods if [p["status"]["phase"] for p in pods] == ["Running"] * JOBS * PODS else []

    racks = racks_of_jobs(cluster, wait_for(running_pods, what="every pod to run"))
    assert all(len(of_job) == 1 for of_job in racks.values()), racks
    assert len(set.union(*racks.values())) == len(racks) == JOBS


def test_with_the_gate_leaders_start_and_followers_wait_for_a_manager(cluster, namespace):
    install(cluster, "gate")
    start_jobs(cluster, namespace, exclusive(rjob(parallelism=PODS, completions=PODS)))
    start_jobs(cluster, namespace, jobset(rjob(parallelism=2, completions=2), name="plain"))

    def settled():
        pods = support.pods(cluster, namespace, SELECTOR)
        return pods if len(pods) == PODS + 2 and sum(p["status"]["phase"] == "Running" for p in pods) == 3 else []

    pods = wait_for(settled, what="leader and plain pods to run")
    waiting = [pod for pod in pods if pod["status"]["phase"] != "Running"]
    assert {pod["status"]["conditions"][0]["reason"] for pod in waiting} == {"SchedulingGated"}
    assert len(waiting) == PODS - 1
