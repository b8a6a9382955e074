"""`make install`, `make uninstall` and `make run` end with one message where no cluster answers: dev/hack/reachable.sh."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def reached(folder: Path, answer: str, **variables: str) -> subprocess.CompletedProcess[str]:
    kubectl = folder / "kubectl"
    kubectl.write_text(f"#!/bin/sh\n{answer}\n")
    kubectl.chmod(0o755)
    env = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"} | variables
    command = [ROOT / "dev" / "hack" / "reachable.sh", "install", kubectl, "--context=x"]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)  # noqa: S603 - our own script


@pytest.mark.parametrize(
    ("variables", "tried"),
    [
        ({}, "KUBECONFIG is not set, so the cluster of ~/.kube/config was tried: it does not answer"),
        ({"KUBECONFIG": "/dev/null"}, "the cluster of KUBECONFIG=/dev/null does not answer"),
    ],
)
def test_one_message_says_what_was_tried_why_it_failed_and_what_to_do(
    tmp_path: Path, variables: dict[str, str], tried: str
):
    done = reached(tmp_path, "echo E1234 retrying >&2; echo connection refused >&2; exit 1", **variables)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"make install: {tried}, and nothing was changed: connection refused\n"
        "Name the file of a cluster that runs: make install KUBECONFIG=/path/to/kubeconfig (a local one: .venv/bin/jobset"
        " cluster up)\n"
    )


@pytest.mark.parametrize(
    ("answer", "found", "todo"),
    [
        (
            "Unable to connect to the server: tls: failed to verify certificate: x509: certificate signed by unknown authority",
            "the cluster of KUBECONFIG=/dev/null answers, but with a certificate that this file does not trust",
            "Correct certificate-authority-data in the file",
        ),
        (
            "error: You must be logged in to the server (Unauthorized)",
            "answers, but refuses the credentials in this file: they are wrong, or have expired",
            "Renew them",
        ),
        (
            "Error in configuration: context was not found for specified context: other",
            "the kubeconfig /dev/null cannot be used",
            "Correct it (`kubectl config get-contexts` lists the contexts)",
        ),
        (
            "Error from server (BadRequest): the server rejected our request for an unknown reason",
            "the cluster of KUBECONFIG=/dev/null answers with an error",
            "See whether the server in the file is a Kubernetes API server, with https",
        ),
    ],
    ids=["CA", "credentials", "context", "http"],
)
def test_a_cluster_that_answers_is_not_said_to_be_silent(tmp_path: Path, answer: str, found: str, todo: str):
    done = reached(tmp_path, f"echo '{answer}' >&2; exit 1", KUBECONFIG="/dev/null")
    assert f"{found}, and nothing was changed: {answer}\n{todo}, or name another file: make install" in done.stderr
    assert "does not answer" not in done.stderr


def test_a_kubeconfig_without_a_cluster_is_no_cluster_that_is_down(tmp_path: Path):
    answer = "echo The connection to the server localhost:8080 was refused >&2; exit 1"
    assert "KUBECONFIG=/dev/null names no cluster, and" in reached(tmp_path, answer, KUBECONFIG="/dev/null").stderr
    done = reached(tmp_path, answer, HOME=str(tmp_path))
    assert done.stderr.startswith(
        "make install: KUBECONFIG is not set, and there is no file ~/.kube/config, and nothing was changed\n"
        "Name a file: make install KUBECONFIG=/path/to/kubeconfig"
    )


def test_a_kubeconfig_that_is_missing_is_no_silent_cluster(tmp_path: Path):
    done = reached(tmp_path, "exit 1", KUBECONFIG="/none")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "make install: there is no file /none (KUBECONFIG), and nothing was changed\n"


def test_nothing_is_said_of_a_cluster_that_answers_and_nobody_is_asked(tmp_path: Path):
    done = reached(tmp_path, f'echo "$*" > {tmp_path}/asked; read -r name && exit 1; echo {{}}')
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "asked").read_text().startswith("--context=x get --raw /version")


def test_all_targets_ask_first():
    makefile = (ROOT / "Makefile").read_text()
    for target in ("install", "uninstall", "run"):
        recipe = makefile.partition(f"\n{target}: ")[2].splitlines()[1]
        assert recipe == f"\t@dev/hack/reachable.sh {target} $(KUBECTL) $(KUBECONFIG_FLAG)"
