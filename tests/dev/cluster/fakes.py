"""Stand-ins for what tests of `dev.cluster` cannot have: a release server, a Go compiler, quick components."""

import hashlib
import io
import tarfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from dev.cluster.assets import BINARIES
from dev.cluster.download import KUBERNETES_BINARIES, Releases

KUBERNETES, ETCD = "1.37.1", "3.7.3"


def content(name: str) -> bytes:
    """What the release server has as the binary `name`: large enough to come in several pieces."""
    return f"#!/bin/sh\necho {name}\n".encode() + name.encode() * 60_000


@dataclass
class ReleaseServer:
    """Serves `files` by path; `cut` says how many of the next answers for a path break off half-way."""

    url: str
    files: dict[str, bytes] = field(default_factory=dict)
    cut: Counter[str] = field(default_factory=Counter)
    asked: list[str] = field(default_factory=list)

    def releases(self) -> Releases:
        return Releases(kubernetes=KUBERNETES, etcd=ETCD, bases={"kubernetes": self.url, "etcd": self.url})

    def path_of(self, name: str) -> str:
        """The path whose answer holds the binary `name` on Linux."""
        if name == "etcd":
            return f"/v{ETCD}/etcd-v{ETCD}-linux-amd64.tar.gz"
        return f"/v{KUBERNETES}/bin/linux/amd64/{name}"


def add_releases(server: ReleaseServer) -> None:
    for name in KUBERNETES_BINARIES:
        path = server.path_of(name)
        server.files[path] = content(name)
        server.files[f"{path}.sha256"] = hashlib.sha256(content(name)).hexdigest().encode()
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as packed:
        for member in ("README.md", "etcdctl", "etcd"):
            info = tarfile.TarInfo(f"etcd-v{ETCD}-linux-amd64/{member}")
            info.size = len(content(member))
            packed.addfile(info, io.BytesIO(content(member)))
    path = server.path_of("etcd")
    server.files[path] = archive.getvalue()
    digest = hashlib.sha256(archive.getvalue()).hexdigest()
    server.files[f"/v{ETCD}/SHA256SUMS"] = f"{'0' * 64}  other.zip\n{digest}  {path.rsplit('/', 1)[1]}\n".encode()


@contextmanager
def release_server() -> Iterator[ReleaseServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.asked.append(self.path)
            body = state.files.get(self.path)
            if body is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if state.cut[self.path] > 0:
                state.cut[self.path] -= 1
                body = body[: len(body) // 2]
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        state = ReleaseServer(f"http://127.0.0.1:{server.server_port}")
        add_releases(state)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield state
        server.shutdown()
        thread.join()


def fake_go(folder: Path, *, version: str = "go1.26.8", fails_with: str = "") -> Path:
    """A `go` in `folder` that writes `calls` there and "builds" by making files, or fails with a message.

    All modules that are needed have one file, `data.yaml`, in their folder deploy/crds.
    """
    data = folder / "needed" / "deploy" / "crds"
    data.mkdir(parents=True, exist_ok=True)
    (data / "data.yaml").write_text("of: it\n")
    build = f"echo '{fails_with}' >&2; exit 1" if fails_with else BUILD
    go = folder / "go"
    go.write_text(
        f'#!/bin/sh\necho "$*" >> {folder}/calls\n'
        f'case "$*" in\n  env*) echo {version} ;;\n  "list -mod=readonly -m "*) echo {folder}/needed ;;\n'
        f"  list*) {LIST} ;;\n  build*) {build} ;;\nesac\n"
    )
    go.chmod(0o755)
    return go


LIST = "echo 'go: downloading example.com/a v1' >&2; echo one; echo two; echo three"
BUILD = """
    echo one >&2; echo two >&2
    while [ "$1" != "-o" ]; do shift; done
    out=$2; shift 2
    for package; do
      name=${package##*/}; [ "$name" = v3 ] && name=server
      printf '#!/bin/sh\\necho built\\n' > "$out$name"; chmod +x "$out$name"
    done
"""


def fake_binaries(folder: Path, **scripts: str) -> Path:
    """Executables by the names of the real ones that sleep until they are ended, or run the shell script given."""
    folder.mkdir()
    for name in BINARIES:
        script = folder / name
        script.write_text(
            '#!/bin/sh\n[ "$1" = --version ] && exec echo Kubernetes v1.37.1\n'
            + scripts.get(name.replace("-", "_"), "exec sleep 600")
            + "\n"
        )
        script.chmod(0o755)
    return folder
