"""The simulated API server keeps the promises that managers rely on, and refuses what no cluster would have."""

import dataclasses
import json
import sys
from collections import deque
from collections.abc import Callable

import pytest

from api import keys
from controllers.resources import JOBSETS
from dev.bench.simulated.fleet import NAMESPACE, Fleet, fill, jobset
from dev.bench.simulated.run import measure, rows
from dev.bench.simulated.server import Server
from dev.simulator.rest import Answer, Request, Stream
from dev.simulator.selectors import SelectorError, parse

JOBS_PATH = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
PODS_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"
JOBSETS_PATH = JOBSETS.path(NAMESPACE)
FLEET = Fleet(domains=4, nodes=2, jobsets=2, jobs=2, pods=4)
MERGE = "application/merge-patch+json"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


class Turns:
    """The event loop of the cluster, turned by hand."""

    def __init__(self, server: Server) -> None:
        self._acts: list[Callable[[], object]] = []
        server.cluster.call_soon = self._acts.append

    def run(self) -> None:
        while self._acts:
            self._acts.pop(0)()


@pytest.fixture
def server() -> Server:
    return Server(FLEET)


@pytest.fixture
def turns(server: Server) -> Turns:
    return Turns(server)


def ask(server: Server, method: str, path: str, body: object = None, *, headers=None, **query: str):
    data = b"" if body is None else json.dumps(body).encode()
    return server.handle(Request(method, path, query, {"user-agent": "test", **(headers or {})}, data))


def ask_for_json(server: Server, method: str, path: str, body: object = None, *, code: int = 200, **rest):
    answer = ask(server, method, path, body, **rest)
    assert isinstance(answer, Answer)
    assert answer.status == code, answer.body
    return json.loads(answer.body)


def names(listed) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]


class Watch:
    """What a watch has delivered so far."""

    def __init__(self, server: Server, path: str, *, headers=None, **query: str) -> None:
        self.lines: list[bytes] = []
        stream = ask(server, "GET", path, headers=headers, watch="true", **query)
        assert isinstance(stream, Stream)
        self.end = stream.begin(self.lines.append)

    def events(self) -> list[tuple[str, str]]:
        """(type, name) of what was delivered since the last call."""
        said = [json.loads(line) for line in self.lines]
        self.lines.clear()
        return [(event["type"], event["object"]["metadata"].get("name", "")) for event in said]


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
    assert [name for name, found in labels.items() if parse(text).met(found.get)] == selected


def test_a_selector_may_ask_for_an_empty_value():
    assert parse("k=").met({"k": ""}.get)
    assert not parse("k=").met({"k": "1"}.get)


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


def test_a_streaming_list_ends_with_a_bookmark_and_continues_as_a_watch(server, turns):
    query = {"labelSelector": f"{keys.JOBSET_NAME}=train-00", "sendInitialEvents": "true"}
    watch = Watch(server, JOBS_PATH, **query)
    bookmark = json.loads(watch.lines[-1])
    assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert watch.events() == [("ADDED", "train-00-workers-0"), ("ADDED", "train-00-workers-1"), ("BOOKMARK", "")]
    for name in ("train-00", "train-01"):
        ask_for_json(server, "DELETE", f"{JOBS_PATH}/{name}-workers-0", {"propagationPolicy": "Background"})
    assert watch.events() == [("DELETED", "train-00-workers-0")]


def test_a_watch_from_a_version_gets_the_events_since_then(server, turns):
    version = ask_for_json(server, "GET", JOBS_PATH)["metadata"]["resourceVersion"]
    server.cluster.fail((NAMESPACE, "train-00-workers-0"))
    ask_for_json(server, "DELETE", f"{JOBS_PATH}/train-00-workers-0", {"propagationPolicy": "Background"})
    watch = Watch(server, JOBS_PATH, resourceVersion=version)
    assert watch.events() == [("MODIFIED", "train-00-workers-0"), ("DELETED", "train-00-workers-0")]


