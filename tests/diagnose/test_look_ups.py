"""What `jobset explain` looks up beside Jobs and pods, and when: claims, nodes by name, ends of pods, the manager."""

from datetime import timedelta
from typing import Any

import pytest

from api import keys
from api.keys import LEASE
from diagnose.facts import Facts
from diagnose.gather import gather
from kube.client import Client
from kube.transport import Request, Response
from tests.support.explain.objects import MOMENT, NOW, at, causes, event, explanation_of, job_of, lease, made, pod_of
from tests.support.model.fake_cluster import Cluster
from tests.support.model.walk import walk
from tests.support.objects.jobsets import jobset, rjob, stored

JSON = dict[str, Any]
pytestmark = pytest.mark.looptime
UNBOUND = "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. preemption: 0/2 nodes"


HELD = {"kind": "Lease", "metadata": {"name": LEASE}, **lease(holder="manager-0_1234")}


class Refusing(Cluster):
    """Refuses all requests for some collections."""

    refused: tuple[str, ...] = ()

    async def send(self, request: Request) -> Response:
        if any(name in (request.path, *request.path.split("/")) for name in self.refused):
            return Response(403, {}, b'{"kind":"Status","reason":"Forbidden","details":{"kind":"x"}}')
        return await super().send(request)


async def read(*objects: JSON, refused: tuple[str, ...] = (), endless: tuple[str, ...] = ()) -> tuple[Facts, list[str]]:
    """The facts, and the paths that were asked for. `refused`: collections, or paths of them."""
    cluster = Refusing(*objects, HELD, endless=endless)
    cluster.refused = refused
    found = await gather(Client(cluster), "default", "train", NOW)
    return found, [request.path for request in cluster.asked]


def a_set(**status: Any) -> JSON:
    return made(stored(jobset(rjob(), failurePolicy={"maxRestarts": 9})), **status)


def claiming() -> list[JSON]:
    js = a_set()
    job = made(job_of(js, 0), active=1)
    volumes = [{"name": f"v{n}", "persistentVolumeClaim": {"claimName": f"c{n}"}} for n in range(5)]
    return [js, job, made(pod_of(job, unscheduled=UNBOUND, volumes=[{"name": "tmp", "emptyDir": {}}, *volumes]))]


async def test_a_waiting_set_is_explained_without_admission():
    cluster = Cluster(*claiming(), HELD)

    async def explain() -> None:
        explanation_of(await gather(Client(cluster), "default", "train", NOW))

    seen = await walk(explain, "api/", "app/", "authoring/", "cli/", "controllers/", "diagnose/", "kube/", "webhooks/")

    assert not [file for file in seen.files if file.startswith(("app/", "webhooks/"))]
    assert len(seen.files) <= 51, seen
    assert seen.calls <= 945, seen
    assert seen.returns <= 388, seen


async def test_claims_of_a_pod_without_a_node_are_looked_up():
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "c0"}, "spec": {"storageClassName": "fast"}}
    classes = [{"kind": "StorageClasse", "metadata": {"name": "slow"}, "provisioner": "p"}]
    found, asked = await read(*claiming(), {**claim, "status": {"phase": "Pending"}}, *classes)
    assert [name for name, of in found.claims.items() if of is not None] == ["c0"]
    assert len(found.claims) == 3, "the first few"
    assert sum(path.endswith("/storageclasses") for path in asked) == 1
    text, body = explanation_of(found)
    assert causes(body) == ["claim-pending", "scheduler"]
    assert "claim c0 is Pending: there is no StorageClass fast; there are: slow" in text


@pytest.mark.parametrize(
    ("refused", "cause", "says"),
    [
        ("persistentvolumeclaims", "unscheduled", "you may not get persistentvolumeclaims"),
        ("storageclasses", "no-claim", "you may not list storageclasses.storage.k8s.io"),
    ],
)
async def test_without_the_right_to_read_claims_the_rest_is_explained(refused: str, cause: str, says: str):
    found, _ = await read(*claiming(), refused=(refused,))
    text, body = explanation_of(found)
    assert causes(body)[0] == cause
    assert says in text


def silent() -> list[JSON]:
    js = a_set()
    job = made(job_of(js, 0), active=1)
    running = [{"name": "main", "ready": False, "state": {"running": {}}}]
    return [js, job, made(pod_of(job, node="node-3", containers=running))]


