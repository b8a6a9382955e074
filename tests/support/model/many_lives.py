"""Thousands of JobSets, one generation after the other, before the controllers of one manager, in virtual time.

The controllers are put together by `app.manager.controllers`, with their informers, queues, recorder and metrics, over
the API server in memory. Kubelets, Job controller and garbage collector are played here. Nothing of a set is left in the
API server at the end of its life, so what grows is the process.
"""

import asyncio
import contextlib
import functools
import gc
import sys
from collections import Counter, deque
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from api import keys
from api.features import FeatureGates
from app.manager.controllers import run_controllers
from app.manager.options import Deps, Options
from app.manager.supervisor import Supervisor, supervise
from app.metrics import Metrics
from app.settings import Settings
from controllers.jobset.watches import Watches
from controllers.placement.watches import PlacementWatches
from dev.simulator import job_status, rest
from dev.simulator.selectors import parse
from kube.client import Client
from kube.transport import Request, Response
from tests.support.model.memory_api import MemoryApi
from tests.support.objects.jobsets import jobset, rjob, stored

JSON = dict[str, Any]
NS = "ns"
NOW = "2026-01-01T00:00:00Z"
REFUSED = {"kind": "Status", "code": 403, "message": "exceeded quota", "reason": "Forbidden"}
KINDS = ("completes", "fails", "restarts", "runs", "suspended", "exclusive", "refused", "claims", "kept", "large")
"""What becomes of a set: see `Crowd._create` and `Crowd._begin_end`."""

OURS = {"api", "app", "controllers", "kube"}
"""Packages that the manager runs."""

SETTLE = 30.0
"""Virtual seconds in which the controllers come to rest."""

REST = 3_600.0
"""Virtual seconds after which every back-off, series of events and delayed request is over."""

COMPACTION = 1_000
"""Lives after which the API server forgets what has happened, so that every informer lists again."""


