"""A node is drained under a program that gets a notice: it saves its step, leaves the node, and continues from there.

The notice comes from the taint of the drain or, where that is none of the set's, from the evictions.
"""

from itertools import pairwise

import pytest

from dev.cluster import node_faults
from dev.cluster.kubectl import run_kubectl
from dev.hack.node_images import AGENT
from tests.e2e.real.test_life import MANAGER, dns_node_and_other
from tests.e2e.real.test_lost_nodes import IN_PLACE, account, spread
from tests.support.cluster.jobs import Sets, group, manifest
from tests.support.cluster.real import create_pod, logs, pod, running
from tests.support.cluster.requests import kubectl_apply, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
RANKS = 6
MAX_SECONDS = 10
"""Of a drain in which not all ranks make steps."""
TAINT_KEYS = {"taint": "node.kubernetes.io/unschedulable", "eviction": "example.com/maintenance"}
"""What a set names that is to notice a drain by its taint, or by the evictions alone."""
STORE = """
import http.server, time
saved = {}
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(saved.get(self.path, b"0"))
    def do_PUT(self):
        saved[self.path] = self.body()
        self.answer(b"")
    def do_POST(self):
        print(time.time(), self.path, self.body().decode(), flush=True)
        self.answer(b"")
    def body(self):
        return self.rfile.read(int(self.headers["Content-Length"]))
    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("", 8000), Handler).serve_forever()
"""
"""Keeps checkpoints (PUT, GET), and prints when each rank has made which step (POST)."""
TRAINS = """
import os, pathlib, signal, time, urllib.request
url = f"http://{os.environ['STORE']}:8000/{os.environ['JOB_COMPLETION_INDEX']}"
leaving = False
def notice(*_):
    global leaving
    leaving = True
    signal.alarm(0)
def terminate(*_):
    if not leaving:
        signal.alarm(10)
def ask(method, step=None):
    body = None if step is None else str(step).encode()
    with urllib.request.urlopen(urllib.request.Request(url, body, method=method), timeout=10) as answer:
        return answer.read()
signal.signal(signal.SIGUSR1, notice)
signal.signal(signal.SIGTERM, terminate)
step = int(ask("GET"))
while True:
    time.sleep(0.2)
    step += 1
    ask("POST", step)
    if leaving:
        ask("PUT", step)
        pathlib.Path(os.environ["JOBSET_ACKNOWLEDGEMENT_FILE"]).touch()
        while True:
            signal.pause()
"""


def steps(sets: Sets) -> list[list[tuple[float, int]]]:
    """When each rank made which step."""
    ranks: list[list[tuple[float, int]]] = [[] for _ in range(RANKS)]
    for line in logs(sets.cluster, sets.namespace, "store").splitlines():
        at, path, step = line.split()
        ranks[int(path.strip("/"))].append((float(at), int(step)))
    return ranks


def create_store(sets: Sets, node: str) -> str:
    """The storage for checkpoints, on this node; returns its address."""
    create_pod(sets.cluster, sets.namespace, "store", "", **running(["python3", "-c", STORE], nodeName=node))

    def address() -> str:
        return str(pod(sets.cluster, sets.namespace, "store").get("status", {}).get("podIP", ""))

    return wait_for(address, what="the storage")


def refuse_evictions(sets: Sets) -> None:
    """What docs/concepts/node-maintenance.md says about `kubectl drain`."""
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"jobset.sigs.k8s.io/jobset-name": "js"}}}
    body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "js"}, "spec": spec}
    kubectl_apply(sets.cluster, sets.namespace, body)


def standstill(ranks: list[list[tuple[float, int]]]) -> float:
    """Seconds from the first rank that stopped until all were running again, at the longest pause of each."""
    pauses = [max(pairwise([at for at, _ in rank]), key=lambda pair: pair[1] - pair[0]) for rank in ranks]
    return max(end for _, end in pauses) - min(start for start, _ in pauses)


@pytest.mark.parametrize("cause", TAINT_KEYS)
def test_no_step_is_lost_when_a_node_is_drained_with_notice(real_sets: Sets, cause: str, record_property):
    cluster = real_sets.cluster
    kept, drained = dns_node_and_other(cluster)
    workers = spread(["python3", "-c", TRAINS], serviceAccountName=account(real_sets), restartPolicy="OnFailure")
    workers["containers"][0]["env"] = [{"name": "STORE", "value": create_store(real_sets, kept)}]
    policy = {
        "maxRestarts": 0,
        "restartStrategy": "InPlaceRestart",
        "agent": {"image": AGENT, "mode": "MainContainer"},
        "maintenance": {"taintKeys": [TAINT_KEYS[cause]], "notice": {"signal": "SIGUSR1", "waitSeconds": 120}},
    }
    real_sets.apply(manifest(group(pods_per_job=RANKS, pod=workers, job=IN_PLACE), failurePolicy=policy))
    if cause == "taint":
        refuse_evictions(real_sets)
    wait_for(lambda: all(len(rank) > 5 for rank in steps(real_sets)), timeout=120, what="steps of all ranks")
    assert {pod["spec"]["nodeName"] for pod in real_sets.pods()} == {kept, drained}
    with cluster.connect() as connection:
        try:
            run_kubectl(cluster.plan, "drain", drained, "--ignore-daemonsets", "--delete-emptydir-data", "--force")
            real_sets.wait_attempt(1)
            made = [len(rank) for rank in steps(real_sets)]

            def all_run_again() -> bool:
                return all(len(rank) > before + 5 for rank, before in zip(steps(real_sets), made, strict=True))

            wait_for(all_run_again, timeout=60, what="more steps of all ranks", last=real_sets.explain)
        finally:
            node_faults.uncordon(connection, drained)
            run_kubectl(cluster.plan, "rollout", "status", "--namespace=jobset-system", "--timeout=60s", MANAGER)
    ranks = steps(real_sets)
    record_property(f"ms of a drain in which not all ranks made steps: {cause}", round(standstill(ranks) * 1000))
    assert standstill(ranks) < MAX_SECONDS
    for rank in ranks:
        assert [step for _, step in rank] == list(range(1, len(rank) + 1)), "each step is made once"
    assert {pod["spec"]["nodeName"] for pod in real_sets.pods()} == {kept}
    status = real_sets.status()
    assert (status.get("restartsCountTowardsMax", 0), status.get("terminalState")) == (0, None)
    assert "attemptHistory" not in status
