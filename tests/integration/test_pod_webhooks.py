"""Pods on a real API server with the pod webhooks: which are called how often, and what happens while none answers.

What they make of each kind of pod is in the table of test_pod_policies.py.
"""

import asyncio
import collections
import concurrent.futures
import contextlib
import copy
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from api import keys
from api.exclusive import Domain, NoDomain, TermForm
from dev.cluster.cluster import Cluster
from dev.cluster.spec import ClusterSpec
from httpserver.address import bind
from httpserver.server import Server
from manifests import webhook_configurations
from tests.support.cluster.requests import OwnCluster, drop_namespace, new_namespace, request, wait_for
from tests.support.objects.jobsets import JSON, jobset, rjob
from tests.support.objects.pods import KNOWN, RACK, UNKNOWN, exclusive, pod_of
from tests.support.tls import context_with, material
from webhooks.pod.handlers import MUTATE_PATH, VALIDATE_PATH, pod_handlers
from webhooks.review import AdmissionRequest, AdmissionResponse, Handler
from webhooks.router import create_app

QUICK = 1.5  # seconds, on a busy machine: less than any timeout of ours
HIGH = "high"


class Played:
    """The handlers with answers that a test chooses; counts the calls of each path."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.answer: Domain | NoDomain = UNKNOWN
        self.form = TermForm.LABEL_KEYS
        self.without_patch = False
        self.delay = 0.0
        self.calls: collections.Counter[str] = collections.Counter()

    def find(self, namespace: str, job_uid: str, topology: str) -> Domain | NoDomain:
        return self.answer

    async def wait_for_domain(self, namespace: str, job_uid: str, topology: str) -> Domain | NoDomain:
        return self.answer

    def handlers(self) -> dict[str, Handler]:
        return {path: self._counted(path, call) for path, call in pod_handlers(self, lambda: self.form).items()}

    def _counted(self, path: str, call: Handler) -> Handler:
        async def counted(review: AdmissionRequest) -> AdmissionResponse:
            self.calls[path] += 1
            await asyncio.sleep(self.delay)
            response = await call(review)
            return AdmissionResponse() if self.without_patch and response.allowed else response

        return counted


@contextlib.contextmanager
def answering(played: Played) -> Iterator[list[JSON]]:
    """Serve beside the test; the webhook configurations that lead there."""
    listener, pair = bind(("127.0.0.1", 0), "webhooks"), material()
    ready: concurrent.futures.Future[tuple[asyncio.AbstractEventLoop, Server]] = concurrent.futures.Future()

    async def serve() -> None:
        server = Server(create_app(played.handlers()), listener, context_with(pair))
        async with asyncio.TaskGroup() as group:
            group.create_task(server.run())
            await server.started.wait()
            ready.set_result((asyncio.get_running_loop(), server))

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    loop, server = ready.result(30)
    try:
        yield webhook_configurations(url_base=f"https://127.0.0.1:{server.port}", ca_bundle=pair.authorities)
    finally:
        loop.call_soon_threadsafe(server.stop)
        thread.join(30)


def install(cluster: Cluster, configurations: list[JSON]) -> None:
    for body in configurations:
        resource = body["kind"].lower() + "s"
        path = f"/apis/admissionregistration.k8s.io/v1/{resource}"
        status, answer = request(cluster, "POST", path, body)
        assert status == 201, answer
    body = {"metadata": {"name": HIGH}, "value": 1000}
    assert request(cluster, "POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body)[0] == 201
    assert request(cluster, "POST", "/api/v1/namespaces", {"metadata": {"name": "jobset-system"}})[0] == 201


@pytest.fixture(scope="module")
def served(own_cluster: OwnCluster) -> Iterator[tuple[Cluster, Played]]:
    """An API server of its own with our pod webhooks behind it."""
    spec = ClusterSpec(name="pods", profile="api")
    played = Played()
    with (
        own_cluster(spec) as cluster,
        answering(played) as configurations,
    ):
        install(cluster, configurations)
        played.without_patch = True
        wait_for(lambda: dry(cluster, exclusive_pod(1))[0] == 403 and played.calls[VALIDATE_PATH], what="the webhooks")
        wait_for(lambda: dry(cluster, pod_of(jobset())) and played.calls[MUTATE_PATH] > 1, what="the label's webhook")
        yield cluster, played


@pytest.fixture(scope="module")
def deserted(own_cluster: OwnCluster) -> Iterator[Cluster]:
    """An API server of its own with pod webhooks that nobody answers."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
    with own_cluster(ClusterSpec(name="deserted", profile="api")) as cluster:
        url = f"https://127.0.0.1:{port}"
        install(cluster, webhook_configurations(url_base=url, ca_bundle=material().authorities))
        wait_for(lambda: dry(cluster, exclusive_pod(0))[0] == 500, what="the webhooks")
        yield cluster


