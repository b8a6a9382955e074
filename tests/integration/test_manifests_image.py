"""What the image holds, made without an image builder: locked, complete by itself, and run by nobody in particular."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import urllib.request
from pathlib import Path

import pytest
import yaml

from app import local
from devcluster.assets import Sources
from devcluster.cluster import running
from devcluster.spec import ClusterSpec
from tests.support.cluster import request, wait_for

ROOT = Path(__file__).parents[2]
MANAGER = "system:serviceaccount:jobset-system:jobset-controller-manager"
SECRET = "/api/v1/namespaces/jobset-system/secrets/jobset-webhook-server-cert"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/jobset-system/leases/6d4f6a47.jobset.x-k8s.io"
SCRIPT = ROOT / "docker" / "rootfs.sh"
PACKAGES = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"][
    "packages"
]


def rootfs(*args, **options):
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # uv of the environment, so that none is fetched
    return subprocess.run(  # noqa: S603 - our own script
        [SCRIPT, *args],
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        **options,
    )


@pytest.fixture(scope="module")
def root():
    """A built root. Not in pytest's own folder, which only its owner can enter."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        built = Path(directory) / "root"
        done = rootfs("build", str(built))
        assert done.returncode == 0, done.stderr
        yield built


def test_entry_point_takes_the_go_managers_flags(root):
    done = rootfs("run", str(root), "--", "--help")
    assert done.returncode == 0, done.stderr
    for flag in (
        "--config",
        "--kubeconfig",
        "--zap-log-level",
        "--health-probe-bind-address",
        "--metrics-bind-address",
    ):
        assert flag in done.stdout


def test_wrong_usage_is_reported(root, tmp_path):
    unknown = rootfs("run", str(root), "--", "--nonsense")
    assert unknown.returncode == 2
    assert "--nonsense" in unknown.stderr
    assert "is not empty" in rootfs("build", str(root)).stderr
    assert "make it with" in rootfs("run", str(tmp_path)).stderr
    assert rootfs("start").returncode == 2