async def test_the_node_of_a_pod_that_is_not_ready_is_looked_up():
    taints = [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": at(MOMENT)}]
    node = {"kind": "Node", "metadata": {"name": "node-3"}, "spec": {"taints": taints}}
    found, _ = await read(*silent(), node)
    text, body = explanation_of(found)
    assert causes(body)[0] == "node-failed"
    assert "is on node node-3, which is unreachable\n" in text
    assert "which does not exist any more" in explanation_of((await read(*silent()))[0])[0]
    healthy = {"kind": "Node", "metadata": {"name": "node-3"}}
    assert causes(explanation_of((await read(*silent(), healthy))[0])[1]) == ["not-ready"]
    forbidden, _ = await read(*silent(), refused=("nodes",))
    assert causes(explanation_of(forbidden)[1]) == ["not-ready"]
    assert any("you may not get nodes" in text for text in forbidden.unread_notes)


def restarting(*nodes: str, alone: bool = False) -> list[JSON]:
    """A Job of an earlier attempt that is being deleted, and such a pod on each node. `alone`: a rule restarts it."""
    counts = {"name": "workers", "ready": 0, "succeeded": 0, "failed": 0, "active": 1, "suspended": 0}
    status: JSON = {"replicatedJobsStatus": [{**counts, "jobRestarts": [1]}]} if alone else {"restarts": 1}
    js = a_set(**status)
    job = made(job_of(js, 0), active=1)
    pods = [made(pod_of(job, index, node=node)) for index, node in enumerate(nodes)]
    for body in (job, *pods):
        body["metadata"]["deletionTimestamp"] = at(MOMENT)
    for pod in pods:
        pod["metadata"]["labels"] |= {keys.JOBSET_UID: js["metadata"]["uid"]}
    return [js, job, *pods]


@pytest.mark.parametrize("alone", [False, True])
async def test_the_nodes_of_pods_that_a_restart_waits_for_are_looked_up(alone: bool):
    js, job, *pods = restarting("a", "b", "c", "d", "lost", alone=alone)
    for condition in pods[4]["status"]["conditions"]:
        condition["status"] = "False"
    other = made(pod_of(made(job_of(js, 0, attempt=1), uid="new"), node="e"))
    other["metadata"]["labels"] |= {keys.JOBSET_UID: js["metadata"]["uid"]}
    healthy = [{"kind": "Node", "metadata": {"name": name}} for name in "abcd"]
    found, asked = await read(js, job, *pods, other, *healthy)
    assert [pod.spec.node_name for pod in found.ending_pods] == ["lost", "a", "b", "c", "d"], (
        "what is not ready comes first"
    )
    assert [path.rpartition("/")[2] for path in asked if "/nodes/" in path] == ["lost", "a", "b"], "the first few"
    text, _ = explanation_of(found)
    assert "pod train-workers-0-4 is being deleted on node lost, which does not exist any more" in text
    refused, _ = await read(js, job, *pods, refused=("pods", "nodes"))
    assert any("you may not list pods" in text for text in refused.unread_notes)


async def test_the_nodes_of_a_restart_and_of_pods_that_are_not_ready_are_kept_apart():
    js, job, *pods = restarting("a")
    js["spec"]["replicatedJobs"].append(rjob("more"))
    quiet = silent()[2]
    more = made(job_of(js, 0, "more", attempt=1), uid="more", active=1)
    quiet = made(pod_of(more, node="node-3", containers=quiet["status"]["containerStatuses"]))
    found, _ = await read(js, job, *pods, more, quiet)
    assert found.nodes_by_name == {"a": None, "node-3": None}


def preempted(name: str = "train-workers-0-0-x") -> JSON:
    by = {"kind": "Pod", "namespace": "team-b", "name": "urgent-0"}
    about = {"kind": "Pod", "namespace": "default", "name": name}
    return {
        "kind": "Event",
        "metadata": {"name": name},
        **event("Preempted", "Preempted"),
        "regarding": about,
        "related": by,
    }


async def test_who_ended_pods_is_looked_up_after_a_failed_attempt():
    history = [
        {"attempt": n, "failedJob": "train-workers-0", "time": at(NOW - timedelta(minutes=9 - n))} for n in (0, 1)
    ]
    js = a_set(restarts=2, attemptHistory=history)
    job = made(job_of(js, 0, attempt=2), active=1, ready=1)
    found, asked = await read(js, job, preempted(), preempted("other-0"))
    assert {event.regarding.name for event in found.disruption_events} == {"train-workers-0-0-x"}
    assert "pod train-workers-0-0-x was preempted by pod team-b/urgent-0; 1 of 1" in explanation_of(found)[0]
    assert sum(path.endswith("/events") for path in asked) == 5
    later, asked = await read(a_set(), job, preempted())
    assert later.disruption_events == ()
    assert sum(path.endswith("/events") for path in asked) == 1, "nothing has failed"


async def test_who_ended_a_pod_is_looked_up_where_another_is_in_its_place():
    js = a_set()
    job = made(job_of(js, 0), active=1, startTime=at(MOMENT))
    pod = made(pod_of(job, unscheduled="0/2 nodes are available"))
    pod["metadata"]["creationTimestamp"] = at(MOMENT + timedelta(minutes=2))
    found, _ = await read(js, job, pod, preempted())
    assert causes(explanation_of(found)[1])[:2] == ["preempted", "unscheduled"]


async def test_a_manager_that_creates_nothing_is_told_from_none():
    unready = {"type": "Ready", "status": "False"}
    metadata = {"name": "manager-0", "labels": {"control-plane": "controller-manager"}}
    pod = {"kind": "Pod", "metadata": metadata, "status": {"conditions": [unready]}}
    text, body = explanation_of((await read(a_set(), pod))[0])
    assert causes(body) == ["missing", "manager-idle"]
    assert "it is not ready: a right is missing, or a cache is not filled" in text
    assert "kubectl get --raw" in text
    outside, body = explanation_of((await read(a_set()))[0])
    assert causes(body) == ["missing", "manager-idle"]
    assert "may it list what it reads?" in outside


async def test_the_pod_that_preempted_is_found_by_the_uid_of_the_note():
    js = a_set()
    job = made(job_of(js, 0), active=1, startTime=at(MOMENT))
    pod = made(pod_of(job, unscheduled="0/2 nodes are available"))
    pod["metadata"]["creationTimestamp"] = at(MOMENT + timedelta(minutes=2))
    urgent = {"kind": "Pod", "metadata": {"name": "urgent-0", "namespace": "team-b", "uid": "1-2"}}
    noted = {**preempted(), "note": "Preempted by pod 1-2 on node node-3"}
    del noted["related"]
    found, _ = await read(js, job, pod, noted, urgent)
    assert "pod train-workers-0-0-x was preempted by pod team-b/urgent-0" in explanation_of(found)[0]
    gone, _ = await read(js, job, pod, noted)
    assert "was preempted: Preempted by pod 1-2 on node node-3" in explanation_of(gone)[0]


async def test_events_about_pods_that_are_not_ready_are_read_once():
    js = a_set()
    job = made(job_of(js, 0, parallelism=3), active=3)
    creating = [{"name": "main", "ready": False, "state": {"waiting": {"reason": "ContainerCreating"}}}]
    pods = [made(pod_of(job, index, node="node-1", phase="Pending", containers=creating)) for index in range(3)]
    note = 'MountVolume.SetUp failed for volume "s" : secret "nope" not found'

    def warned(pod: str) -> JSON:
        about = {"kind": "Pod", "namespace": "default", "name": pod}
        return {"kind": "Event", "metadata": {"name": pod}, **event("FailedMount", note), "regarding": about}

    found, asked = await read(js, job, *pods, warned(pods[1]["metadata"]["name"]), warned("other-0"))
    assert [event.regarding.name for event in found.pod_warnings] == ["train-workers-0-1"]
    assert sum(path.endswith("/events") for path in asked) == 2, "one about the set, one about all pods"
    text, body = explanation_of(found)
    assert causes(body)[0] == "pod-not-started"
    assert f"pod train-workers-0-1 is not ready: FailedMount: {note}" in text
    for quiet in (pod_of(job, unscheduled="no"), pod_of(job, node="node-1")):
        _, asked = await read(js, job, made(quiet))
        assert sum(path.endswith("/events") for path in asked) == 1, "no kubelet has anything to say about it"


async def test_whether_claims_of_devices_exist_is_asked_for_where_no_scheduler_has_looked():
    js = a_set()
    job = made(job_of(js, 0), active=1)
    wanted = [{"name": name, "resourceClaimName": name} for name in ("there", "missing")]
    pod = made(pod_of(job, resourceClaims=[*wanted, {"name": "t", "resourceClaimTemplateName": "t"}]))
    claim = {"kind": "ResourceClaim", "metadata": {"name": "there", "namespace": "default"}}
    found, _ = await read(js, job, pod, claim)
    assert found.device_claim_exists == {"there": True, "missing": False}
    found, _ = await read(js, job, pod, claim, refused=("resourceclaims",))
    assert found.device_claim_exists == {}
    assert found.unread_notes == (
        "resource claims: you may not list resourceclaims, so whether they exist is not known",
    )
    scheduled = made(pod_of(job, unscheduled=UNBOUND, resourceClaims=wanted))
    _, paths = await read(js, job, scheduled, claim)
    assert not any("resourceclaims" in path for path in paths)


@pytest.mark.parametrize("field", ["suspend", "deletionTimestamp"])
async def test_pods_that_a_set_ends_are_read_while_its_jobs_have_some(field: str):
    js = a_set()
    js["spec"] |= {"suspend": True} if field == "suspend" else {}
    js["metadata"] |= {} if field == "suspend" else {field: at(MOMENT)}
    for status, read_pods in (({"active": 1}, True), ({"terminating": 1}, True), ({"active": 0}, False)):
        job = made(job_of(js, 0), **status)
        pod = made(pod_of(job, node="node-0"))
        pod["metadata"]["deletionTimestamp"] = at(MOMENT)
        found, _ = await read(js, job, pod)
        assert [ending.name for ending in found.ending_pods] == [pod["metadata"]["name"]] * read_pods


async def test_workloads_of_kueue_are_read_for_suspended_sets_of_a_queue():
    js = a_set()
    js["spec"]["suspend"] = True
    admitted = {"conditions": [{"type": "Admitted", "status": "True", "lastTransitionTime": at(MOMENT)}]}
    meta = {"name": "w", "labels": {"kueue.x-k8s.io/job-uid": js["metadata"]["uid"]}}
    kueue = {"kind": "APIGroup", "metadata": {"name": "kueue.x-k8s.io"}}
    workload = {"kind": "Workload", "metadata": meta, "status": admitted}
    _, paths = await read(js, kueue, workload)
    assert not any("workloads" in path for path in paths)
    js["metadata"]["labels"] = {keys.QUEUE_NAME: "gpus"}
    found, _ = await read(js, kueue, workload)
    assert "admitted-not-resumed" in causes(explanation_of(found)[1])
    meta["labels"] = {"kueue.x-k8s.io/job-uid": "another"}
    found, _ = await read(js, kueue, workload)
    assert "suspended" in causes(explanation_of(found)[1])
    found, _ = await read(js, kueue, workload, refused=("workloads",))
    assert [note for note in found.unread_notes if "you may not list workloads.kueue.x-k8s.io" in note]


@pytest.mark.parametrize(
    ("status", "meta", "is_read"),
    [
        ({"active": 0, "terminating": 1}, {}, True),
        ({"active": 1}, {"deletionTimestamp": at(MOMENT)}, True),
        ({"active": 1}, {}, False),
    ],
)
async def test_pods_that_a_job_waits_for_are_read(status: JSON, meta: JSON, is_read: bool):
    js = a_set()
    job = made(job_of(js, 0), **status)
    job["metadata"] |= meta
    pod = made(pod_of(job, node="node-0"))
    pod["metadata"]["deletionTimestamp"] = at(MOMENT)
    found, _ = await read(js, job, pod)
    assert [ending.name for ending in found.ending_pods] == [pod["metadata"]["name"]] * is_read


@pytest.mark.parametrize(
    ("attempts", "previous", "late"),
    [
        (("0", "0", "0"), None, []),
        (("0", None, "x"), None, [1, 2]),
        ((None, None, None), None, [0, 1, 2]),
        (("1", "0", "1"), 0, [1]),
        (("0", "0", "0"), 0, [0, 1, 2]),
        (("1", "1", "1"), 0, []),
    ],
)
async def test_agents_that_hold_up_all_workers_are_named(attempts, previous, late: list[int]):
    workers = rjob(parallelism=3, completions=3)
    policy = {"maxRestarts": 9, "restartStrategy": "InPlaceRestart"}
    js = made(stored(jobset(workers, failurePolicy=policy)), previousInPlaceRestartAttempt=previous)
    job = made(job_of(js, 0), active=3, ready=3)
    pods = [pod_of(job, index, node="n1") for index in range(3)]
    for pod, attempt in zip(pods, attempts, strict=True):
        pod["metadata"]["annotations"] |= {} if attempt is None else {keys.IN_PLACE_RESTART_ATTEMPT: attempt}
    found, _ = await read(js, job, *map(made, pods))
    names = [f"train-workers-0-{index}" for index in late]
    assert [pod.metadata.name for pod in found.pods_without_agent_report] == names
    text, body = explanation_of(found)
    assert causes(body) == ["agent-late"] * bool(late)
    if late:
        assert f"{len(late)} pod" in text
        assert f"kubectl logs -n default {names[0]}" in text


async def test_agents_of_a_set_that_does_not_wait_for_them_are_not_looked_up():
    policy = {"maxRestarts": 9, "restartStrategy": "InPlaceRestart"}
    js = made(stored(jobset(rjob(), failurePolicy=policy)))
    js["metadata"]["annotations"] = {keys.DISABLE_IN_PLACE_RESTART: "true"}
    _, paths = await read(js, made(job_of(js, 0), active=1, ready=1))
    assert not [path for path in paths if path.endswith("/pods")]
