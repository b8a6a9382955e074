"""`make install`: what it says of webhooks that are off and of conflicts: dev/hack/install.sh, with a kubectl of its own."""

import os
import subprocess
from pathlib import Path

from manifests.installed.webhook_switch import OFF_ANNOTATION

ROOT = Path(__file__).parents[2]
CONFLICT = (
    'error: Apply failed with 1 conflict: conflict with "kubectl-patch" using rbac.authorization.k8s.io/v1: .rules'
)


def installed(
    folder: Path, *, off: str = "", apply: str = "echo applied", fake: str = "", image: str = "", urls: str = ""
) -> subprocess.CompletedProcess[str]:
    kubectl = folder / "kubectl"
    kubectl.write_text(
        f'#!/bin/sh\necho "$*" >> {folder}/asked\n'
        f"case $* in *clientConfig.url*) printf '{urls}' ;; *' get nodes '*) printf '{fake}' ;; *' get '*) echo '{off}' ;; *' apply '*) {apply} ;; *) echo condition met ;; esac\n"
    )
    kubectl.chmod(0o755)
    command = [ROOT / "dev" / "hack" / "install.sh", kubectl, "--kubeconfig=/k"]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "IMAGE": image})  # noqa: S603 - our own script


def test_it_applies_and_waits_for_the_crd(tmp_path: Path):
    done = installed(tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "applied\ncondition met\n", "")
    assert "wait --for=condition=Established" in (tmp_path / "asked").read_text()


def test_an_image_of_a_registry_takes_the_place_of_the_local_one(tmp_path: Path):
    applied = f"while [ $1 != -f ]; do shift; done; cp $2 {tmp_path}/applied"
    assert installed(tmp_path, apply=applied, image="registry.example:5000/team/jobset:v1").returncode == 0
    given = (ROOT / "manifests/install.yaml").read_text()
    assert given.count("image: jobset:v0.1.0\n") == 1
    wanted = given.replace("image: jobset:v0.1.0\n", "image: registry.example:5000/team/jobset:v1\n")
    assert (tmp_path / "applied").read_text() == wanted


def test_what_is_no_image_changes_nothing(tmp_path: Path):
    done = installed(tmp_path, image="a b|c")
    assert done.returncode == 2
    assert "'a b|c' is not an image, and nothing was changed: write IMAGE=registry.example/jobset:v0.1.0" in done.stderr
    assert not (tmp_path / "asked").exists()


def test_a_cluster_of_fake_nodes_is_said_to_run_no_manager(tmp_path: Path):
    done = installed(tmp_path, fake="fake fake")
    assert done.returncode == 0
    assert done.stderr.startswith("make install: nodes of this cluster are fake (kwok)")
    assert ".venv/bin/jobset demo --keep\n" in done.stderr
    assert "kwok\\.x-k8s\\.io/node" in (tmp_path / "asked").read_text()


def test_webhooks_that_are_called_by_url_stay_as_they_are(tmp_path: Path):
    done = installed(tmp_path, urls="https://127.0.0.1:9443/a https://127.0.0.1:9443/b")
    assert (done.returncode, done.stdout) == (1, "")
    assert "called by URL (https://127.0.0.1:9443/a), as after\n`make demo`." in done.stderr
    delete = "delete mutatingwebhookconfiguration/jobset-mutating-webhook-configuration validatingwebhookconfiguration/"
    assert f"  {tmp_path}/kubectl --kubeconfig=/k {delete}jobset-validating-webhook-configuration\n" in done.stderr
    assert " apply " not in (tmp_path / "asked").read_text()


def test_webhooks_that_are_off_are_told_of_before_anything_is_applied(tmp_path: Path):
    done = installed(tmp_path, off="[...]", apply="echo applied >&2; exit 1")
    assert done.returncode == 1
    assert done.stderr.startswith("make install: the webhooks are off (jobset webhooks off): this puts them back")
    assert OFF_ANNOTATION.replace(".", "\\.") in (tmp_path / "asked").read_text(), (
        "it looks at the annotation of `webhooks off`"
    )


def test_a_conflict_is_told_with_the_commands_that_end_it(tmp_path: Path):
    done = installed(tmp_path, apply=f"echo '{CONFLICT}' >&2; exit 1")
    assert done.returncode == 1
    assert done.stderr.startswith(CONFLICT)
    kubectl = f"{tmp_path}/kubectl --kubeconfig=/k"
    assert f"{kubectl} diff --server-side --force-conflicts -f manifests/install.yaml\n" in done.stderr
    assert f"{kubectl} apply --server-side --force-conflicts -f manifests/install.yaml\n" in done.stderr
    assert "wait" not in (tmp_path / "asked").read_text()
