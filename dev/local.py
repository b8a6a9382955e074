"""Runs the manager as a process beside a local control plane, for the demo, tests and experiments.

The manager has the rights of its ServiceAccount and its own certificates, as in a cluster. Only the address differs:
the API server calls its webhooks by URL on the loopback interface.
"""

import contextlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any

import yaml

from app.settings import API_VERSION, KIND
from controllers.resources import JOBSETS
from dev.cluster.cluster import Cluster, running
from dev.cluster.errors import DevclusterError
from dev.cluster.rest import reason_of
from dev.cluster.spec import ClusterSpec
from dev.cluster.supervisor import tail
from kube.resources import CRDS
from manifests import NAMESPACE, SERVICE_ACCOUNT, PodAdmission, install_objects, policy_objects
from manifests.naming import CONFIG_KEY, DEPLOYMENT

START_SECONDS = 60
STOP_SECONDS = 15
KUBECTL_SECONDS = 120
LOG_LINES = 20
MANAGER_COMMAND = (sys.executable, "-P", "-m", "cli", "manager")
"""The command of this installation, whatever is in the current folder."""
MANAGER_PROCESS = "manager"
"""The name of a kept manager in the cluster's status and logs."""
APPLY_OPTIONS = "fieldManager=kubectl&force=true&fieldValidation=Strict"
SERVED_PATHS = (f"/apis/{JOBSETS.api_version}", f"{JOBSETS.path(None)}?limit=1")
"""Paths that answer once the API server serves JobSets."""


class LocalError(DevclusterError):
    """A step on this machine has failed. The text names the step, and has the last lines of its log, if it has one."""


@dataclass(frozen=True, slots=True)
class Manager:
    """A running manager. `health`: the URL of its readiness probe."""

    process: subprocess.Popen[bytes]
    log: Path
    health: str
    webhook_port: int

    def tail(self) -> str:
        """Return the last lines of its log."""
        return _tail(self.log)

    def kill(self) -> None:
        """Kill the process, as a crash would, and wait for its end."""
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def temporary_cluster(spec: ClusterSpec) -> Iterator[Cluster]:
    """A cluster that lives as long as the block. Its files are in a temporary folder."""
    with (
        tempfile.TemporaryDirectory(prefix=f"jobset-{spec.name}-") as scratch,
        running(spec, state_root=Path(scratch)) as cluster,
    ):
        yield cluster


