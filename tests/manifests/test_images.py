"""Which images are built, installed and started from: by version, and the base image by digest."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from manifests import IMAGE

ROOT = Path(__file__).parents[2]
VERSION = "v" + tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
OURS = re.compile(r"^.*\bimage: (jobset[\w-]*:\S+)$", re.MULTILINE)
OLD, NEW = (f"python:3.11-slim@sha256:{digit * 64}" for digit in "12")


def test_the_manifests_name_the_image_by_version():
    assert IMAGE.partition(":") == ("jobset", ":", VERSION)
    for kustomization in (ROOT / "manifests").rglob("kustomization.yaml"):
        assert set(re.findall(r"newTag: (\S+)", kustomization.read_text())) <= {VERSION}


@pytest.mark.parametrize("folder", ["manifests", "examples"])
def test_no_image_of_ours_is_installed_by_a_moving_tag(folder: str):
    found = {image for path in (ROOT / folder).rglob("*.yaml") for image in OURS.findall(path.read_text())}
    assert found
    assert {image.partition(":")[2] for image in found} == {VERSION}


def test_make_builds_what_the_manifests_install():
    make = shutil.which("make")
    assert make
    built = subprocess.run([make, "-n", "image", "image-agent"], cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603
    assert re.findall(r"-t (\S+)", built.stdout) == [IMAGE, f"jobset-in-place-restart-agent:{VERSION}"]


class Docker:
    """A copy of docker/, and a docker command that knows one digest."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(ROOT / "docker", folder / "docker")
        (folder / "bin").mkdir()

    def answers(self, text: str, code: int = 0) -> None:
        command = self.folder / "bin" / "docker"
        command.write_text(f'#!/bin/sh\necho "$@" > {self.folder}/asked\necho {text}\nexit {code}\n')
        command.chmod(0o755)

    def starts_from(self, image: str) -> None:
        text = re.sub(r"(?m)^ARG PYTHON_IMAGE=.*$", f"ARG PYTHON_IMAGE={image}", self.dockerfile)
        (self.folder / "docker" / "Dockerfile").write_text(text)

    def pin(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603 - our own script
            [self.folder / "docker" / "pin-base.sh"],
            env=os.environ | {"PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    @property
    def dockerfile(self) -> str:
        return (self.folder / "docker" / "Dockerfile").read_text()


@pytest.fixture
def docker(tmp_path: Path) -> Docker:
    return Docker(tmp_path)


@pytest.mark.parametrize("base", [OLD, "python:3.11-slim"])
def test_a_new_base_image_is_pinned_by_the_digest_of_the_registry(docker: Docker, base: str):
    docker.starts_from(base)
    before = docker.dockerfile
    docker.answers(NEW.partition("@")[2])
    done = docker.pin()
    assert done.returncode == 0, done.stderr
    assert docker.dockerfile == before.replace(f"IMAGE={base}\n", f"IMAGE={NEW}\n") != before
    assert (docker.folder / "asked").read_text().startswith("buildx imagetools inspect python:3.11-slim ")


@pytest.mark.parametrize(("answer", "code"), [("no such host", 1), ("<nil>", 0)])
def test_without_a_digest_nothing_is_built_or_changed(docker: Docker, answer: str, code: int):
    docker.starts_from(OLD)
    before = docker.dockerfile
    docker.answers(f"'{answer}'", code)
    assert docker.pin().returncode == 1
    assert docker.dockerfile == before


def test_the_manager_starts_from_nothing_and_other_stages_from_the_pinned_image():
    dockerfile = (ROOT / "docker" / "Dockerfile").read_text()
    *others, last = re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)
    assert last == "scratch"
    assert set(others) == {"${PYTHON_IMAGE}"}
    assert re.search(r"^ARG PYTHON_IMAGE=python:3\.11-slim@sha256:[0-9a-f]{64}$", dockerfile, re.MULTILINE)
