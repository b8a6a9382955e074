"""In-place restart agents as real processes: built as they are shipped, with the rights that the example grants."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from dev.cluster.cluster import Cluster
from tests.support.cluster.requests import apply, request, wait_for

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "in-place-restart.yaml"
ACCOUNT = "in-place-restart"
ANNOTATION = "jobset.sigs.k8s.io/in-place-restart-attempt"


def build(folder: Path, python: str = "python3") -> Path:
    """The agent as the image holds it: one file."""
    script = ROOT / "docker" / "build-steps.sh"
    subprocess.run([script, "agent", folder], check=True, timeout=60, env={**os.environ, "PYTHON": python})  # noqa: S603
    return folder / "agent.pyz"


def example() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(EXAMPLE.read_text()))


def rights(cluster: Cluster, namespace: str) -> None:
    """The example's account, role and binding."""
    for body in example()[:3]:
        root = "/api/v1" if body["apiVersion"] == "v1" else f"/apis/{body['apiVersion']}"
        apply(cluster, f"{root}/namespaces/{namespace}/{body['kind'].lower()}s", body)
    wanted = {"namespace": namespace, "verb": "patch", "resource": "pods"}
    review = {"spec": {"user": f"system:serviceaccount:{namespace}:{ACCOUNT}", "resourceAttributes": wanted}}

    def allowed() -> bool:
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        return bool(request(cluster, "POST", path, review)[1]["status"]["allowed"])

    wait_for(allowed, what="the agent's rights")


def account_rights_of(cluster: Cluster, namespace: str, name: str) -> None:
    """Another account with the role of the example."""
    account, _, binding = example()[:3]
    account["metadata"]["name"] = binding["metadata"]["name"] = binding["subjects"][0]["name"] = name
    apply(cluster, f"/api/v1/namespaces/{namespace}/serviceaccounts", account)
    apply(cluster, f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings", binding)


def account(cluster: Cluster, namespace: str, folder: Path) -> Path:
    """A folder such as the kubelet mounts into every pod, with a real token."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{ACCOUNT}/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    status, answer = request(cluster, "POST", path, body)
    assert status == 201, answer
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "token").write_text(answer["status"]["token"])
    (folder / "namespace").write_text(namespace)
    (folder / "ca.crt").write_bytes((cluster.plan.layout.pki / "ca.crt").read_bytes())
    return folder


class Process:
    """One agent: the container's only process, as far as this machine can tell."""

    def __init__(
        self,
        file: Path,
        log: Path,
        env: dict[str, str],
        python: str = "python3",
        ignored: tuple[str, ...] = (),
        arguments: Sequence[str] = (),
    ) -> None:
        """`ignored` names signals that its parent ignores, such as "HUP" under nohup."""
        base = {"PATH": os.environ["PATH"], "SHELL": "/bin/sh"}
        self.started = time.monotonic()
        self._log = log
        command = [python, "-IBS", file, *(["--", *arguments] if arguments else [])]
        if ignored:
            command = ["/bin/sh", "-c", f"trap '' {' '.join(ignored)}; exec \"$@\"", "sh", *command]
        with log.open("a") as output:
            self.popen = subprocess.Popen(  # noqa: S603 - what is tested
                command,
                env={**base, **env},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def running(self) -> bool:
        return self.popen.poll() is None

    def rss_kib(self) -> int:
        """Resident memory now, in KiB."""
        lines = Path(f"/proc/{self.popen.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))

    def log(self) -> str:
        return self._log.read_text()

    def wait_log(self, text: str, timeout: float = 20) -> None:
        wait_for(lambda: text in self.log(), timeout=timeout, what=f"{text!r} in the agent's log")

    def tell(self, number: int) -> None:
        self.popen.send_signal(number)

    def ended(self, timeout: float = 20) -> int:
        """Its exit code, once it has ended."""
        return self.popen.wait(timeout)

    def close(self) -> None:
        if self.running:
            self.popen.send_signal(signal.SIGTERM)
            try:
                self.popen.wait(5)
            except subprocess.TimeoutExpired:
                self.popen.kill()
                self.popen.wait()


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and is only waiting to be collected does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
