"""Plays the users and pods of one namespace: creates sets, does what their scripts say, removes those that ended."""

import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from api import keys
from dev.chaos.client import JOBSETS, Admin
from dev.chaos.load import End, Script, Suspend, next_steps
from dev.cluster.nodes import EXIT_CODE
from dev.cluster.rest import MERGE
from kube.model.meta import JSON

KEEP = 5.0
"""Seconds that a set is kept after its end, in case something still happens to it."""

WAKE = 10.0
"""Seconds after which a pod with a node that neither runs nor ends is changed: only a change makes a fake node retry a
failed write of the status, which a kubelet does by itself."""

WOKEN = "chaos.jobset.dev/woken"


@dataclass(slots=True)
class _Played:
    script: Script
    created: bool = False
    ended: float = 0.0
    """When it was first seen ended (monotonic seconds)."""


class Driver:
    """Keeps `width` sets alive in a namespace, which may be deleted and created again by others."""

    def __init__(self, admin: Admin, namespace: str, scripts: Iterator[Script], width: int) -> None:
        self._admin = admin
        self._namespace = namespace
        self._scripts = scripts
        self._width = width
        self._played: dict[str, _Played] = {}
        self._waiting: dict[str, float] = {}
        """Pods that have a node and neither run nor go, by UID: since when, or since when they were changed."""
        self.started = 0
        self.ended = 0

    @property
    def alive(self) -> int:
        """Sets that have not ended."""
        return sum(not one.ended for one in self._played.values())

    def turn(self, *, more: bool) -> None:
        """Read the sets and act once; new sets only with `more`. Does nothing if the API server does not answer."""
        sets = self._admin.list_objects(JOBSETS.format(self._namespace))
        pods = self._admin.list_objects(f"/api/v1/namespaces/{self._namespace}/pods")
        if sets is None or pods is None:
            return
        self._wake(pods)
        found = {one["metadata"]["name"]: one for one in sets}
        owned = defaultdict(list)
        for pod in pods:
            owned[pod["metadata"]["labels"].get(keys.JOBSET_NAME, "")].append(pod)
        for name, played in list(self._played.items()):
            self._continue(played, found.get(name), owned[name])
        while more and self.alive < self._width:
            script = next(self._scripts)
            self._played[script.name] = _Played(script)
            self.started += 1
            self._create(self._played[script.name])

    def _wake(self, pods: list[JSON]) -> None:
        now = time.monotonic()
        waiting = {
            pod["metadata"]["uid"]: pod["metadata"]["name"]
            for pod in pods
            if pod["spec"].get("nodeName")
            and (pod["status"].get("phase") == "Pending" or "deletionTimestamp" in pod["metadata"])
        }
        self._waiting = {uid: self._waiting.get(uid, now) for uid in waiting}
        for uid, since in self._waiting.items():
            if now > since + WAKE:
                path = f"/api/v1/namespaces/{self._namespace}/pods/{waiting[uid]}"
                self._admin.ask("PATCH", path, {"metadata": {"annotations": {WOKEN: f"{now:.0f}"}}}, MERGE)
                self._waiting[uid] = now

    def _continue(self, played: _Played, js: JSON | None, pods: list[JSON]) -> None:
        name = played.script.name
        if js is None:
            if played.created:  # it was deleted by its time to live, or with its namespace
                self.ended += not played.ended
                del self._played[name]
            else:
                self._create(played)
            return
        played.created = True
        if (js.get("status") or {}).get("terminalState"):
            self.ended += not played.ended
            played.ended = played.ended or time.monotonic()
            if not played.script.leaves and time.monotonic() > played.ended + KEEP:
                self._admin.ask("DELETE", f"{JOBSETS.format(self._namespace)}/{name}")
            return
        for step in next_steps(played.script, js, pods):
            self._act(name, step)

    def _create(self, played: _Played) -> None:
        """A creation without an answer is tried again; one that was carried out shows in the next list."""
        status, _ = self._admin.ask("POST", JOBSETS.format(self._namespace), played.script.manifest)
        played.created = status in {201, 409}

    def _act(self, name: str, step: Suspend | End) -> None:
        match step:
            case Suspend(value):
                path = f"{JOBSETS.format(self._namespace)}/{name}"
                self._admin.ask("PATCH", path, {"spec": {"suspend": value}}, MERGE)
            case End(pod, code):
                path = f"/api/v1/namespaces/{self._namespace}/pods/{pod}"
                self._admin.ask("PATCH", path, {"metadata": {"annotations": {EXIT_CODE: str(code)}}}, MERGE)
