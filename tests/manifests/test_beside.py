"""`make run` beside an installed manager: what it says before it starts, with a kubectl that answers as a cluster would."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from manifests import NAMESPACE
from manifests.naming import DEPLOYMENT
from tests.support.pages import ROOT


def beside(tmp_path: Path, answer: str, code: int = 0) -> tuple[int, str]:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(f"#!/bin/sh\necho \"$@\" > {tmp_path}/asked\nprintf '{answer}'\nexit {code}\n")
    kubectl.chmod(0o755)
    done = subprocess.run(  # noqa: S603 - our own script
        [ROOT / "hack/beside.sh", kubectl, "--context=x"],
        env={**os.environ, "KUBECONFIG": "/k"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


def test_an_installed_manager_is_told_of_with_the_commands(tmp_path):
    code, said = beside(tmp_path, "2")
    assert code == 0
    assert "A manager is installed in this cluster, with 2 replicas" in said
    assert f"{tmp_path}/kubectl --context=x -n jobset-system scale" in said
    assert "--replicas=0 && .venv/bin/jobset webhooks off --kubeconfig=/k\n" in said
    assert "make run KUBECONFIG=/k ARGS=--webhooks=false" in said
    assert "--replicas=2 && .venv/bin/jobset webhooks on --kubeconfig=/k\n" in said
    asked = (tmp_path / "asked").read_text()
    assert asked.startswith(f"--context=x -n {NAMESPACE} get deployment/{DEPLOYMENT}")


@pytest.mark.parametrize(("answer", "code"), [("", 0), ("0", 0), ("", 1)])
def test_nothing_is_said_where_none_runs(tmp_path, answer, code):
    assert beside(tmp_path, answer, code) == (0, "")
