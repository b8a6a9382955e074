"""What commands say when the kubeconfig does not fit the cluster: they name the file and the context."""

from pathlib import Path

import pytest
import yaml

from app.cli import main

COMMANDS = (["explain", "-A"], ["certs", "status"], ["webhooks", "status"], ["rollback-check"], ["logs", "train"])


@pytest.mark.parametrize("command", COMMANDS, ids=[command[0] for command in COMMANDS])
def test_a_cluster_that_cannot_be_reached_is_named_with_its_file_and_context(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
):
    file = tmp_path / "config"
    entries = {
        "contexts": [{"name": name, "context": {"cluster": "c", "user": "u"}} for name in ("dev", "prod")],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "abc"}}],
    }
    file.write_text(yaml.safe_dump({"current-context": "dev", **entries}))
    assert main([*command, f"--kubeconfig={file}", "--context=prod"]) == 2
    said = capsys.readouterr().err
    assert said.endswith(f"connection refused; this is http://127.0.0.1:1 (kubeconfig {file}, context 'prod')\n"), said
