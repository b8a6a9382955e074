"""Plays the users and pods of one namespace: creates JobSets, follows their scripts, and deletes ended JobSets."""

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

KEEP_SECONDS = 5.0
"""Seconds that a JobSet is kept after its end, in case something still happens to it."""

WAKE_SECONDS = 10.0
"""Seconds after which a pod that has a node, but neither runs nor ends, is changed. Unlike a kubelet, a fake node
retries a failed write of a pod's status only after a change of the pod."""

WOKEN_ANNOTATION = "chaos.jobset.dev/woken"


@dataclass(slots=True)
class _PlayedScript:
    script: Script
    is_created: bool = False
    ended_at: float = 0.0
    """The time at which its JobSet was first seen ended (monotonic seconds); 0 before that."""


class Driver:
    """Keeps `width` JobSets alive in a namespace, which a fault may delete and create again."""

    def __init__(self, admin: Admin, namespace: str, scripts: Iterator[Script], width: int) -> None:
        self._admin = admin
        self._namespace = namespace
        self._scripts = scripts
        self._width = width
        self._scripts_by_name: dict[str, _PlayedScript] = {}
        self._waiting_since: dict[str, float] = {}
        """By UID of a pod that has a node but neither runs nor ends, the time at which this was first seen, or at which
        the pod was last changed here (monotonic seconds)."""
        self.ended_count = 0
        """Number of JobSets that have ended."""

    @property
    def alive_count(self) -> int:
        """Number of JobSets that have not ended."""
        return sum(not played.ended_at for played in self._scripts_by_name.values())

    def turn(self, *, with_new_jobsets: bool) -> None:
        """Read the JobSets and act once. Does nothing if the API server is down.

        `with_new_jobsets`: whether to create JobSets, too.
        """
        sets = self._admin.list_objects(JOBSETS.format(self._namespace))
        pods = self._admin.list_objects(f"/api/v1/namespaces/{self._namespace}/pods")
        if sets is None or pods is None:
            return
        self._wake(pods)
        jobset_by_name = {jobset["metadata"]["name"]: jobset for jobset in sets}
        pods_by_jobset = defaultdict(list)
        for pod in pods:
            pods_by_jobset[pod["metadata"]["labels"].get(keys.JOBSET_NAME, "")].append(pod)
        for name, played in list(self._scripts_by_name.items()):
            self._follow_script(played, jobset_by_name.get(name), pods_by_jobset[name])
        while with_new_jobsets and self.alive_count < self._width:
            script = next(self._scripts)
            self._scripts_by_name[script.name] = _PlayedScript(script)
            self._create(self._scripts_by_name[script.name])

    def _wake(self, pods: list[JSON]) -> None:
        now = time.monotonic()
        waiting = {
            pod["metadata"]["uid"]: pod["metadata"]["name"]
            for pod in pods
            if pod["spec"].get("nodeName")
            and (pod["status"].get("phase") == "Pending" or "deletionTimestamp" in pod["metadata"])
        }
        self._waiting_since = {uid: self._waiting_since.get(uid, now) for uid in waiting}
        for uid, since in self._waiting_since.items():
            if now > since + WAKE_SECONDS:
                path = f"/api/v1/namespaces/{self._namespace}/pods/{waiting[uid]}"
                self._admin.ask("PATCH", path, {"metadata": {"annotations": {WOKEN_ANNOTATION: f"{now:.0f}"}}}, MERGE)
                self._waiting_since[uid] = now

    def _follow_script(self, played: _PlayedScript, js: JSON | None, pods: list[JSON]) -> None:
        """Take the next steps of a script. `js` is None if the namespace does not have its JobSet."""
        name = played.script.name
        if js is None:
            if played.is_created:  # it was deleted by its time to live, or with its namespace
                self.ended_count += not played.ended_at
                del self._scripts_by_name[name]
            else:
                self._create(played)
            return
        played.is_created = True
        if (js.get("status") or {}).get("terminalState"):
            self.ended_count += not played.ended_at
            played.ended_at = played.ended_at or time.monotonic()
            if not played.script.is_deleted_after_end and time.monotonic() > played.ended_at + KEEP_SECONDS:
                self._admin.ask("DELETE", f"{JOBSETS.format(self._namespace)}/{name}")
            return
        for step in next_steps(played.script, js, pods):
            self._take_step(name, step)

    def _create(self, played: _PlayedScript) -> None:
        """Create a JobSet. If no answer comes, the next turn tries again, unless its list has the JobSet."""
        status, _ = self._admin.ask("POST", JOBSETS.format(self._namespace), played.script.manifest)
        played.is_created = status in {201, 409}

    def _take_step(self, name: str, step: Suspend | End) -> None:
        match step:
            case Suspend(value):
                path = f"{JOBSETS.format(self._namespace)}/{name}"
                self._admin.ask("PATCH", path, {"spec": {"suspend": value}}, MERGE)
            case End(pod, code):
                path = f"/api/v1/namespaces/{self._namespace}/pods/{pod}"
                self._admin.ask("PATCH", path, {"metadata": {"annotations": {EXIT_CODE: str(code)}}}, MERGE)
