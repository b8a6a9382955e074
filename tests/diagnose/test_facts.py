"""How much `jobset explain` reads: bounded, whatever the cluster holds. The real thing is in tests/integration."""

from typing import Any

import pytest

from api import keys
from diagnose.facts import Facts
from diagnose.gather import gather
from diagnose.reasons import explain
from diagnose.states import State
from kube.client import PAGE_SIZE, Client
from kube.errors import NotFound
from kube.model.meta import NO_OWNER
from kube.reader import MAX_EXAMPLES, MAX_PAGES
from kube.transport import Request, Response
from tests.support.explain.objects import (
    NOW,
    RACK,
    causes,
    event,
    exclusive,
    explanation_of,
    facts,
    job_of,
    leader_of,
    made,
    owner,
    pod_of,
)
from tests.support.model.fake_cluster import Cluster
from tests.support.objects.jobsets import jobset, rjob, stored
from tests.support.work import steps

JSON = dict[str, Any]
pytestmark = pytest.mark.looptime


async def read(cluster: Cluster) -> Facts:
    return await gather(Client(cluster), "default", "train", NOW)


def a_set(*rjobs: JSON, **status: Any) -> JSON:
    return made(stored(jobset(*rjobs)), **status)


async def test_a_set_that_runs_costs_three_calls():
    js = a_set(rjob(replicas=2))
    jobs = [made(job_of(js, index), active=1, ready=1) for index in range(2)]
    cluster = Cluster(js, *jobs)
    assert explain(await read(cluster)).state is State.RUNNING
    assert len(cluster.asked) == 3


async def test_a_set_that_has_ended_costs_one_call():
    cluster = Cluster(a_set(terminalState="Completed"))
    await read(cluster)
    assert len(cluster.asked) == 1


async def test_jobs_and_leaders_of_a_large_set_are_read_page_by_page():
    js = a_set(exclusive(replicas=1200))
    jobs = [made(job_of(js, index), active=1) for index in range(1200)]
    leaders = [made(leader_of(job, unscheduled="no")) for job in jobs]
    node = {"kind": "Node", "metadata": {"name": "n", "labels": {RACK: "a", "secret": "b"}}}
    cluster = Cluster(js, *jobs, *leaders, node)
    found = await read(cluster)
    assert (len(found.jobs or ()), len(found.pods or ()), found.node_labels) == (1200, 1200, {"n": {RACK: "a"}})
    assert all(dict(request.query)["limit"] == str(PAGE_SIZE) for request in cluster.asked if request.verb == "list")
    assert len(cluster.asked) <= 18
    text = explain(found)
    assert len(text.root.because) <= 4, "reported once, counted for the others"


async def test_pending_pods_are_enough_by_the_first_page():
    js = a_set(rjob(parallelism=1500, completions=1500))
    job = made(job_of(js, 0), active=1500)
    pods = [made(pod_of(job, index, unscheduled="no")) for index in range(1500)]
    cluster = Cluster(js, job, *pods)
    found = await read(cluster)
    assert len(found.pods or ()) <= PAGE_SIZE + 1
    fields = [dict(request.query).get("fieldSelector") for request in cluster.asked]
    assert fields.count("status.phase=Pending") == 1, "of the second page nothing is shown"
    assert "pending pods beyond the first 500" in found.unread_notes


async def test_what_others_have_is_read_up_to_a_limit():
    js = a_set(exclusive())
    job = made(job_of(js, 0), active=1)
    leader = made(leader_of(job, unscheduled="no"))
    cluster = Cluster(js, job, leader, endless=("pods",))
    found = await read(cluster)
    assert len(found.holder_pods or ()) == PAGE_SIZE * MAX_PAGES
    assert f"pods of other JobSets beyond the first {PAGE_SIZE * MAX_PAGES}" in found.unread_notes
    assert len(cluster.asked) < MAX_PAGES + 15


@pytest.mark.parametrize(("label", "on_pods"), [("", False), ("0", False), ("0", True)])
async def test_other_pods_are_looked_for_where_no_first_pod_is(label: str, on_pods: bool):
    js, plain = a_set(exclusive(on_pods=on_pods)), made(stored(jobset(rjob(), name="plain")))
    racks = [
        {"kind": "Node", "metadata": {"name": f"n{number}", "labels": {RACK: f"r{number}"}}} for number in range(2)
    ]
    job, other = made(job_of(js, 0), active=1), made(job_of(plain, 0), active=3)
    more = {"labels": {keys.PRIORITY: label}} if label else {}
    leader = made(leader_of(job, unscheduled="no", **more))
    pods = [made(pod_of(other, index, node=f"n{min(index, 1)}", **more)) for index in range(3)]
    cluster = Cluster(js, job, leader, *racks, *pods)
    found = await read(cluster)
    # the fake takes no notice of fields: the leader, which is on no node, is among them
    there = [(pod.job_label, pod.spec.node_name) for pod in found.holder_pods or () if pod.spec.node_name]
    assert there == [("default/plain-workers-0 (not exclusive)", f"n{number}") for number in range(2)], (
        "one for each rack"
    )
    _, body = explanation_of(found)
    assert causes(body)[-1] == "equal-priority"
    assert (
        "2 of 2 racks hold Jobs of equal priority (0): default/plain-workers-0 (not exclusive)"
        in explanation_of(found)[0]
    )


