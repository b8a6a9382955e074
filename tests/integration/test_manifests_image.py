"""What the image holds, made without an image builder: locked, complete by itself, and run by nobody in particular."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import urllib.request
import zipfile
from pathlib import Path

import pytest
import yaml

from dev import local
from dev.cluster.spec import ClusterSpec
from dev.hack import sbom
from tests.support.cluster.jobs import JOBSETS, group, manifest
from tests.support.cluster.requests import listed, request, wait_for

ROOT = Path(__file__).parents[2]
MANAGER = "system:serviceaccount:jobset-system:jobset-controller-manager"
SECRET = "/api/v1/namespaces/jobset-system/secrets/jobset-webhook-server-cert"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/jobset-system/leases/6d4f6a47.jobset.x-k8s.io"
SCRIPT = ROOT / "docker" / "rootfs.sh"
PACKAGES = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"][
    "only-include"
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_wrong_usage_is_reported(root, tmp_path):
    unknown = rootfs("run", str(root), "--", "--nonsense")
    assert unknown.returncode == 2
    assert "--nonsense" in unknown.stderr
    assert "is not empty" in rootfs("build", str(root)).stderr
    assert "make it with" in rootfs("run", str(tmp_path)).stderr
    assert rootfs("start").returncode == 2


@pytest.mark.slow
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


@pytest.mark.slow
def test_what_the_lock_file_names_is_installed_and_no_tool(root):
    """SystemExit if a package is missing, is of another version, or is there without being locked."""
    parts = sbom.python_packages(root)
    installed = {path.name.removesuffix(".dist-info").replace("_", "-").lower() for path in root.rglob("*.dist-info")}
    assert {f"{part.purl.name}-{part.purl.version}" for part in parts} == installed
    names = {part.purl.name for part in parts}
    assert "uvloop" in names
    assert not {"pytest", "mypy", "uv", "hatchling"} & names
    assert not root.with_name("root.tools").exists()


@pytest.mark.slow
def test_every_package_is_there(root):
    assert {
        package
        for package in PACKAGES
        if not (root / "opt" / "jobset" / package.removeprefix("clients/python/")).exists()
    } == set()


@pytest.fixture
def cluster(own_cluster):
    """An API server of its own, as the manager takes its webhooks."""
    with own_cluster(ClusterSpec(name="image", profile="api")) as cluster:
        yield cluster


@contextlib.contextmanager
def ready_manager(root, cluster):
    """The process, from when it is ready. It has to end well."""
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
        yield process
        process.terminate()
        assert process.wait(15) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_the_manager_runs_from_it_unprivileged_with_the_rights_of_the_manifests(root, cluster):
    """Ready, certificates spread, lease held, nothing to gain in the root, clean end: all as an unprivileged user."""
    with ready_manager(root, cluster) as process:
        seen = dict(line.split(":\t", 1) for line in Path(f"/proc/{process.pid}/status").read_text().splitlines())
        if os.getuid() == 0:
            assert set(seen["Uid"].split()) == set(seen["Gid"].split()) == {"65532"}
            assert int(seen["CapEff"], 16) == int(seen["CapBnd"], 16) == 0
            assert seen["NoNewPrivs"] == "1"
        assert set(request(cluster, "GET", SECRET)[1]["data"]) == {"ca.crt", "ca.key", "tls.crt", "tls.key"}
        wait_for(lambda: request(cluster, "GET", LEASE)[0] == 200, what="the lease to be taken")


@pytest.mark.timeout(300)
@pytest.mark.slow
def test_it_is_ready_after_two_seconds_of_processor_time_with_1000_jobs(root, cluster):
    """Processor time, which a busy machine changes little."""
    with ready_manager(root, cluster):
        for number in range(25):
            body = manifest(group(replicas=40), name=f"js-{number}")
            wait_for(
                lambda body=body: request(cluster, "POST", JOBSETS.format("default"), body)[0] == 201, what="admission"
            )
        wait_for(lambda: len(listed(cluster, JOBS)) == 1000, what="all Jobs", timeout=60)
    with ready_manager(root, cluster) as process:
        assert processor_seconds(process.pid) <= 2


def processor_seconds(pid):
    """Of a manager, and of the process that it has started for the webhooks."""
    children = " ".join(path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")).split()
    assert len(children) == 1
    stats = [Path(f"/proc/{one}/stat").read_text().rpartition(") ")[2].split() for one in (pid, *children)]
    return sum(int(stat[11]) + int(stat[12]) for stat in stats) / os.sysconf("SC_CLK_TCK")


def ready(port):
    """Whether the manager says so."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2) as answer:
            return answer.status == 200
    except OSError:
        return False


@pytest.mark.parametrize("kind", ["file", "directory"])
@pytest.mark.slow
def test_nobody_but_the_builder_can_write(root, kind):
    paths = [p for p in [root, *root.rglob("*")] if (p.is_dir() if kind == "directory" else p.is_file())]
    assert len(paths) > 20
    assert [p for p in paths if p.stat().st_mode & 0o022] == []
    assert [p for p in paths if not p.stat().st_mode & 0o004] == []


@pytest.mark.slow
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
    assert len(re.findall("^RUN", dockerfile(), re.MULTILINE)) == len(steps) == 4


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
        "LICENSE",
        "pyproject.toml",
        "README.md",
        "requirements.lock",
    }


def test_the_wheel_has_the_same_files_where_a_builder_makes_it(tmp_path):
    context = tmp_path / "context"
    shown = (ROOT / "docker" / "Dockerfile.dockerignore").read_text().splitlines()
    for name in [line.removeprefix("!") for line in shown if line.startswith("!")]:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        (context / name).parent.mkdir(parents=True, exist_ok=True)
        copy(ROOT / name, context / name)
    assert wheel_files(context, tmp_path / "there") == wheel_files(ROOT, tmp_path / "here")


def wheel_files(tree: Path, out: Path) -> set[str]:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", out]
    subprocess.run(command, cwd=tree, check=True, capture_output=True, timeout=60)  # noqa: S603 - our own build
    [wheel] = out.glob("*.whl")
    return {name for name in zipfile.ZipFile(wheel).namelist() if "__pycache__" not in name}
