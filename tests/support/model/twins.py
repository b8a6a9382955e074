"""A namespace in which every kind of object that a controller reads decides something, and strangers that resemble them.

`play` runs the real watches, reconcilers and look-ups over an API server in memory, and gives everything that they
write and report. With strangers it must give the same.
"""

import asyncio
import contextlib
import copy
import re
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import msgspec

from api import keys
from api.features import FeatureGates
from api.gang_api import Served
from controllers.jobset.controller import JobSetReconciler, Options
from controllers.jobset.watches import Watches
from controllers.placement.controller import JobRequest, PlacementReconciler
from controllers.placement.domains import Domains
from controllers.placement.watches import PlacementWatches
from dev.simulator.patches import merge
from dev.simulator.storage import JsonItem
from kube.client import Client
from kube.controller import Request
from kube.informer import Informer
from tests.support.beside import beside
from tests.support.cluster.kube_client import synced
from tests.support.model.blind import RecordedEvents
from tests.support.model.memory_api import MemoryApi
from tests.support.model.tally import Tally
from tests.support.model.virtual import run
from tests.support.objects.exit_codes import ENDED, STOP, rules
from tests.support.objects.placement import EPOCH, moment
from tests.support.objects.stored_sets import jobset, rjob

JSON = dict[str, Any]
Strangers = Callable[["Scene"], None]

GATES = (
    "ElasticJobSet", "InPlaceRestart", "JobSetNodeFailure", "JobSetStartTimeout", "JobSetWorkloadAwareSchedulingAPI",
    "JobSetGangOfGangs", "RestartJob",
)  # fmt: skip
UNREACHABLE = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": moment()}
ZONE = "topology.kubernetes.io/zone"
PLACED = {keys.EXCLUSIVE_TOPOLOGY: ZONE}
CLAIM = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
SETS = {
    "fails": {"failurePolicy": rules(STOP)},
    "late": {"failurePolicy": {"maxRestarts": 1, "startTimeoutSeconds": 20}},
    "in-place": {"failurePolicy": {"maxRestarts": 2, "restartStrategy": "InPlaceRestart"}},
    "on-nodes": {"failurePolicy": {"maxRestarts": 2, "nodeFailure": {"afterSeconds": 1, "forceDeletePods": True}}},
    "claims": {"volumeClaimPolicies": [{"templates": [CLAIM]}]},
    "gangs": {"scheduling": {"schedulingPolicy": {"gang": {}}, "replicatedJobs": [{"targetReplicatedJobs": ["w"], "job": {}}]}},
    "placed": {"annotations": PLACED},
    "leaderless": {"annotations": PLACED},
    "restarted": {"failurePolicy": {"maxRestarts": 2}},
}  # fmt: skip
"""JobSets by name, each of two Jobs: what they say decides what is looked at."""


_VERSION = re.compile(rb'"resourceVersion":"[0-9]+",?')


def informers_of(watches: object) -> Iterator[Informer[Any]]:
    """All informers that an object of our controllers has, by reflection: a new one is found without a word here."""
    for value in vars(watches).values():
        if isinstance(value, Informer):
            yield value
        elif isinstance(value, dict):
            yield from (each for each in value.values() if isinstance(each, Informer))
        elif type(value).__name__.endswith("Watches"):
            yield from informers_of(value)


