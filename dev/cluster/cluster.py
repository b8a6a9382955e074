"""Starts, inspects and stops a local cluster, for `jobset cluster` and for Python.

`up` leaves a cluster running in the background. `running` is for tests and demos, and takes the cluster down when the
block or the process ends, even by kill -9. The supervisor runs the processes.
"""

import contextlib
import fcntl
import functools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dev.cluster import pki, rest
from dev.cluster.assets import Sources, locate
from dev.cluster.components import ADMIN, CLIENTS, KUBELET_CLIENT, Plan, write_configs
from dev.cluster.contents import create_contents
from dev.cluster.errors import DevclusterError, disk_errors, ended_message, gone_message, not_up_error, require_space
from dev.cluster.kept import restart_lines
from dev.cluster.ports import pick_ports
from dev.cluster.readiness import unready_lines
from dev.cluster.real.assets import locate_node_assets
from dev.cluster.real.config import write_files
from dev.cluster.real.contents import prepare_nodes
from dev.cluster.real.preflight import real_nodes_missing
from dev.cluster.spec import ClusterSpec, Layout, default_state_root, replace_text
from dev.cluster.supervisor import START_SECONDS, remove_folder, tail
from kube.model.versions import GANGS

MIN_FREE_MIB = 500
STOP_SECONDS = 45
KILL_SECONDS = 5
PROXY_VARIABLES = {"http_proxy", "https_proxy", "all_proxy"}

# Supervisors that this process has started and not yet reaped.
_own_supervisors: dict[Path, subprocess.Popen[bytes]] = {}


@dataclass(frozen=True)
class Cluster:
    """A cluster that is up. `existed`: whether it was up before the call that returned this object."""

    plan: Plan
    existed: bool = False

    @property
    def name(self) -> str:
        return self.plan.spec.name

    @property
    def server(self) -> str:
        """The API server's URL."""
        return self.plan.server

    @property
    def kubeconfig(self) -> Path:
        """The path of an administrator's kubeconfig (group system:masters)."""
        return self.plan.layout.kubeconfig

    @property
    def audit_log(self) -> Path:
        return self.plan.layout.audit_log

    @property
    def kubectl(self) -> Path:
        return self.plan.binaries / "kubectl"

    def connect(self) -> rest.Connection:
        """A connection as administrator. Close it, or use it in a `with` block."""
        return rest.Connection(self.plan.ports["kube-apiserver"], rest.client_tls(self.plan.layout.pki, ADMIN))

    def keep(self, name: str, argv: Sequence[str]) -> None:
        """Run a process beside the control plane while it is up, and start it again whenever it ends.

        Its output is the cluster's log `name`. The command line must name a file in the cluster's state folder.
        """
        self.plan.layout.kept_folder.mkdir(mode=0o700, exist_ok=True)
        replace_text(self.plan.layout.kept_folder / f"{name}.json", json.dumps(list(argv)))

    def kept_process(self, name: str) -> dict[str, Any]:
        """The report of a kept process (`KeptProcesses.report`); {} before its first start."""
        report: dict[str, Any] = _read_status(self.plan.layout).get("kept", {}).get(name, {})
        return report

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        """The path of a new kubeconfig of `user` in `groups`, with a client certificate of the cluster's CA.

        For a service account: user "system:serviceaccount:NS:NAME", groups "system:serviceaccounts" and
        "system:serviceaccounts:NS".
        """
        layout = self.plan.layout
        path = layout.config / f"{user.replace(':', '_').replace('/', '_')}.kubeconfig"
        pair = pki.issue_client(pki.Pair.read(layout.pki, "ca"), user, groups)
        pki.write_private(path, _kubeconfig(self.plan, pair).encode())
        return path


def up(
    spec: ClusterSpec,
    *,
    sources: Sources | None = None,
    state_root: Path | None = None,
    owned: bool = False,
) -> Cluster:
    """Start the cluster and return once its API server answers, its controllers run and its nodes are ready.

    A cluster of the same name that is already up is returned as it is. An `owned` cluster ends with this process.
    Raises DevclusterError with the cause and the fix; no process keeps running then.
    """
    layout = Layout.for_name(spec.name, state_root)
    root = layout.root.parent
    with disk_errors(root, f"{MIN_FREE_MIB} MiB"):
        root.mkdir(parents=True, exist_ok=True)
        with _hold_lock(root / f"{spec.name}.lock"):
            if _is_supervised(layout):
                return Cluster(_wait_until_ready(layout), existed=True)
            if spec.real_nodes and (missing := real_nodes_missing()):
                raise DevclusterError(missing)
            sources = sources or Sources()
            binaries = locate(sources)
            node_assets = str(locate_node_assets(sources)) if spec.real_nodes else ""
            require_space(root, MIN_FREE_MIB)
            _clear_state(layout)
            gang = spec.gang and has_gangs(binaries)
            plan = Plan(spec, layout, binaries, pick_ports(spec), node_assets, gang)
            _write_state(plan)
            try:
                _start_supervisor(layout, owned=owned)
                _wait_until_ready(layout)
                create_contents(spec, plan.ports["kube-apiserver"], rest.client_tls(layout.pki, ADMIN))
                if spec.real_nodes:
                    prepare_nodes(plan)
            except BaseException:
                _stop_supervisor(layout)
                raise
            return Cluster(plan)