def test_a_watch_from_before_what_is_remembered_has_to_list_again(server):
    server.storage["jobs"].history = deque(maxlen=2)
    for index in "01":
        server.cluster.fail((NAMESPACE, f"train-00-workers-{index}"))
        server.cluster.fail((NAMESPACE, f"train-01-workers-{index}"))
    ask_for_json(server, "GET", JOBS_PATH, watch="true", resourceVersion="2", code=410)


def test_all_watches_end_when_what_has_happened_is_forgotten(server):
    version = ask_for_json(server, "GET", JOBS_PATH)["metadata"]["resourceVersion"]
    watches = [Watch(server, path, resourceVersion=version) for path in (JOBS_PATH, PODS_PATH)]
    page = ask_for_json(server, "GET", PODS_PATH, limit="5")["metadata"]["continue"]
    server.cluster.fail((NAMESPACE, "train-00-workers-0"))
    for watch in watches:
        watch.lines.clear()
    ask_for_json(server, "POST", "/simulated/expire")
    for watch in watches:
        [said] = [json.loads(line) for line in watch.lines]
        assert (said["type"], said["object"]["code"], said["object"]["reason"]) == ("ERROR", 410, "Expired")
        watch.lines.clear()
    ask_for_json(server, "GET", JOBS_PATH, watch="true", resourceVersion=version, code=410)
    ask_for_json(server, "GET", PODS_PATH, **{"continue": page}, code=410)
    again = Watch(server, JOBS_PATH, sendInitialEvents="true")
    server.cluster.fail((NAMESPACE, "train-01-workers-0"))
    assert again.events()[-1] == ("MODIFIED", "train-01-workers-0")
    assert [watch.lines for watch in watches] == [[], []], "they have ended"
    for watch in watches:
        watch.end()  # the client is gone, too


def test_an_object_that_leaves_the_selection_is_deleted_for_the_watch(server, turns):
    watch = Watch(server, JOBS_PATH, labelSelector="mine=yes", sendInitialEvents="true")
    path, headers = f"{JOBS_PATH}/train-00-workers-0", {"content-type": MERGE}
    for value in ("yes", "yes", None):
        patch = {"metadata": {"labels": {"mine": value}}}
        ask_for_json(server, "PATCH", path, patch, headers=headers)
    job = "train-00-workers-0"
    # The second patch changes nothing, and so is no event.
    assert watch.events() == [("BOOKMARK", ""), ("ADDED", job), ("DELETED", job)]
    watch.end()
    ask_for_json(server, "PATCH", path, {"metadata": {"labels": {"mine": "yes"}}}, headers=headers)
    assert watch.events() == []


def test_a_job_that_is_created_runs_in_a_domain_of_its_own(server, turns):
    job = ask_for_json(server, "GET", f"{JOBS_PATH}/train-00-workers-0")
    assert job["status"]["ready"] == 4
    jobs = {}
    for pod in ask_for_json(server, "GET", PODS_PATH)["items"]:
        domain = pod["spec"]["nodeName"].rpartition("-")[0]
        jobs.setdefault(domain, set()).add(pod["metadata"]["labels"]["job-name"])
    assert [len(names) for names in jobs.values()] == [1, 1, 1, 1]


