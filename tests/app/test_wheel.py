"""The wheel: it works with the dependencies that it declares for commands, and without the repository."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from dev.hack.licences import required_distributions
from jobset_controller import PACKAGES
from tests.support.installed import PROJECT, build_wheel, install
from tests.support.pages.files import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(wheel, tmp_path_factory.mktemp("installed") / "site")


def jobset(site: Path, *args: str, entry: str = "main", before: str = "") -> subprocess.CompletedProcess[str]:
    """The command as its script starts it, with a Python that knows nothing of this repository's environment.

    `before`: a folder that the Python looks into before site-packages.
    """
    python = Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}")
    run = [python, "-SPc", f"import sys; from jobset_controller import {entry}; sys.exit({entry}())", *args]
    env = {
        "PYTHONPATH": os.pathsep.join(filter(None, [before, str(site)])),
        "HOME": str(site),
        "PATH": os.environ["PATH"],
    }
    return subprocess.run(run, cwd=site, env=env, capture_output=True, text=True, check=False)  # noqa: S603 - our own


def test_it_has_the_packages_of_the_repository_and_all_commands(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}
        [entry] = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        scripts = archive.read(entry).decode()
    assert {top for top in tops if not top.endswith(".dist-info")} == {"jobset_controller", "jobset_client", *PACKAGES}
    assert "jobset = jobset_controller:main" in scripts
    assert "kubectl-jobset = jobset_controller:main" in scripts
    assert "kubectl_complete-jobset = jobset_controller:complete" in scripts


def test_it_has_the_examples_that_the_demo_plays(wheel: Path, tmp_path: Path):
    """And says so before it starts a cluster where they are missing."""
    site = install(wheel, tmp_path / "site", "manager")
    examples = sorted(path.relative_to(ROOT) for path in (ROOT / "examples").rglob("*.yaml"))
    assert sorted(path.relative_to(site / "cli") for path in (site / "cli/examples").rglob("*.yaml")) == examples
    (site / "cli/examples").rename(site / "gone")
    started = jobset(site, "demo")
    assert (started.returncode, started.stdout) == (1, "")
    assert "the examples that it plays are not in " in started.stderr
    assert not (site / ".local").exists(), "nothing was started"


def test_the_small_install_has_no_server(installed: Path):
    server = {canonicalize_name(text.partition(">")[0]) for text in PROJECT["optional-dependencies"]["manager"]}
    assert server == {"fastapi", "httptools", "prometheus-client", "starlette", "uvicorn"}
    assert server & required_distributions(PROJECT["dependencies"]) == set()


def test_commands_run_where_it_is_installed_alone(installed: Path):
    version = jobset(installed, "--version")
    assert (version.returncode, version.stderr) == (0, "")
    assert PROJECT["version"] in version.stdout

    completed = jobset(installed, "expl", entry="complete")
    assert completed.stdout.splitlines() == ["explain\tsay why a JobSet waits, or how it ended", ":4"], completed

    training = str(ROOT / "examples/training.yaml")
    validated = jobset(installed, "validate", "--strict", training)
    assert (validated.returncode, validated.stderr) == (0, ""), validated
    assert "0 errors, 0 warnings" in validated.stdout

    for framework in ("torchrun", "jax", "mpi", "ray"):
        printed = jobset(installed, "init", framework, "--nodes=2")
        assert (printed.returncode, printed.stderr) == (0, ""), printed
        assert "kind: JobSet" in printed.stdout

    rendered = jobset(installed, "render", "-f", training, "-o", "json")
    assert rendered.returncode == 0, rendered.stderr
    assert '"training-coordinator-0"' in rendered.stdout

    judged = jobset(installed, "policy", "test", str(ROOT / "examples/policies"))
    assert "Traceback" not in judged.stderr

    waits = jobset(installed, "explain", "train", "--kubeconfig", "/dev/null")
    assert waits.returncode == 2, waits
    assert "Traceback" not in waits.stderr


@pytest.mark.parametrize("name", PACKAGES)
@pytest.mark.parametrize("entry", ["main", "complete"])
def test_a_package_of_somebody_else_before_ours_is_named(installed: Path, tmp_path: Path, name: str, entry: str):
    foreign = tmp_path / name / "__init__.py"
    foreign.parent.mkdir()
    foreign.touch()
    started = jobset(installed, "--version", entry=entry, before=str(tmp_path))
    assert (started.returncode, started.stdout) == (1, "")
    assert started.stderr.startswith(
        f"jobset: the package {name} is not that of jobset-controller:"
        f" {foreign} stands before {installed / name / '__init__.py'};"
    )


@pytest.mark.parametrize("content", [None, "", "from app import *"])
def test_a_package_that_another_installation_overwrote_or_removed_is_named(
    wheel: Path, tmp_path: Path, content: str | None
):
    site = install(wheel, tmp_path / "site")
    if content is None:
        (site / "cli/__init__.py").unlink()
    else:
        (site / "cli/__init__.py").write_text(content)
    started = jobset(site, "--version")
    assert (started.returncode, started.stdout) == (1, "")
    problem = "(nothing) stands before" if content is None else "another distribution has overwritten"
    assert started.stderr.startswith(
        f"jobset: the package cli is not that of jobset-controller: {problem} {site / 'cli/__init__.py'};"
    )


@pytest.mark.parametrize("words", [["manager", "--kubeconfig=/dev/null"], ["demo"], ["ui", "--kubeconfig=/dev/null"]])
def test_commands_that_need_the_manager_say_which_extra_that_is(installed: Path, words: list[str]):
    started = jobset(installed, *words)
    assert (started.returncode, started.stdout) == (1, "")
    assert started.stderr.endswith("install jobset-controller[manager]\n")
    assert "Traceback" not in started.stderr


def test_policy_tests_on_a_server_say_which_extra_they_need(installed: Path):
    gates = "--feature-gates=JobSetActiveDeadlineSeconds=true"
    tried = jobset(installed, "policy", "test", "--server", gates, str(ROOT / "examples/policies"))
    assert (tried.returncode, tried.stdout.splitlines()[-1].endswith(" tests, 0 failed")) == (2, True)
    assert tried.stderr == (
        "jobset policy test: --server starts the manager, and fastapi is not installed:"
        " install jobset-controller[manager]\n"
    )


def test_the_manager_starts_with_its_extra(wheel: Path, tmp_path: Path):
    site = install(wheel, tmp_path / "site", "manager")
    started = jobset(site, "manager", "--kubeconfig=/nowhere/config")
    assert started.returncode != 0
    assert "is not installed" not in started.stderr
    assert "/nowhere/config" in started.stderr