@functools.cache
def has_gangs(binaries: Path) -> bool:
    """Whether the API server has the feature gates of gangs. An older API server does not start with unknown gates."""
    command: list[str | Path] = [binaries / "kube-apiserver", "--version"]
    try:
        answer = subprocess.run(  # noqa: S603 - the cluster's own binary
            command, capture_output=True, text=True, timeout=START_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return True  # the supervisor says why it cannot be run
    version = re.search(r"v(\d+)\.(\d+)", answer.stdout)
    return version is None or (int(version[1]), int(version[2])) >= GANGS.since


def down(name: str, *, state_root: Path | None = None) -> bool:
    """Stop the cluster and remove its state folder. Returns whether there was one."""
    layout = Layout.for_name(name, state_root)
    if not layout.root.exists():
        return False
    with _hold_lock(layout.root.with_name(f"{name}.lock")):
        _stop_supervisor(layout)
        _clear_state(layout)
    return True


@contextlib.contextmanager
def running(spec: ClusterSpec, *, sources: Sources | None = None, state_root: Path | None = None) -> Iterator[Cluster]:
    """A cluster that lives as long as the block, and not longer than this process."""
    cluster = up(spec, sources=sources, state_root=state_root, owned=True)
    try:
        yield cluster
    finally:
        down(spec.name, state_root=state_root)


def get(name: str, *, state_root: Path | None = None) -> Cluster:
    """The cluster with this name. Raises DevclusterError if it is not up."""
    layout = Layout.for_name(name, state_root)
    if not _is_supervised(layout):
        raise not_up_error(
            name,
            [status["name"] for status in statuses(state_root=state_root) if status["phase"] in {"ready", "degraded"}],
        )
    return Cluster(Plan.read(layout), existed=True)


def statuses(*, state_root: Path | None = None) -> list[dict[str, Any]]:
    """The status of each cluster. Its phase is starting, ready, degraded, stopping, failed, gone or stale.

    A cluster is degraded if its control plane is ready, but a process of `Cluster.keep` does not run.
    """
    root = state_root or default_state_root()
    folders = sorted(root.iterdir()) if root.is_dir() else []
    return [_cluster_status(Layout(folder)) for folder in folders if Layout(folder).record.is_file()]


def _cluster_status(layout: Layout) -> dict[str, Any]:
    status = _read_status(layout)
    try:
        plan = Plan.read(layout)
    except DevclusterError as error:
        empty = dict.fromkeys(("profile", "nodes", "server", "kubeconfig", "auditLog"), "")
        status["message"] = str(error)
        head = {"name": layout.root.name, "phase": "stale"}
        return {**head, **empty, "folder": str(layout.root), **_process_details(status)}
    phase = status.get("phase", "starting")
    kept_processes = status.get("kept", {})
    if not _is_supervised(layout) and phase != "failed":
        phase = "gone"
        status["message"] = gone_message(plan.spec.name)
    elif phase == "failed":
        status["message"] = f"{status.get('message', '')}\n{ended_message(plan.spec.name)}"
    elif phase == "ready":
        phase = "degraded" if any(not each["process"] for each in kept_processes.values()) else phase
        status["message"] = "\n".join(
            filter(None, [restart_lines(kept_processes, layout), unready_lines(kept_processes, layout)])
        )
    return {
        "name": plan.spec.name,
        "phase": phase,
        "profile": plan.spec.profile,
        "nodes": plan.spec.nodes.count + plan.spec.real_nodes,
        "server": plan.server,
        "kubeconfig": str(layout.kubeconfig),
        "auditLog": str(layout.audit_log) if plan.spec.audit else "",
        "folder": str(layout.root),
        **_process_details(status),
    }


def _process_details(status: dict[str, Any]) -> dict[str, Any]:
    return {
        "message": status.get("message", ""),
        "supervisor": status.get("supervisor"),
        "components": status.get("components", {}),
        "kept": status.get("kept", {}),
    }


def _write_state(plan: Plan) -> None:
    layout = plan.layout
    layout.root.mkdir(mode=0o700)
    # Written first, since it marks the folder as ours, so that a later run may clear it.
    layout.record.write_text(plan.as_json())
    for folder in (layout.pki, layout.config, layout.logs, layout.etcd):
        folder.mkdir(mode=0o700)
    authority = pki.new_authority("kubernetes")
    pairs = {
        "ca": authority,
        "serving": pki.issue_serving(authority, "kube-apiserver"),
        KUBELET_CLIENT: pki.issue_client(authority, KUBELET_CLIENT, ["system:masters"]),
        **{name: pki.issue_client(authority, user, groups) for name, (user, groups) in CLIENTS.items()},
    }
    for name, pair in pairs.items():
        pair.write(layout.pki, name)
    pki.write_private(layout.pki / "service-accounts.key", pki.new_signing_key())
    for name in CLIENTS:
        pki.write_private(plan.kubeconfig(name), _kubeconfig(plan, pairs[name]).encode())
    write_configs(plan)
    write_files(plan, authority)


def _kubeconfig(plan: Plan, client: pki.Pair) -> str:
    authority = (plan.layout.pki / "ca.crt").read_bytes()
    return pki.kubeconfig(f"jobset-{plan.spec.name}", plan.server, authority, client)


def _start_supervisor(layout: Layout, *, owned: bool) -> None:
    # No proxy, since it would intercept calls to webhooks at the machine's own address.
    environment = {key: value for key, value in os.environ.items() if key.lower() not in PROXY_VARIABLES}
    argv = [sys.executable, "-m", "dev.cluster.supervisor", str(layout.root)]
    with (layout.logs / "supervisor.log").open("ab") as log:
        _own_supervisors[layout.root] = subprocess.Popen(  # noqa: S603 - our own module
            [*argv, str(os.getpid())] if owned else argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=layout.root,
            env=environment,
            start_new_session=True,  # Ctrl-C in the terminal reaches only the owner, which stops it gracefully
        )


def _wait_until_ready(layout: Layout) -> Plan:
    deadline = time.monotonic() + 3 * START_SECONDS
    supervisor = _own_supervisors.get(layout.root)
    while time.monotonic() < deadline:
        has_ended = supervisor.poll() is not None if supervisor else not _is_supervised(layout)
        status = _read_status(layout)
        if status.get("phase") == "ready" and not has_ended:
            return Plan.read(layout)
        if has_ended:
            message = status.get("message") or "\n".join(tail(layout.logs / "supervisor.log", 20))
            name = layout.root.name
            raise DevclusterError(f"cluster {name!r} did not come up: {message}\nAll logs: {layout.logs}")
        time.sleep(0.05)
    raise DevclusterError(f"cluster {layout.root.name!r} was not ready in time. All logs: {layout.logs}")


def _stop_supervisor(layout: Layout) -> None:
    pid = _read_status(layout).get("supervisor")
    for signal_number, seconds in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, KILL_SECONDS)):
        if pid is not None and _is_supervised(layout):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal_number)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if not _is_supervised(layout):
                _reap_supervisor(layout)
                return
            time.sleep(0.05)
    raise DevclusterError(
        f"the supervisor of cluster {layout.root.name!r} (process {pid}) does not end: "
        f"end it by hand and run `down` again."
    )


