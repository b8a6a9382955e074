"""Kubeconfigs for tests, and HTTP servers that stand in for API servers."""

import base64
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml


def kubeconfig(folder: Path, server: str, authorities: bytes = b"", **user: Any) -> str:
    """A file with the contexts x, which is the current one, of namespace team-a, and y of team-b."""
    cluster = {"server": server}
    if authorities:
        cluster["certificate-authority-data"] = base64.b64encode(authorities).decode()
    body = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "contexts": [
            {"name": name, "context": {"cluster": "c", "user": "u", "namespace": namespace}}
            for name, namespace in (("x", "team-a"), ("y", "team-b"))
        ],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user or {"token": "s3cret"}}],
    }
    file = folder / "config"
    file.write_text(yaml.safe_dump(body), encoding="utf-8")
    return str(file)


class Quiet:
    """A request handler that writes nothing to standard error."""

    protocol_version = "HTTP/1.1"
    server: Any

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving_http(
    handler: type[BaseHTTPRequestHandler], context: ssl.SSLContext | None = None
) -> Iterator[tuple[Any, str]]:
    """The server while it serves, and its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server, f"{'https' if context else 'http'}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
