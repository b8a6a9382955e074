"""What commands say when the kubeconfig does not fit the cluster: they name the file and the context."""

import socket
from pathlib import Path

import pytest
import yaml

from cli import session
from cli.certificates import run
from cli.main import main
from kube.errors import TransportError

COMMANDS = (["explain", "-A"], ["certs", "status"], ["webhooks", "status"], ["rollback-check"], ["logs", "train"])


@pytest.mark.parametrize("command", COMMANDS, ids=[command[0] for command in COMMANDS])
def test_a_cluster_that_cannot_be_reached_is_named_with_its_file_and_context(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
):
    file = kubeconfig(tmp_path, 1)
    assert main([*command, f"--kubeconfig={file}", "--context=prod"]) == 2
    said = capsys.readouterr().err
    named = f"connection refused; this is http://127.0.0.1:1 (kubeconfig {file}, context 'prod')"
    local = "if it is a local cluster of this program, jobset cluster status says whether it still runs"
    assert said.endswith(f"{named}; {local}\n"), said


def test_only_a_cluster_on_this_machine_may_be_a_local_one():
    refused, asked = TransportError("connection refused", sent=False), TransportError("no answer")
    assert "jobset cluster status" in session._hint(refused, "https://[::1]:6443")
    assert session._hint(refused, "https://10.0.0.1:6443") == ""
    assert session._hint(asked, "https://127.0.0.1:6443") == ""


def test_an_api_server_that_hangs_is_named_before_the_command_gives_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(session, "SILENCE", 0.05)
    monkeypatch.setattr(run, "COMMAND_TIMEOUT", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        assert main(["certs", "status", f"--kubeconfig={kubeconfig(tmp_path, port)}"]) == 2
    first, last = capsys.readouterr().err.splitlines()
    assert first == f"jobset: http://127.0.0.1:{port} has not answered for 0.05 s: waiting"
    assert "no answer in 0.5 s" in last


def kubeconfig(folder: Path, port: int) -> Path:
    file = folder / "config"
    entries = {
        "contexts": [{"name": name, "context": {"cluster": "c", "user": "u"}} for name in ("dev", "prod")],
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "u", "user": {"token": "abc"}}],
    }
    file.write_text(yaml.safe_dump({"current-context": "dev", **entries}))
    return file
