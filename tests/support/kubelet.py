"""What the API server asks the kubelet of a fake node for: logs. kwok plays nodes and pods, but no program runs there."""

from __future__ import annotations

import contextlib
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from devcluster.cluster import Cluster
from tests.support.cluster import MERGE, listed, request

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
        _reached_at(cluster, server.server_port)
        try:
            yield
        finally:
            _reached_at(cluster, None)
            server.shutdown()


def _reached_at(cluster: Cluster, port: int | None) -> None:
    """Write into the status of all nodes where their kubelet is; None takes it out again."""
    addresses = port and [{"type": "InternalIP", "address": "127.0.0.1"}]
    status = {"addresses": addresses, "daemonEndpoints": {"kubeletEndpoint": port and {"Port": port}}}
    for node in listed(cluster, "/api/v1/nodes"):
        code, answer = request(
            cluster, "PATCH", f"/api/v1/nodes/{node['metadata']['name']}/status", {"status": status}, MERGE
        )
        assert code == 200, answer
