"""The simulated API server as a process: `python -m dev.bench.simulated.server --folder DIR`. Prints "ready PORT".

Beside the API it serves `/simulated/...`: numbers of requests and objects, the states of JobSets and agents, and
orders: a Job or a worker fails, all watches end.
"""

import argparse
import asyncio
import contextlib
import itertools
import signal
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import uvloop

from api import keys
from controllers.resources import JOBSETS
from dev.bench.simulated.agents import Agents
from dev.bench.simulated.api import Api
from dev.bench.simulated.fleet import NAMESPACE, Fleet, fill, set_name
from dev.simulator.cluster import Cluster, Topology
from dev.simulator.patches import JSON
from dev.simulator.rest import Answer, Request, Stream, encode
from dev.simulator.selectors import parse
from dev.simulator.storage import Item, Scope, Storage
from dev.simulator.wire import Connection
from kube.resources import NODES

BOOKMARK_SECONDS = 30
INDEXED = {
    "pods": (keys.JOB_UID, keys.JOBSET_UID, keys.JOBSET_NAME),
    "jobs": (keys.JOBSET_UID, keys.JOBSET_NAME),
}


class Server:
    """A fleet, and the API to it."""

    def __init__(self, fleet: Fleet) -> None:
        self.storage = Storage(INDEXED)
        self.cluster = Cluster(Topology(fleet.domains, fleet.nodes), self.storage)
        self.api = Api(self.cluster)
        fill(self.cluster, fleet)
        self.cluster.call_soon = lambda act: asyncio.get_running_loop().call_soon(act)
        self._own: dict[str, Callable[[dict[str, str]], object]] = {
            "/simulated/counts": lambda _: self.counts(),
            "/simulated/jobsets": lambda _: self.jobsets(),
            "/simulated/running": lambda _: self.running(),
            "/simulated/fail": lambda query: self.fail(query["namespace"], query["name"]),
            "/simulated/expire": lambda _: self.api.expire(),
        }
        """Requests of the benchmark, by path."""
        self.agents = Agents(self.cluster, (NAMESPACE, set_name(0))) if fleet.in_place else None
        if self.agents is not None:
            agents = self.agents
            self._own["/simulated/agents"] = lambda _: {
                **agents.state(),
                "sent": self.api.sent,
                "cpu_seconds": time.process_time(),
            }
            self._own["/simulated/fail-worker"] = lambda query: agents.fail_worker(float(query["seconds"]))
        self._reporting = itertools.cycle([item.key for item in self.storage[NODES.plural].objects.values()])

    def handle(self, request: Request) -> Answer | Stream:
        """Answer a request of a manager, or of the benchmark."""
        own = self._own.get(request.path)
        return self.api.handle(request) if own is None else Answer(200, encode(own(request.query)))

    def jobsets(self) -> JSON:
        """Restarts and ready Jobs of each JobSet, as its status says."""
        return {item.key[1]: _status_summary(item.body()) for item in self.storage[JOBSETS.plural].objects.values()}

    def counts(self) -> JSON:
        """Requests of the manager, delays and numbers of objects so far."""
        return {
            "calls": [[*call, count] for call, count in sorted(self.api.calls.items())],
            "first_write": self.api.first_write,
            "pods": len(self.storage["pods"].objects),
            "pods_started": self.cluster.pods_started,
            "nodes": len(self.storage["nodes"].objects),
            "delays": self.api.delays,
        }

    def report_nodes(self, count: int) -> None:
        """The next nodes in turn report that they are ready."""
        for key in itertools.islice(self._reporting, count):
            node = self.cluster.get(NODES.plural, key).body()
            ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": f"{time.time_ns()}"}
            self.cluster.put(NODES.plural, {**node, "status": {"conditions": [ready]}})

    def fail(self, namespace: str, name: str) -> None:
        """Fail a Job, and measure the time until the status of its JobSet is written."""
        job = self.storage.get("jobs", (namespace, name))
        if job is not None:
            self.api.failures[job.body()["metadata"]["labels"][keys.JOBSET_NAME]] = time.monotonic()
        self.cluster.fail((namespace, name))

    def running(self) -> JSON:
        """Jobs of the current attempt whose pods all run, by JobSet, whatever the status says."""
        return {
            item.key[1]: sum(_runs(job.body(), item.body()) for job in self._jobs_of(item))
            for item in self.storage[JOBSETS.plural].objects.values()
        }

    def _jobs_of(self, js: Item) -> Iterator[Item]:
        return self.storage["jobs"].find(Scope(labels=parse(f"{keys.JOBSET_UID}={js.uid}")))


def _status_summary(js: JSON) -> JSON:
    status = js.get("status") or {}
    ready = sum(entry["ready"] for entry in status.get("replicatedJobsStatus") or ())
    return {"restarts": status.get("restarts", 0), "ready": ready}


def _runs(job: JSON, js: JSON) -> bool:
    attempt = job["metadata"]["labels"][keys.RESTART_ATTEMPT]
    running = job["status"].get("ready") == job["spec"]["parallelism"]
    return bool(running and attempt == str(_status_summary(js)["restarts"]))


async def serve(server: Server, tls: ssl.SSLContext, heartbeats: int) -> None:
    """Until SIGTERM. `heartbeats`: nodes that report each second."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    listening = await loop.create_server(lambda: Connection(server.handle), "127.0.0.1", 0, ssl=tls)
    async with listening:
        print(f"ready {listening.sockets[0].getsockname()[1]}", flush=True)
        for second in itertools.count(1):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), 1)
            if stop.is_set():
                return
            server.report_nodes(heartbeats)
            if second % BOOKMARK_SECONDS == 0:
                server.api.bookmark()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m dev.bench.simulated.server", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="folder with tls.crt and tls.key")
    for field in fields(Fleet):
        parser.add_argument(f"--{field.name}", type=int, default=field.default)
    given: dict[str, Any] = vars(parser.parse_args())
    folder = given.pop("folder")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    fleet = Fleet(**given)
    uvloop.run(serve(Server(fleet), tls, fleet.heartbeats))


if __name__ == "__main__":
    main()
