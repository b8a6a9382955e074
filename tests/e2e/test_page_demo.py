"""`make demo`, and what docs/demo.md says to try in the cluster that it leaves."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from dev.cluster.cluster import down, get
from dev.demo.cli import STORIES
from tests.support.pages.files import ROOT, commands
from tests.support.pages.reader import Reader, installed_command
from tests.support.pages.scenes import SCENES

PAGE = "docs/demo.md"


def made(state: Path, command: str) -> str:
    """What a command of make prints. The environment of this process is good enough, and is not made again."""
    env = os.environ | {"XDG_STATE_HOME": str(state), "PYTHONPATH": str(ROOT)}
    words = [*command.split(), "-o", ".venv/.ready"]
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_demo_of_the_wheel_needs_no_clone(binaries: Path, tmp_path: Path):
    env = {"HOME": str(tmp_path), "KUBEBUILDER_ASSETS": str(binaries), "PATH": os.environ["PATH"]}
    for story in STORIES:
        done = subprocess.run(  # noqa: S603 (our own program)
            [installed_command(), "demo", story], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Completed. What happened" in done.stdout


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_commands_of_the_demo_and_what_is_tried_after_it(binaries: Path, tmp_path: Path):
    demos = {command.text for command in commands() if command.text.startswith("make demo")}
    for command in sorted(demos):
        assert "Completed. What happened" in made(tmp_path, command)
    state_root = tmp_path / "jobset-devcluster"
    said = made(tmp_path, "make demo KEEP=1")
    exports = re.findall(r"^ *(export .*)$", said, re.MULTILINE)
    try:
        assert len(exports) == 2
        reader = Reader(get("demo", state_root=state_root), "default", tmp_path)
        for command in re.findall(r"^ *(kubectl create clusterrolebinding .*|curl .*)$", said, re.MULTILINE):
            code, text = reader.run("\n".join([*exports, command]))
            assert code == 0, f"{command}: {text}"
        assert "controller_runtime_reconcile_total" in text
        for command in (each.text for each in commands() if each.page == PAGE and each.text not in demos):
            step = SCENES[PAGE].step(command)
            step.before(reader)
            code, text = reader.run("\n".join([*exports, command]))
            assert code == 0, f"{command}: {text}"
            assert step.says in text, f"{command}: {text}"
        assert not (state_root / "demo").exists()
    finally:
        down("demo", state_root=state_root)