def test_foreground_deletion_shows_the_job_until_its_pods_are_gone(server, turns):
    watch = Watch(server, JOBS_PATH, sendInitialEvents="true")
    watch.events()
    left = ask_for_json(server, "DELETE", f"{JOBS_PATH}/train-00-workers-0", {"propagationPolicy": "Foreground"})
    assert left["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert left["metadata"]["deletionTimestamp"]
    assert watch.events() == [("MODIFIED", "train-00-workers-0")]
    turns.run()
    assert watch.events() == [("DELETED", "train-00-workers-0")]
    assert len(server.storage["pods"].objects) == 12


def test_pods_are_deleted_by_selector(server, turns):
    watch = Watch(
        server,
        PODS_PATH,
        labelSelector="job-name=train-00-workers-0",
        headers={"accept": METADATA},
        sendInitialEvents="true",
    )
    watch.events()
    ask_for_json(
        server, "DELETE", PODS_PATH, labelSelector=f"{keys.JOBSET_NAME}=train-00,{keys.RESTART_ATTEMPT} in (0)"
    )
    assert [kind for kind, _ in watch.events()] == ["MODIFIED", "DELETED"] * 4
    assert len(server.storage["pods"].objects) == 8


def test_what_no_cluster_would_have_is_refused(server):
    with pytest.raises(ValueError, match="5 exclusive Jobs cannot run in 4 domains"):
        Fleet(domains=4, nodes=1, jobsets=1, jobs=5, pods=1)
    job = ask_for_json(server, "GET", f"{JOBS_PATH}/train-00-workers-0")
    again = {"metadata": {"name": "train-00-workers-0"}, "spec": job["spec"]}
    assert ask_for_json(server, "POST", JOBS_PATH, again, code=409)["reason"] == "AlreadyExists"
    nobody = {"apiVersion": JOBSETS.api_version, "kind": "JobSet", "name": "train-00", "uid": "of-another"}
    orphan = {"metadata": {"name": "new", "ownerReferences": [nobody]}, "spec": job["spec"]}
    assert "does not exist" in ask_for_json(server, "POST", JOBS_PATH, orphan, code=422)["message"]
    ask_for_json(server, "GET", "/apis/scheduling.k8s.io/v1beta1/workloads", code=404)
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
    assert isinstance(answer, Answer)
    assert answer.status == code
    assert json.loads(answer.body)["message"].startswith(f"{method} {path}: ")
    assert len(server.storage["jobs"].objects) == FLEET.jobsets * FLEET.jobs, "nothing is created or deleted"


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ({"restarts": 1}, 200),
        ({"restarts": -1}, 422),
        ({"replicatedJobsStatus": [{"name": "workers", "ready": 2, "succeeded": 1}]}, 422),
        ({"replicatedJobsStatus": [{"name": "nobody", "ready": 1}]}, 422),
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


def test_calls_of_the_manager_are_counted_and_others_are_not(server):
    ask_for_json(server, "GET", JOBS_PATH)
    ask_for_json(server, "GET", f"{JOBS_PATH}/nothing", code=404)
    server.handle(Request("GET", JOBS_PATH, {}, {}, b""))
    assert server.counts()["calls"] == [["get", "jobs", 404, 1], ["list", "jobs", 200, 1]]
    assert server.counts()["first_write"] is None


def test_a_fleet_is_what_it_says(server):
    counts = server.counts()
    assert (counts["nodes"], counts["pods"]) == (8, 16)
    assert server.jobsets() == {name: {"restarts": 0, "ready": 2} for name in ("train-00", "train-01")}
    assert server.running() == {"train-00": 2, "train-01": 2}
    with pytest.raises(Exception, match="already exists"):
        fill(server.cluster, FLEET)
    assert jobset("x", 3, 2, exclusive=False)["metadata"]["annotations"] == {}


def test_the_manager_restarts_a_fleet_under_it():
    """The real manager as a process: starts, restarts all, and makes the calls that have to be made."""
    result = measure([sys.executable, "-m", "cli", "manager"], FLEET, single=5)
    restart = result["restart"]
    assert (restart["jobs"], restart["pods"]) == (4, 16)
    counted = {(verb, resource): count for verb, resource, code, count in restart["calls"] if code < 300}
    assert counted["create", "jobs"] == 4
    assert all(code < 300 for _, _, code, _ in restart["calls"])
    assert result["single"]["restart"]["pods"] == 5
    assert [row["phase"].partition(":")[0] for row in rows(result)] == [
        "start",
        "restart of all",
        "one pod a Job, create",
        "one pod a Job, restart",
    ]


def test_nodes_report_in_turn_and_jobsets_watch_them():
    server = Server(dataclasses.replace(FLEET, heartbeats=3))
    watch = Watch(server, "/api/v1/nodes", resourceVersion=str(server.storage.version))
    server.report_nodes(3)
    server.report_nodes(3)
    assert len({name for _, name in watch.events()}) == 6, "of eight nodes"
    js = ask_for_json(server, "GET", f"{JOBSETS_PATH}/train-00")
    assert js["spec"]["failurePolicy"]["nodeFailure"]
    assert "nodeFailure" not in jobset("x", 1, 1, exclusive=False)["spec"]["failurePolicy"]
