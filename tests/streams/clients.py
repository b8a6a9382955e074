"""The real clients: built from their Go modules, installed in a local cluster, run as processes of this machine.

Must not know what they are used for.
"""

import base64
import contextlib
import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from dev import local
from dev.cluster import build, pki
from dev.cluster.cluster import Cluster
from tests.support.cluster.requests import request, wait_for

JSON = dict[str, Any]

START_SECONDS = 90
STOP_SECONDS = 20
KUEUE_METRICS_CERTIFICATES = Path("/etc/kueue/metrics/certs")
"""Kueue reads its metrics certificate there and nowhere else, also where it serves no metrics."""
KUEUE_GROUPS = {"batch", "jobset.x-k8s.io", "trainer.kubeflow.org", "kueue.x-k8s.io"}
"""API groups that are served in the cluster, of those that Kueue has webhooks for."""
FRAMEWORKS = ["batch/job", "jobset.x-k8s.io/jobset", "trainer.kubeflow.org/trainjob"]


@dataclass(frozen=True, slots=True)
class Module:
    """A Go module at a version; `package` is the path of its command, `user` the name by which it asks."""

    user: str
    path: str
    version: str
    package: str


KUEUE = Module("kueue", "sigs.k8s.io/kueue", "v0.15.0", "cmd/kueue")
TRAINER = Module("trainer", "github.com/kubeflow/trainer/v2", "v2.1.0", "cmd/trainer-controller-manager")


def fetch(module: Module) -> Path:
    """The folder of the module's sources."""
    answer = _go(["mod", "download", "-json", f"{module.path}@{module.version}"])
    return Path(json.loads(answer)["Dir"])


def compile_command(module: Module, folder: Path) -> Path:
    """Build the module's command into a folder; minutes the first time, seconds from Go's cache."""
    binary = folder / Path(module.package).name
    # In the module's own folder, with the versions of its go.sum; `go install` would ask for the latest version, too.
    _go(["build", "-o", str(binary.absolute()), f"./{module.package}"], fetch(module))
    return binary


def _go(arguments: list[str], folder: Path | None = None) -> str:
    go = build.find_go(Path.home() / ".cache" / "jobset-devcluster")
    fixed = {"CGO_ENABLED": "0", "GOWORK": "off", "GOTOOLCHAIN": "local"}
    answer = subprocess.run(  # noqa: S603 - go itself
        [go, *arguments], cwd=folder, env={**os.environ, **fixed}, capture_output=True, text=True, check=False
    )
    if answer.returncode:
        raise SystemExit(f"go {' '.join(arguments)} failed:\n{answer.stderr[-2000:]}")
    return answer.stdout


