"""One run of the placement benchmark: a JobSet from its creation until all pods run, then a failure and the same again.

What is counted comes from the API server: requests from its audit log, webhook calls from its metrics, and the moment a
pod runs from a watch. Must not know how placement is done, only how its result looks.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from prometheus_client.parser import text_string_to_metric_families

from api import keys
from devcluster import audit, rest
from devcluster.cluster import Cluster
from devcluster.components import ADMIN
from manifests import SERVICE_ACCOUNT

JSON = dict[str, Any]

TOPOLOGY = "rack"
STALL_SECONDS = 90
"""So long no further pod started: the run has failed."""

SETTLE_SECONDS = 1.5
"""After the last pod runs, until what was asked because of it is in the audit log."""

TICKS = os.sysconf("SC_CLK_TCK")
EXIT_CODE = "kwok.jobset.dev/exit-code"
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
WEBHOOK_TIMES = "apiserver_admission_webhook_admission_duration_seconds"
NOT_COUNTED = {"kubernetes-admin", "kwok"}
"""Users whose requests are the benchmark's own, or play the kubelets of fake nodes."""


class BenchmarkError(Exception):
    """The run cannot go on or its result is wrong; the text says what was seen."""


@dataclass(frozen=True, slots=True)
class Size:
    """What is placed, and where."""

    racks: int = 60
    nodes: int = 10
    jobs: int = 40
    pods: int = 10

    def running(self, *, exclusive: bool) -> int:
        """Pods that find a place: each exclusive Job needs a rack of its own."""
        return self.pods * (min(self.jobs, self.racks) if exclusive else self.jobs)


@dataclass(frozen=True, slots=True)
class Bench:
    """Where a run happens."""

    cluster: Cluster
    pid: int
    size: Size
    exclusive: bool
    namespace: str

    def request(self, method: str, path: str, body: JSON | None = None, content: str = "application/json") -> Any:
        """What the API server answers. Raises `BenchmarkError` for a refusal."""
        with self.cluster.connect() as connection:
            status, answer = connection.request(method, path, body, content)
        if status >= 400:
            said = answer.get("message") if isinstance(answer, dict) else answer
            raise BenchmarkError(f"{method} {path} was answered with {status}: {said}")
        return answer


def jobset(size: Size, *, exclusive: bool) -> JSON:
    """The JobSet: two pods fill a node, so that a rack holds one Job of twice its nodes."""
    container = {"name": "main", "image": "train", "resources": {"requests": {"cpu": "16"}}}
    job = {
        "backoffLimit": 0,
        "parallelism": size.pods,
        "completions": size.pods,
        "completionMode": "Indexed",
        "template": {"spec": {"containers": [container]}},
    }
    annotations = {keys.EXCLUSIVE_TOPOLOGY: TOPOLOGY} if exclusive else {}
    return {
        "apiVersion": keys.API_VERSION,
        "kind": keys.KIND,
        "metadata": {"name": "bench", "annotations": annotations},
        "spec": {
            "failurePolicy": {"maxRestarts": 1},
            "replicatedJobs": [{"name": "workers", "replicas": size.jobs, "template": {"spec": job}}],
        },
    }


def run(bench: Bench, wait_seconds: float) -> JSON:
    """Start and restart. Where Jobs have to wait for a rack, also what they cost in `wait_seconds` of waiting."""
    result: JSON = {"idle_rss_mib": memory_mib(bench.pid)}
    collection = f"/apis/{keys.API_VERSION}/namespaces/{bench.namespace}/jobsets"
    with _measured(bench, attempt=0) as result["start"]:
        bench.request("POST", collection, jobset(bench.size, exclusive=bench.exclusive))
    pods = _check(bench)
    if bench.exclusive and bench.size.jobs > bench.size.racks:
        with _counted(bench) as result["waiting"]:
            time.sleep(wait_seconds)
        _check(bench)
    follower = next(p["metadata"]["name"] for p in pods if p["metadata"]["labels"][keys.COMPLETION_INDEX] != "0")
    patch = {"metadata": {"annotations": {EXIT_CODE: "1"}}}
    path = f"/api/v1/namespaces/{bench.namespace}/pods/{follower}"
    with _measured(bench, attempt=1) as result["restart"]:
        bench.request("PATCH", path, patch, "application/merge-patch+json")
    _check(bench)
    return {**result, "rss_mib": memory_mib(bench.pid), "peak_rss_mib": memory_mib(bench.pid, "VmHWM")}


@contextlib.contextmanager
def _measured(bench: Bench, attempt: int) -> Iterator[JSON]:
    """Seconds from the start of the block until half of the pods that find a place run, and until all do."""
    expected = bench.size.running(exclusive=bench.exclusive)
    with _counted(bench) as phase, _starting(bench, attempt) as starts:
        begun = time.monotonic()
        yield phase
        for count, moment in enumerate(starts, start=1):
            if count == (expected + 1) // 2:
                phase["half_seconds"] = moment - begun
            if count == expected:
                phase["seconds"] = moment - begun
                break
        time.sleep(SETTLE_SECONDS)