def free_port() -> int:
    """Return a port on the loopback interface that is free at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def kubectl(
    cluster: Cluster, *args: str, stdin: str | None = None, check: bool = True, timeout: float = KUBECTL_SECONDS
) -> subprocess.CompletedProcess[str]:
    """Run kubectl as administrator of the cluster. Raises `LocalError` if it fails, unless `check` is False."""
    command = [str(cluster.kubectl), "--kubeconfig", str(cluster.kubeconfig), *args]
    try:
        result = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=timeout)  # noqa: S603 (our own binary)
    except subprocess.TimeoutExpired as error:
        raise LocalError(f"kubectl {' '.join(args)} did not end within {timeout:g} s") from error
    if check and result.returncode != 0:
        raise LocalError(f"kubectl {' '.join(args)} failed:\n{result.stderr.strip()[:2000]}")
    return result


def install(
    cluster: Cluster,
    *,
    webhook_port: int | None,
    pods: PodAdmission = "webhooks",
    ca_bundle: bytes | None = None,
) -> None:
    """Install the objects of manifests/, and wait until JobSets are served.

    `webhook_port` is the port of this machine that the API server calls; None leaves the webhooks out. `ca_bundle` is
    the PEM of the authority of the manager's certificate; if it is None, the manager writes it.
    """
    objects = install_objects(webhook_url=f"https://127.0.0.1:{webhook_port or 1}", ca_bundle=ca_bundle, pods=pods)
    if webhook_port is None:
        objects = [body for body in objects if not body["kind"].endswith("WebhookConfiguration")]
    _apply(cluster, objects)
    _wait_until_served(cluster)


def install_in_pods(cluster: Cluster, *, gates: Sequence[str] = ()) -> str:
    """Install manifests/install.yaml with feature gates, and wait for its pods. Returns the command for their log.

    The nodes have to be real, and to have the manager's image.
    """
    objects = install_objects()
    for body in objects:
        if body["kind"] == "ConfigMap" and gates:
            settings = yaml.safe_load(body["data"][CONFIG_KEY]) | {"featureGates": dict.fromkeys(gates, True)}
            body["data"][CONFIG_KEY] = yaml.safe_dump(settings)
    _apply(cluster, objects)
    _wait_until_served(cluster)
    target = ("-n", NAMESPACE, f"deployment/{DEPLOYMENT}")
    kubectl(cluster, "rollout", "status", f"--timeout={START_SECONDS}s", *target)
    return f"kubectl logs {' '.join(target)}"


def install_policies(cluster: Cluster, *, webhook_port: int) -> None:
    """Install the objects of manifests/policy, and wait until both CRDs are established."""
    objects = policy_objects(webhook_url=f"https://127.0.0.1:{webhook_port}")
    _apply(cluster, objects)
    crds = [f"crd/{body['metadata']['name']}" for body in objects if body["kind"] == CRDS.kind]
    kubectl(cluster, "wait", "--for=condition=Established", *crds)


def _apply(cluster: Cluster, objects: list[dict[str, Any]]) -> None:
    """Apply objects as `kubectl apply --server-side --force-conflicts` does.

    kubectl would read the OpenAPI schema first, which costs a new API server more than a second of processor time.
    """
    with cluster.connect() as connection:

        def answer_of(method: str, path: str, *rest: Any) -> Any:
            status, answer = connection.request(method, path, *rest)
            if status not in (HTTPStatus.OK, HTTPStatus.CREATED):
                raise LocalError(f"the API server answered {status} to {method} {path}: {reason_of(answer)}")
            return answer

        @cache
        def plurals_by_kind(root: str) -> dict[str, str]:
            return {
                each["kind"]: each["name"] for each in answer_of("GET", root)["resources"] if "/" not in each["name"]
            }

        for body in objects:
            meta, version = body["metadata"], body["apiVersion"]
            root = f"/apis/{version}" if "/" in version else f"/api/{version}"
            folder = f"{root}/namespaces/{meta['namespace']}" if "namespace" in meta else root
            path = f"{folder}/{plurals_by_kind(root)[body['kind']]}/{meta['name']}?{APPLY_OPTIONS}"
            answer_of("PATCH", path, body, "application/apply-patch+yaml")


def _wait_until_served(cluster: Cluster) -> None:
    """Wait until the API server lists and serves JobSets, which it does shortly after their CRD is established."""
    deadline = time.monotonic() + START_SECONDS
    with cluster.connect() as connection:
        while not all(connection.request("GET", path)[0] == HTTPStatus.OK for path in SERVED_PATHS):
            if time.monotonic() >= deadline:
                paths = " and ".join(SERVED_PATHS)
                raise LocalError(f"the API server did not serve JobSets ({paths}) within {START_SECONDS} s")
            time.sleep(0.05)


def configuration(webhook_port: int, health_port: int, **sections: Any) -> dict[str, Any]:
    """Return the configuration of a manager on this machine. `sections` are merged into it."""
    config: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "webhook": {"port": webhook_port, "host": "127.0.0.1"},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health_port}"},
        "leaderElection": {"leaderElect": True, "resourceNamespace": NAMESPACE},
    }
    for name, section in sections.items():
        config[name] = {**config.get(name, {}), **section} if isinstance(section, dict) else section
    return config


def start(
    cluster: Cluster,
    folder: Path,
    *,
    webhook_port: int,
    command: Sequence[str] = MANAGER_COMMAND,
    flags: Sequence[str] = (),
    sections: dict[str, Any] | None = None,
) -> Manager:
    """Start a manager by its command, and wait until it is ready. `folder` is for its files.

    `sections` are merged into its configuration. Raises `LocalError` if it does not become ready.
    """
    health_port = free_port()
    argv = _write_manager_files(cluster, folder, configuration(webhook_port, health_port, **(sections or {})))
    log = folder / f"manager-{health_port}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 (ourselves, or what the caller asks for)
            [*command, *argv, *flags],
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # signals of the terminal go to the parent, which stops it gracefully
        )
    manager = Manager(process, log, f"http://127.0.0.1:{health_port}/readyz", webhook_port)

    def exit_text() -> str:
        code = process.poll()
        return "" if code is None else f"ended with exit code {code}"

    try:
        _wait_until_ready(manager.health, log, exit_text)
    except BaseException:
        manager.kill()
        raise
    return manager


def keep(cluster: Cluster, *, flags: Sequence[str] = (), policies: bool = False, metrics: str = "0") -> Path:
    """Install JobSet, and make the cluster run a manager. Returns the path of its log once it is ready.

    The cluster starts the manager again whenever it ends, as a Deployment does. `policies`: whether to install the
    objects of manifests/policy, too. `metrics`: the address at which the manager serves metrics.
    """
    port, health_port = free_port(), free_port()
    install(cluster, webhook_port=port)
    if policies:
        install_policies(cluster, webhook_port=port)
    layout = cluster.plan.layout
    config = configuration(port, health_port, metrics={"bindAddress": metrics})
    argv = _write_manager_files(cluster, layout.root / MANAGER_PROCESS, config)
    probe = f"http://127.0.0.1:{health_port}/readyz"
    cluster.keep(MANAGER_PROCESS, [*MANAGER_COMMAND, *argv, *flags])
    layout.probe(MANAGER_PROCESS).write_text(probe)
    log = layout.log(MANAGER_PROCESS)
    _wait_until_ready(probe, log, lambda: str(cluster.kept_process(MANAGER_PROCESS).get("ended", "")))
    return log


def _write_manager_files(cluster: Cluster, folder: Path, config: dict[str, Any]) -> list[str]:
    """Write the configuration, and a kubeconfig with the manager's rights. Returns the arguments that name them."""
    folder.mkdir(parents=True, exist_ok=True)
    config["webhook"]["certDir"] = str(folder / "certs")
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    user = f"system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}"
    kubeconfig = cluster.kubeconfig_for(user, ["system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}"])
    return [f"--config={path}", f"--kubeconfig={kubeconfig}"]


def stop(manager: Manager) -> int:
    """Stop the manager. Returns its exit code. Raises `LocalError` if it does not end within `STOP_SECONDS`."""
    if manager.process.poll() is None:
        manager.process.send_signal(signal.SIGTERM)
    try:
        return manager.process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        manager.kill()
        raise LocalError(f"the manager did not stop within {STOP_SECONDS} s:\n{manager.tail()}") from None


def _wait_until_ready(health: str, log: Path, exit_text: Callable[[], str]) -> None:
    """Wait until the manager answers its readiness probe. Raises `LocalError` if it ends or takes too long.

    `health` is the URL of the probe. `exit_text` returns how the process has ended, "" while it runs.
    """
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if exit_reason := exit_text():
            raise LocalError(f"the manager {exit_reason}:\n{_tail(log)}")
        with (
            contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError),
            urllib.request.urlopen(health, timeout=5),  # noqa: S310 (http on loopback)
        ):
            return
        time.sleep(0.05)
    raise LocalError(f"the manager was not ready after {START_SECONDS} s:\n{_tail(log)}")


def _tail(log: Path) -> str:
    return "\n".join(tail(log, LOG_LINES))
