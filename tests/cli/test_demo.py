"""What `jobset demo --keep` says at its end."""

import io
import re
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from rich.console import Console

from cli import main as cli
from cli.ui.cli import ADDRESS
from dev.cluster.spec import Layout
from dev.demo import demo
from dev.demo.demo import explain_how_to_go_on


def test_who_keeps_the_demo_is_told_the_address_of_the_page_and_how_to_go_on():
    output = io.StringIO()
    cluster = SimpleNamespace(
        name="demo",
        kubeconfig=Path("/demo/config"),
        kubectl=Path("/demo/bin/kubectl"),
        audit_log=Path("/demo/audit.log"),
    )
    explain_how_to_go_on(
        Console(file=output, soft_wrap=True), cast("Any", cluster), "/demo/manager.log", has_fake_nodes=True
    )
    said = output.getvalue()
    assert f"http://{ADDRESS}/" in said
    assert "export KUBECONFIG=/demo/config\n" in said
    assert "is /demo/audit.log\n" in said
    assert said.splitlines()[-1].startswith("  kubectl apply -f "), "the last line is the next step"
    path = next(line for line in said.splitlines() if "export PATH=" in line)
    assert path.endswith(f"={Path(sys.executable).parent}:/demo/bin:$PATH")
    commands = [shlex.split(line, comments=True) for line in re.findall(r"^  jobset (.*)", said, re.MULTILINE)]
    assert [command[0] for command in commands] == ["ui", "cluster", "cluster"]
    for command in commands:
        cli._parser(*command).parse_args(command)


def test_who_finds_the_demo_of_somebody_else_is_told_how_to_have_one_beside_it(monkeypatch, capsys):
    existing = SimpleNamespace(existed=True, kubeconfig=Path("/demo/config"))
    monkeypatch.setattr(demo, "locate", lambda _: None)
    monkeypatch.setattr(demo, "up", lambda _: existing)
    assert demo.run(demo.Story("training", play=lambda _: None), keep=True) == 1
    said = capsys.readouterr().out
    assert "go on with KUBECONFIG=/demo/config, or take it down" in said
    assert "export XDG_STATE_HOME=" in said


def test_another_folder_for_state_is_that_of_another_demo(monkeypatch, tmp_path: Path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert Layout.for_name(demo.SPEC.name, None).root.is_relative_to(tmp_path)
