"""Both Python clients over HTTP: requests, answers, credentials, timeouts."""

import gc
import json
import ssl
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from jobset_client import JobSet, credentials, errors
from jobset_client.core import Call, ask
from tests.support.kubeconfigs import Quiet, kubeconfig, serving_http
from tests.support.objects.jobsets import jobset
from tests.support.played.operations import event
from tests.support.python_clients import CLIENTS, Face, aio
from tests.support.tls import context_with, material

JSON = dict[str, Any]


@dataclass
class Served:
    """An API server that answers from a list, and keeps what it was asked."""

    answers: list[tuple[int, bytes, dict[str, str]]] = field(default_factory=list)
    asked: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    hang: threading.Event = field(default_factory=threading.Event)
    """Until it is set, a watch stays open, and a request without an answer waits."""
    address: str = ""

    def say(self, body: Any, status: int = 200, **headers: str) -> None:
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.answers.append((status, text, {name.replace("_", "-"): value for name, value in headers.items()}))


@contextmanager
def serving(context: ssl.SSLContext | None = None) -> Iterator[Served]:
    state = Served()

    class Api(Quiet, BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            state.asked.append((self.command, self.path, dict(self.headers), body))
            watches = "watch=true" in self.path
            if not state.answers:
                state.hang.wait(30)
                return
            status, text, headers = state.answers.pop(0)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header(*(("Transfer-Encoding", "chunked") if watches else ("Content-Length", str(len(text)))))
            self.end_headers()
            self.wfile.write(b"%x\r\n%b\r\n" % (len(text), text) if watches else text)
            if watches:
                state.hang.wait(30)
                self.close_connection = True

        do_GET = do_POST = do_PATCH = do_DELETE = handle_any  # noqa: N815 (http.server calls them)

    with serving_http(Api, context) as (_, state.address):
        try:
            yield state
        finally:
            state.hang.set()


@pytest.fixture
def served() -> Iterator[Served]:
    with serving() as state:
        yield state


@pytest.fixture(params=CLIENTS.values(), ids=CLIENTS.keys())
def client(request: pytest.FixtureRequest, served: Served, tmp_path: Path) -> Face:
    return request.param(kubeconfig=kubeconfig(tmp_path, served.address))


def test_a_request_has_credentials_namespace_and_name_of_the_program(client: Face, served: Served):
    served.say(jobset())
    assert client.get("train").metadata.name == "train"
    ((method, path, headers, body),) = served.asked
    assert (method, path, body) == ("GET", "/apis/jobset.x-k8s.io/v1alpha2/namespaces/team-a/jobsets/train", b"")
    assert headers["User-Agent"].startswith("jobset-client/")
    assert {name.lower(): value for name, value in headers.items()}["authorization"] == "Bearer s3cret"


def test_the_context_names_the_namespace(client: Face, served: Served, tmp_path: Path):
    served.say(jobset())
    type(client)(kubeconfig=kubeconfig(tmp_path, served.address), context="y").get("train")
    assert "/namespaces/team-b/" in served.asked[0][1]


def test_a_body_goes_as_json_and_warnings_come_back(client: Face, served: Served):
    served.say(jobset(), 201, Warning='299 - "take care"')
    with pytest.warns(errors.JobSetWarning, match="take care") as caught:
        client.create(JobSet.from_dict(jobset()))
    assert Path(caught[0].filename).is_relative_to(Path(__file__).parents[1]), "the caller, and not the package"
    method, path, headers, body = served.asked[0]
    assert (method, headers["Content-Type"]) == ("POST", "application/json")
    assert path.endswith("/jobsets?fieldManager=jobset-client&fieldValidation=Strict")
    assert json.loads(body) == jobset()


def test_a_traceback_has_one_frame_of_the_package(client: Face, served: Served):
    for method in (client.get, lambda name: client.first("logs", 1, name)):
        served.say({"kind": "Status", "message": "no such set", "details": {"name": "train"}}, 404)
        served.say({"metadata": {}, "items": []})
        with pytest.raises(errors.NotFoundError) as caught:
            method("train")
        package = [
            entry for entry in traceback.extract_tb(caught.value.__traceback__) if "jobset_client" in entry.filename
        ]
        assert len(package) == 1
        assert "".join(traceback.format_exception(caught.value)).count("Traceback") == 1


def test_a_refusal_is_an_exception(client: Face, served: Served):
    served.say({"kind": "Status", "message": "no such set", "details": {"name": "train"}}, 404)
    served.say({"metadata": {}, "items": []})
    with pytest.raises(errors.NotFoundError, match="cannot get JobSet team-a/train: no such set"):
        client.get("train")


def test_a_server_that_is_busy_is_asked_again(client: Face, served: Served):
    served.say(b"", 429, Retry_After="0")
    served.say(jobset())
    assert client.get("train").kind == "JobSet"
    assert len(served.asked) == 2


def test_a_watch_gives_events_as_they_come(client: Face, served: Served):
    served.say({"metadata": {"resourceVersion": "1"}, "items": [jobset()]})
    served.say(event("MODIFIED", jobset()))
    found = client.first("watch", 2, name="train")
    assert [one.type for one in found] == ["ADDED", "MODIFIED"]
    assert "watch=true" in served.asked[-1][1]


@pytest.mark.parametrize("face", CLIENTS.values(), ids=CLIENTS.keys())
def test_a_watch_that_is_left_is_closed_at_once(face: Any, tmp_path: Path):
    """TLS would wait for the other side's goodbye, in a loop that has ended. What is left open is a ResourceWarning."""
    pair = material()
    with serving(context_with(pair)) as served:
        served.say({"metadata": {"resourceVersion": "1"}, "items": []})
        served.say(event("ADDED", jobset()))
        config = kubeconfig(tmp_path, served.address, authorities=pair.authorities)
        assert len(face(kubeconfig=config).first("watch", 1)) == 1
        gc.collect()


def test_a_watch_that_stays_silent_ends_at_its_timeout(client: Face, served: Served, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("jobset_client.watching.TIMEOUT_MARGIN", 0.0)
    served.say({"metadata": {"resourceVersion": "1"}, "items": []})
    served.say(event("BOOKMARK", jobset()))
    start = time.monotonic()
    assert client.first("watch", 5, timeout=1) == []
    assert 0.9 < time.monotonic() - start < 20


def test_a_server_that_does_not_answer(client: Face):
    call = Call(method="DELETE", path="/x", task="delete x", timeout=0.3)
    with pytest.raises(
        errors.UnreachableError, match=r"cannot delete x: no answer of http://127.0.0.1:\d+ in 0.3 s; check the network"
    ):
        client._run(ask(call))


def test_an_answer_that_is_too_large_is_not_kept(client: Face, served: Served):
    served.say(b"x" * 2000)
    with pytest.raises(errors.JobSetError, match="cannot get x: the answer is larger than"):
        client._run(ask(Call(method="GET", path="/x", task="get x", max_bytes=1000)))


def test_a_connection_that_the_caller_has_is_used_and_stays_open(served: Served):
    from kubernetes import client as kubernetes  # noqa: PLC0415 (see above)

    from jobset_client.sync import Client  # noqa: PLC0415 (a second, which other tests need not pay)

    configuration = kubernetes.Configuration(host=served.address, api_key={"authorization": "Bearer mine"})
    served.say(jobset())
    served.say(jobset())
    with kubernetes.ApiClient(configuration) as api:
        for namespace in (None, "team-b"):
            with Client(api, namespace=namespace) as client:
                client.get("train")
    assert ["/default/" in served.asked[0][1], "/team-b/" in served.asked[1][1]] == [True, True]
    assert served.asked[1][2]["authorization"] == "Bearer mine"


async def test_the_same_with_asyncio(served: Served):
    clients = aio()
    served.say(jobset())
    configuration = clients.Configuration(host=served.address, api_key={"BearerToken": "mine"})
    async with clients.ApiClient(configuration) as api:
        client = clients.AsyncClient(api)
        await client.get("train")
        await client.close()
        assert not api.rest_client.pool_manager.closed
    assert "/default/" in served.asked[0][1]


async def test_an_async_client_that_is_not_entered_says_so():
    with pytest.raises(errors.JobSetError, match="async with AsyncClient"):
        await aio().AsyncClient().get("train")


@pytest.mark.parametrize(
    ("given", "variables", "in_pod"),
    [
        ({}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, True),
        ({}, {}, False),
        ({}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBECONFIG": "/x"}, False),
        ({"kubeconfig": "/x"}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, False),
        ({"context": "x"}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, False),
    ],
)
def test_a_pod_without_kubeconfig_uses_its_service_account(
    given: dict[str, str], variables: dict[str, str], in_pod: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {**variables, "HOME": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    options = {"kubeconfig": None, "context": None, **given}
    assert credentials.runs_in_pod(**options) is in_pod
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube/config").touch()
    assert credentials.runs_in_pod(**options) is False