@pytest.fixture
def played(served: tuple[Cluster, Played]) -> Played:
    served[1].reset()
    return served[1]


@pytest.fixture
def server(served: tuple[Cluster, Played], played: Played) -> Cluster:
    return served[0]


def exclusive_pod(index: int | None, **pod: Any) -> JSON:
    return pod_of(exclusive(rjob(pod=pod)), index)


def labelled(pod: JSON, priority: int = 0) -> JSON:
    """With the label that the JobSet controller has put into the Job's template."""
    pod["metadata"]["labels"][keys.PRIORITY] = str(priority)
    return pod


def ordinary() -> JSON:
    containers = [{"name": "main", "image": "busybox"}]
    return {"metadata": {"generateName": "p-"}, "spec": {"restartPolicy": "Never", "containers": containers}}


def post(cluster: Cluster, namespace: str, pod: JSON, query: str = "") -> tuple[int, JSON]:
    body = copy.deepcopy(pod)
    body["metadata"]["namespace"] = namespace
    return request(cluster, "POST", f"/api/v1/namespaces/{namespace}/pods{query}", body)


def dry(cluster: Cluster, pod: JSON) -> tuple[int, JSON]:
    return post(cluster, "default", pod, "?dryRun=All")


def create(cluster: Cluster, namespace: str, pod: JSON) -> JSON:
    status, body = post(cluster, namespace, pod)
    assert status == 201, body
    return body


def classy(priority: int) -> JSON:
    """A pod of a JobSet with a priority class, and the label for this priority."""
    return labelled(pod_of(jobset(rjob(pod={"priorityClassName": HIGH}))), priority)


ONE, NONE = {MUTATE_PATH: 1}, {}
CALLS: dict[str, tuple[JSON, dict[str, int], str | None]] = {
    "an ordinary pod": (ordinary(), NONE, None),
    "a pod of a JobSet with its label": (labelled(pod_of(jobset())), NONE, "0"),
    "a pod of a JobSet with its label and a class": (classy(1000), NONE, "1000"),
    "a pod of a JobSet without the label": (pod_of(jobset()), ONE, "0"),
    "a pod of a JobSet whose class has changed": (classy(7), ONE, "1000"),
    "a leader": (exclusive_pod(0), ONE, "0"),
    "a leader with its label": (labelled(exclusive_pod(0)), ONE, "0"),
    "a follower": (exclusive_pod(1), ONE, "0"),
    "a follower with its label": (labelled(exclusive_pod(1)), ONE, "0"),
    "index 0 by the node-selector strategy": (pod_of(exclusive(node_selector=True), 0), NONE, None),
    "index 1 by the node-selector strategy": (pod_of(exclusive(node_selector=True), 1), NONE, None),
}


@pytest.mark.parametrize("answer", [KNOWN, UNKNOWN], ids=["known", "unknown"])
@pytest.mark.parametrize("case", CALLS)
def test_as_few_webhooks_are_called_as_can_be(server, played, ns, case, answer):
    pod, calls, label = CALLS[case]
    played.answer = answer
    stored = create(server, ns, pod)
    assert played.calls == calls
    assert stored["metadata"].get("labels", {}).get(keys.PRIORITY) == label