def _reap_supervisor(layout: Layout) -> None:
    supervisor = _own_supervisors.pop(layout.root, None)
    if supervisor:
        supervisor.wait()


def _clear_state(layout: Layout) -> None:
    """Remove the state folder of a cluster that has stopped, and processes that outlived their supervisor."""
    _reap_supervisor(layout)
    if not layout.root.exists():
        return
    if not layout.record.exists() and any(layout.root.iterdir()):
        raise DevclusterError(
            f"{layout.root} is not empty and was not made by this tool (no {layout.record.name} in it).\n"
            f"Remove it, or choose another --name or --state-dir."
        )
    status = _read_status(layout)
    kept_processes = (each["process"] for each in status.get("kept", {}).values() if each["process"])
    pids = (*status.get("components", {}).values(), *kept_processes)
    deadline = time.monotonic() + KILL_SECONDS
    while (alive := [pid for pid in pids if str(layout.root) in _command_line(pid)]) and time.monotonic() < deadline:
        for pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    remove_folder(layout)


def _command_line(pid: int) -> str:
    answer = subprocess.run(  # noqa: S603 - fixed command, a number as its argument
        ["ps", "-ww", "-o", "command=", "-p", str(pid)],  # noqa: S607 - its place differs between systems
        capture_output=True,
        text=True,
        check=False,
    )
    return answer.stdout


def _read_status(layout: Layout) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        status: dict[str, Any] = json.loads(layout.status.read_text())
        return status
    return {}


def _is_supervised(layout: Layout) -> bool:
    """Whether a supervisor holds its lock. A shared lock is tried, so that checks do not disturb each other."""
    try:
        with layout.lock.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


@contextlib.contextmanager
def _hold_lock(path: Path) -> Iterator[None]:
    """Hold the lock of a cluster, so that one `up` or `down` runs at a time. The last process removes the lock file."""
    while True:
        with path.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # If the previous holder has removed the file, no other process can see our lock.
            if os.fstat(lock.fileno()).st_nlink == 0:
                continue
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
            return
