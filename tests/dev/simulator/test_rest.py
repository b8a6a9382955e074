"""The simulated API server keeps the promises that clients rely on, and refuses what no cluster would have."""

import json
from collections import deque

import pytest

from api import keys
from controllers.resources import JOBSETS
from dev.simulator.api_server import ApiServer
from dev.simulator.rest import Request, Rest
from dev.simulator.selectors import SelectorError, parse
from dev.simulator.storage import TooOldError
from kube.model.meta import JSON

NS = "training"
JOBS_PATH = f"/apis/batch/v1/namespaces/{NS}/jobs"
PODS_PATH = f"/api/v1/namespaces/{NS}/pods"
JOBSETS_PATH = JOBSETS.path(NS)
MERGE = "application/merge-patch+json"
WORKERS = {"name": "workers", "replicas": 2}
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


@pytest.fixture
def server() -> Rest:
    """Two JobSets of two Jobs with four pods each."""
    objects = ApiServer()
    for js in ("train-00", "train-01"):
        objects.create("jobsets", NS, {"metadata": {"name": js}, "spec": {"replicatedJobs": [WORKERS]}})
        for index in "01":
            job, of_set = f"{js}-workers-{index}", {keys.JOBSET_NAME: js, keys.RESTART_ATTEMPT: "0"}
            objects.create("jobs", NS, _labelled(job, {**of_set, keys.JOB_INDEX: index}))
            for number in range(4):
                objects.create("pods", NS, _labelled(f"{job}-{number}", {**of_set, "job-name": job}))
    objects.storage.compact()
    return Rest(objects)


def _labelled(name: str, labels: dict[str, str]) -> JSON:
    return {"metadata": {"name": name, "labels": labels}, "spec": {"template": {"spec": {}}}}


def ask(server: Rest, method: str, path: str, body: object = None, *, headers=None, **query: str):
    data = b"" if body is None else json.dumps(body).encode()
    return server.handle(Request(method, path, query, {"user-agent": "test", **(headers or {})}, data))


def ask_for_json(server: Rest, method: str, path: str, body: object = None, *, code: int = 200, **rest):
    answer = ask(server, method, path, body, **rest)
    assert answer.status == code, answer.body
    return json.loads(answer.body)


def names(listed) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]


def fail(server: Rest, job: str) -> None:
    """The Job controller writes that a Job has failed."""
    status = {"conditions": [{"type": "Failed", "status": "True"}]}
    server.server.patch("jobs", (NS, job), {"status": status}, "status")


def events(server: Rest, path: str, since: int, **query: str) -> list[tuple[str, str]]:
    """(type, name) of what a watch delivers of the events since a version."""
    watch = server.watch(Request("GET", path, query, {"accept": METADATA}, b""), server.target(path))
    found = [json.loads(line) for line in watch.lines_since(since)]
    assert all(event["object"]["kind"] == "PartialObjectMetadata" for event in found)
    return [(event["type"], event["object"]["metadata"]["name"]) for event in found]


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("", ["a", "b", "none"]),
        ("k=1", ["a"]),
        ("k==1", ["a"]),
        ("k!=1", ["b", "none"]),
        ("k in (1, 2)", ["a", "b"]),
        ("k notin (1)", ["b", "none"]),
        ("k", ["a", "b"]),
        ("!k", ["none"]),
        ("k in (1,2),other!=x,k notin (2)", ["a"]),
    ],
)
def test_selectors_select_as_kubernetes_documents_them(text, selected):
    labels = {"a": {"k": "1"}, "b": {"k": "2"}, "none": {}}
    assert [name for name, found in labels.items() if parse(text).is_met(found.get)] == selected


def test_a_selector_may_ask_for_an_empty_value():
    assert parse("k=").is_met({"k": ""}.get)
    assert not parse("k=").is_met({"k": "1"}.get)


@pytest.mark.parametrize("text", ["k in 1", "a b", "k in (1", "=x"])
def test_a_selector_that_cannot_be_parsed_is_refused(server, text):
    with pytest.raises(SelectorError):
        parse(text)
    ask_for_json(server, "GET", PODS_PATH, labelSelector=text, code=400)


def test_a_list_is_selected_by_labels_and_given_in_pages(server):
    of_one = f"{keys.JOBSET_NAME}=train-00,{keys.JOB_INDEX} in (1)"
    assert names(ask_for_json(server, "GET", JOBS_PATH, labelSelector=of_one)) == ["train-00-workers-1"]
    pages, token = [], ""
    while True:
        page = ask_for_json(server, "GET", PODS_PATH, limit="5", **({"continue": token} if token else {}))
        pages.append(names(page))
        token = page["metadata"].get("continue", "")
        if not token:
            break
    assert [len(page) for page in pages] == [5, 5, 5, 1]
    assert [name for page in pages for name in page] == names(ask_for_json(server, "GET", PODS_PATH))


def test_who_asks_for_metadata_gets_no_more(server):
    listed = ask_for_json(server, "GET", PODS_PATH, headers={"accept": METADATA}, limit="1")
    assert {*listed["items"][0]} == {"kind", "apiVersion", "metadata"}


