"""cert-manager beside a local control plane, and the kubelet's part: a Secret that is mounted as files."""

import base64
import contextlib
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

from dev.cluster.cluster import Cluster
from manifests.naming import NAMESPACE
from tests.support.cluster.requests import MERGE, kubectl, request

CERTIFICATES = f"/apis/cert-manager.io/v1/namespaces/{NAMESPACE}/certificates/"
SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets/"
LATE = 3.0
"""Seconds by which mounted files are behind the Secret. In a cluster it is up to two minutes."""

STOP_SECONDS = 20


@contextlib.contextmanager
def running(cluster: Cluster, executable: Path, log: Path) -> Iterator[None]:
    """cert-manager's controllers and ca-injector with their CRDs, as administrator."""
    kubectl(cluster, "apply", "--server-side", "-f", str(executable.parent))
    kubectl(cluster, "wait", "--for=condition=Established", "--timeout=30s", "-f", str(executable.parent))
    environment = os.environ | {"KUBECONFIG": str(cluster.kubeconfig)}
    with (
        log.open("wb") as output,
        subprocess.Popen([executable], env=environment, stdout=output, stderr=output) as process,  # noqa: S603 (built by us)
    ):
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def secret_data(cluster: Cluster, name: str) -> dict[str, bytes]:
    """What a Secret in the manager's namespace holds; nothing if it does not exist."""
    status, body = request(cluster, "GET", SECRETS + name)
    assert status in {200, 404}, body
    return {key: base64.b64decode(value) for key, value in (body.get("data") or {}).items()}


def ask_for_renewal(cluster: Cluster, certificate: str) -> None:
    """As `cmctl renew` does."""
    path = f"{CERTIFICATES}{certificate}/status"
    status, body = request(cluster, "GET", path)
    assert status == 200, body
    issuing = {"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "asked by a test"}
    others = [each for each in body["status"].get("conditions", []) if each["type"] != "Issuing"]
    status, body = request(cluster, "PATCH", path, {"status": {"conditions": [*others, issuing]}}, MERGE)
    assert status == 200, body


def mount(data: dict[str, bytes], folder: Path, number: int) -> None:
    """Write or replace the files as the kubelet does: links to a folder that changes by one rename."""
    folder.mkdir(parents=True, exist_ok=True)
    before = list(folder.glob("..[0-9]*"))
    new = folder / f"..{number}"
    new.mkdir()
    for name, content in data.items():
        (new / name).write_bytes(content)
    (folder / "..data_tmp").symlink_to(new.name)
    (folder / "..data_tmp").rename(folder / "..data")
    for name in data:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")
    for old in before:
        shutil.rmtree(old)


@contextlib.contextmanager
def mounted(cluster: Cluster, secret: str, folder: Path) -> Iterator[None]:
    """tls.crt and tls.key of the Secret as files, `LATE` seconds after each change."""
    over = threading.Event()

    def follow() -> None:
        written: dict[str, bytes] = {}
        number = 0
        while not over.wait(0.2):
            held = secret_data(cluster, secret)
            pair = {name: held[name] for name in ("tls.crt", "tls.key") if name in held}
            if len(pair) < 2 or pair == written:
                continue
            if written:
                over.wait(LATE)
            number += 1
            mount(pair, folder, number)
            written = pair

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(30)