@contextlib.contextmanager
def _starting(bench: Bench, attempt: int) -> Iterator[Iterator[float]]:
    """The moments at which pods of a restart attempt begin to run, from now on."""
    tls = rest.client_tls(bench.cluster.plan.layout.pki, "ca", ADMIN)
    port = bench.cluster.plan.ports["kube-apiserver"]
    chosen = {"fieldSelector": "status.phase=Running", "labelSelector": f"{keys.RESTART_ATTEMPT}={attempt}"}
    path = f"/api/v1/namespaces/{bench.namespace}/pods?{urlencode({'watch': 'true', **chosen})}"
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=STALL_SECONDS, context=tls)

    def watch() -> http.client.HTTPResponse:
        connection.request("GET", path, headers={"Accept": METADATA_ONLY})
        return connection.getresponse()

    with contextlib.closing(connection):
        yield _moments(watch(), watch)


def _moments(answer: http.client.HTTPResponse, watch: Callable[[], http.client.HTTPResponse]) -> Iterator[float]:
    """When each pod was first seen. A busy API server ends watches; a new one begins with all that is there."""
    seen: set[str] = set()
    while True:
        try:
            line = answer.readline()
        except TimeoutError:
            raise BenchmarkError(f"{len(seen)} pods run, and for {STALL_SECONDS} s no other has started") from None
        if not line:
            answer = watch()
            continue
        uid = json.loads(line)["object"]["metadata"]["uid"]
        if uid not in seen:
            seen.add(uid)
            yield time.monotonic()


@contextlib.contextmanager
def _counted(bench: Bench) -> Iterator[JSON]:
    """What is asked of the API server in the block, by whom, and what it costs the manager."""
    calls, held = webhook_times(bench)
    offset, busy = audit.size(bench.cluster.audit_log), cpu_seconds(bench.pid)
    phase: JSON = {}
    yield phase
    phase["manager_cpu_seconds"] = cpu_seconds(bench.pid) - busy
    phase |= counts(audit.calls(bench.cluster.audit_log, offset))
    after_calls, after_held = webhook_times(bench)
    phase |= {"pod_webhook_calls": after_calls - calls, "pod_webhook_seconds": after_held - held}


def counts(calls: Iterator[audit.Call]) -> JSON:
    """Requests by client, and those that placement is about; without those of `NOT_COUNTED`."""
    clients: Counter[str] = Counter()
    pods: Counter[str] = Counter()
    for call in calls:
        client = call.user.rpartition(":")[2]
        if client in NOT_COUNTED or call.dry_run:
            continue
        clients[client] += 1
        if call.resource == "pods" and call.verb == "create":
            pods["refused" if call.code >= 400 else "created"] += 1
        elif call.resource == "pods" and call.verb == "patch" and client == SERVICE_ACCOUNT:
            pods["patched"] += 1
    return {
        "pods_created": pods["created"],
        "pod_creates_refused": pods["refused"],
        "pods_patched_by_manager": pods["patched"],
        "requests": clients.total(),
        "requests_by_client": dict(clients.most_common()),
    }


def webhook_times(bench: Bench) -> tuple[int, float]:
    """Calls of the webhooks of pods so far, and the seconds that those who create pods waited for them."""
    count, seconds = 0.0, 0.0
    text = "\n".join(line for line in bench.request("GET", "/metrics").splitlines() if WEBHOOK_TIMES in line)
    for family in text_string_to_metric_families(text + "\n"):
        for sample in family.samples:
            if "pod" not in sample.labels.get("name", ""):
                continue
            count += sample.value if sample.name.endswith("_count") else 0
            seconds += sample.value if sample.name.endswith("_sum") else 0
    return int(count), seconds


def _check(bench: Bench) -> list[JSON]:
    """The running pods. Raises `BenchmarkError` unless each exclusive Job has one rack alone."""
    nodes = bench.request("GET", "/api/v1/nodes")["items"]
    racks = {node["metadata"]["name"]: node["metadata"]["labels"][TOPOLOGY] for node in nodes}
    pods = bench.request("GET", f"/api/v1/namespaces/{bench.namespace}/pods?fieldSelector=status.phase%3DRunning")
    placed = [(pod["metadata"]["labels"]["job-name"], racks[pod["spec"]["nodeName"]]) for pod in pods["items"]]
    if bench.exclusive and (wrong := misplaced(placed)):
        raise BenchmarkError(f"not exclusive: {'; '.join(wrong)}")
    return list(pods["items"])


def misplaced(placed: list[tuple[str, str]]) -> list[str]:
    """What is wrong with pods, given as (Job, rack), of which each Job should have one rack alone."""
    racks, jobs = defaultdict(set), defaultdict(set)
    for job, rack in placed:
        racks[job].add(rack)
        jobs[rack].add(job)
    spread = [f"Job {job} is on {', '.join(sorted(on))}" for job, on in sorted(racks.items()) if len(on) > 1]
    return spread + [f"{rack} holds {', '.join(sorted(of))}" for rack, of in sorted(jobs.items()) if len(of) > 1]


def cpu_seconds(pid: int) -> float:
    """User and system time of a process since its start."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory_mib(pid: int, field: str = "VmRSS") -> float:
    """Resident memory of a process now, or the most there was (VmHWM)."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:")) / 1024
