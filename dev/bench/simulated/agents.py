"""The agents of a JobSet that restarts in place, and the writes of kubelets and the Job controller about its pods.

They are played inside the simulated API server, where they cost least; each write goes into the storage and to the
watches of the manager. What an agent does is decided by `agent.decision`, from the JobSet as it is stored. Its process,
its connection and its watch are not played. Must not measure.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace

from agent.decision import Action, Own, decide, next_attempt
from api import keys
from controllers.resources import JOBSETS
from dev.simulator.cluster import Cluster
from dev.simulator.patches import JSON
from dev.simulator.pods import Pod
from dev.simulator.rest import encode
from dev.simulator.selectors import parse
from dev.simulator.storage import Event, Key, Scope, Watcher
from kube.resources import PODS

AT_ONCE = 100
"""Actions in one turn of the event loop; the manager's requests are answered between turns."""

JOB_SYNC_SECONDS = 1.0
"""Time in which the Job controller collects changes of a Job's pods (SyncJobBatchPeriod of Kubernetes)."""

Later = Callable[[float, Callable[[], object]], object]


class Agents:
    """One for each pod of a JobSet that runs its first attempt."""

    def __init__(self, cluster: Cluster, jobset: Key) -> None:
        self._cluster, self._jobset = cluster, jobset
        self.later: Later = lambda seconds, act: asyncio.get_running_loop().call_later(seconds, act)
        """Calls a function after a delay in seconds."""
        namespace, name = jobset
        pods = cluster.storage[PODS.plural].find(Scope(namespace, labels=parse(f"{keys.JOBSET_NAME}={name}")))
        self._own = {pod.key: Own(0, reported=True, lifted=True) for pod in pods}
        """The agents that run, by their pods."""
        self._due: deque[tuple[Callable[[Key], None], Key]] = deque()
        self._uncounted: set[Key] = set()
        self._start_seconds = 0.0
        self._lifted: Counter[int] = Counter()
        self._watched_bytes = self._events = self._reports = self._kubelet_writes = 0
        self._failed = self._last_lifted = 0.0
        only = Scope(namespace, fields=parse(f"metadata.name={name}"))
        cluster.storage[JOBSETS.plural].watch(Watcher(only, self._on_jobset))

    def state(self) -> JSON:
        """Counts so far. `lifted`: how many agents have let their workers go, by attempt.

        `seconds`: from the failure of a worker until the last did. `events`: changes of the JobSet that each agent was
        sent, `watched_bytes` together.
        """
        status = self._body().get("status") or {}
        return {
            "lifted": {str(attempt): count for attempt, count in self._lifted.items()},
            "seconds": self._last_lifted - self._failed,
            "reports": self._reports,
            "kubelet_writes": self._kubelet_writes,
            "events": self._events,
            "watched_bytes": self._watched_bytes,
            "status_bytes": len(encode(status)),
        }

    def fail_worker(self, start_seconds: float) -> None:
        """The worker of one pod fails. From now on kubelets take so long to start a container again."""
        self._start_seconds, self._failed = start_seconds, time.monotonic()
        self._end(next(iter(self._own)))

    def _on_jobset(self, event: Event) -> None:
        """The JobSet has changed: every agent looks at it."""
        self._events += 1
        self._watched_bytes += len(encode(event.item.body()))
        for key in self._own:
            self._soon(self._look, key)

    def _body(self) -> JSON:
        return self._cluster.get(JOBSETS.plural, self._jobset).body()

    def _look(self, key: Key) -> None:
        """An agent that still runs acts on the state of the JobSet."""
        own = self._own.get(key)
        action = Action.WAIT if own is None else decide(self._body(), own)
        if action is Action.RESTART:
            self._end(key)
        elif action is Action.LIFT and own is not None:
            self._own[key] = own._replace(lifted=True)
            self._lifted[own.attempt or 0] += 1
            self._last_lifted = time.monotonic()

    def _end(self, key: Key) -> None:
        """An agent ends, and its kubelet starts it again later."""
        del self._own[key]
        self._write_pod_status(replace(self._pod(key), starting=True))
        self.later(self._start_seconds, lambda: self._soon(self._begin, key))

    def _begin(self, key: Key) -> None:
        """The container runs again, and its agent reports the attempt that it is about to run."""
        pod = self._pod(key)
        pod = replace(pod, starting=False, restarts=pod.restarts + 1)
        self._write_pod_status(pod)
        attempt = next_attempt(self._body())
        self._cluster.storage.put(PODS.plural, replace(pod, attempt=str(attempt)))
        self._reports += 1
        self._own[key] = Own(attempt, reported=True)
        self._look(key)

    def _write_pod_status(self, pod: Pod) -> None:
        """A kubelet writes the status of a pod; the Job controller counts ready pods some time later."""
        self._cluster.storage.put(PODS.plural, pod)
        self._kubelet_writes += 1
        job = pod.job.key
        if job not in self._uncounted:
            self._uncounted.add(job)
            self.later(JOB_SYNC_SECONDS, lambda: self._count(job))

    def _count(self, job: Key) -> None:
        self._uncounted.discard(job)
        self._cluster.count_ready(job)

    def _pod(self, key: Key) -> Pod:
        pod = self._cluster.get(PODS.plural, key)
        if not isinstance(pod, Pod):
            raise TypeError(f"pod {key[1]} was written by somebody who is not simulated")
        return pod

    def _soon(self, act: Callable[[Key], None], key: Key) -> None:
        """Do something to a pod in one of the next turns of the event loop."""
        self._due.append((act, key))
        if len(self._due) == 1:
            self.later(0, self._turn)

    def _turn(self) -> None:
        # What has been done is removed after it: so `_soon` sees that there is a turn already.
        for _ in range(min(AT_ONCE, len(self._due))):
            act, key = self._due[0]
            act(key)
            self._due.popleft()
        if self._due:
            self.later(0, self._turn)
