"""What the API server asks the kubelet of a fake node for: logs. kwok plays nodes and pods, but no program runs there."""

import contextlib
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias
from urllib.parse import parse_qs, urlsplit

from dev.cluster.cluster import Cluster
from tests.support.cluster.requests import MERGE, listed, request

Reached: TypeAlias = tuple[list[dict[str, str]] | None, dict[str, int] | None]
"""The addresses of a node and the port of its kubelet."""
Logs = Callable[[str, str], str]
"""Namespace and pod -> what the pod has written."""


@contextlib.contextmanager
def logging(cluster: Cluster, logs: Logs) -> Iterator[None]:
    """Have the pods of all nodes a log. The API server does not check who a kubelet is, so any certificate does."""

    class Kubelet(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            _, _, namespace, pod, _ = url.path.split("/")
            stamp = "2026-01-01T00:00:00.000000000Z " if "timestamps" in parse_qs(url.query) else ""
            text = "".join(f"{stamp}{line}\n" for line in logs(namespace, pod).splitlines())
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pki = cluster.plan.layout.pki
    context.load_cert_chain(pki / "serving.crt", pki / "serving.key")
    with ThreadingHTTPServer(("127.0.0.1", 0), Kubelet) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        before = {node["metadata"]["name"]: _reached_at(node) for node in listed(cluster, "/api/v1/nodes")}
        here = [{"type": "InternalIP", "address": "127.0.0.1"}], {"Port": server.server_port}
        try:
            _reach(cluster, dict.fromkeys(before, here))
            yield
        finally:
            _reach(cluster, before)
            server.shutdown()


def _reached_at(node: dict[str, Any]) -> Reached:
    endpoints = node["status"].get("daemonEndpoints", {})
    return node["status"].get("addresses"), endpoints.get("kubeletEndpoint")


def _reach(cluster: Cluster, places: Mapping[str, Reached]) -> None:
    """Write into the status of each node where its kubelet is."""
    for name, (addresses, endpoint) in places.items():
        status = {"addresses": addresses, "daemonEndpoints": {"kubeletEndpoint": endpoint}}
        code, answer = request(cluster, "PATCH", f"/api/v1/nodes/{name}/status", {"status": status}, MERGE)
        assert code == 200, answer
