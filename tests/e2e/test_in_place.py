"""In-place restart as a whole: the manager, real agents and real workers; the test is the kubelet for the processes.

kwok plays the pods' phases and nothing runs in its containers, so each pod gets one agent process here, which is
started again when it ends with an error, as the kubelet would.
"""

import os
import signal
import sys
import time
from collections import Counter

import pytest

from dev.cluster import audit
from dev.cluster.node_faults import come_back, fall_silent
from tests.support.cluster import agents
from tests.support.cluster.jobs import Sets, group, manifest
from tests.support.cluster.requests import finish_pod, request, wait_for

GATES = {"InPlaceRestart": True}
pytestmark = pytest.mark.manager(featureGates=GATES)

STRATEGIC = "application/strategic-merge-patch+json"
WORKER = """echo "$$" > "$FOLDER/pid.new" && mv "$FOLDER/pid.new" "$FOLDER/pid"
while ! [ -e "$FOLDER/finish" ]; do sleep 0.1; done"""


class Container:
    """The one container of a pod: its agent, run after run."""

    def __init__(self, kubelet, pod):
        self.kubelet = kubelet
        self.name, self.uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        self.folder = kubelet.folder / self.name
        self.folder.mkdir()
        # What the manager has put into the pod runs with the file that its init container would have copied.
        main = pod["spec"]["containers"][0]
        command = main.get("command") or []
        self.env = {each["name"]: each["value"] for each in main.get("env") or [] if "value" in each}
        self.program = command[command.index("--") + 1 :] if "--" in command else []
        self.codes = []
        self.start()

    def start(self):
        (self.folder / "pid").unlink(missing_ok=True)
        env = {
            "JOBSET_NAME": "js",
            "POD_NAME": self.name,
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self.kubelet.cluster.plan.ports["kube-apiserver"]),
            "SERVICE_ACCOUNT_DIR": str(self.kubelet.account),
            "IN_PLACE_RESTART_EXIT_CODE": "99",
            "FOLDER": str(self.folder),
            "JOBSET_ACKNOWLEDGEMENT_FILE": str(self.folder / "ready"),
            **self.env,
            **self.kubelet.env,
        }
        if not self.program:
            env["WORKER_COMMAND"] = WORKER
        self.process = agents.Process(self.kubelet.file, self.folder / "log", env, arguments=self.program)

    def worker(self):
        """Process id of the running worker; None while the barrier is up."""
        path = self.folder / "pid"
        pid = int(path.read_text()) if path.exists() else None
        return pid if pid is not None and agents.alive(pid) else None

    def kill_worker(self):
        os.kill(self.worker(), signal.SIGKILL)


class Kubelet:
    """Keeps one container running for each pod of the set; `sync` is one look at the world."""

    def __init__(self, sets, file, folder):
        self.sets, self.cluster, self.file, self.folder = sets, sets.cluster, file, folder
        agents.rights(self.cluster, sets.namespace)
        self.account = agents.account(self.cluster, sets.namespace, folder / "account")
        self.containers = {}
        self.env = {}
        self.in_grace = False
        """Whether the containers of pods that are being deleted run on."""

    def sync(self):
        pods = self.sets.pods(ending=self.in_grace)
        living = {pod["metadata"]["uid"]: pod for pod in pods if pod["status"]["phase"] == "Running"}
        wanted = {
            uid
            for uid, pod in living.items()
            if "deletionTimestamp" not in pod["metadata"] or (self.in_grace and uid in self.containers)
        }
        for uid in self.containers.keys() - wanted:
            container = self.containers.pop(uid)
            container.process.close()
            if uid in living:
                # kwok does not, and a Job with podReplacementPolicy Failed lets a pod go only then.
                self._report(container, {"phase": "Failed"})
        for uid in wanted - self.containers.keys():
            self.containers[uid] = Container(self, living[uid])
        for container in self.containers.values():
            if not container.process.running and container.codes[-1:] != [0]:
                container.codes.append(container.process.ended())
                self._go_on(container)

    def _go_on(self, container):
        """What restartPolicy OnFailure asks for."""
        if container.codes[-1] == 0:
            finish_pod(self.cluster, self.sets.namespace, container.name)
            return
        self._report(container, {"containerStatuses": [{"name": "main", "restartCount": len(container.codes)}]})
        container.start()

    def _report(self, container, status):
        path = f"/api/v1/namespaces/{self.sets.namespace}/pods/{container.name}/status"
        request(self.cluster, "PATCH", path, {"status": status}, STRATEGIC)

    def until(self, probe, what, timeout=40):
        """Go on being the kubelet until something is true, and return that."""

        def look():
            self.sync()
            return probe()

        try:
            return wait_for(look, timeout=timeout, what=what)
        except AssertionError as late:
            logs = "\n".join(f"{c.name} {c.codes}:\n{c.process.log()}" for c in self.containers.values())
            raise AssertionError(f"{late}\nstatus {self.sets.status()}\nevents {self.sets.events()}\n{logs}") from None

    def workers(self):
        """Process ids of all workers, by pod UID; those behind the barrier have none."""
        return {uid: c.worker() for uid, c in self.containers.items() if c.worker()}

    def close(self):
        for container in self.containers.values():
            container.process.close()


