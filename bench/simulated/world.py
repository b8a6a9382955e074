"""What others do in a cluster as soon as something is written: Job controller, scheduler, kubelets, garbage collector.

All at once and without fail: a Job's pods run, and a deleted Job's pods are gone, within turns of the event loop. Each
exclusive Job gets a domain of its own, and waits while there is none.
"""

import itertools
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from api import keys
from bench.simulated.storage import JSON, Item, Key, Plain, Storage

TOPOLOGY = "topology.example.com/rack"
FOREGROUND = "foregroundDeletion"


def moment() -> str:
    """Now, as the API server writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def managed(manager: str, when: str, fields: Iterable[str]) -> list[JSON]:
    """metadata.managedFields, which real objects carry and clients have to skip."""
    owned: JSON = {f"f:{name}": {} for name in fields}
    entry = {"manager": manager, "operation": "Update", "time": when, "fieldsType": "FieldsV1"}
    return [{**entry, "fieldsV1": {"f:metadata": {"f:labels": owned, "f:annotations": owned}, "f:spec": owned}}]


@dataclass(frozen=True, slots=True, eq=False)
class Pod:
    """A pod: its Job's template and what is its own, since there are many."""

    job: Plain
    index: int
    name: str
    uid: str
    created: str
    version: int = 0
    node: str = ""
    phase: str = "Pending"
    deleted: str = ""

    @property
    def key(self) -> Key:
        return self.job.key[0], self.name

    @property
    def owners(self) -> tuple[str, ...]:
        return (self.job.uid,)

    @property
    def _template(self) -> JSON:
        template: JSON = self.job.content["spec"]["template"]
        return template

    def label(self, key: str) -> str | None:
        if key == keys.COMPLETION_INDEX:
            return str(self.index)
        found: str | None = self._template["metadata"]["labels"].get(key)
        return found

    def at(self, version: int) -> "Pod":
        return replace(self, version=version)

    def body(self) -> JSON:
        spec, meta = self._template["spec"], self._template["metadata"]
        index = {keys.COMPLETION_INDEX: str(self.index)}
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": self.job.key[1], "uid": self.job.uid}
        steps = ["PodScheduled"] if self.node else []
        steps += ["Initialized", "ContainersReady", "Ready"] if self.phase == "Running" else []
        conditions = [{"type": step, "status": "True", "lastTransitionTime": self.created} for step in steps]
        return {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {
                "name": self.name,
                "generateName": f"{self.job.key[1]}-{self.index}-",
                "namespace": self.job.key[0],
                "uid": self.uid,
                "resourceVersion": str(self.version),
                "creationTimestamp": self.created,
                **({"deletionTimestamp": self.deleted, "deletionGracePeriodSeconds": 30} if self.deleted else {}),
                "labels": {**meta["labels"], **index},
                "annotations": {**meta["annotations"], **index},
                "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
                "finalizers": ["batch.kubernetes.io/job-tracking"],
                "managedFields": managed("kube-controller-manager", self.created, meta["labels"]),
            },
            "spec": {**spec, **({"nodeName": self.node} if self.node else {}), "hostname": self.name},
            "status": {"phase": self.phase, "conditions": conditions, "qosClass": "Burstable"},
        }


@dataclass(frozen=True, slots=True)
class Land:
    """Where pods can run: so many domains of so many nodes."""

    domains: int
    nodes: int

    def node(self, domain: int, number: int) -> str:
        """The name of a node."""
        return f"node-{domain:05}-{number % self.nodes:03}"