async def test_gated_followers_are_counted_by_their_metadata():
    js = a_set(exclusive(parallelism=3, completions=3))
    job = made(job_of(js, 0), active=3)
    leader = made(leader_of(job, unscheduled="no"))
    waits = {"gates": (keys.PLACEMENT_GATE,), "labels": {keys.AWAITS_LEADER: "true"}}
    followers = [made(pod_of(job, index, **waits)) for index in (1, 2)]
    cluster = Cluster(js, job, leader, *followers)
    found = await read(cluster)
    assert found.gated_followers == {job["metadata"]["uid"]: 2}
    (asked,) = [r for r in cluster.asked if dict(r.query).get("labelSelector", "").endswith(f",{keys.AWAITS_LEADER}")]
    assert "PartialObjectMetadataList" in asked.accept
    assert [pod.name for pod in found.pods or ()] == [leader["metadata"]["name"]]


async def test_of_a_leader_that_has_to_join_its_followers_one_of_these_is_read():
    js = a_set(exclusive(parallelism=3, completions=3))
    job = made(job_of(js, 0), active=3, ready=2)
    leader = made(leader_of(job, unscheduled="no"))
    followers = [made(pod_of(job, index, node="n", nodeSelector={RACK: "r"})) for index in (1, 2)]
    text, _ = explanation_of(await read(Cluster(js, job, leader, *followers)))
    assert "waits for room in rack r, where its Job is" in text


async def test_names_of_missing_jobs_are_looked_up_for_a_few():
    js = a_set(rjob(replicas=9))
    taken = {**job_of(js, 1), "metadata": {"name": "train-workers-1", "namespace": "default"}}
    cluster = Cluster(js, taken)
    found = await read(cluster)
    assert found.foreign_owners == {"train-workers-1": NO_OWNER}
    assert sum(r.verb == "get" and "/jobs/" in r.path for r in cluster.asked) == MAX_EXAMPLES


async def test_jobs_of_an_earlier_jobset_of_the_name_are_not_its_own():
    js = a_set(rjob())
    other = made(stored(jobset(rjob())), uid="another")
    found = await read(Cluster(js, made(job_of(other, 0), active=1, ready=1)))
    assert found.jobs == ()


def a_gang(**status: Any) -> JSON:
    """Two Jobs, each a group of its own below one for both."""
    scheduling = {
        "schedulingPolicy": {"gang": {}},
        "replicatedJobs": [{"targetReplicatedJobs": ["workers"], "job": {}}],
    }
    return made(stored(jobset(rjob(replicas=2), scheduling=scheduling)), **status)


def group_of(js: JSON, kind: str, name: str) -> JSON:
    labels = {keys.JOBSET_NAME: js["metadata"]["name"]}
    return {"kind": kind, "metadata": {"name": name, "labels": labels, "ownerReferences": [owner(js)]}, "spec": {}}


async def test_groups_are_read_once_for_each_kind_and_only_while_jobs_are_not_ready():
    js = a_gang()
    jobs = [made(job_of(js, index), active=1) for index in range(2)]
    pods = [made(pod_of(job, unscheduled="no")) for job in jobs]
    groups = [group_of(js, "PodGroup", "a"), group_of(js, "CompositePodGroup", "b")]
    other = group_of(made(stored(jobset()), uid="another"), "PodGroup", "c")
    cluster = Cluster(js, *jobs, *pods, *groups, other)
    found = await read(cluster)
    assert found.groups is not None
    assert {*found.groups.groups_by_name} == {"a", "b"}, "those that it owns"
    plain = Cluster(made(stored(jobset(rjob(replicas=2)))), *jobs, *pods)
    await read(plain)
    assert len(cluster.asked) == len(plain.asked) + 5, "and the nodes, and who holds them"
    ready = Cluster(js, *(made(job_of(js, index), active=1, ready=1) for index in range(2)))
    await read(ready)
    assert len(ready.asked) == 3


async def test_groups_that_are_not_served_are_none():
    class NotServed(Cluster):
        async def send(self, request: Request) -> Response:
            if request.path.endswith(("/podgroups", "/compositepodgroups")):
                return Response(404, {}, b"404 page not found")
            return await super().send(request)

    js = a_gang()
    found = await read(NotServed(js, made(job_of(js, 0), active=1)))
    assert found.groups is not None
    assert found.groups.groups_by_name == {}
    assert found.unread_notes == ()


async def test_no_such_jobset():
    with pytest.raises(NotFound):
        await read(Cluster())


@pytest.mark.no_cover
@pytest.mark.timeout(20)
def test_pods_with_warnings_cost_the_same_however_many_there_are():
    def explain(count: int) -> int:
        js = a_set(rjob(replicas=count))
        jobs = [made(job_of(js, index), active=1) for index in range(count)]
        creating = [{"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}}]
        pods = [made(pod_of(job, node="n", phase="Pending", containers=creating)) for job in jobs]
        about = ({"regarding": {"name": pod["metadata"]["name"]}} for pod in pods[::5])
        found = facts(js, jobs, pods, pod_warnings=[{**event("FailedMount", "no secret"), **one} for one in about])
        assert f"{count // 5 - 1} more Jobs" in explanation_of(found)[0]
        return steps(lambda: explanation_of(found))

    assert explain(1600) < 5 * explain(400)


@pytest.mark.no_cover
def test_ten_thousand_waiting_jobs_are_explained_at_once():
    js = a_set(exclusive(replicas=10_000))
    jobs = [made(job_of(js, index), active=1) for index in range(10_000)]
    leaders = [made(leader_of(job, unscheduled="no")) for job in jobs]
    text, _ = explanation_of(
        facts(js, jobs, leaders, node_labels={f"n{number}": {RACK: f"r{number}"} for number in range(5000)})
    )
    assert "9999 more Jobs" in text
    assert len(text) < 2000
