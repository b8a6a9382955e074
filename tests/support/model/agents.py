"""In-place restart agents of the model cluster: one in each pod of a set that asks for it, with the real decisions.

What an agent reports is stored at once; the caches of the controller may not know it yet.
"""

from typing import Any

from agent.decision import Action, Progress, attempt_to_join, decide, open_notice
from api import keys
from api.restart_agent import jobs_without_agent
from tests.support.model.stale import NS, Server, Stored


class Agents:
    """All agents of the set. `_own`: what each has done since it started, by the UID of its pod."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._own: dict[str, Progress] = {}

    def pods(self) -> list[str]:
        """Names of the pods in which an agent runs: those on a node that has failed may run, but reach no server."""
        return sorted(name for name, pod in self._server.tables["pods"].live.items() if self._runs_agent(pod))

    def _runs_agent(self, pod: Stored) -> bool:
        js, place = self._server.jobset, self._server.ledger.places.get(_job(pod))
        if js is None or not js.restarts_in_place or place is None or place.owner != js.metadata.uid:
            return False
        runs = pod.content["status"]["phase"] == "Running" and "deletionTimestamp" not in pod.meta
        reachable = pod.content["spec"]["nodeName"] not in self._server.failed_nodes
        return runs and reachable and place.replicated_job not in jobs_without_agent(js)

    def act(self, name: str) -> bool:
        """The next thing that the agent in this pod does; False if it waits."""
        pod, js = self._server.tables["pods"].live[name], self._server.get("jobsets", (NS, "js")).body()
        own = self._own.get(pod.uid, Progress())
        match decide(js, own):
            case Action.REPORT:
                attempt = attempt_to_join(js) if own.attempt is None else own.attempt
                self._report(pod, attempt)
                self._own[pod.uid] = Progress(attempt, reported=True)
            case Action.LIFT:
                self._own[pod.uid] = own._replace(lifted=True)
            case Action.RESTART:
                self.restart(name)
            case Action.WAIT:
                return own.lifted and self._acknowledge(pod, js)
        return True

    def act_all(self) -> None:
        """Until all wait."""
        for name in self.pods():
            while self.act(name):
                pass

    def restart(self, name: str) -> None:
        """The kubelet starts the containers of the pod again."""
        pod = self._server.tables["pods"].live[name]
        self._own[pod.uid] = Progress()
        times = self.restarts(pod) + 1
        status = {**pod.content["status"], "containerStatuses": [{"name": "main", "restartCount": times}]}
        self._server.put("pods", {**pod.content, "status": status})
        known = self._server.ledger.containers
        known[_job(pod)] = max(times, known.get(_job(pod), 0))

    @staticmethod
    def restarts(pod: Stored) -> int:
        return sum(of["restartCount"] for of in pod.content["status"].get("containerStatuses", []))

    def runs(self, job_uid: str) -> int | None:
        """The attempt that the worker of a Job runs; None while there is none or it waits at the barrier."""
        pod = self._server.pod_of(job_uid)
        own = Progress() if pod is None or not self._runs_agent(pod) else self._own.get(pod.uid, Progress())
        return own.attempt if own.lifted else None

    def _acknowledge(self, pod: Stored, js: dict[str, Any]) -> bool:
        """The worker is ready to move as soon as it gets the signal. Whether the agent has something to say."""
        notice, said = open_notice(js), pod.meta["annotations"]
        if notice is None or said.get(keys.MAINTENANCE_ACKNOWLEDGED) == notice.time:
            return False
        annotations = {**said, keys.MAINTENANCE_ACKNOWLEDGED: notice.time}
        self._server.put("pods", {**pod.content, "metadata": {**pod.meta, "annotations": annotations}})
        return True

    def _report(self, pod: Stored, attempt: int) -> None:
        meta: dict[str, Any] = pod.meta
        annotations = {**meta["annotations"], keys.IN_PLACE_RESTART_ATTEMPT: str(attempt)}
        self._server.put("pods", {**pod.content, "metadata": {**meta, "annotations": annotations}})
        self._server.ledger.reports.setdefault(_job(pod), set()).add(attempt)


def _job(pod: Stored) -> str:
    """UID of the Job of a pod."""
    return str(pod.meta["ownerReferences"][0]["uid"])