def test_nothing_comes_from_the_caller_or_the_machine(root, tmp_path):
    """Neither an `app` in the caller's directory nor PYTHONPATH is looked at; the machine's packages are out of reach."""
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__init__.py").write_text("raise SystemExit('wrong app')")
    environment = {"PYTHONPATH": str(tmp_path), "PATH": os.environ["PATH"]}
    done = subprocess.run(  # noqa: S603 - what was just built
        [root / "manager", "--help"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (root / "manager").read_text().splitlines()[0].endswith(" -IBS")


def test_only_what_the_lock_file_names_is_installed_and_no_tool(root):
    locked = dict(re.findall(r"^([a-z0-9.-]+)==([^ ;]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    installed = {
        p.name.removesuffix(".dist-info").rsplit("-", 1)[0].replace("_", "-").lower(): p.name.removesuffix(
            ".dist-info"
        ).rsplit("-", 1)[1]
        for p in (root / "opt" / "jobset").glob("*.dist-info")
    }
    del installed["jobset-controller"]
    assert installed.items() <= locked.items()
    assert "uvloop" in installed
    assert not {"pytest", "mypy", "uv", "hatchling"} & installed.keys()
    assert not root.with_name("root.tools").exists()


def test_every_package_is_there(root):
    assert all((root / "opt" / "jobset" / package / "__init__.py").exists() for package in PACKAGES)


def test_the_manager_runs_from_it_unprivileged_with_the_rights_of_the_manifests(root, tmp_path_factory, binaries):
    """Ready, certificates spread, lease held, nothing to gain in the root, clean end: all as an unprivileged user."""
    spec = ClusterSpec(name="image", profile="api")
    with running(spec, sources=Sources(assets=binaries), state_root=tmp_path_factory.mktemp("image")) as cluster:
        webhook_port, health_port = local.free_port(), local.free_port()
        local.install(cluster, webhook_port=webhook_port)
        credential = cluster.kubeconfig_for(MANAGER, ["system:serviceaccounts", "system:serviceaccounts:jobset-system"])
        kubeconfig, config, log = (root.parent / name for name in ("kubeconfig", "config.yaml", "log"))
        kubeconfig.write_bytes(credential.read_bytes())
        config.write_text(yaml.safe_dump(local.configuration(webhook_port, health_port)))
        with log.open("wb") as output:
            process = subprocess.Popen(  # noqa: S603 - our own script
                [SCRIPT, "run", root, "--", f"--config={config}", f"--kubeconfig={kubeconfig}", "--zap-log-level=2"],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip
        try:
            wait_for(lambda: process.poll() is not None or ready(health_port), what="readiness")
            assert process.poll() is None, log.read_text()
            seen = dict(line.split(":\t", 1) for line in Path(f"/proc/{process.pid}/status").read_text().splitlines())
            if os.getuid() == 0:
                assert set(seen["Uid"].split()) == set(seen["Gid"].split()) == {"65532"}
                assert int(seen["CapEff"], 16) == int(seen["CapBnd"], 16) == 0
                assert seen["NoNewPrivs"] == "1"
            assert set(request(cluster, "GET", SECRET)[1]["data"]) == {"ca.crt", "ca.key", "tls.crt", "tls.key"}
            wait_for(lambda: request(cluster, "GET", LEASE)[0] == 200, what="the lease to be taken")
            process.terminate()
            assert process.wait(15) == 0, log.read_text()
        finally:
            process.kill()
            process.wait()


def ready(port):
    """Whether the manager says so."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2) as answer:
            return answer.status == 200
    except OSError:
        return False


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_nobody_but_the_builder_can_write(root, kind):
    paths = [p for p in [root, *root.rglob("*")] if (p.is_dir() if kind == "directory" else p.is_file())]
    assert len(paths) > 20
    assert [p for p in paths if p.stat().st_mode & 0o022] == []
    assert [p for p in paths if not p.stat().st_mode & 0o004] == []


def test_a_tampered_package_is_refused(tmp_path):
    """The same script on a copy of the tree whose lock file demands another content for one package."""
    for name in ("docker", "api", "requirements.lock", "pyproject.toml", "README.md"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    lock = (tmp_path / "requirements.lock").read_text()
    head, rest = lock.split("\nmsgspec==", 1)
    block, tail = re.split(r"\n(?=[a-z])", rest, maxsplit=1)
    spoilt = re.sub(r"sha256:.{8}", "sha256:00000000", block)
    (tmp_path / "requirements.lock").write_text(f"{head}\nmsgspec=={spoilt}\n{tail}")
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(  # noqa: S603 - our own script
        [tmp_path / "docker" / "build-steps.sh", "dependencies", tmp_path / "root"],
        env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "Hash mismatch for `msgspec" in done.stderr


def dockerfile():
    return (ROOT / "docker" / "Dockerfile").read_text()


def test_dockerfile_runs_the_same_steps():
    steps = re.findall(r'^RUN \["docker/build-steps.sh", "(\w+)", "/rootfs"\]$', dockerfile(), re.MULTILINE)
    assert steps == re.findall(r'"\$here/build-steps.sh" (\w+) "\$root"', SCRIPT.read_text())
    assert len(re.findall("^RUN", dockerfile(), re.MULTILINE)) == len(steps) == 3


def test_image_is_unprivileged_and_starts_the_manager():
    final = dockerfile().rsplit("FROM ", 1)[1]
    assert "USER 65532:65532\n" in final
    assert final.rstrip().endswith('ENTRYPOINT ["/manager"]')


def test_the_builder_gets_every_package_and_little_else():
    shown = (ROOT / "docker" / "Dockerfile.dockerignore").read_text().splitlines()
    assert shown[0] == "*"
    assert {line.removeprefix("!") for line in shown if line.startswith("!")} == {
        *PACKAGES,
        "agent",
        "docker/build-steps.sh",
        "pyproject.toml",
        "README.md",
        "requirements.lock",
    }
