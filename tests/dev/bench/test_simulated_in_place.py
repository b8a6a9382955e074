"""The benchmark of a restart in place: agents that are played keep their protocol, and the figures are there."""

import itertools
import json
import sys
from collections.abc import Callable

import pytest

from api import keys
from controllers.resources import JOBSETS
from dev.bench import report
from dev.bench.simulated import in_place
from dev.bench.simulated.fleet import NAMESPACE, Fleet, set_name
from dev.bench.simulated.server import Server
from dev.simulator.rest import Request, Stream
from dev.simulator.storage import Plain

MANAGER = [sys.executable, "-m", "cli", "manager"]
KEY = NAMESPACE, set_name(0)
JOB = NAMESPACE, "train-00-workers-0"
FLEET = Fleet(domains=1, nodes=2, jobsets=1, jobs=2, pods=3, exclusive=False, in_place=True)


class Clock:
    """What is to be called later, by hand: everything up to a moment, in the order of time."""

    def __init__(self) -> None:
        self.now = 0.0
        self._numbers = itertools.count()
        self._acts: list[tuple[float, int, Callable[[], object]]] = []

    def later(self, seconds: float, act: Callable[[], object]) -> None:
        self._acts.append((self.now + seconds, next(self._numbers), act))

    def run(self, until: float) -> None:
        while due := [act for act in self._acts if act[0] <= until]:
            first = min(due)
            self._acts.remove(first)
            self.now = first[0]
            first[2]()
        self.now = until


class Played:
    """A set of six pods whose agents run by a clock, and a watch of its pods as the manager has one."""

    def __init__(self) -> None:
        self.server = Server(FLEET)
        self.clock = Clock()
        assert self.server.agents is not None
        self.agents = self.server.agents
        self.agents.later = self.clock.later
        self.lines: list[bytes] = []
        query = {"watch": "true", "resourceVersion": str(self.server.storage.version)}
        headers = {"user-agent": "test"}
        stream = self.server.handle(Request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods", query, headers, b""))
        assert isinstance(stream, Stream)
        stream.begin(self.lines.append)

    def status(self, **attempts: int) -> None:
        """The manager writes the status."""
        body = self.server.cluster.get(JOBSETS.plural, KEY).body()
        self.server.storage.put(JOBSETS.plural, Plain({**body, "status": {**body["status"], **attempts}}))
        self.clock.run(self.clock.now)

    def events(self) -> list[tuple[str, bool, int, str]]:
        """Pod, whether it is ready, its restarts, and the attempt that it reports, of each event since the last call."""
        found = [json.loads(line)["object"] for line in self.lines]
        self.lines.clear()
        return [self._pod_state(pod) for pod in found]

    @staticmethod
    def _pod_state(pod) -> tuple[str, bool, int, str]:
        [container] = pod["status"]["containerStatuses"]
        ready = {c["type"]: c["status"] for c in pod["status"]["conditions"]}["Ready"] == "True"
        assert ready == container["ready"]
        attempt = pod["metadata"]["annotations"][keys.IN_PLACE_RESTART_ATTEMPT]
        return pod["metadata"]["name"], ready, container["restartCount"], attempt

    def ready(self) -> int:
        return self.server.cluster.get("jobs", JOB).body()["status"]["ready"]


def test_one_worker_fails_and_its_agent_reports_the_next_attempt():
    played = Played()
    played.agents.fail_worker(start_seconds=1.5)
    played.clock.run(1.4)
    [(name, *said)] = played.events()
    assert said == [False, 0, "0"]
    assert played.ready() == 2, "the Job controller has counted after a second"
    played.clock.run(1.5)
    assert played.events() == [(name, True, 1, "0"), (name, True, 1, "1")]
    played.clock.run(9)
    assert played.ready() == 3
    assert played.events() == [], "it waits for the others"


def test_all_agents_follow_and_wait_until_the_attempt_is_current():
    played = Played()
    played.agents.fail_worker(start_seconds=1)
    played.clock.run(5)
    played.events()
    played.status(previousInPlaceRestartAttempt=0)
    played.clock.run(10)
    events = played.events()
    assert len({name for name, *_ in events}) == 5
    assert sorted(said for _, *said in events) == sorted([[False, 0, "0"], [True, 1, "0"], [True, 1, "1"]] * 5)
    assert played.agents.state()["lifted"] == {}
    played.status(currentInPlaceRestartAttempt=1)
    state = played.agents.state()
    assert state["lifted"] == {"1": 6}
    assert (state["reports"], state["kubelet_writes"], state["events"]) == (6, 12, 2)
    assert state["status_bytes"] < state["watched_bytes"] / 2
    assert played.events() == [], "the end of the wait is nothing that an agent writes"


def test_what_the_watches_of_the_manager_were_sent_is_counted():
    played = Played()
    played.agents.fail_worker(start_seconds=1)
    played.clock.run(5)
    assert played.server.api.sent == {"pods": sum(map(len, played.lines))}


def check(line, pods: int) -> None:
    """What the benchmark is for: goals that do not depend on how busy the machine is."""
    assert (line["pods"], line["writes_per_agent"], line["kubelet_writes_per_pod"]) == (pods, 1, 2)
    assert 2 <= line["status_writes"] == line["requests"], "the manager asks for nothing else"
    assert line["status_kib"] < 100
    assert line["pod_events_mib"] > 3 * pods * 2 / 1024, "three events of some KiB for each pod"
    assert line["cpu_seconds"] > 0
    assert line["rss_mib"] <= line["peak_rss_mib"] + 1


def test_the_manager_restarts_a_set_in_place_under_it():
    """The real manager as a process."""
    line = in_place.measure(MANAGER, 12, pods_per_job=6, start_seconds=0.2)
    check(line, 12)
    assert line["jobs"] == 2


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_processor_time_grows_with_the_number_of_pods_not_with_its_square():
    few, many = (in_place.measure(MANAGER, pods, start_seconds=1) for pods in (1000, 8000))
    check(few, 1000)
    check(many, 8000)
    assert many["status_writes"] <= 4 + many["seconds"] // 30, "counts alone go to all agents once in 30 s"
    assert report.growth([few, many], "pods", "cpu_seconds") < 1.5