class Client:
    """One client as it is installed and run; `folder` takes its configuration, certificates and log."""

    def __init__(self, cluster: Cluster, module: Module, folder: Path) -> None:
        self.cluster = cluster
        self.module = module
        self.folder = folder
        self.sources = fetch(module)
        self.webhook_port = local.free_port()
        self.health_port = local.free_port()
        self._authority = pki.new_authority(f"{module.user}-webhook")
        self.certificates = folder / "k8s-webhook-server" / "serving-certs"
        self.certificates.mkdir(parents=True)
        pki.issue_serving(self._authority, "localhost").write(self.certificates, "tls")

    def documents(self, pattern: str) -> list[JSON]:
        """The objects of the module's manifests that match."""
        paths = sorted(self.sources.glob(pattern))
        assert paths, f"{self.module.path} has no {pattern}"
        return [body for path in paths for body in yaml.safe_load_all(path.read_text(encoding="utf-8")) if body]

    def install(self, *objects: JSON) -> None:
        """Store its objects, and give its user the rights of the ClusterRole among them."""
        [role] = [body["metadata"]["name"] for body in objects if body["kind"] == "ClusterRole"]
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": self.module.user},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": self.module.user}],
        }
        listing = json.dumps({"apiVersion": "v1", "kind": "List", "items": [*objects, binding]})
        local.kubectl(self.cluster, "apply", "--server-side", "-f", "-", stdin=listing)
        for body in objects:
            if body["kind"] == "CustomResourceDefinition":
                spec = body["spec"]
                for version in spec["versions"]:
                    self._wait_served(f"/apis/{spec['group']}/{version['name']}", spec["names"]["plural"])

    def _wait_served(self, group: str, plural: str) -> None:
        """Until the API server names a resource and serves it: clients look once, when they start."""

        def served() -> bool:
            status, found = request(self.cluster, "GET", group)
            listed = status == 200 and any(each["name"] == plural for each in found["resources"])
            return listed and request(self.cluster, "GET", f"{group}/{plural}?limit=1")[0] == 200

        wait_for(served, timeout=START_SECONDS, what=f"{group}/{plural} to be served")

    def address(self, path: str) -> JSON:
        """How the API server finds one of its webhooks: by URL, since there is nobody here who serves a Service."""
        bundle = base64.b64encode(self._authority.certificate).decode()
        return {"url": f"https://127.0.0.1:{self.webhook_port}{path}", "caBundle": bundle}

    def webhooks(self, configurations: list[JSON], groups: set[str]) -> list[JSON]:
        """Its webhook configurations with those webhooks that are about these API groups."""
        found = []
        for body in configurations:
            hooks = [hook for hook in body["webhooks"] if set(hook["rules"][0]["apiGroups"]) <= groups]
            for hook in hooks:
                hook["clientConfig"] = self.address(hook["clientConfig"]["service"]["path"])
            name = f"{self.module.user}-{body['metadata']['name']}"
            found.append({**body, "metadata": {"name": name}, "webhooks": hooks})
        return found

    @contextlib.contextmanager
    def running(self, binary: Path, configuration: JSON) -> Iterator[None]:
        """Run it for the length of a block, from the moment when it is ready."""
        file = self.folder / "config.yaml"
        file.write_text(yaml.safe_dump(configuration), encoding="utf-8")
        kubeconfig = self.cluster.kubeconfig_for(self.module.user)
        log = self.folder / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(  # noqa: S603 - what was built above
                [binary, f"--config={file}", f"--kubeconfig={kubeconfig}", "--zap-log-level=3"],
                # Trainer looks for its certificates below the folder for temporary files.
                env={**os.environ, "TMPDIR": str(self.folder)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        try:
            self._wait_ready(process, log)
            yield
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _wait_ready(self, process: subprocess.Popen[bytes], log: Path) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and process.poll() is None:
            with contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError):
                urllib.request.urlopen(f"http://127.0.0.1:{self.health_port}/readyz", timeout=5)
                return
            time.sleep(0.2)
        raise SystemExit(f"{self.module.path} did not become ready:\n{log.read_text(errors='replace')[-3000:]}")


@contextlib.contextmanager
def kueue(cluster: Cluster, binary: Path, folder: Path) -> Iterator[Client]:
    """Kueue, for Jobs, JobSets and TrainJobs that name a queue. The CRDs of these are in the cluster already."""
    client = Client(cluster, KUEUE, folder)
    definitions = client.documents("config/components/crd/bases/*.yaml")
    [patched] = client.documents("config/components/crd/kustomization.yaml")
    converted = [client.documents(f"config/components/crd/{patch['path']}") for patch in patched["patches"]]
    names = {body["metadata"]["name"] for [body] in converted}
    for body in definitions:
        if body["metadata"]["name"] in names:
            where = {"clientConfig": client.address("/convert"), "conversionReviewVersions": ["v1"]}
            body["spec"]["conversion"] = {"strategy": "Webhook", "webhook": where}
    hooks = client.webhooks(client.documents("config/components/webhook/manifests.yaml"), KUEUE_GROUPS)
    client.install(*definitions, *client.documents("config/components/rbac/role.yaml"), *hooks)
    configuration = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"127.0.0.1:{client.health_port}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"port": client.webhook_port, "host": "127.0.0.1", "certDir": str(client.certificates)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "integrations": {"frameworks": FRAMEWORKS},
        "featureGates": {"VisibilityOnDemand": False, "MultiKueue": False},
        "clientConnection": {"qps": 50, "burst": 100},
    }
    with _metrics_certificates(client.certificates), client.running(binary, configuration):
        yield client


@contextlib.contextmanager
def _metrics_certificates(source: Path) -> Iterator[None]:
    """A certificate where Kueue wants one, unless there is one."""
    if KUEUE_METRICS_CERTIFICATES.exists():
        yield
        return
    KUEUE_METRICS_CERTIFICATES.parent.mkdir(parents=True, exist_ok=True)
    KUEUE_METRICS_CERTIFICATES.symlink_to(source)
    try:
        yield
    finally:
        KUEUE_METRICS_CERTIFICATES.unlink()


def install_trainer(cluster: Cluster, folder: Path) -> Client:
    """Trainer's objects: Kueue needs its CRDs when it starts."""
    client = Client(cluster, TRAINER, folder)
    hooks = client.webhooks(client.documents("manifests/base/webhook/manifests.yaml"), {"trainer.kubeflow.org"})
    definitions = client.documents("manifests/base/crds/trainer.*.yaml")
    client.install(*definitions, *client.documents("manifests/base/rbac/role.yaml"), *hooks)
    return client


def trainer(client: Client, binary: Path) -> contextlib.AbstractContextManager[None]:
    """Trainer, once it is installed."""
    configuration = {
        "apiVersion": "config.trainer.kubeflow.org/v1alpha1",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"127.0.0.1:{client.health_port}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"port": client.webhook_port, "host": "127.0.0.1"},
        "leaderElection": {"leaderElect": False},
        "certManagement": {"enable": False},
    }
    return client.running(binary, configuration)
