"""The definitions for pre-commit and GitHub Actions call the command line as it is."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.pages import ROOT
from tests.support.policies import manifest
from tests.support.validated import GOOD, TYPO

POLICY = json.dumps(manifest(maxJobs={"max": 3}))
BAD_POLICY = json.dumps(manifest(maxJobs={"max": "many"}))


def test_the_hook_of_pre_commit_checks_the_files_that_it_is_given(command, write):
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    program, *words = shlex.split(hook["entry"])
    assert program == "jobset"
    assert hook["require_serial"], "what is wrong between two files is found in one run"
    assert command(*words, write(GOOD), write("kind: Pod\n", "pod.yaml"))[0] == 0
    assert command(*words, write("kind: Pod\n", "pod.yaml"))[0] == 0
    assert command(*words, write(TYPO))[0] == 1
    assert command(*words, write(POLICY))[0] == 0
    assert command(*words, write(BAD_POLICY))[0] == 1


@pytest.mark.parametrize(("text", "code"), [(GOOD, 0), (TYPO, 1), (f"{GOOD}---\n{BAD_POLICY}", 1)])
def test_the_action_writes_a_report_and_ends_as_validate_does(tmp_path: Path, text: str, code: int):
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    (tmp_path / "jobset/bin").mkdir(parents=True)
    (tmp_path / "jobset/bin/jobset").symlink_to(Path(sys.executable).with_name("jobset"))
    (tmp_path / "deploy/more").mkdir(parents=True)
    (tmp_path / "deploy/more/a.yaml").write_text(text, encoding="utf-8")
    given = {"FILES": "deploy", "FLAGS": "--strict", "SARIF": "out.sarif", "RUNNER_TEMP": str(tmp_path)}
    done = subprocess.run(  # noqa: S603 (ourselves)
        ["/bin/bash", "-e", "-c", action["runs"]["steps"][-1]["run"]],
        env={"PATH": "/usr/bin:/bin", **given},
        cwd=tmp_path,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == code, done.stderr
    assert b"1 file, 1 JobSet" in done.stdout
    assert '"2.1.0"' in (tmp_path / "out.sarif").read_text(encoding="utf-8")
