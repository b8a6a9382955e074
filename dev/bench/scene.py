"""The cluster, process and namespace of a benchmark, with requests and watches as administrator."""

import contextlib
import http.client
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from api import keys
from dev.cluster import rest
from dev.cluster.cluster import Cluster
from dev.cluster.components import ADMIN
from kube.model.meta import JSON

STALL_SECONDS = 90
"""Time without events after which a watch has failed."""

CLEAR_SECONDS = 300
"""Time limit for the deletion of a namespace with its objects."""

CONNECTIONS = 16
"""Number of connections on which many objects are created."""

METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


class BenchmarkError(Exception):
    """The run cannot continue, or its result is wrong. The text says what was observed."""


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a watch of metadata. `moment` is the time at which it was read (monotonic seconds)."""

    moment: float
    type: str
    metadata: JSON


@dataclass(frozen=True, slots=True)
class Scene:
    """The place of a run. `pid`: the id of the measured manager's process."""

    cluster: Cluster
    pid: int
    namespace: str

    def path(self, plural: str, group: str = "/api/v1") -> str:
        """Path of a collection in the namespace."""
        return f"{group}/namespaces/{self.namespace}/{plural}"

    @property
    def jobsets_path(self) -> str:
        return self.path(keys.PLURAL, f"/apis/{keys.API_VERSION}")

    def request(self, method: str, path: str, body: JSON | None = None, content_type: str = "application/json") -> Any:
        """The answer of the API server. Raises `BenchmarkError` for a refusal."""
        with self.cluster.connect() as connection:
            return _request(connection, method, path, body, content_type)

    def items(self, path: str) -> list[JSON]:
        objects: list[JSON] = self.request("GET", path)["items"]
        return objects

    def create_namespace(self) -> None:
        self.request("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})

    def drop_namespace(self) -> None:
        """Delete the namespace and wait until everything in it is gone."""
        path = f"/api/v1/namespaces/{self.namespace}"
        self.request("DELETE", path)

        def is_gone() -> bool:
            with self.cluster.connect() as connection:
                return connection.request("GET", path)[0] == 404

        wait(is_gone, CLEAR_SECONDS, f"namespace {self.namespace} to go")

    def create_all(self, path: str, bodies: list[JSON]) -> list[float]:
        """Create objects over several connections at once. Returns the time of each request (monotonic seconds)."""

        def create_part(first: int) -> list[tuple[int, float]]:
            sent = []
            with self.cluster.connect() as connection:
                for index in range(first, len(bodies), CONNECTIONS):
                    sent.append((index, time.monotonic()))
                    _request(connection, "POST", path, bodies[index], "application/json")
            return sent

        with ThreadPoolExecutor(CONNECTIONS) as pool:
            moments = dict(pair for sent in pool.map(create_part, range(CONNECTIONS)) for pair in sent)
        return [moments[index] for index in range(len(bodies))]

    @contextlib.contextmanager
    def watch(self, path: str, **query: str) -> Iterator[Iterator[Event]]:
        """A watch of the metadata of objects. It yields events of the existing objects first, then of each change.

        Reading raises `BenchmarkError` if no event comes for `STALL_SECONDS`.
        """
        tls = rest.client_tls(self.cluster.plan.layout.pki, ADMIN)
        port = self.cluster.plan.ports["kube-apiserver"]
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=STALL_SECONDS, context=tls)

        def open_watch(version: int) -> http.client.HTTPResponse:
            version_query = {"resourceVersion": str(version)} if version else {}
            url = f"{path}?{urlencode({'watch': 'true', **query, **version_query})}"
            connection.request("GET", url, headers={"Accept": METADATA_ONLY})
            return connection.getresponse()

        with contextlib.closing(connection):
            yield _events(open_watch(0), open_watch, path)


def _request(connection: rest.Connection, method: str, path: str, body: JSON | None, content_type: str) -> Any:
    status, answer = connection.request(method, path, body, content_type)
    if status >= 400:
        raise BenchmarkError(f"{method} {path} was answered with {status}: {rest.reason_of(answer)}")
    return answer


def _events(
    answer: http.client.HTTPResponse, reopen: Callable[[int], http.client.HTTPResponse], path: str
) -> Iterator[Event]:
    """Yield the events of a watch. A busy API server ends watches. A new watch then continues at the last version."""
    version = 0
    while True:
        try:
            line = answer.readline()
        except TimeoutError:
            raise BenchmarkError(f"for {STALL_SECONDS} s nothing has happened to {path}") from None
        if not line:
            answer = reopen(version)
            continue
        event = json.loads(line)
        if event["type"] == "ERROR":
            raise BenchmarkError(f"the watch of {path} failed: {event['object'].get('message')}")
        metadata = event["object"]["metadata"]
        version = max(version, int(metadata["resourceVersion"]))
        yield Event(time.monotonic(), event["type"], metadata)


def wait(is_reached: Callable[[], bool], seconds: float, goal: str) -> None:
    """Poll until `is_reached` returns true. Raises `BenchmarkError` after `seconds`."""
    deadline = time.monotonic() + seconds
    while not is_reached():
        if time.monotonic() > deadline:
            raise BenchmarkError(f"timed out after {seconds:g} s waiting for {goal}")
        time.sleep(0.2)
