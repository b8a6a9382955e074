"""Sets up a run: a control plane, three replicas behind relays, and one address of admission for all replicas."""

import contextlib
import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from anyio.from_thread import BlockingPortal, start_blocking_portal

from dev import local
from dev.chaos.checks.admission import Window
from dev.chaos.checks.leaders import LEADER_RESOURCES, LEASE
from dev.chaos.client import Admin
from dev.chaos.failover import Failover
from dev.chaos.load import POOL, TOPOLOGY
from dev.chaos.neighbour import NAMESPACE as NEIGHBOUR
from dev.chaos.neighbour import policy
from dev.chaos.portal import call_in_portal
from dev.chaos.relay import Relay
from dev.chaos.replica import Replica
from dev.cluster import pki
from dev.cluster.cluster import Cluster, running, statuses
from dev.cluster.spec import ClusterSpec, FakeNodes

REPLICAS = 3
CLOCK_SHIFT = 300.0
"""Seconds by which the clock of the last replica is wrong."""

AUDIT_MIB = 64 * 1024
"""Size of the audit log, which must not be rotated because the checks need all of it. Twenty minutes take about 2
GiB."""

NODES = FakeNodes(count=16, label_every={TOPOLOGY: 2, POOL: 8})
KEPT_NAMESPACE, DROPPED_NAMESPACE, STUCK_NAMESPACE = "chaos-kept", "chaos-dropped", "chaos-stuck"
NAMESPACES = (KEPT_NAMESPACE, DROPPED_NAMESPACE, STUCK_NAMESPACE, NEIGHBOUR)
POLICIES = "/apis/policy.jobset.x-k8s.io/v1alpha1/jobsetpolicies"
QUOTA = {"metadata": {"name": "none"}, "spec": {"hard": {"count/jobs.batch": "0"}}}

_GROUPS = {
    "jobs": "batch",
    "leases": "coordination.k8s.io",
    **dict.fromkeys(("jobsets", "jobsets/status"), "jobset.x-k8s.io"),
    **dict.fromkeys(("compositepodgroups", "podgroups", "workloads"), "scheduling.k8s.io"),
}


@dataclass(slots=True)
class Stage:
    """The objects that faults act on. `excused`: times in which no manager could answer reviews.

    `hostile` counts connections of hostile clients by the purpose of the port, `neighbour` connections of the neighbour
    by their purpose.
    """

    seed: int
    folder: Path
    cluster: Cluster
    replicas: list[Replica]
    failover: Failover
    portal: BlockingPortal
    excused: list[Window] = field(default_factory=list)
    hostile: Counter[str] = field(default_factory=Counter)
    neighbour: Counter[str] = field(default_factory=Counter)

    def pid(self, component: str) -> int:
        """The id of the current process of a control plane component."""
        [status] = [
            cluster_status
            for cluster_status in statuses(state_root=self.folder / "cluster")
            if cluster_status["name"] == self.cluster.name
        ]
        pid: int = status["components"][component]
        return pid

    def replica(self, target: str) -> Replica:
        """For "leader", the replica that renewed the lease last; for "follower", another replica."""
        order = sorted(self.replicas, key=lambda replica: replica.relay.lease_renewed_at, reverse=True)
        return order[0] if target == "leader" else order[1]

    @contextlib.contextmanager
    def excuse(self, seconds_after: float) -> Iterator[None]:
        """Excuse failures of admission within the block, and for `seconds_after` seconds after it."""
        window_start = time.time() - 0.2
        yield
        self.excused.append((window_start, time.time() + seconds_after))

    def route(self, stop: threading.Event) -> None:
        """Pass connections of admission to ready replicas, and record when no replica is ready. Runs until `stop`."""
        while not stop.wait(0.1):
            ready = [replica.port for replica in self.replicas if replica.is_ready]
            call_in_portal(self.portal, self.failover.set_ready, ready)
            if not ready:
                now = time.time()
                self.excused.append((now - 1, now + 1))


@contextlib.contextmanager
def stage(folder: Path, seed: int, lease: Mapping[str, str]) -> Iterator[Stage]:
    """A stage that is up and ready during the block. State and logs go to `folder`.

    `lease` has the times of the lease that differ from the defaults.
    """
    os.environ.setdefault("GOGC", "400")
    bodies = tuple(f"{name}.{_GROUPS.get(name, '')}" for name in sorted({*LEADER_RESOURCES, "leases"}))
    spec = ClusterSpec(name=f"chaos-{os.getpid()}", nodes=NODES, audit_bodies=bodies, audit_mib=AUDIT_MIB, keep=True)
    with running(spec, state_root=folder / "cluster") as cluster, start_blocking_portal() as portal:
        failover = Failover(local.free_port())
        local.install(cluster, webhook_port=failover.port)
        local.install_policies(cluster, webhook_port=failover.port)
        call_in_portal(portal, failover.start)
        relays = [_new_relay(cluster, seed + number) for number in range(REPLICAS)]
        serving_tls = pki.serving_tls(pki.Pair.read(cluster.plan.layout.pki, "ca"))
        for relay in relays:
            call_in_portal(portal, relay.start, serving_tls)
        replicas = [
            Replica(number, folder / f"replica-{number}", cluster, relay, failover, portal, lease)
            for number, relay in enumerate(relays)
        ]
        replicas[-1].clock_shift = CLOCK_SHIFT
        new_stage = Stage(seed, folder, cluster, replicas, failover, portal)
        stop = threading.Event()
        router = threading.Thread(target=new_stage.route, args=(stop,), name="router", daemon=True)
        try:
            for replica in replicas:
                replica.start()
            router.start()
            if missing := wait_until_ready(new_stage):
                raise local.LocalError(f"not ready after {local.START_SECONDS} s: {', '.join(missing)}; see {folder}")
            _create_objects(new_stage)
            yield new_stage
        finally:
            for replica in replicas:
                replica.stop()
            stop.set()
            call_in_portal(portal, failover.stop)
            for relay in relays:
                call_in_portal(portal, relay.stop)


def wait_until_ready(stage: Stage, seconds: float = local.START_SECONDS) -> list[str]:
    """Wait until every replica is ready, for at most `seconds`. Returns the names of replicas that are not ready."""
    deadline = time.monotonic() + seconds
    while missing := [replica.name for replica in stage.replicas if not replica.is_ready]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.1)
    return missing


def _new_relay(cluster: Cluster, seed: int) -> Relay:
    plan = cluster.plan
    return Relay(local.free_port(), plan.ports["kube-apiserver"], plan.layout.pki, LEASE, random.Random(seed))


def _create_objects(stage: Stage) -> None:
    admin = Admin(stage.cluster)
    for name in NAMESPACES:
        admin.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    status, answer = admin.ask("POST", f"/api/v1/namespaces/{STUCK_NAMESPACE}/resourcequotas", QUOTA)
    if status != 201:
        raise local.LocalError(f"the quota was refused: {json.dumps(answer)}")
    deadline = time.monotonic() + local.START_SECONDS
    while (answer := admin.ask("POST", POLICIES, policy()))[0] != 201:  # until its webhooks have a CA
        if time.monotonic() > deadline:
            raise local.LocalError(f"the policy was refused: {json.dumps(answer[1])}")
        time.sleep(0.1)
    admin.close()
