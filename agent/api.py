"""The requests that the agent sends: list its JobSet, watch it, report on its pod.

The agent keeps one connection and reuses it for the next request. It reads the token for each request and the CA for
each connection, because both may have been rotated. Every failure raises `ApiError`. The caller decides about retries.
"""

from __future__ import annotations

import contextlib
import json
import random
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import quote, urlencode

from agent import decision
from agent.settings import Settings

ATTEMPT = "jobset.sigs.k8s.io/in-place-restart-attempt"
FAILURE = "jobset.sigs.k8s.io/in-place-restart-failure"
ACKNOWLEDGED = "jobset.sigs.k8s.io/maintenance-acknowledged"
FIELD_MANAGER = "in-place-restart-agent"
# The time limit of a request.
REQUEST_SECONDS = 10.0
# The agent asks the API server to end a watch after a random number of seconds in this range, so that thousands of
# agents do not reconnect together.
WATCH_SECONDS = (300, 600)
# Bytes. The API server cannot store an object whose JSON is longer.
LONGEST_ANSWER = 16 << 20
# Bytes that are read of the body of an error.
LONGEST_ERROR = 64 << 10

_JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets"
_RIGHTS = (
    "grant the pod's ServiceAccount patch on pods and get, list, watch on jobsets.jobset.x-k8s.io in its namespace"
)
_HINTS = {
    401: "the ServiceAccount's token is not accepted; is it the token of this cluster?",
    403: _RIGHTS,
    404: "is JobSet installed in this cluster, and does the pod still exist?",
}

# Every key that the agent reads in a list, in a watch event, and in the JobSet that these contain.
_NEEDED_KEYS = {"metadata", "resourceVersion", "items", "type", "object", "message"} | decision.NEEDED_KEYS

JSON = dict[str, Any]


class ApiError(Exception):
    """A failed request. `pause`: seconds of Retry-After, or 0. `forbidden`: whether a right is missing."""

    def __init__(self, text: str, pause: float = 0.0, *, forbidden: bool = False) -> None:
        super().__init__(text)
        self.pause = pause
        self.forbidden = forbidden


def connect(settings: Settings) -> HTTPConnection:
    """A TLS connection to the API server, verified with the account's CA. TCP keep-alive detects a dead network."""
    tls = ssl.create_default_context(cafile=str(settings.account_folder / "ca.crt"))
    connection = HTTPSConnection(settings.host, settings.port, timeout=REQUEST_SECONDS, context=tls)
    connection.connect()
    if hasattr(socket, "TCP_KEEPIDLE"):
        for option, value in ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3)):
            connection.sock.setsockopt(socket.IPPROTO_TCP, option, value)
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return connection


