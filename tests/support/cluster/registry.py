"""A registry in the network of real nodes: it serves image layouts, no faster to a node than it is told to."""

import contextlib
import hashlib
import json
import os
import re
import shutil
import sys
import tarfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from dev.cluster.cluster import Cluster
from dev.cluster.real import config, kernel, layout
from kube.model.images import HUB, full_name, host_and_path

PORT = 5000
LAYER = "application/vnd.oci.image.layer.v1.tar"
"""Not compressed: random bytes would not become fewer."""
_CHUNK = 1 << 18
_BLOB = re.compile(r"sha256:([0-9a-f]{64})")
_PATH = re.compile(r"/v2/([a-z0-9/-]{1,80})/(manifests|blobs)/([\w.:-]{1,80})", re.ASCII)


class Registry(ThreadingHTTPServer):
    """Serves the images of these layouts by the names that pods have for them, with any tag.

    `rate`: bytes a second for each node; 0 for all that goes. `sent`: bytes of blobs by the address of the node.
    """

    daemon_threads = True

    def __init__(self, address: str, images: Mapping[str, Path], port: int = PORT) -> None:
        self.images = {host_and_path(full_name(name))[1]: image for name, image in images.items()}
        self.rate = 0
        self.sent: Counter[str] = Counter()
        self._free: dict[str, float] = {}
        self._lock = threading.Lock()
        super().__init__((address, port), _Handler)

    def handle_error(self, *of: Any) -> None:
        """A node whose power is cut breaks its connections."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(*of)

    def wait_turn(self, node: str, size: int) -> None:
        """Count so many bytes for a node, and wait until its line is free for them."""
        with self._lock:
            self.sent[node] += size
            if not self.rate:
                return
            begin = max(time.monotonic(), self._free.get(node, 0))
            self._free[node] = begin + size / self.rate
        time.sleep(max(0, begin - time.monotonic()))


class _Handler(BaseHTTPRequestHandler):
    server: Registry
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        if file := self._answer():
            with file.open("rb") as blob:
                while data := blob.read(_CHUNK):
                    self.server.wait_turn(self.client_address[0], len(data))
                    self.wfile.write(data)

    def _answer(self) -> Path | None:
        """Write the head; the file that is to follow."""
        if self.path == "/v2/":
            self._head(HTTPStatus.OK, 0)
            return None
        path = _PATH.fullmatch(self.path.partition("?")[0])
        image = self.server.images.get(path[1]) if path else None
        if path is None or image is None:
            return self._head(HTTPStatus.NOT_FOUND, 0)
        kind, reference = "application/octet-stream", path[3]
        if path[2] == "manifests":
            [entry] = json.loads((image / "index.json").read_bytes())["manifests"]
            kind, reference = entry["mediaType"], reference if ":" in reference else entry["digest"]
        digest = _BLOB.fullmatch(reference)
        file = image / "blobs/sha256" / digest[1] if digest else None
        if file is None or not file.is_file():
            return self._head(HTTPStatus.NOT_FOUND, 0)
        self._head(HTTPStatus.OK, file.stat().st_size, **{"Content-Type": kind, "Docker-Content-Digest": reference})
        return file

    def _head(self, status: HTTPStatus, size: int, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(size), **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def serving(cluster: Cluster, images: Mapping[str, Path]) -> Iterator[Registry]:
    """A registry that all real nodes of the cluster take for the one of images whose names have no host."""
    for node in layout.real_nodes(cluster.plan.layout, cluster.plan.spec.real_nodes):
        folder = Path(f"{node.root}{config.REGISTRIES}", HUB)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "hosts.toml").write_text(f'server = "http://{layout.GATEWAY.ip}:{PORT}"\n')
    network = kernel.open_namespace(layout.network_process(cluster.plan.layout).read_text())
    try:
        with kernel.inside_network(network):  # the socket stays where it was made
            registry = Registry(str(layout.GATEWAY.ip), images)
    finally:
        os.close(network)
    thread = threading.Thread(target=registry.serve_forever, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        registry.shutdown()
        registry.server_close()
        thread.join()


def digest_of(layout: Path) -> str:
    """That of the image of a layout."""
    [entry] = json.loads((layout / "index.json").read_bytes())["manifests"]
    return str(entry["digest"])


def blobs_of(layout: Path) -> frozenset[str]:
    """The digests of all that a node has of the image of a layout."""
    return frozenset(f"sha256:{file.name}" for file in (layout / "blobs/sha256").iterdir())


def write_larger_image(source: Path, target: Path, size: int) -> None:
    """The image of a layout with one more layer, a file of so many random bytes."""
    shutil.copytree(source, target)
    blobs = target / "blobs/sha256"

    def read(descriptor: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((blobs / descriptor["digest"].removeprefix("sha256:")).read_bytes())
        return found

    def keep(file: Path, kind: str) -> dict[str, Any]:
        with file.open("rb") as data:
            digest = hashlib.file_digest(data, "sha256").hexdigest()
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": file.rename(blobs / digest).stat().st_size}

    def write(value: dict[str, Any], kind: str) -> dict[str, Any]:
        file = target / "new"
        file.write_text(json.dumps(value))
        return keep(file, kind)

    file = target / "layer"
    member = tarfile.TarInfo("weights")
    member.size = size
    with Path("/dev/urandom").open("rb") as noise, tarfile.open(file, "w") as archive:
        archive.addfile(member, noise)
    layer = keep(file, LAYER)
    index = json.loads((target / "index.json").read_bytes())
    [entry] = index["manifests"]
    manifest = read(entry)
    described = read(manifest["config"])
    described["rootfs"]["diff_ids"].append(layer["digest"])
    described["history"].append({"created_by": "weights"})
    manifest["layers"].append(layer)
    manifest["config"] = write(described, manifest["config"]["mediaType"])
    index["manifests"] = [entry | write(manifest, entry["mediaType"])]
    (target / "index.json").write_text(json.dumps(index))