class Scene:
    """The API server, and one process of the manager with everything that it reads."""

    def __init__(self) -> None:
        self.api = MemoryApi()
        self.client, gates = Client(self.api), FeatureGates(dict.fromkeys(GATES, True))
        self.watches, self.placement = Watches(self.client, gates), PlacementWatches(self.client)
        self.watches.groups.served = Served(groups=True, composites=True, topology=True)
        self.reported = RecordedEvents()
        clock = self.clock
        self.reconciler = JobSetReconciler(
            self.client,
            self.watches.caches(),
            gates,
            self.reported,
            Tally(),
            Options(wall_clock=clock),
        )
        self.placing = PlacementReconciler(self.client, self.placement, self.watches.jobs, self.reported, clock)
        self.domains = Domains(self.placement, 0.0)

    @staticmethod
    def clock() -> datetime:
        return EPOCH + timedelta(seconds=asyncio.get_running_loop().time())

    @property
    def informers(self) -> list[Informer[Any]]:
        return [*informers_of(self.watches), *informers_of(self.placement)]

    def put(self, plural: str, body: JSON) -> None:
        """Store an object as it is, with a UID that follows from its name."""
        meta = body["metadata"]
        meta.setdefault("uid", f"{plural}-{meta.get('namespace', '')}-{meta['name']}")
        self.api.storage.put(plural, JsonItem(body))

    def change(self, plural: str, name: str, patch: JSON) -> None:
        self.put(plural, merge(copy.deepcopy(self.api.objects(plural)["ns", name]), patch))

    def job(self, name: str) -> JSON:
        return self.api.objects("jobs")["ns", name]

    def pod(self, job: JSON, index: int, patch: JSON) -> None:
        """The pod of that index of a Job."""
        template, name = copy.deepcopy(job["spec"]["template"]), job["metadata"]["name"]
        meta = template.get("metadata", {})
        meta |= {"name": f"{name}-{index}", "namespace": "ns", "creationTimestamp": moment()}
        uid = job["metadata"]["uid"]
        labels = {keys.JOB_UID: uid, keys.COMPLETION_INDEX: str(index)}
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid, "controller": True}
        meta["labels"] = meta.get("labels", {}) | labels
        meta["annotations"] = meta.get("annotations", {}) | {keys.COMPLETION_INDEX: str(index)}
        body = {
            "metadata": meta | {"ownerReferences": [owner]},
            "spec": template["spec"],
            "status": {"phase": "Running"},
        }
        self.put("pods", merge(body, patch))

    async def arrange(self) -> None:
        """Nodes, the sets, what the manager creates for them, and what other controllers do then."""
        for name, rack, taints in (("n1", "r1", []), ("n2", "r2", []), ("bad", "r3", [UNREACHABLE])):
            labels = {ZONE: rack, "kubernetes.io/hostname": name}
            self.put("nodes", {"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}})
        self.put("priorityclasses", {"metadata": {"name": "high"}, "value": 7})
        for name, spec in SETS.items():
            js = jobset(rjob("w", 2, parallelism=2, completions=2), name=name, **spec)
            body = msgspec.to_builtins(js)
            body["metadata"] |= {"uid": f"set-{name}", "creationTimestamp": moment()}
            self.put("jobsets", body)
        await self.settle()
        for _ in range(3):
            await self.reconcile_sets()
        for _, name in self.api.objects("jobs"):
            meta = {"uid": f"job-{name}", "creationTimestamp": moment()}
            self.change("jobs", name, {"metadata": meta, "status": {"active": 2, "ready": 2, "startTime": moment()}})
            for index in (0, 1) if not name.startswith(("leaderless", "late", "restarted")) else ():
                self.pod(self.job(name), index, {"spec": {"nodeName": "n1"}})
        self.change("jobs", "fails-w-0", {"status": ENDED})
        failed = {"name": "main", "state": {"terminated": {"exitCode": 1, "finishedAt": moment(1)}}}
        self.change("pods", "fails-w-0-0", {"status": {"phase": "Failed", "containerStatuses": [failed]}})
        pending = {"spec": {"nodeName": None}, "status": {"phase": "Pending"}}
        full = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
        self.change("pods", "claims-w-0-0", merge(pending, {"status": {"conditions": [full]}}))
        for job in ("claims-w-0", "late-w-0", "gangs-w-0", "gangs-w-1"):
            self.change("jobs", job, {"status": {"ready": 0}})
        for pod in ("gangs-w-0-0", "gangs-w-0-1", "gangs-w-1-0", "gangs-w-1-1"):
            self.change("pods", pod, pending)
        self.pod(
            self.job("late-w-0"), 0, {"metadata": {"creationTimestamp": moment(15)}, "status": {"phase": "Pending"}}
        )
        for job, index in ((job, index) for job in (0, 1) for index in (0, 1)):
            reported = {"annotations": {keys.IN_PLACE_RESTART_ATTEMPT: "0"}}
            self.change("pods", f"in-place-w-{job}-{index}", {"metadata": reported})
        gate = {"schedulingGates": [{"name": keys.PLACEMENT_GATE}], "nodeName": None}
        waits = {"metadata": {"labels": {keys.AWAITS_LEADER: "true"}}, "spec": gate, "status": {"phase": "Pending"}}
        self.change("pods", "placed-w-0-1", waits)
        self.pod(self.job("leaderless-w-0"), 1, waits)
        self.change("jobsets", "restarted", {"status": {"restarts": 1}})
        self.pod(self.job("restarted-w-0"), 0, {})
        for index in (0, 1):
            self.api.drop("jobs", f"restarted-w-{index}")
        await self.settle()

    async def settle(self) -> None:
        """The watches show everything."""
        await asyncio.sleep(1)

    async def reconcile_sets(self) -> None:
        for name in SETS:
            request = Request("ns", name)
            memory = self.reconciler.memories.get_or_create(request, f"set-{name}")
            memory.rest_until, memory.status_write_time = 0.0, None
            await self.reconciler.reconcile(request)
        await self.settle()

    async def act(self) -> list[str]:
        """Whatever the manager and admission do in the next minute."""
        self.api.requests.clear()
        found = []
        looks = [(name, f"{name}-w-{index}") for name in ("placed", "leaderless") for index in (0, 1)]
        for _ in range(3):
            try:
                await self.reconcile_sets()
            except Exception as error:  # noqa: BLE001 -- what strangers may cause, too
                found.append(f"a reconcile failed: {error!r}")
            for _, job in looks:
                request = JobRequest("ns", job, f"job-{job}")
                self.placing.memories.check_at(request, 0.0)
                found.append(f"{job}: {self.domains.find('ns', request.uid, ZONE)}")
                with contextlib.suppress(ExceptionGroup):
                    await self.placing.reconcile(request)
            await asyncio.sleep(35)
        calls = [
            f"{call.verb} {call.path} {call.query} {_VERSION.sub(b'', call.body or b'').decode()}"
            for call in self.api.requests
            if call.verb != "watch"
        ]
        leftovers = sorted(
            self.reconciler.leftover_pods.owners(self.watches.jobsets.store.get("ns", "restarted")) or ()
        )
        return [*found, f"waits for pods of {leftovers}", *map(str, self.reported.events), *sorted(calls)]


@contextlib.asynccontextmanager
async def running(scene: Scene) -> AsyncIterator[None]:
    async with beside(scene.reconciler.leftover_pods.run()), synced(*scene.informers):
        yield


def play(strangers: Strangers = lambda _: None) -> list[str]:
    """What is done while these objects of strangers are there, too."""

    async def body() -> list[str]:
        scene = Scene()
        async with running(scene):
            await scene.arrange()
            strangers(scene)
            await scene.settle()
            return await scene.act()

    return run(body)