class Api:
    """A client for one JobSet and one pod. Other threads may call only `interrupt`. `longest_answer` is in bytes."""

    def __init__(
        self,
        settings: Settings,
        connect: Callable[[Settings], HTTPConnection] = connect,
        longest_answer: int = LONGEST_ANSWER,
    ) -> None:
        self._settings = settings
        self._connect = connect
        self._longest_answer = longest_answer
        self._connection: HTTPConnection | None = None
        self._answer: HTTPResponse | None = None
        self._sock: socket.socket | None = None
        self._resource_version = ""
        self._path = _JOBSETS.format(quote(settings.namespace, safe=""))
        self._selector = {"fieldSelector": f"metadata.name={settings.jobset}"}

    def close(self) -> None:
        if self._answer is not None:  # closing the connection does not always close its answer
            self._answer.close()
            self._answer = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def interrupt(self) -> None:
        """Make the open request fail."""
        if (sock := self._sock) is not None:
            with contextlib.suppress(OSError):
                # SSLSocket.shutdown would change state that the other thread reads.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def read_jobset(self) -> JSON | None:
        """The JobSet, read from etcd and not from the watch cache; None if it does not exist."""
        with self._request_errors(f"reading jobset {self._settings.jobset}"):
            answer = self._request("GET", f"{self._path}?{urlencode(self._selector)}", REQUEST_SECONDS)
            jobset_list = self._decode(answer.read(self._longest_answer + 1))
            self._resource_version = jobset_list["metadata"]["resourceVersion"]
            return next(iter(jobset_list["items"]), None)

    def watch(self, is_wanted: Callable[[], bool] = lambda: True) -> Iterator[JSON | None]:
        """Yield each later state of the JobSet, and None once it is deleted. The watch ends from time to time.

        Raises ApiError when `is_wanted` returns False. After changing the result of `is_wanted`, call `interrupt`.
        """
        seconds = random.randint(*WATCH_SECONDS)  # noqa: S311 - spreads load, protects nothing
        query = {"watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": seconds}
        with self._request_errors(f"watching jobset {self._settings.jobset}"):
            url = f"{self._path}?{urlencode({**self._selector, **query, 'resourceVersion': self._resource_version})}"
            # This timeout is for an API server that hangs. TCP keep-alive detects a dead network much earlier.
            answer = self._request("GET", url, seconds + REQUEST_SECONDS)
            _raise_unless_wanted(is_wanted)  # an earlier `interrupt` may have missed this connection
            while line := answer.readline(self._longest_answer + 1):
                event = self._decode(line)
                kind, item = event["type"], event["object"]
                if kind == "ERROR":
                    raise ApiError(f"the watch ended: {item.get('message') or item}")
                self._resource_version = item["metadata"]["resourceVersion"]
                if kind != "BOOKMARK":
                    yield None if kind == "DELETED" else item
            _raise_unless_wanted(is_wanted)
            answer.read()  # the connection can be reused only after the end of the answer is read

    def report(self, attempt: int, failure: str = "") -> None:
        """Write the attempt into an annotation of the pod, and how the worker failed if it has failed. Idempotent."""
        annotations: JSON = {ATTEMPT: str(attempt)}
        if self._settings.restart_failed:
            annotations[FAILURE] = failure or None  # None removes the failure that an earlier agent of the pod wrote
        self._annotate(f"reporting attempt {attempt}", annotations)

    def acknowledge(self, notice: str) -> None:
        """Write `notice` into an annotation of the pod: its worker is ready to move. Idempotent."""
        self._annotate("acknowledging the notice", {ACKNOWLEDGED: notice})

    def _annotate(self, task: str, annotations: JSON) -> None:
        namespace, pod = self._settings.namespace, self._settings.pod
        body = {"metadata": {"annotations": annotations}}
        query = urlencode({"fieldManager": FIELD_MANAGER})
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(pod, safe='')}?{query}"
        with self._request_errors(f"{task} on pod {pod}"):
            self._request("PATCH", path, REQUEST_SECONDS, json.dumps(body)).read(self._longest_answer)

    @contextlib.contextmanager
    def _request_errors(self, task: str) -> Iterator[None]:
        """Turn every failure of a request into ApiError, and close the connection, whose state is then unknown."""
        has_succeeded = False
        try:
            yield
            has_succeeded = True
        except ApiError as error:
            raise ApiError(f"{task}: {error}", error.pause, forbidden=error.forbidden) from None
        except (OSError, HTTPException, ValueError, KeyError, TypeError) as error:
            raise ApiError(f"{task}: {type(error).__name__}: {error}") from error
        finally:
            if not has_succeeded:
                self.close()

    def _request(self, method: str, path: str, timeout: float, body: str | None = None) -> HTTPResponse:
        if self._connection is None or self._connection.sock is None:
            self._connection = self._connect(self._settings)
        connection = self._connection
        token = (self._settings.account_folder / "token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json", "User-Agent": FIELD_MANAGER}
        if body is not None:
            # A merge patch: the API server needs a third longer for a server-side apply.
            headers["Content-Type"] = "application/merge-patch+json"
        sock = self._sock = connection.sock  # the connection drops its socket if the server closes
        sock.settimeout(REQUEST_SECONDS)
        connection.request(method, path, body, headers)
        answer = self._answer = connection.getresponse()
        if answer.status >= 400:
            raise _refusal(answer)
        if not answer.isclosed():
            sock.settimeout(timeout)
        return answer

    def _decode(self, data: bytes) -> JSON:
        """Parse an answer, without the keys that the agent does not read. Raises ApiError if it is too long."""
        if len(data) > self._longest_answer:
            raise ApiError(f"an answer is longer than {self._longest_answer >> 20} MiB")
        value: JSON = json.loads(data, object_pairs_hook=_keep_needed_keys)
        return value


def _keep_needed_keys(pairs: Sequence[tuple[str, Any]]) -> JSON:
    return {key: value for key, value in pairs if key in _NEEDED_KEYS}


def _raise_unless_wanted(is_wanted: Callable[[], bool]) -> None:
    if not is_wanted():
        raise ApiError("interrupted")


def _refusal(answer: HTTPResponse) -> ApiError:
    text = answer.read(LONGEST_ERROR).decode(errors="replace")
    try:
        text = json.loads(text)["message"]
    except (ValueError, KeyError, TypeError):
        text = text.strip() or answer.reason
    hint = f"; {_HINTS[answer.status]}" if answer.status in _HINTS else ""
    retry_after = answer.headers.get("Retry-After", "")
    pause = float(retry_after) if retry_after.isdigit() else 0.0
    return ApiError(f"HTTP {answer.status}: {text[:500]}{hint}", pause, forbidden=answer.status == 403)