@pytest.fixture
def kubelet(sets, agent_file, tmp_path):
    kubelet = Kubelet(sets, agent_file, tmp_path)
    yield kubelet
    kubelet.close()


def jobset(max_restarts, agent=None, policy=(), worker=WORKER, **spec):
    job = {"backoffLimit": 2147483647, "podReplacementPolicy": "Failed"}
    pod = {"restartPolicy": "OnFailure"}
    if agent:
        pod["containers"] = [{"name": "main", "image": "busybox", "command": ["/bin/sh", "-c", worker]}]
    workers = group(replicas=2, pods_per_job=2, job=job, pod=pod)
    policy = {"maxRestarts": max_restarts, "restartStrategy": "InPlaceRestart", **dict(policy)}
    policy |= {"agent": agent} if agent else {}
    return manifest(workers, failurePolicy=policy, **spec)


def attempts(sets):
    status = sets.status()
    return (status.get("previousInPlaceRestartAttempt"), status.get("currentInPlaceRestartAttempt"))


def running(kubelet, *, attempt, but=()):
    """Wait until four workers run in `attempt`, none of them a process of `but`; gives their process ids by pod."""

    def look():
        found = kubelet.workers()
        new = len(found) == 4 and not set(found.values()) & set(but)
        return found if new and attempts(kubelet.sets)[1] == attempt else None

    return kubelet.until(look, f"four workers in attempt {attempt}")


def uids(objects):
    return {item["metadata"]["uid"] for item in objects}


def test_one_killed_worker_restarts_all_in_place(sets, kubelet, capsys):
    sets.apply(jobset(max_restarts=3, agent={"image": "agent", "mode": "MainContainer"}))
    first = running(kubelet, attempt=0)
    jobs, pods = uids(sets.jobs()), uids(sets.pods())
    victim = next(iter(kubelet.containers.values()))
    killed = time.monotonic()
    victim.kill_worker()
    second = running(kubelet, attempt=1, but=first.values())
    with capsys.disabled():
        sys.stdout.write(f"\nin-place restart of 4 workers: {time.monotonic() - killed:.1f} s\n")
    assert attempts(sets) == (0, 1)
    assert not any(agents.alive(pid) for pid in first.values()), "nobody works on with an old attempt"
    assert [c.codes for c in kubelet.containers.values()] == [[]] * 4, "no container has ended"
    assert uids(sets.pods()) == pods == second.keys(), "the pods are the same objects"
    assert uids(sets.jobs()) == jobs, "so are the Jobs"
    status = sets.status()
    assert (status["restarts"], status.get("terminalState")) == (0, None)
    [failed] = status["attemptHistory"]
    assert (failed["reason"], failed["pod"], failed["exitCode"]) == ("InPlaceRestart", victim.name, 137)


def test_the_api_server_takes_pods_with_an_agent_beside_the_worker(sets):
    sets.apply(jobset(max_restarts=3, agent={"image": "agent", "probePort": 9000}))
    pods = wait_for(lambda: len(found := sets.pods()) == 4 and found, what="four pods")
    for pod in pods:
        [agent] = pod["spec"]["initContainers"]
        assert agent["startupProbe"]["httpGet"] | {"scheme": ""} == {
            "path": "/barrier-is-down",
            "port": 9000,
            "scheme": "",
        }
        [worker] = pod["spec"]["containers"]
        assert [rule["action"] for rule in worker["restartPolicyRules"]] == ["RestartAllContainers"]


def calls_of_agents(sets: Sets, start: int) -> Counter[tuple[str, str]]:
    """Verb and resource of what agents have asked for since `start`, an offset in the audit log."""
    account = f"system:serviceaccount:{sets.namespace}:{agents.ACCOUNT}"
    calls = audit.calls(sets.cluster.audit_log, start, account)
    return Counter((call.verb, call.resource) for call in calls if call.user == account)


def test_a_restart_takes_two_status_writes_and_three_requests_of_each_agent(sets, kubelet, manager):
    sets.apply(jobset(max_restarts=3))
    first = running(kubelet, attempt=0)
    kubelet.until(lambda: sets.counts()["ready"] == 2, "counters that have settled")
    start = audit.log_size(sets.cluster.audit_log)
    next(iter(kubelet.containers.values())).kill_worker()
    running(kubelet, attempt=1, but=first.values())
    assert manager.calls(start, namespace=sets.namespace) == {("patch", "jobsets/status", 200): 2}
    # The watches of the old attempt end here, those of the new one are still open.
    assert calls_of_agents(sets, start) == {("list", "jobsets"): 4, ("patch", "pods"): 4, ("watch", "jobsets"): 4}


