"""A cluster whose controllers react at once: Job controller, scheduler, kubelets, garbage collector.

All without fail: a Job's pods run, and a deleted Job's pods are gone, within turns of the event loop. Each exclusive
Job gets a domain of its own, and waits while there is none. What no cluster would have, such as an owner that does not
exist, is refused, so that a mistake of the simulation or of a manager ends a measurement, instead of making it fast.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from api import keys
from dev.simulator import job_status
from dev.simulator.api_server import FOREGROUND, ApiServer, RefusedError
from dev.simulator.patches import JSON
from dev.simulator.pods import Pod, managed_fields
from dev.simulator.resources import BY_KIND
from dev.simulator.storage import Item, Key, Plain, Storage

TOPOLOGY = "topology.example.com/rack"


@dataclass(frozen=True, slots=True)
class Topology:
    """The nodes of a cluster: `nodes` in each of `domains` topology domains."""

    domains: int = 1
    nodes: int = 1

    def node(self, domain: int, number: int) -> str:
        """The name of a node; numbers go round within its domain."""
        return f"node-{domain:05}-{number % self.nodes:03}"


ONE_NODE = Topology()


class Cluster(ApiServer):
    """Reacts to writes. `call_soon` runs a reaction; by default at once, inside of the request."""

    def __init__(self, topology: Topology = ONE_NODE, storage: Storage | None = None) -> None:
        super().__init__(storage)
        self.call_soon: Callable[[Callable[[], object]], object] = lambda act: act()
        self.pods_started = 0
        self._topology = topology
        self._free = deque(range(topology.domains))
        self._domains: dict[str, int] = {}
        self._waiting: dict[Key, None] = {}
        """Exclusive Jobs that wait for a free domain, oldest first; some may be suspended or finished by now."""

    def uid(self) -> str:
        """A new one."""
        return f"{next(self._numbers):08x}-0000-4000-8000-000000000000"

    def create(self, plural: str, namespace: str, body: JSON, *, dry_run: bool = False) -> Item:
        """Create an object; Events are accepted and not stored."""
        return super().create(plural, namespace, body, dry_run=dry_run or plural == "events")

    def with_defaults(self, plural: str, new: JSON) -> JSON:
        meta = new["metadata"]
        fields = managed_fields("manager", meta["creationTimestamp"], meta.get("labels") or ())
        return super().with_defaults(plural, {**new, "metadata": {**meta, "managedFields": fields}})

    def check_new(self, plural: str, new: JSON) -> None:
        """Refuse an object whose owner does not exist: the garbage collector would delete it at once."""
        super().check_new(plural, new)
        meta = new["metadata"]
        for ref in meta.get("ownerReferences") or ():
            kind = BY_KIND.get((ref["apiVersion"], ref["kind"]))
            owner = None if kind is None else self.storage.get(kind.plural, (meta["namespace"], ref["name"]))
            if owner is None or owner.uid != ref["uid"]:
                message = f"its owner {ref['kind']} {ref['name']} ({ref['uid']}) does not exist"
                raise RefusedError(422, "Invalid", message)

    def after_write(self, plural: str, item: Item) -> None:
        if plural == "jobs":
            self.call_soon(lambda: self._sync_job(item.key))

    def remove(self, plural: str, item: Item, *, foreground: bool) -> Item | None:
        """Delete an object and all it owns."""
        if isinstance(item, Pod):
            self._end_pod(item)
            return None
        if foreground and self.storage.owned_by(item.uid):
            marked = self.mark(plural, item, [FOREGROUND])
            self.call_soon(lambda: self._collect(marked.uid))
            self.call_soon(lambda: self._drop(plural, marked))
            return marked
        self._drop(plural, item)
        self.call_soon(lambda: self._collect(item.uid))
        return None

    def fail(self, key: Key) -> None:
        """Fail a Job. Raises KeyError if it does not exist."""
        job = self.storage.get("jobs", key)
        if job is None:
            raise KeyError(f"no Job {key[1]} in namespace {key[0]}")
        self._collect(job.uid)
        why = "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        doomed = {**job.body(), "status": job_status.failing_status(job.body(), self.timestamp(), *why)}
        self._set_status(job, job_status.end_status(doomed, self.timestamp(), "Failed", *why))

    def count_ready(self, key: Key) -> None:
        """Update the number of ready pods in the status of a Job."""
        job = self.storage.get("jobs", key)
        if job is None or job_status.finished(job.body()):
            return
        pods = (self.storage.get(plural, pod) for plural, pod in self.storage.owned_by(job.uid))
        ready = sum(isinstance(pod, Pod) and pod.ready for pod in pods)
        status = job.body()["status"]
        if status.get("ready") != ready:
            self._set_status(job, {**status, "ready": ready})

    def _collect(self, owner: str) -> None:
        for plural, key in self.storage.owned_by(owner):
            item = self.storage.get(plural, key)
            if isinstance(item, Pod):
                self._end_pod(item)
            elif item is not None:
                self._drop(plural, item)
                self._collect(item.uid)

    def _drop(self, plural: str, item: Item) -> None:
        current = self.storage.get(plural, item.key)
        if current is not None and current.uid == item.uid:
            self.storage.drop(plural, item.key)
            if plural == "jobs":
                self._waiting.pop(item.key, None)

    def _end_pod(self, pod: Pod) -> None:
        """Terminate a pod at once. The last pod of a Job frees its topology domain."""
        self.storage.put("pods", replace(pod, deleted=self.timestamp()))
        self.storage.drop("pods", pod.key)
        if not self.storage.owned_by(pod.job.uid) and (domain := self._domains.pop(pod.job.uid, None)) is not None:
            self._free.append(domain)
            self._look_at_waiting()

    def _look_at_waiting(self) -> None:
        """Start waiting Jobs while domains are free; a Job that may not run any more is passed over."""
        while self._free and self._waiting:
            key = next(iter(self._waiting))
            del self._waiting[key]
            self._sync_job(key)

    def _sync_job(self, key: Key) -> None:
        """One sync of the Job controller."""
        job = self.storage.get("jobs", key)
        if not isinstance(job, Plain) or job_status.finished(job.content):
            return
        has = bool(self.storage.owned_by(job.uid))
        if job.content["spec"].get("suspend"):
            self._collect(job.uid)
            if has or not job_status.suspended(job.content):
                self._set_status(job, job_status.suspended_status(job.content, self.timestamp()))
        elif not has and job_status.may_run(job.content):
            self._start(job)

    def _start(self, job: Plain) -> None:
        wanted = job_status.pods_wanted(job.content)
        annotations = job.content["spec"]["template"]["metadata"]["annotations"]
        exclusive = wanted > 0 and annotations.get(keys.EXCLUSIVE_TOPOLOGY) == TOPOLOGY
        if exclusive and not self._free:
            self._waiting[job.key] = None
            return
        if exclusive:
            self._domains[job.uid] = self._free.popleft()
        pods = [self._create_pod(job, index) for index in range(wanted)]
        self._set_status(job, job_status.start_status(job.content, self.timestamp(), ready=0))
        self.call_soon(lambda: self._bind(job, pods))

    def _create_pod(self, job: Plain, index: int) -> Pod:
        number = next(self._numbers)
        self.pods_started += 1
        name = f"{job.key[1]}-{index}-{number:05x}"
        pod = Pod(job, index, name, f"{number:08x}-0000-4000-8000-000000000001", self.timestamp())
        self.storage.put("pods", pod)
        return pod

    def _bind(self, job: Plain, pods: list[Pod]) -> None:
        """The scheduler gives each pod its node, and kubelets start them."""
        spread = max(1, len(pods) // self._topology.nodes)
        domain = self._domains.get(job.uid)
        bound = []
        for pod in pods:
            other = next(self._numbers) % self._topology.domains
            node = self._topology.node(other if domain is None else domain, pod.index // spread)
            if self.storage.get("pods", pod.key) is not None:
                bound.append(replace(pod, node=node))
                self.storage.put("pods", bound[-1])
        self.call_soon(lambda: self._run(job, bound))

    def _run(self, job: Plain, pods: list[Pod]) -> None:
        """Kubelets start the pods that were not deleted in the meantime."""
        running = [pod for pod in pods if self.storage.get("pods", pod.key) is not None]
        for pod in running:
            self.storage.put("pods", replace(pod, phase="Running"))
        current = self.storage.get("jobs", job.key)
        if running and current is not None and current.uid == job.uid and not job_status.finished(current.body()):
            self._set_status(job, {**current.body()["status"], "active": len(running), "ready": len(running)})

    def _set_status(self, job: Item, status: JSON) -> None:
        """Write the status of a Job unless it was replaced."""
        current = self.storage.get("jobs", job.key)
        if current is not None and current.uid == job.uid:
            self.storage.put("jobs", Plain({**current.body(), "status": status}))


class SteppedCluster(Cluster):
    """A cluster whose reactions happen when a test says so, in their order."""

    def __init__(self, topology: Topology = ONE_NODE, storage: Storage | None = None) -> None:
        super().__init__(topology, storage)
        self.reactions: deque[Callable[[], object]] = deque()
        self.call_soon = self.reactions.append

    def step(self) -> None:
        """The next reaction. Raises IndexError if there is none."""
        self.reactions.popleft()()

    def settle(self) -> None:
        """All reactions, and those that follow from them."""
        while self.reactions:
            self.step()
