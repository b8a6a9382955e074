"""What commands say when the kubeconfig does not fit the cluster: they name the file and the context."""

import socket
from pathlib import Path

import pytest

from cli import session
from cli.main import main
from kube import reader
from kube.errors import TransportError
from tests.support.kubeconfigs import kubeconfig

COMMANDS = (["explain", "-A"], ["certs", "status"], ["webhooks", "status"], ["rollback-check"], ["logs", "train"])


@pytest.mark.parametrize("command", COMMANDS, ids=[command[0] for command in COMMANDS])
def test_a_cluster_that_cannot_be_reached_is_named_with_its_file_and_context(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
):
    file = kubeconfig(tmp_path, "http://127.0.0.1:1")
    assert main([*command, f"--kubeconfig={file}", "--context=y"]) == 2
    said = capsys.readouterr().err
    named = f"connection refused; this is http://127.0.0.1:1 (kubeconfig {file}, context 'y')"
    local = "if it is a local cluster of this program, jobset cluster status says whether it still runs"
    assert said.endswith(f"{named}; {local}\n"), said


def test_only_a_cluster_on_this_machine_may_be_a_local_one():
    refused, asked = TransportError("connection refused", sent=False), TransportError("no answer")
    assert "jobset cluster status" in session._local_cluster_hint(refused, "https://[::1]:6443")
    assert session._local_cluster_hint(refused, "https://10.0.0.1:6443") == ""
    assert session._local_cluster_hint(asked, "https://127.0.0.1:6443") == ""


def test_an_api_server_that_hangs_is_named_before_the_command_gives_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(session, "SILENCE_SECONDS", 0.05)
    monkeypatch.setattr(reader, "COMMAND_TIMEOUT", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert main(["certs", "status", f"--kubeconfig={kubeconfig(tmp_path, address)}"]) == 2
    first, last = capsys.readouterr().err.splitlines()
    assert first == f"jobset: {address} has not answered for 0.05 s: waiting"
    assert "no answer in 0.5 s" in last
