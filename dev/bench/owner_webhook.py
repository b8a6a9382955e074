"""A webhook that, like Kueue's, reads the owner of every new Job, and refuses a Job whose JobSet is not stored.

It reads from the API server, as administrator.
"""

import base64
import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from api import keys
from dev.bench.scene import Scene, wait
from dev.cluster import pki
from kube.model.meta import JSON

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
NAME = "bench-owner.example.com"
REVIEW_SECONDS = 5
"""Time limit of a review."""
CALLED_SECONDS = 30
"""Time limit until the API server calls a new webhook, which it notices by a watch."""


def not_found(name: str) -> str:
    """The message of Kueue's webhook for a Job whose JobSet is not stored."""
    return f'{keys.KIND}.{keys.GROUP} "{name}" not found'


@contextlib.contextmanager
def looking_for_owners(scene: Scene) -> Iterator[None]:
    """A block in which the API server calls the webhook for new Jobs of the scene's namespace.

    Raises `BenchmarkError` if the API server does not call it.
    """
    authority = pki.new_authority("bench-webhook")
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_class(scene))
    server.daemon_threads = True
    server.socket = pki.serving_tls(authority).wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, name="owner-webhook", daemon=True)
    thread.start()
    try:
        scene.request("POST", CONFIGURATIONS, _configuration(scene.namespace, server.server_port, authority))
        try:
            wait(lambda: _is_called(scene), CALLED_SECONDS, f"the API server to call {NAME}")
            yield
        finally:
            scene.request("DELETE", f"{CONFIGURATIONS}/{NAME}")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _is_called(scene: Scene) -> bool:
    """Whether the webhook refuses a Job whose JobSet is not stored. Sends a dry run."""
    owner = {"apiVersion": keys.API_VERSION, "kind": keys.KIND, "name": "missing", "uid": "missing"}
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    job = {"metadata": {"name": "missing", "ownerReferences": [owner]}, "spec": {"template": {"spec": pod}}}
    with scene.cluster.connect() as connection:
        status, answer = connection.request("POST", f"{scene.path('jobs', '/apis/batch/v1')}?dryRun=All", job)
    return status >= 400 and NAME in str(answer)


def _configuration(namespace: str, port: int, authority: pki.Pair) -> JSON:
    bundle = base64.b64encode(authority.certificate).decode()
    hook = {
        "name": NAME,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": REVIEW_SECONDS,
        "clientConfig": {"url": f"https://127.0.0.1:{port}/", "caBundle": bundle},
        "rules": [{"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
    }
    return {"metadata": {"name": NAME}, "webhooks": [hook]}


def _handler_class(scene: Scene) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            request = review["request"]
            missing_owner = _missing_owner(scene, request["object"]["metadata"])
            answer: JSON = {"uid": request["uid"], "allowed": not missing_owner}
            if missing_owner:
                answer["status"] = {"code": 404, "reason": "NotFound", "message": not_found(missing_owner)}
            body = json.dumps({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": answer}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the library has it
            """Log no requests."""

    return Handler


def _missing_owner(scene: Scene, metadata: JSON) -> str:
    """The name of the JobSet that owns a Job, if it is not stored, else empty."""
    owners = [
        reference["name"] for reference in metadata.get("ownerReferences") or () if reference["kind"] == keys.KIND
    ]
    if not owners:
        return ""
    with scene.cluster.connect() as connection:
        status, _ = connection.request("GET", f"{scene.jobsets_path}/{owners[0]}")
    return owners[0] if status == 404 else ""