class World:
    """Reacts to writes. `later` runs something after the present request was answered."""

    def __init__(self, storage: Storage, land: Land) -> None:
        self.later: Callable[[Callable[[], object]], object] = lambda act: act()
        self.pods_started = 0
        self._storage = storage
        self._land = land
        self._free = deque(range(land.domains))
        self._domains: dict[str, int] = {}
        self._waiting: deque[Key] = deque()
        self._numbers = itertools.count(1)

    def uid(self) -> str:
        """A new one."""
        return f"{next(self._numbers):08x}-0000-4000-8000-000000000000"

    def changed(self, plural: str, key: Key) -> None:
        """An object was created or changed."""
        if plural == "jobs":
            self.later(lambda: self._job(key))

    def delete(self, plural: str, item: Item, *, foreground: bool) -> Item | None:
        """Delete an object and all it owns. Gives it while it is on its way out, None if it is gone at once."""
        if isinstance(item, Pod):
            self._end_pod(item)
            return None
        if foreground and self._storage.owned(item.uid):
            meta = {**item.body()["metadata"], "deletionTimestamp": moment(), "finalizers": [FOREGROUND]}
            marked = self._storage.put(plural, Plain({**item.body(), "metadata": meta}))
            self.later(lambda: self._collect(marked.uid))
            self.later(lambda: self._drop(plural, marked))
            return marked
        self._drop(plural, item)
        self.later(lambda: self._collect(item.uid))
        return None

    def fail(self, key: Key) -> None:
        """Let a Job fail, as the Job controller tells of it."""
        job = self._storage.get("jobs", key)
        if not isinstance(job, Plain):
            raise KeyError(f"no Job {key[1]} in namespace {key[0]}")
        told = {"reason": "BackoffLimitExceeded", "message": "Job has reached the specified backoff limit"}
        since = {"status": "True", "lastTransitionTime": moment(), **told}
        conditions = [{"type": kind, **since} for kind in (keys.JOB_FAILURE_TARGET, keys.JOB_FAILED)]
        self._collect(job.uid)
        self._tell(job, {"failed": 1, "ready": 0, "terminating": 0, "conditions": conditions})

    def _collect(self, owner: str) -> None:
        for plural, key in self._storage.owned(owner):
            item = self._storage.get(plural, key)
            if isinstance(item, Pod):
                self._end_pod(item)
            elif item is not None:
                self._drop(plural, item)
                self._collect(item.uid)

    def _drop(self, plural: str, item: Item) -> None:
        current = self._storage.get(plural, item.key)
        if current is not None and current.uid == item.uid:
            self._storage.drop(plural, item.key)

    def _end_pod(self, pod: Pod) -> None:
        """Its kubelet ends it at once. With the last one the domain is free."""
        self._storage.put("pods", replace(pod, deleted=moment()))
        self._storage.drop("pods", pod.key)
        if not self._storage.owned(pod.job.uid) and (domain := self._domains.pop(pod.job.uid, None)) is not None:
            self._free.append(domain)
            if self._waiting:
                self._job(self._waiting.popleft())

    def _job(self, key: Key) -> None:
        """The Job controller looks at a Job."""
        job = self._storage.get("jobs", key)
        if not isinstance(job, Plain) or job.content["status"].get("conditions"):
            return
        has = bool(self._storage.owned(job.uid))
        if has and job.content["spec"].get("suspend"):
            self._collect(job.uid)
            self._tell(job, {"active": 0, "ready": 0})
        elif not has and not job.content["spec"].get("suspend"):
            self._start(job)

    def _start(self, job: Plain) -> None:
        template = job.content["spec"]["template"]
        exclusive = template["metadata"]["annotations"].get(keys.EXCLUSIVE_TOPOLOGY) == TOPOLOGY
        if exclusive and not self._free:
            self._waiting.append(job.key)
            return
        if exclusive:
            self._domains[job.uid] = self._free.popleft()
        count = job.content["spec"]["parallelism"]
        pods = [self._create_pod(job, index) for index in range(count)]
        self._tell(job, {"active": count, "ready": 0, "startTime": moment(), "terminating": 0})
        self.later(lambda: self._bind(job, pods))

    def _create_pod(self, job: Plain, index: int) -> Pod:
        number = next(self._numbers)
        self.pods_started += 1
        name = f"{job.key[1]}-{index}-{number:05x}"
        pod = Pod(job, index, name, f"{number:08x}-0000-4000-8000-000000000001", moment())
        self._storage.put("pods", pod)
        return pod

    def _bind(self, job: Plain, pods: list[Pod]) -> None:
        """The scheduler gives each pod its node, and kubelets start them."""
        spread = max(1, len(pods) // self._land.nodes)
        domain = self._domains.get(job.uid)
        bound = []
        for pod in pods:
            other = next(self._numbers) % self._land.domains
            node = self._land.node(other if domain is None else domain, pod.index // spread)
            if self._storage.get("pods", pod.key) is not None:
                bound.append(replace(pod, node=node))
                self._storage.put("pods", bound[-1])
        self.later(lambda: self._run(job, bound))

    def _run(self, job: Plain, pods: list[Pod]) -> None:
        for pod in pods:
            if self._storage.get("pods", pod.key) is not None:
                self._storage.put("pods", replace(pod, phase="Running"))
        current = self._storage.get("jobs", job.key)
        if current is not None and current.uid == job.uid and not current.body()["status"].get("conditions"):
            self._tell(job, {"active": len(pods), "ready": len(pods)})

    def _tell(self, job: Plain, status: JSON) -> None:
        """The Job controller writes the status."""
        current = self._storage.get("jobs", job.key)
        if current is not None and current.uid == job.uid:
            content = current.body()
            self._storage.put("jobs", Plain({**content, "status": {**content["status"], **status}}))
