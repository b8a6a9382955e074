"""What `jobset demo --keep` says at its end."""

from __future__ import annotations

import io
import re
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from rich.console import Console

from app import cli
from app.demo import explain_how_to_go_on
from app.ui.cli import ADDRESS


def test_who_keeps_the_demo_is_told_the_address_of_the_page_and_how_to_go_on():
    output, cluster = io.StringIO(), SimpleNamespace(kubeconfig=Path("/demo/config"), kubectl=Path("/demo/bin/kubectl"))
    explain_how_to_go_on(Console(file=output, soft_wrap=True), cast("Any", cluster), Path("/demo/manager.log"))
    said = output.getvalue()
    assert f"http://{ADDRESS}/" in said
    assert "export KUBECONFIG=/demo/config\n" in said
    path = next(line for line in said.splitlines() if "export PATH=" in line)
    assert path.endswith(f"={Path(sys.executable).parent}:/demo/bin:$PATH")
    commands = [shlex.split(line, comments=True) for line in re.findall(r"^  jobset (.*)", said, re.MULTILINE)]
    assert [command[0] for command in commands] == ["ui", "cluster", "cluster"]
    for command in commands:
        cli._parser(local=True).parse_args(command)