def test_a_watch_from_a_version_gets_the_events_since_then(server):
    version = server.server.storage.version
    fail(server, "train-00-workers-0")
    for name in ("train-00", "train-01"):
        ask_for_json(server, "DELETE", f"{JOBS_PATH}/{name}-workers-0", {"propagationPolicy": "Background"})
    selected = events(server, JOBS_PATH, version, labelSelector=f"{keys.JOBSET_NAME}=train-00")
    assert selected == [("MODIFIED", "train-00-workers-0"), ("DELETED", "train-00-workers-0")]


def test_a_watch_from_before_what_is_remembered_has_to_list_again(server):
    version = server.server.storage.version
    server.server.storage["jobs"].history = deque(maxlen=2)
    for name in ("train-00-workers-0", "train-01-workers-0", "train-00-workers-1"):
        fail(server, name)
    with pytest.raises(TooOldError):
        events(server, JOBS_PATH, version)


def test_watches_and_pages_from_before_what_is_forgotten_have_expired(server):
    version = server.server.storage.version
    page = ask_for_json(server, "GET", PODS_PATH, limit="5")["metadata"]["continue"]
    fail(server, "train-00-workers-0")
    server.server.storage.compact()
    with pytest.raises(TooOldError):
        events(server, JOBS_PATH, version)
    ask_for_json(server, "GET", PODS_PATH, **{"continue": page}, code=410)


def test_an_object_that_leaves_the_selection_is_deleted_for_the_watch(server):
    version = server.server.storage.version
    path, headers = f"{JOBS_PATH}/train-00-workers-0", {"content-type": MERGE}
    for value in ("yes", "yes", None):
        patch = {"metadata": {"labels": {"mine": value}}}
        ask_for_json(server, "PATCH", path, patch, headers=headers)
    job = "train-00-workers-0"
    selected = events(server, JOBS_PATH, version, labelSelector="mine=yes")
    assert selected == [("ADDED", job), ("DELETED", job)], "the second patch changes nothing"


def test_pods_are_deleted_by_selector(server):
    version = server.server.storage.version
    selector = f"{keys.JOBSET_NAME}=train-00,{keys.RESTART_ATTEMPT} in (0)"
    ask_for_json(server, "DELETE", PODS_PATH, labelSelector=selector)
    gone = events(server, PODS_PATH, version, labelSelector="job-name=train-00-workers-0")
    assert [kind for kind, _ in gone] == ["DELETED"] * 4
    assert len(server.server.storage["pods"].objects) == 8


def test_what_no_cluster_would_have_is_refused(server):
    job = ask_for_json(server, "GET", f"{JOBS_PATH}/train-00-workers-0")
    again = {"metadata": {"name": "train-00-workers-0"}, "spec": job["spec"]}
    assert ask_for_json(server, "POST", JOBS_PATH, again, code=409)["reason"] == "AlreadyExists"
    ask_for_json(server, "GET", "/apis/scheduling.k8s.io/v1beta1/unknown", code=404)
    stale = {"preconditions": {"uid": "of-another"}}
    ask_for_json(server, "DELETE", f"{JOBS_PATH}/train-00-workers-0", stale, code=409)


@pytest.mark.parametrize(
    ("content", "body", "code"),
    [
        ("application/vnd.kubernetes.protobuf", b"k8s\0\n", 415),
        ("application/json", b"k8s\0\n", 400),
        ("application/json", b'{"kind": "\xff"}', 400),
        ("", b"{", 400),
        ("", b"null", 400),
        ("", b"[]", 400),
    ],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", JOBS_PATH), ("DELETE", JOBS_PATH), ("DELETE", f"{JOBS_PATH}/train-00-workers-0")],
)
def test_a_body_that_is_no_json_object_is_refused(server, method, path, content, body, code):
    headers = {"user-agent": "test", **({"content-type": content} if content else {})}
    answer = server.handle(Request(method, path, {}, headers, body))
    assert answer.status == code
    assert json.loads(answer.body)["message"].startswith(f"{method} {path}: ")
    assert len(server.server.storage["jobs"].objects) == 4, "nothing is created or deleted"


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ({"restarts": 1}, 200),
        ({"restarts": -1}, 422),
        ({"replicatedJobsStatus": [{"name": "workers", "ready": 2, "succeeded": 1}]}, 422),
        ({"replicatedJobsStatus": [{"name": "unknown", "ready": 1}]}, 422),
    ],
)
def test_a_status_that_cannot_be_true_is_refused(server, status, code):
    path, headers = f"{JOBSETS_PATH}/train-00/status", {"content-type": MERGE}
    ask_for_json(server, "PATCH", path, {"status": status}, headers=headers, code=code)


def test_a_write_on_an_old_version_is_a_conflict(server):
    path, headers = f"{JOBSETS_PATH}/train-00/status", {"content-type": MERGE}
    old = ask_for_json(server, "GET", f"{JOBSETS_PATH}/train-00")["metadata"]["resourceVersion"]
    patch = {"metadata": {"resourceVersion": old}, "status": {"restarts": 1}}
    stored = ask_for_json(server, "PATCH", path, patch, headers=headers)
    assert stored["metadata"]["generation"] == 1
    ask_for_json(server, "PATCH", path, patch, headers=headers, code=409)
