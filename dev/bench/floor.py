"""`python -m dev.bench.floor --config FILE --kubeconfig FILE`: a client that makes only the calls a scenario needs.

It is the lower bound for managers, and not a manager: it does no admission, keeps no state, and handles no errors.
Bodies come from `api`. Of the controllers it uses only the table of resources.
"""

import argparse
import asyncio
import contextlib
import signal
import sys
from collections import defaultdict
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

import msgspec
import uvloop

from api import keys
from api.batch import Job, LabelledIdentity
from api.children import build_job, build_service
from api.jobset import JobSet
from api.layout import layout_of
from app import settings, settings_file
from controllers.resources import JOBSETS
from httpserver.address import parse_bind_address
from kube.client import Client
from kube.config import load
from kube.errors import KubeError
from kube.informer import Informer
from kube.model.meta import Base
from kube.options import DeleteOptions
from kube.resources import JOBS, PODS, SERVICES
from kube.store import ChangeKind
from kube.transport import HttpTransport

UNLIMITED_QPS = 100_000


class PodIdentity(Base, frozen=True, kw_only=True):
    """A pod, of which only the metadata is watched."""

    metadata: LabelledIdentity


@dataclass(slots=True)
class TrackedSet:
    """One JobSet, with the Jobs to create for it (`job_bodies`) and its progress.

    `settled_jobs`: the Jobs that are ready or, in a suspended JobSet, suspended. `blocked_jobs`: the Jobs that must not
    be created, since the old Job exists or the new Job has been created.
    """

    js: JobSet
    job_bodies: dict[str, Any] = field(default_factory=dict)
    settled_jobs: set[str] = field(default_factory=set)
    blocked_jobs: set[str] = field(default_factory=set)
    pods_by_job: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    @property
    def namespace(self) -> str:
        return self.js.metadata.namespace

    @property
    def attempt(self) -> str:
        return str(self.js.status.restarts)

    def selector(self) -> str:
        """Label selector of the children of this attempt."""
        return f"{keys.JOBSET_NAME}={self.js.metadata.name},{keys.RESTART_ATTEMPT}={self.attempt}"

    def start_attempt(self, js: JobSet) -> None:
        """Make the bodies of the Jobs of an attempt."""
        self.js, self.settled_jobs = js, set()
        layout = layout_of(js)
        self.job_bodies = {
            position.name: msgspec.json.encode(build_job(js, layout, jobs, position))
            for jobs in layout.ranges
            for position in jobs.positions(js.metadata.name)
        }