class Api(MemoryApi):
    """Keeps no events, as if their time to live were over, nor what was asked. Refuses Jobs of sets named so."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.requests = deque(maxlen=1)  # type: ignore[assignment]  # nobody reads it

    async def send(self, request: Request) -> Response:
        if request.method == "POST" and request.path.endswith("/events"):
            await asyncio.sleep(0)
            return Response(201, {}, request.body or b"{}")
        if request.method == "POST" and request.path.endswith("/jobs") and b'"refused-' in (request.body or b""):
            return Response(403, {}, msgspec.json.encode(REFUSED))
        return await super().send(request)


class Crowd:
    """Sets of all `KINDS`, which live together."""

    def __init__(self, gates: FeatureGates | None = None) -> None:
        self.gates = gates or FeatureGates()
        self.api = Api()
        self.metrics = Metrics()
        self.lives = 0
        self.ends: Counter[tuple[str, str, int]] = Counter()
        """How the lives ended: kind of set, terminal state or deleted by the manager, restarts."""
        self.watches: Watches
        self._born = 0

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """The controllers run."""
        for number in range(2):
            labels = {"rack": f"rack-{number}"}
            self.api.put("nodes", f"node-{number}", "", metadata={"labels": labels}, spec={}, status={})
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(supervise(self._stages, stop))
            await asyncio.sleep(SETTLE)
            yield
            stop.set()

    async def _stages(self, supervisor: Supervisor) -> None:
        client, options = Client(self.api), Options(Settings(), self.gates)
        deps = Deps(options, client, self.metrics, supervisor)
        self.watches, leaders = Watches(client, options.gates), PlacementWatches(client)
        leaders.begin()
        supervisor.start(leaders.run(), "placement-watches")
        supervisor.start(self.watches.run(), "watches")
        await asyncio.gather(self.watches.wait_synced(60), leaders.wait_synced(60))
        await run_controllers(deps, client, self.watches, leaders)

    async def generation(self, sets: int) -> None:
        """So many sets begin, run and end, and are deleted by their time to live or by a user."""
        self._born += 1
        names = {f"{KINDS[number % len(KINDS)]}-{self._born}-{number}": number for number in range(sets)}
        for name in names:
            self._create(name)
        await asyncio.sleep(SETTLE)
        for key in [*self.api.storage["jobs"].objects]:
            self._run(key)
        await asyncio.sleep(SETTLE)
        for name in names:
            self._begin_end(name)
        await asyncio.sleep(SETTLE)
        for name in names:
            if name.startswith(("restarts-", "large-")):
                self._finish(name, "Complete")
        await asyncio.sleep(SETTLE)
        for name in names:
            self._end(name)
        self._collect()
        self.lives += sets
        await asyncio.sleep(SETTLE)
        if self.lives % COMPACTION < sets:
            await self.forget()

    async def forget(self) -> None:
        """The API server and the model forget; informers list again."""
        self.api.compact()
        parse.cache_clear()
        rest.encode_item.cache_clear()
        await asyncio.sleep(SETTLE)

    async def rest(self) -> None:
        """Until there is nothing to do any more, and nothing that the model keeps."""
        await asyncio.sleep(REST)
        await self.forget()

    def _create(self, name: str) -> None:
        kind = name.partition("-")[0]
        spec: JSON = {}
        if kind in {"completes", "fails"}:
            spec["ttlSecondsAfterFinished"] = 0
        if kind == "kept":
            spec["ttlSecondsAfterFinished"] = 600
        if kind in {"restarts", "large"}:
            spec["failurePolicy"] = {"maxRestarts": 1}
        if kind == "claims":
            spec["volumeClaimPolicies"] = [{"templates": [{"metadata": {"name": "data"}, "spec": {}}]}]
        body = stored(jobset(rjob(replicas=10 if kind == "large" else 1), suspend=kind == "suspended", **spec))
        annotations = {keys.EXCLUSIVE_TOPOLOGY: "rack"} if kind == "exclusive" else {}
        meta = {"generation": 1, "creationTimestamp": NOW, "annotations": annotations}
        self.api.put("jobsets", name, NS, metadata=meta, spec=body["spec"])

    def _run(self, key: tuple[str, str]) -> None:
        """The Job's pods run: of an exclusive one a leader with a node and a follower at the gate."""
        job = self._get("jobs", key[1])
        if job is None or not job_status.may_run(job):
            return
        self._set_status(job, job_status.start_status(job, NOW, ready=1))
        if not key[1].startswith("exclusive-"):
            return
        template = job["spec"]["template"]
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": key[1], "uid": job["metadata"]["uid"]}
        for index, more in enumerate(({"nodeName": "node-0"}, {"schedulingGates": [{"name": keys.PLACEMENT_GATE}]})):
            labels = {**template["metadata"]["labels"], keys.JOB_UID: job["metadata"]["uid"]}
            labels |= {keys.COMPLETION_INDEX: str(index)} | ({keys.AWAITS_LEADER: "true"} if index else {})
            annotations = {**template["metadata"]["annotations"], keys.COMPLETION_INDEX: str(index)}
            meta = {"labels": labels, "annotations": annotations, "ownerReferences": [{**owner, "controller": True}]}
            status = {"phase": "Pending" if index else "Running"}
            self.api.put("pods", f"{key[1]}-{index}-abcde", NS, metadata=meta, spec=more, status=status)

    def _begin_end(self, name: str) -> None:
        kind = name.partition("-")[0]
        if kind in {"completes", "kept", "exclusive"}:
            self._finish(name, "Complete")
        elif kind in {"fails", "restarts", "large"}:
            self._finish(name, "Failed", most=1)

    def _end(self, name: str) -> None:
        """A user deletes what the manager has not."""
        js = self._get("jobsets", name)
        kind = name.partition("-")[0]
        if js is None:
            self.ends[kind, "deleted", 0] += 1
        else:
            status = js.get("status", {})
            self.ends[kind, status.get("terminalState", ""), status.get("restarts", 0)] += 1
            self.api.drop("jobsets", name)

    def _finish(self, name: str, how: str, most: int = 100) -> None:
        """Some Jobs of a set complete or fail."""
        jobset_ = self._get("jobsets", name)
        owned = [] if jobset_ is None else self.api.storage.owned_by(jobset_["metadata"]["uid"])
        for plural, key in [each for each in owned if each[0] == "jobs"][:most]:
            job = self._get(plural, key[1])
            if job is not None:
                self._set_status(job, job_status.end_status(job, NOW, how, "BackoffLimitExceeded"))

    def _set_status(self, job: JSON, status: JSON) -> None:
        self.api.put("jobs", job["metadata"]["name"], NS, metadata=job["metadata"], status=status)

    def _get(self, plural: str, name: str) -> JSON | None:
        item = self.api.storage.get(plural, (NS, name))
        return None if item is None else item.body()

    def _collect(self) -> None:
        """The garbage collector: whose owner is gone goes, too."""
        storage = self.api.storage
        for plurals in (("jobs", "services", "persistentvolumeclaims"), ("pods",)):
            alive = {item.uid for plural in ("jobsets", "jobs") for item in storage[plural].objects.values()}
            for plural in plurals:
                for key, item in [*storage[plural].objects.items()]:
                    if not set(item.owners) & alive:
                        storage.drop(plural, key)

    def left(self) -> dict[str, int]:
        """Objects of the API server, without those that were there at the beginning."""
        plurals = ("jobsets", "jobs", "pods", "services", "persistentvolumeclaims", "events")
        return {plural: n for plural in plurals if (n := len(self.api.storage[plural].objects))}

    def series(self) -> list[bytes]:
        """Names and labels of all metrics."""
        body, _ = self.metrics.render()
        return sorted(line.rpartition(b" ")[0] for line in body.splitlines() if not line.startswith(b"#"))


def census() -> Counter[str]:
    """How many objects the process holds, by type. Caches that have a bound are emptied first."""
    for name, module in [*sys.modules.items()]:
        if name.partition(".")[0] in OURS:
            for cache in vars(module).values():
                if isinstance(cache, functools._lru_cache_wrapper) and cache.cache_info().maxsize is not None:
                    cache.cache_clear()
    gc.collect()
    return Counter(type(of).__qualname__ for of in gc.get_objects())