def test_updates_and_deletions_call_no_webhook(server, played, ns):
    played.answer = UNKNOWN
    stored = create(server, ns, exclusive_pod(1))
    played.calls.clear()
    where = f"/api/v1/namespaces/{ns}/pods/{stored['metadata']['name']}"
    # What the controller does when it lifts the gate.
    lift = {
        "metadata": {"labels": {keys.AWAITS_LEADER: None}},
        "spec": {
            "nodeSelector": {RACK: "rack-7"},
            "schedulingGates": [{"$patch": "delete", "name": keys.PLACEMENT_GATE}],
        },
    }
    status, body = request(server, "PATCH", where, lift, "application/strategic-merge-patch+json")
    assert status == 200, body
    assert "schedulingGates" not in body["spec"]
    assert request(server, "DELETE", where)[0] == 200
    assert played.calls == {}


def test_a_follower_of_a_bound_leader_is_stored_ready_to_run(server, played, ns):
    played.answer = KNOWN
    stored = create(server, ns, exclusive_pod(1, nodeSelector={"zone": "z"}))
    assert stored["spec"]["nodeSelector"] == {"zone": "z", RACK: "rack-7"}
    assert "schedulingGates" not in stored["spec"]
    assert keys.AWAITS_LEADER not in stored["metadata"]["labels"]


def test_a_follower_that_nothing_holds_is_refused_with_the_leader_and_the_reason(server, played):
    """As when another webhook takes away the gate: ours answers, and its patch is lost."""
    played.without_patch = True
    status, body = dry(server, exclusive_pod(1))
    assert (status, body["reason"]) == (403, "Forbidden")
    start = 'admission webhook "vpod.kb.io" denied the request: leader pod not yet scheduled, not creating follower'
    assert body["message"].startswith(start)
    assert UNKNOWN.reason in body["message"]
    assert played.calls == {MUTATE_PATH: 1, VALIDATE_PATH: 1}


@pytest.mark.parametrize("index", [0, 1])
def test_without_our_patch_only_followers_are_looked_at_again(server, played, index):
    played.without_patch = True
    pod = exclusive_pod(index)
    if index:
        pod["spec"]["nodeSelector"] = {RACK: "rack-1"}
    assert dry(server, pod)[0] == 201
    assert played.calls == ONE


def test_annotations_or_labels_that_are_missing_break_no_condition(server, played, ns):
    """A condition that fails refuses the pod: the fields it looks at must be free to be absent."""
    pod = exclusive_pod(1)
    pod["metadata"].pop("annotations")
    create(server, ns, pod)
    pod["metadata"]["annotations"] = {}
    create(server, ns, pod)
    assert played.calls == {}


def test_the_label_is_not_waited_for_long(server, played, ns):
    played.delay = 4
    begun = time.monotonic()
    stored = create(server, ns, pod_of(jobset()))
    assert 2 <= time.monotonic() - begun < 2 + QUICK
    assert keys.PRIORITY not in stored["metadata"]["labels"]


def job() -> JSON:
    return {"metadata": {"generateName": "j-"}, "spec": {"template": {"spec": ordinary()["spec"]}}}


def test_without_webhooks_all_but_exclusive_pods_are_created_quickly(deserted):
    namespace = new_namespace(deserted)
    begun = time.monotonic()
    stored = create(deserted, namespace, pod_of(jobset()))
    assert keys.PRIORITY not in stored["metadata"]["labels"]
    for pod in (ordinary(), labelled(pod_of(jobset())), pod_of(exclusive(node_selector=True), 1)):
        create(deserted, namespace, pod)
    assert request(deserted, "POST", f"/apis/batch/v1/namespaces/{namespace}/jobs", job())[0] == 201
    assert time.monotonic() - begun < QUICK
    drop_namespace(deserted, namespace)


@pytest.mark.parametrize("index", [0, 1])
def test_without_webhooks_exclusive_pods_are_refused_with_a_clear_message(deserted, index):
    status, body = dry(deserted, exclusive_pod(index))
    assert status == 500
    assert body["message"].startswith('Internal error occurred: failed calling webhook "mpod.kb.io": ')
    assert "connection refused" in body["message"]