class Floor:
    """Creates, suspends and restarts the Jobs of all JobSets. Starts a task in `tasks` for each action."""

    def __init__(self, client: Client, tasks: asyncio.TaskGroup) -> None:
        self._client = client
        self._tasks = tasks
        self._sets: dict[tuple[str, str], TrackedSet] = {}
        self.jobsets = Informer(client, JOBSETS, JobSet)
        self.jobs = Informer(client, JOBS, Job, label_selector=keys.JOBSET_NAME)
        self.pods = Informer(client, PODS, PodIdentity, label_selector=keys.JOBSET_NAME, metadata_only=True)

    async def start(self) -> None:
        """Start the watches. Returns once all objects are listed."""
        self.jobsets.on_event(self._on_jobset)
        self.jobs.on_event(self._on_job)
        self.pods.on_event(self._on_pod)
        informers: tuple[Informer[Any], ...] = (self.jobsets, self.jobs, self.pods)
        for informer in informers:
            self._tasks.create_task(informer.run())
            await informer.wait_synced(60)

    def _on_jobset(self, kind: ChangeKind, old: JobSet | None, new: JobSet | None) -> None:
        jobset = new or old
        assert jobset is not None  # noqa: S101 -- one of them always is
        key = (jobset.metadata.namespace, jobset.metadata.name)
        if kind is ChangeKind.DELETED or jobset.metadata.deletion_timestamp:
            self._sets.pop(key, None)
        elif key not in self._sets:
            self._sets[key] = tracked = TrackedSet(jobset)
            tracked.start_attempt(jobset)
            self._start_task(self._create_all(tracked))
        elif (tracked := self._sets[key]).js.spec.suspend != jobset.spec.suspend:
            status = msgspec.structs.replace(jobset.status, restarts=tracked.js.status.restarts)
            tracked.start_attempt(msgspec.structs.replace(jobset, status=status))
            self._start_task(self._suspend(tracked))

    def _on_job(self, kind: ChangeKind, old: Job | None, new: Job | None) -> None:
        job = new or old
        tracked = self._owner(job)
        if job is None or tracked is None:
            return
        name = job.metadata.name
        if job.metadata.labels[keys.RESTART_ATTEMPT] != tracked.attempt:
            if kind is ChangeKind.DELETED:
                tracked.blocked_jobs.discard(name)
                self._create_when_gone(tracked, name)
        elif job.failure is not None:
            self._restart_set(tracked)
        elif _has_settled(job, bool(tracked.js.spec.suspend)):
            if name not in tracked.settled_jobs:
                tracked.settled_jobs.add(name)
                if len(tracked.settled_jobs) == len(tracked.job_bodies):
                    self._start_task(self._write_status(tracked))
        else:
            tracked.settled_jobs.discard(name)

    def _on_pod(self, kind: ChangeKind, old: PodIdentity | None, new: PodIdentity | None) -> None:
        pod = new or old
        tracked = self._owner(pod)
        if pod is None or tracked is None:
            return
        job = pod.metadata.labels["job-name"]
        if kind is not ChangeKind.DELETED:
            tracked.pods_by_job[job].add(pod.metadata.name)
            return
        tracked.pods_by_job[job].discard(pod.metadata.name)
        if pod.metadata.labels[keys.RESTART_ATTEMPT] != tracked.attempt:
            self._create_when_gone(tracked, job)

    def _owner(self, child: Job | PodIdentity | None) -> TrackedSet | None:
        if child is None:
            return None
        return self._sets.get((child.metadata.namespace, child.metadata.labels[keys.JOBSET_NAME]))

    def _create_when_gone(self, tracked: TrackedSet, job: str) -> None:
        """Create a Job again once the old Job and all its pods are gone."""
        if job in tracked.job_bodies and job not in tracked.blocked_jobs and not tracked.pods_by_job[job]:
            tracked.blocked_jobs.add(job)
            self._start_task(self._create(tracked, tracked.job_bodies[job]))

    async def _create_all(self, tracked: TrackedSet) -> None:
        service = self._client.create(SERVICES, build_service(tracked.js), namespace=tracked.namespace)
        await _run_in_parallel([service, *(self._create(tracked, body) for body in tracked.job_bodies.values())])

    async def _create(self, tracked: TrackedSet, body: bytes) -> None:
        await self._client.create(JOBS, body, namespace=tracked.namespace, type=msgspec.Raw)

    async def _suspend(self, tracked: TrackedSet) -> None:
        patch = {"spec": {"suspend": bool(tracked.js.spec.suspend)}}
        await _run_in_parallel(
            [self._client.patch(JOBS, name, patch, namespace=tracked.namespace) for name in tracked.job_bodies]
        )

    def _restart_set(self, tracked: TrackedSet) -> None:
        """Begin the next attempt, and delete all objects of the attempt before."""
        self._start_task(self._delete(tracked.namespace, tracked.selector(), list(tracked.job_bodies)))
        status = msgspec.structs.replace(tracked.js.status, restarts=tracked.js.status.restarts + 1)
        tracked.start_attempt(msgspec.structs.replace(tracked.js, status=status))
        tracked.blocked_jobs = set(tracked.job_bodies)

    async def _delete(self, namespace: str, selector: str, jobs: list[str]) -> None:
        """Delete the Jobs of an attempt, each in the background, and their pods by one call."""
        options = DeleteOptions(namespace=namespace, propagation_policy="Background")
        await _run_in_parallel([self._client.delete(JOBS, name, **options) for name in jobs])
        await self._client.delete_collection(PODS, label_selector=selector, namespace=namespace)

    async def _write_status(self, tracked: TrackedSet) -> None:
        """Write the status, once in a phase."""
        rows = []
        for jobs in layout_of(tracked.js).ranges:
            count = jobs.replicated_job.replicas
            counts = {"suspended": count} if tracked.js.spec.suspend else {"ready": count, "active": count}
            zero = dict.fromkeys(("ready", "succeeded", "failed", "active", "suspended"), 0)
            rows.append({"name": jobs.replicated_job.name, **zero, **counts})
        status = {"restarts": tracked.js.status.restarts, "replicatedJobsStatus": rows}
        name = tracked.js.metadata.name
        await self._client.patch(JOBSETS, name, {"status": status}, namespace=tracked.namespace, subresource="status")

    def _start_task(self, action: Coroutine[Any, Any, None]) -> None:
        self._tasks.create_task(_log_errors(action))


def _has_settled(job: Job, suspended: bool) -> bool:
    if suspended:
        return job.spec.suspend and not job.status.active
    return not job.spec.suspend and (job.status.ready or 0) == (job.spec.parallelism or 1)


async def _run_in_parallel(actions: list[Coroutine[Any, Any, Any]]) -> None:
    async with asyncio.TaskGroup() as tasks:
        for action in actions:
            tasks.create_task(_log_errors(action))


async def _log_errors(action: Coroutine[Any, Any, Any]) -> None:
    """Await an action. Errors are logged, and the benchmark notices them by its result."""
    try:
        await action
    except KubeError as error:
        print(error, file=sys.stderr, flush=True)


async def _probe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer a probe with 200, since a listening process is ready."""
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        await writer.drain()
    writer.close()


async def run(config: settings.Settings, kubeconfig: str) -> None:
    """Run the floor until SIGTERM."""
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 -- we run in one
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    transport = HttpTransport(await load(kubeconfig), user_agent="floor", qps=UNLIMITED_QPS, burst=UNLIMITED_QPS)
    address = parse_bind_address(config.health.health_probe_bind_address)
    try:
        async with asyncio.TaskGroup() as tasks:
            await Floor(Client(transport), tasks).start()
            if address is not None:
                await asyncio.start_server(_probe, *address)
            await asyncio.Event().wait()
    finally:
        await transport.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m dev.bench.floor", description=__doc__)
    parser.add_argument("--config", required=True, help="of a manager; only the probes' address counts")
    parser.add_argument("--kubeconfig", required=True, help="of the cluster")
    options = parser.parse_args()
    with contextlib.suppress(asyncio.CancelledError), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run(settings_file.load(options.config), options.kubeconfig))


if __name__ == "__main__":
    main()
