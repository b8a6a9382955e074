"""Commands say that JobSet is not installed, and how to install it, where the cluster has no JobSets."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from cli.main import main

COMMANDS = [
    ("rollback-check",),
    ("certs", "status"),
    ("webhooks", "status"),
    ("webhooks", "off"),
    ("webhooks", "on"),
    ("explain",),
    ("explain", "train"),
    ("logs", "train"),
    ("wait", "train", "--for=ready"),
    ("restart", "train"),
    ("suspend", "train"),
    ("ui",),
]
SAYS = (
    "JobSet is not installed in this cluster (no CRD jobsets.jobset.x-k8s.io): install it with `make install` or"
    " `helm install jobset charts/jobset`, see docs/quick-start.md\n"
)


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Of an API server that answers as one does about a group that it does not have."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(404)
            self.end_headers()
            self.wfile.write(b"404 page not found\n")

        do_PATCH = do_GET  # noqa: N815 (the name that http.server calls)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        path = tmp_path_factory.mktemp("kube") / "config"
        config = {
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
            "clusters": [{"name": "here", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
            "users": [{"name": "me", "user": {}}],
        }
        path.write_text(yaml.safe_dump(config))
        yield path
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_cluster_without_jobset_is_told_of_in_one_line(
    command: tuple[str, ...], kubeconfig: Path, capsys: pytest.CaptureFixture[str]
):
    assert main([*command, f"--kubeconfig={kubeconfig}"]) == 2
    name = " ".join(command[:2]) if command[0] == "certs" else command[0]
    assert capsys.readouterr().err == f"jobset {name}: {SAYS}"
