"""A small blocking JSON client for the API server of a local cluster. The program uses the client in `kube/`."""

import http.client
import json
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

TIMEOUT_SECONDS = 10
MERGE = "application/merge-patch+json"
"""Content type of a merge patch."""


class Connection:
    """One keep-alive connection to 127.0.0.1:`port`. It is not safe to share between threads."""

    def __init__(self, port: int, tls: ssl.SSLContext | None) -> None:
        if tls is None:
            self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
        else:
            self._http = http.client.HTTPSConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS, context=tls)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, content_type: str = "application/json"
    ) -> tuple[int, Any]:
        """Send one request. Returns the status, and the decoded JSON, or the text if the answer is not JSON."""
        data = None if body is None else json.dumps(body).encode()
        self._http.request(method, path, data, {"Content-Type": content_type, "Accept": "application/json"})
        answer = self._http.getresponse()
        text = answer.read()
        if answer.headers.get_content_type() == "application/json":
            return answer.status, json.loads(text)
        return answer.status, text.decode(errors="replace")


def reason_of(answer: Any) -> str:
    """The API server's message in an answer that refuses a request."""
    return str(answer.get("message", answer) if isinstance(answer, dict) else answer)


def client_tls(pki: Path, client: str) -> ssl.SSLContext:
    """A TLS context that trusts the CA `pki/ca.crt` and has the client certificate `pki/CLIENT.{crt,key}`."""
    context = ssl.create_default_context(cafile=pki / "ca.crt")
    context.load_cert_chain(pki / f"{client}.crt", pki / f"{client}.key")
    return context


def answers(port: int, path: str, tls: ssl.SSLContext | None) -> bool:
    """Whether a GET of `path` is answered with 200 now."""
    try:
        with Connection(port, tls) as connection:
            return connection.request("GET", path)[0] == 200
    except (OSError, http.client.HTTPException):
        return False
