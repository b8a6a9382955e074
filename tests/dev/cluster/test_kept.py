"""Processes beside the control plane are started again when they end, and the status says so while one does not run."""

import fcntl
import http.server
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from api.keys import NOT_READY
from app.settings import LeaderElectionSettings
from dev import local
from dev.cluster.assets import Sources
from dev.cluster.cluster import Cluster, running, statuses
from dev.cluster.components import Component, Plan
from dev.cluster.kept import FIRST_PAUSE, LONG_RUN_SECONDS, LONGEST_PAUSE, KeptProcesses
from dev.cluster.readiness import unready_lines
from dev.cluster.spec import ClusterSpec, Layout
from dev.cluster.supervisor import write_status
from tests.dev.cluster.test_lifecycle import alive, cli
from tests.support.cluster.requests import request, wait_for


class Process:
    """Runs until `code` is set."""

    pid = 4711

    def __init__(self) -> None:
        self.code: int | None = None

    def poll(self) -> int | None:
        return self.code


class Kept:
    """The processes of a cluster, a clock that the test moves, and what was started."""

    def __init__(self, layout: Layout) -> None:
        self.now = 1000.0
        self.layout = layout
        self.started: list[Process] = []
        self.broken = False
        self.processes = KeptProcesses(layout, self._spawn, clock=lambda: self.now)  # type: ignore[arg-type]

    def _spawn(self, _component: Component, _layout: Layout) -> Process:
        if self.broken:
            raise OSError(2, "No such file or directory")
        self.started.append(Process())
        return self.started[-1]

    def end(self, code: int, *, after: float = 1.0) -> None:
        self.now += after
        self.started[-1].code = code
        assert self.processes.start_due_processes()

    def pause(self) -> float:
        """Seconds until it is started again."""
        begin, count = self.now, len(self.started)
        while len(self.started) == count:
            self.now += 0.5
            self.processes.start_due_processes()
        return self.now - begin

    def last_end(self) -> object:
        return self.processes.report()["manager"]["ended"]


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    found = Layout(tmp_path / "demo")
    found.logs.mkdir(parents=True)
    return found


@pytest.fixture
def cluster(layout: Layout) -> Cluster:
    ports = dict.fromkeys(("etcd", "kube-apiserver"), 1)
    return Cluster(Plan(ClusterSpec(name="demo", profile="api"), layout, Path("/nowhere"), ports))


@pytest.fixture
def kept_manager(cluster: Cluster, layout: Layout) -> Kept:
    cluster.keep("manager", ["manager", f"--config={layout.root}/config.yaml"])
    found = Kept(layout)
    assert found.processes.start_due_processes()
    return found


def test_a_process_that_ends_is_started_again_and_its_log_says_so(kept_manager: Kept):
    assert len(kept_manager.started) == 1
    assert not kept_manager.processes.start_due_processes()
    kept_manager.end(1)
    assert kept_manager.last_end() == "ended with exit code 1"
    assert (
        "local cluster: manager ended with exit code 1; it is started again after 1 s\n"
        in kept_manager.layout.log("manager").read_text()
    )
    assert kept_manager.pause() == FIRST_PAUSE
    assert kept_manager.processes.report()["manager"]["starts"] == 2


def test_the_pause_grows_up_to_a_bound_and_begins_again_after_a_long_run(kept_manager: Kept):
    pauses = []
    for _ in range(8):
        kept_manager.end(-9)
        pauses.append(kept_manager.pause())
    assert pauses == [1, 2, 4, 8, 16, LONGEST_PAUSE, LONGEST_PAUSE, LONGEST_PAUSE]
    kept_manager.end(1, after=LONG_RUN_SECONDS + 1)
    assert kept_manager.pause() == FIRST_PAUSE


def test_a_program_that_is_not_there_is_tried_again_and_named(kept_manager: Kept):
    kept_manager.broken = True
    kept_manager.end(1)
    kept_manager.now += FIRST_PAUSE
    kept_manager.processes.start_due_processes()
    assert kept_manager.last_end() == "cannot be started: manager: No such file or directory"


def test_the_status_of_the_cluster_says_that_a_process_does_not_run(
    kept_manager: Kept, cluster: Cluster, layout: Layout
):
    layout.record.write_text(cluster.plan.as_json())
    root = layout.root.parent
    with layout.lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        write_status(layout, {"phase": "ready", "kept": kept_manager.processes.report()})
        assert [(each["phase"], each["message"]) for each in statuses(state_root=root)] == [("ready", "")]
        kept_manager.end(1)
        write_status(layout, {"phase": "ready", "kept": kept_manager.processes.report()})
        shown = cli("status", "--state-dir", str(root)).stdout
        kept_manager.pause()
        write_status(layout, {"phase": "ready", "kept": kept_manager.processes.report()})
        again = cli("status", "--state-dir", str(root)).stdout
    assert "degraded" in shown
    assert (
        "demo: manager is not running, and starts within 30 s (starts: 1): it ended with exit code 1."
        f" Its log: {layout.log('manager')}\n"
    ) in shown
    assert "demo  ready" in again
    assert "demo: manager runs again (starts: 2): it ended with exit code 1." in again
    assert "`jobset cluster down --name demo` removes what is left" in cli("status", "--state-dir", str(root)).stdout


