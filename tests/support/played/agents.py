"""Restarts in place where it matters where pods are, and no processes: the test plays the agents. Nodes that are lost.

What a JobSet means for each of them is decided by `agent.decision`. Each pod that runs has one; a silent node's have
none.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from agent.decision import Action, Progress, attempt_to_join, decide
from dev.cluster.node_faults import SILENT_ANNOTATION, come_back, fall_silent
from tests.support.cluster import agents
from tests.support.cluster.jobs import Sets
from tests.support.cluster.requests import MERGE, listed, request, uids

JSON = dict[str, Any]
GATES = {"InPlaceRestart": True, "JobSetNodeFailure": True}
JOB = {"backoffLimit": 2147483647, "podReplacementPolicy": "Failed"}
"""What a Job needs for restarts in place."""
POLICY = {
    "maxRestarts": 3,
    "restartStrategy": "InPlaceRestart",
    "nodeFailure": {"afterSeconds": 1, "forceDeletePods": True},
}
PAUSE = 0.1
"""Seconds between two looks."""

Lose = Callable[..., None]
"""Makes the nodes of these pods silent."""


class PlayedAgents(threading.Thread):
    """The agents of all pods of the set `js`, until `close`."""

    def __init__(self, sets: Sets) -> None:
        super().__init__(daemon=True)
        self._sets = sets
        self._own: dict[str, Progress] = {}
        self._closed = threading.Event()
        self.start()

    def close(self) -> None:
        self._closed.set()
        self.join()

    def all_in(self, attempt: int, pods: list[JSON]) -> bool:
        """Whether the workers of these pods run in this attempt, and no others."""
        running = {uid: own.attempt for uid, own in self._own.items() if own.lifted}
        return running == dict.fromkeys(uids(pods), attempt)

    def run(self) -> None:
        while not self._closed.wait(PAUSE):
            jobset, running = self._sets.get(), [pod for pod in self._pods() if _runs(pod)]
            self._own = {uid: self._own.get(uid, Progress()) for uid in uids(running)}
            for pod in running:
                self._step(pod["metadata"], jobset)

    def _pods(self) -> list[JSON]:
        return listed(self._sets.cluster, self._path(), "jobset.sigs.k8s.io/jobset-name=js")

    def _path(self) -> str:
        return f"/api/v1/namespaces/{self._sets.namespace}/pods"

    def _step(self, meta: JSON, jobset: JSON | None) -> None:
        own = self._own[meta["uid"]]
        match decide(jobset, own):
            case Action.REPORT if jobset is not None:
                attempt = attempt_to_join(jobset)
                body = {"metadata": {"annotations": {agents.ANNOTATION: str(attempt)}}}
                if request(self._sets.cluster, "PATCH", f"{self._path()}/{meta['name']}", body, MERGE)[0] == 200:
                    self._own[meta["uid"]] = Progress(attempt, reported=True)
            case Action.LIFT:
                self._own[meta["uid"]] = own._replace(lifted=True)
            case Action.RESTART:
                self._own[meta["uid"]] = Progress()


@contextlib.contextmanager
def played(sets: Sets) -> Iterator[PlayedAgents]:
    """The agents of the set `js` of this namespace."""
    of_set = PlayedAgents(sets)
    try:
        yield of_set
    finally:
        of_set.close()


@contextlib.contextmanager
def losing(sets: Sets) -> Iterator[Lose]:
    """Gives a function that makes the nodes of pods silent. They work again at the end."""
    with sets.cluster.connect() as connection:
        silent: list[str] = []

        def lose(*pods: JSON) -> None:
            for pod in pods:
                silent.append(pod["spec"]["nodeName"])
                fall_silent(connection, silent[-1])

        try:
            yield lose
        finally:
            for node in silent:
                come_back(connection, node)


def _runs(pod: JSON) -> bool:
    """Whether processes run in it that can reach the API server."""
    meta = pod["metadata"]
    gone = "deletionTimestamp" in meta or SILENT_ANNOTATION in meta.get("annotations", {})
    return pod["status"].get("phase") == "Running" and not gone
