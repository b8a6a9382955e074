"""Commands say that JobSet is not installed, and how to install it, where the cluster has no JobSets."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import pytest

from cli.main import main
from tests.support.kubeconfigs import Quiet, kubeconfig, serving_http

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
    ("scale", "train", "workers=2"),
    ("ui",),
]
SAYS = (
    "JobSet is not installed in this cluster (no CRD jobsets.jobset.x-k8s.io): install it with `helm install` or,"
    " in a clone, `make install`: see docs/quick-start.md\n"
)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of an API server that answers as one does about a group that it does not have."""

    class Api(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(404)
            self.send_header("Content-Length", "19")
            self.end_headers()
            self.wfile.write(b"404 page not found\n")

        do_PATCH = do_GET  # noqa: N815 (the name that http.server calls)

    with serving_http(Api) as (_, address):
        yield kubeconfig(tmp_path_factory.mktemp("kube"), address)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_cluster_without_jobset_is_told_of_in_one_line(
    command: tuple[str, ...], bare: str, capsys: pytest.CaptureFixture[str]
):
    assert main([*command, f"--kubeconfig={bare}"]) == 2
    name = " ".join(command[:2]) if command[0] == "certs" else command[0]
    assert capsys.readouterr().err == f"jobset {name}: {SAYS}"