@pytest.mark.parametrize(
    ("code", "body", "says"),
    [
        (200, "ok", ""),
        (
            500,
            "[-]rights failed: may not list jobs\n[+]crd ok\nreadyz check failed\n",
            "rights failed: may not list jobs",
        ),
        (503, "", "it answers 503"),
        (None, "", "it does not answer: "),
    ],
)
def test_the_status_says_what_a_process_that_runs_lacks(layout: Layout, code: int | None, body: str, says: str):
    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(code or 0)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    layout.kept_folder.mkdir(exist_ok=True)
    report = {"manager": {"process": 1}, "other": {"process": 2}}
    with http.server.HTTPServer(("127.0.0.1", 0), Answers) as server:
        layout.probe("manager").write_text(f"http://127.0.0.1:{server.server_port}/readyz")
        if code is None:
            server.server_close()
        else:
            threading.Thread(target=server.handle_request).start()
        words = unready_lines(report, layout)
    assert words.startswith(f"manager runs and is not ready: {says}" if says else "")
    assert words.endswith(f". Its log: {layout.log('manager')}" if says else "")
    assert bool(words) is bool(says)
    assert unready_lines({"manager": {"process": None}}, layout) == "", "that it does not run is said elsewhere"


def test_the_supervisor_runs_what_is_kept_until_it_stops(cluster: Cluster, layout: Layout, tmp_path: Path):
    """The supervisor itself, of a cluster without components."""
    script = f"echo one more >> {layout.root}/runs; test $(wc -l < {layout.root}/runs) = 2 && exec sleep 600; exit 3"
    cluster.keep("manager", ["/bin/sh", "-c", script])
    layout.record.write_text(cluster.plan.as_json())
    code = (
        "import sys; from dev.cluster import supervisor; supervisor.components = lambda plan: [];"
        f"sys.argv[1:] = [{str(layout.root)!r}]; sys.exit(supervisor.main())"
    )
    with subprocess.Popen([sys.executable, "-c", code]) as supervisor:  # noqa: S603
        wait_for(lambda: cluster.kept_process("manager").get("starts") == 2, what="the second run")
        supervisor.terminate()
    assert supervisor.returncode == 0
    assert json.loads(layout.status.read_text())["phase"] == "stopped"


@pytest.mark.slow
@pytest.mark.integration
def test_a_manager_that_is_killed_is_started_again_and_reconciles(tmp_path: Path, binaries: Path):
    spec = ClusterSpec(name="kept", profile="api", audit=False)
    with running(spec, sources=Sources(assets=binaries), state_root=tmp_path) as cluster:
        log = local.keep(cluster)
        os.kill(cluster.kept_process(local.MANAGER_PROCESS)["process"], signal.SIGKILL)
        wait_for(lambda: cluster.kept_process(local.MANAGER_PROCESS)["starts"] == 2, what="the second start")
        wait_for(lambda: log.read_text().count("webhooks serve on port") == 2, timeout=60, what="it serves again")
        assert "manager was killed by signal 9; it is started again after 1 s" in log.read_text()
        (status,) = statuses(state_root=tmp_path)
        assert status["phase"] == "ready"
        assert status["message"].startswith("manager runs again (starts: 2): it was killed by signal 9.")
        pid = cluster.kept_process(local.MANAGER_PROCESS)["process"]
    assert not alive(pid)


@pytest.mark.slow
@pytest.mark.integration
def test_a_manager_that_lacks_rights_is_not_ready_and_the_status_says_why(tmp_path: Path, binaries: Path):
    spec = ClusterSpec(name="bare", profile="api", audit=False)
    with running(spec, sources=Sources(assets=binaries), state_root=tmp_path) as cluster:
        local.keep(cluster)
        binding = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/jobset-manager-rolebinding"
        granted = request(cluster, "GET", binding)[1]
        granted["metadata"] = {"name": granted["metadata"]["name"]}
        assert request(cluster, "DELETE", binding)[0] == 200
        os.kill(cluster.kept_process(local.MANAGER_PROCESS)["process"], signal.SIGKILL)

        def message() -> str:
            (status,) = statuses(state_root=tmp_path)
            return str(status["message"])

        lacks = "manager runs and is not ready: "
        wait_for(
            lambda: lacks in message() and "the manager may not" in message(),
            timeout=60,
            what="the rights",
            last=message,
        )
        assert str(cluster.plan.layout.log(local.MANAGER_PROCESS)) in message().partition(lacks)[2]
        lease = "/apis/coordination.k8s.io/v1/namespaces/jobset-system/leases/" + LeaderElectionSettings().resource_name

        def holder() -> str:
            _, body = request(cluster, "GET", lease)
            return str((body.get("metadata", {}).get("annotations") or {}).get(NOT_READY, ""))

        held = {"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}}  # as if its leader had ended long ago
        assert request(cluster, "PATCH", lease, held, "application/merge-patch+json")[0] == 200
        wait_for(lambda: "the manager may not" in holder(), timeout=60, what="the note at the lease", last=holder)
        assert request(cluster, "POST", binding.rpartition("/")[0], granted)[0] == 201
        wait_for(lambda: not holder(), timeout=60, what="a manager that is ready takes its note away", last=holder)