def test_where_only_workers_start_again_each_agent_makes_one_request(sets, kubelet, manager):
    kubelet.env = {"RESTART_WORKER_ONLY": "true"}
    sets.apply(jobset(max_restarts=3))
    first = running(kubelet, attempt=0)
    kubelet.until(lambda: sets.counts()["ready"] == 2, "counters that have settled")
    start = audit.log_size(sets.cluster.audit_log)
    victim = next(iter(kubelet.containers.values()))
    victim.kill_worker()
    running(kubelet, attempt=1, but=first.values())
    assert not any(agents.alive(pid) for pid in first.values()), "no worker continues an old attempt"
    assert [c.codes for c in kubelet.containers.values() if c is not victim] == [[], [], []]
    assert manager.calls(start, namespace=sets.namespace) == {("patch", "jobsets/status", 200): 2}
    # The failed worker's agent begins at the top; its watch of the old attempt ends here.
    assert calls_of_agents(sets, start) == {("list", "jobsets"): 1, ("patch", "pods"): 4, ("watch", "jobsets"): 1}


@pytest.mark.slow
def test_where_the_agent_goes_on_ten_workers_fail_and_no_container_ends(sets, kubelet, capsys):
    sets.apply(jobset(max_restarts=10, agent={"image": "agent", "mode": "MainContainer"}))
    now, seconds = running(kubelet, attempt=0), []
    for attempt in range(1, 11):
        list(kubelet.containers.values())[attempt % 4].kill_worker()
        failed = time.monotonic()
        now = running(kubelet, attempt=attempt, but=now.values())
        seconds.append(time.monotonic() - failed)
        history = sets.status()["attemptHistory"]
        assert (len(history), history[-1]["exitCode"]) == (attempt, 137)
    with capsys.disabled():
        sys.stdout.write(f"\n4 workers, agents go on: {', '.join(f'{each:.1f}' for each in seconds)} s\n")
    assert all(container.codes == [] for container in kubelet.containers.values())
    victim = next(iter(kubelet.containers.values()))
    victim.kill_worker()
    kubelet.until(lambda: sets.status().get("terminalState") == "Failed", "the set's failure")
    last = sets.status()["attemptHistory"][-1]
    assert (last["reason"], last["pod"], last["exitCode"]) == ("ReachedMaxRestarts", victim.name, 137)
    kubelet.until(lambda: not kubelet.containers, "the end of all pods")
    first, *_ = *victim.codes, victim.process.ended()  # the container may start once more before its pod is deleted
    assert first == 137


def test_two_at_once_are_one_restart_and_one_too_many_fails_the_set(sets, kubelet):
    sets.apply(jobset(max_restarts=1))
    first = running(kubelet, attempt=0)
    for container in list(kubelet.containers.values())[:2]:
        container.kill_worker()
    running(kubelet, attempt=1, but=first.values())
    next(iter(kubelet.containers.values())).kill_worker()
    kubelet.until(lambda: sets.status().get("terminalState") == "Failed", "the set's failure")
    failed = sets.condition("Failed")
    assert failed["reason"] == "ReachedMaxRestarts"
    assert failed["message"] == "jobset failed due to reaching max number of restarts"
    kubelet.until(lambda: not sets.pods() and not kubelet.containers, "the end of all pods")


@pytest.mark.manager(featureGates=GATES | {"JobSetNodeFailure": True})
def test_of_a_lost_node_only_its_pods_are_replaced_and_the_others_stay(sets, kubelet, capsys):
    sets.apply(jobset(max_restarts=1, policy={"nodeFailure": {"afterSeconds": 1, "forceDeletePods": True}}))
    first = running(kubelet, attempt=0)
    jobs, pods = uids(sets.jobs()), {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in sets.pods()}
    node = next(iter(pods.values()))
    lost = {uid for uid, name in pods.items() if name == node}
    with sets.cluster.connect() as connection:
        try:
            fall_silent(connection, node)
            tainted = time.monotonic()
            second = running(kubelet, attempt=1, but=first.values())
            with capsys.disabled():
                seconds = time.monotonic() - tainted
                sys.stdout.write(f"\nnode lost, {len(lost)} of 4 pods: running again {seconds:.1f} s after the taint\n")
            assert uids(sets.jobs()) == jobs, "no Job is created again"
            limits = {job["spec"]["backoffLimit"] for job in sets.jobs()}
            assert 2147483645 in limits, "the Job controller was made to look at once"
            assert first.keys() & second.keys() == pods.keys() - lost, "pods that stayed are the same objects"
            assert attempts(sets) == (0, 1)
            assert (sets.status()["restarts"], sets.status().get("terminalState")) == (0, None)
            [note] = [note for _, reason, note in sets.events() if reason == "LostPodsReplaced"]
            assert f"is on node {node}, which has the taint" in note
        finally:
            come_back(connection, node)
