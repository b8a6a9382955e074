"""Every piece of Python on docs/python-client.md, in its order, with an API server that plays a manager.

On a real control plane they run in tests/e2e/test_python_client.py.
"""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.kubeconfigs import Quiet, kubeconfig, serving_http
from tests.support.pages.files import ROOT
from tests.support.pages.pasted import Pasted
from tests.support.python_clients import aio

JSON = dict[str, Any]


class Api(Quiet, BaseHTTPRequestHandler):
    """Keeps one JobSet, whose Jobs do at once what its spec says."""

    stored: JSON

    def do_POST(self) -> None:
        self.server.stored = self.body() | {"status": {}}
        self.server.stored["metadata"] |= {"uid": "u", "resourceVersion": "1", "namespace": "team-a"}
        self.say(201, self.now())

    def do_PATCH(self) -> None:
        self.server.stored["spec"] |= self.body()["spec"]
        self.say(200, self.now())

    def do_DELETE(self) -> None:
        self.server.stored = None
        self.say(200, {})

    def do_GET(self) -> None:
        path = urlsplit(self.path)
        if "watch=true" in path.query:
            self.say(200, {"type": "MODIFIED", "object": self.now()})
        elif path.path.endswith("/jobsets/train"):
            self.say(200, self.now())
        else:
            items = [self.now()] if path.path.endswith("/jobsets") else []
            self.say(200, {"metadata": {"resourceVersion": "1"}, "items": items})

    def now(self) -> JSON:
        """The JobSet with the status that a manager would give it."""
        stored = self.server.stored
        halted = bool(stored["spec"].get("suspend"))
        suspended = [{"type": "Suspended", "status": "True"}] if halted else []
        running, resting = int(not halted), int(halted)
        counts = {"ready": running, "succeeded": 0, "failed": 0, "active": running, "suspended": resting}
        names = [rjob["name"] for rjob in stored["spec"]["replicatedJobs"]]
        ended = {"terminalState": "Completed"} if self.server.ended else {}
        stored["status"] = {
            "conditions": suspended,
            "replicatedJobsStatus": [{"name": name, **counts} for name in names],
            **ended,
        }
        return stored

    def body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def say(self, status: int, body: JSON) -> None:
        text = json.dumps(body).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with serving_http(Api) as (made, address):
        made.ended, made.stored = False, None
        monkeypatch.setenv("KUBECONFIG", kubeconfig(tmp_path, address))
        yield made


def test_the_page_runs(server: Any, capsys: pytest.CaptureFixture[str]):
    aio()
    page = Pasted(ROOT / "docs/python-client.md")
    page.until_the_end()
    server.ended = True
    page.to_the_end()
    shown = capsys.readouterr().out
    assert all(words in shown for words in ("ADDED", "Completed", "kind: JobSet", "JobSet team-a/train: runs"))
    assert server.stored is None
