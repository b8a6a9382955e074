"""The definitions for pre-commit and GitHub Actions call the command line as it is."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.objects.policies import manifest
from tests.support.objects.validated import GOOD, TYPO
from tests.support.pages.files import ROOT

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
    assert words[-1] == "--", "a name is not a flag"


RECORDER = """#!/bin/sh
for word; do printf '%s\\0' "$word"; done > "$0.said"
"""


@pytest.mark.parametrize(
    ("files", "names"),
    [
        ("deploy a.yaml", ["deploy", "a.yaml"]),
        ("--kubeconfig=evil --server", ["--kubeconfig=evil", "--server"]),
        ("a b.yaml\n--server\n", ["a b.yaml", "--server"]),
        ("*.yaml\n$(touch pwned)\n`x`;y\n", ["*.yaml", "$(touch pwned)", "`x`;y"]),
        ("* ?", ["*", "?"]),
        ("-\n--\n", ["-", "--"]),
        ("\\\nx", ["\\", "x"]),
    ],
)
def test_names_of_files_are_never_flags_or_commands(tmp_path: Path, files: str, names: list[str]):
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    program = tmp_path / "jobset/bin/jobset"
    program.parent.mkdir(parents=True)
    program.write_text(RECORDER, encoding="utf-8")
    program.chmod(0o755)
    (tmp_path / "z.yaml").touch()
    given = {"FILES": files, "FLAGS": "--strict --policies=*", "SARIF": "", "RUNNER_TEMP": str(tmp_path)}
    subprocess.run(  # noqa: S603 (ourselves)
        ["/bin/bash", "-e", "-c", action["runs"]["steps"][-1]["run"]],
        env={"PATH": "/usr/bin:/bin", **given},
        cwd=tmp_path,
        check=True,
        timeout=60,
    )
    said = (tmp_path / "jobset/bin/jobset.said").read_text(encoding="utf-8").split("\0")[:-1]
    assert said == ["validate", "-R", "--strict", "--policies=*", "--", *names]
    assert not (tmp_path / "pwned").exists()


def test_actions_are_pinned_by_commit_and_packages_by_hash():
    action = (ROOT / "action.yml").read_text(encoding="utf-8")
    workflows = [file.read_text(encoding="utf-8") for file in sorted((ROOT / ".github/workflows").glob("*.yml"))]
    used = [line.split("uses: ")[1] for text in (action, *workflows) for line in text.splitlines() if "uses: " in line]
    assert used
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[0-9.]+", each) for each in used), used
    install = yaml.safe_load(action)["runs"]["steps"][1]["run"]
    assert "--no-deps --require-hashes --requirement" in install
    assert "--no-deps --no-build-isolation" in install


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
