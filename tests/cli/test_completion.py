"""What a shell completes: its question is asked as the printed function asks it."""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.completion import SHELLS, jobset_names
from jobset_client.states import STATES
from tests.support.explain.objects import made
from tests.support.objects.jobsets import jobset, rjob, stored

USUAL = argparse.Namespace(namespace="", kubeconfig="", context="")


def asked(line: str, tmp_path: Path) -> list[str]:
    """What may follow this line."""
    answer = tmp_path / "answer"
    environment = {
        **os.environ,
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
    }
    subprocess.run([sys.executable, "-m", "cli"], env=environment, check=True, timeout=60)
    return [word.strip() for word in answer.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("jobset va", ["validate"]),
        ("jobset wait train --for=", [f"--for={state}" for state in STATES]),
        ("jobset completion ", sorted(SHELLS)),
        ("jobset explain --all", ["--all-namespaces"]),
    ],
)
def test_commands_flags_and_values_are_completed(tmp_path: Path, line: str, words: list[str]):
    given = sorted(asked(line, tmp_path))
    assert [word for word in given if "--" in line or not word.startswith("-")] == words


def kubectl_asks(*words: str) -> list[str]:
    """What `kubectl_complete-jobset` answers, line by line."""
    program = [sys.executable, "-c", "import jobset_controller, sys; sys.exit(jobset_controller.complete())"]
    done = subprocess.run([*program, *words], capture_output=True, text=True, check=True, timeout=60)  # noqa: S603
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_kubectl_is_told_commands_with_what_they_do():
    *commands, directive = kubectl_asks("")
    assert "explain\tsay why a JobSet waits, or how it ended" in commands
    assert not [line for line in commands if line.startswith("-")]
    assert directive == ":4"


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (["va"], ["validate", ":4"]),
        (["wait", "train", "--for="], [*(f"--for={state}" for state in STATES), ":4"]),
        (["completion", ""], [*SHELLS, ":4"]),
        (["explain", "it's", "--all"], ["--all-namespaces", ":4"]),
        (["validate", ""], [":0"]),
        (["validate", "it's a file"], [":0"]),
    ],
)
def test_kubectl_is_told_what_may_follow(words: list[str], lines: list[str]):
    assert sorted(line.partition("\t")[0] for line in kubectl_asks(*words)) == sorted(lines)


@pytest.mark.parametrize("shell", SHELLS)
def test_the_code_for_each_shell_is_printed_and_is_about_jobset(command, shell: str):
    code, out, err = command("completion", shell)
    assert (code, err) == (0, "")
    assert "_ARGCOMPLETE" in out
    assert "jobset" in out


def test_names_of_jobsets_are_those_of_the_namespace(connected):
    bodies = [made(stored(jobset(rjob(), name=name, namespace="team-a"))) for name in ("train", "eval")]
    cluster = connected(*bodies)
    assert sorted(jobset_names(USUAL)) == ["eval", "train"]
    assert [request.verb for request in cluster.asked] == ["list"]
    assert "/namespaces/team-a/" in cluster.asked[0].path


def test_no_name_is_completed_where_no_cluster_answers(tmp_path: Path):
    nowhere = argparse.Namespace(namespace="", kubeconfig=str(tmp_path / "missing"), context="")
    assert jobset_names(nowhere) == ()
    assert jobset_names(argparse.Namespace(namespace="No Name", kubeconfig="", context="")) == ()
