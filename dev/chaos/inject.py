"""Carries out one fault: each function blocks for as long as the fault lasts."""

import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict

from dev.chaos import beside
from dev.chaos.client import Admin
from dev.chaos.faults import Fault, Kind
from dev.chaos.hostile import abuse
from dev.chaos.portal import call
from dev.chaos.relay import Conditions
from dev.chaos.replica import Replica
from dev.chaos.stage import DROPPED, Stage
from dev.cluster import rest
from dev.cluster.components import ADMIN
from dev.cluster.rest import MERGE
from manifests import NAMESPACE
from manifests.naming import WEBHOOK_SECRET

KILLED_IN_FLIGHT = 1.0
"""Seconds after a kill in which reviews that were sent to that replica may fail."""

SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
RETRY_SECONDS = 60.0


def inject(stage: Stage, fault: Fault) -> None:
    """Carry out the fault, and end it."""
    _FUNCTIONS[fault.kind](stage, fault)


def _kill(stage: Stage, fault: Fault) -> None:
    with stage.excuse(KILLED_IN_FLIGHT):
        stage.replica(fault.target).signal(signal.SIGKILL)


def _pause(stage: Stage, fault: Fault) -> None:
    replica = stage.replica(fault.target)
    with stage.excuse(3.0):  # two probes need this long to find out
        replica.signal(signal.SIGSTOP)
    time.sleep(fault.seconds)
    replica.signal(signal.SIGCONT)


@contextlib.contextmanager
def _worse_conditions(replicas: Sequence[Replica], **worse: float) -> Iterator[None]:
    """Worsen the connections of these replicas to the API server for the length of the block."""
    usual = Conditions()
    for replica in replicas:
        for name, value in worse.items():
            setattr(replica.relay.conditions, name, value)
    yield
    for replica in replicas:
        for name in worse:
            setattr(replica.relay.conditions, name, getattr(usual, name))


def _partition(stage: Stage, fault: Fault) -> None:
    with _worse_conditions([stage.replica(fault.target)], held=True):
        time.sleep(fault.seconds)


def _slow(stage: Stage, fault: Fault) -> None:
    with _worse_conditions(stage.replicas, delay=fault.strength):
        time.sleep(fault.seconds)


def _errors(stage: Stage, fault: Fault) -> None:
    with _worse_conditions(stage.replicas, refused=fault.strength):
        time.sleep(fault.seconds)


def _cut(stage: Stage, _fault: Fault) -> None:
    for replica in stage.replicas:
        call(stage.portal, replica.relay.cut)


def _expire(stage: Stage, fault: Fault) -> None:
    with _worse_conditions(stage.replicas, expired=True):
        _cut(stage, fault)
        time.sleep(fault.seconds)


def _api_server(stage: Stage, _fault: Fault) -> None:
    with stage.excuse(1.0):
        _end(stage, "kube-apiserver", signal.SIGTERM)
        _await_api_server(stage)


def _etcd(stage: Stage, _fault: Fault) -> None:
    _end(stage, "etcd", signal.SIGKILL)
    _await_api_server(stage)


def _end(stage: Stage, component: str, number: signal.Signals) -> None:
    """Wait until a new process replaces this one. A process that does not end in time gets SIGKILL."""
    pid = stage.pid(component)
    for wanted in (number, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, wanted)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            if stage.pid(component) != pid:
                return
            time.sleep(0.1)


def _await_api_server(stage: Stage) -> None:
    plan = stage.cluster.plan
    tls = rest.client_tls(plan.layout.pki, "ca", ADMIN)
    _until(lambda: rest.answers(plan.ports["kube-apiserver"], "/readyz", tls))


def _certificate(stage: Stage, _fault: Fault) -> None:
    _ask(stage, "PATCH", f"{SECRETS}/{WEBHOOK_SECRET}", {"data": {"tls.crt": None, "tls.key": None}}, {200})


def _authority(stage: Stage, _fault: Fault) -> None:
    _ask(stage, "PATCH", f"{SECRETS}/{WEBHOOK_SECRET}", {"data": {"ca.key": None}}, {200})


def _secret(stage: Stage, _fault: Fault) -> None:
    _ask(stage, "DELETE", f"{SECRETS}/{WEBHOOK_SECRET}", None, {200, 404})
    _ask(stage, "POST", SECRETS, {"metadata": {"name": WEBHOOK_SECRET}}, {201, 409})


def _roll(stage: Stage, _fault: Fault) -> None:
    for replica in stage.replicas:
        replica.roll()


def _all_down(stage: Stage, fault: Fault) -> None:
    with stage.excuse(1.0):
        for replica in stage.replicas:
            replica.wanted = False
            replica.signal(signal.SIGKILL)
        time.sleep(fault.seconds)
        for replica in stage.replicas:
            replica.wanted = True
        _until(lambda: any(replica.ready for replica in stage.replicas))


def _namespace(stage: Stage, _fault: Fault) -> None:
    path = "/api/v1/namespaces"
    _ask(stage, "DELETE", f"{path}/{DROPPED}", None, {404})
    _ask(stage, "POST", path, {"metadata": {"name": DROPPED}}, {201, 409})


def _stale(stage: Stage, fault: Fault) -> None:
    with _worse_conditions([stage.replica("leader")], behind=fault.strength):
        time.sleep(fault.seconds)


def _stale_kill(stage: Stage, fault: Fault) -> None:
    before = min(fault.strength, fault.seconds)
    with _worse_conditions(stage.replicas, behind=fault.strength):
        time.sleep(before)  # the caches of the others are as old as possible
        with stage.excuse(KILLED_IN_FLIGHT):
            stage.replica("leader").signal(signal.SIGKILL)
        time.sleep(fault.seconds - before)


def _hostile(stage: Stage, fault: Fault) -> None:
    ports = [port for replica in stage.replicas for port in replica.ports]
    asyncio.run(abuse(ports, fault.seconds, stage.seed, stage.hostile))


def _neighbour(stage: Stage, fault: Fault) -> None:
    ports = [asdict(port) for replica in stage.replicas for port in replica.ports]
    output = stage.folder / "neighbour.json"
    with beside.running("dev.chaos.neighbour", {"ports": ports, "seed": stage.seed}, output):
        time.sleep(fault.seconds)
    stage.neighbour.update(json.loads(output.read_text()))


def _ask(stage: Stage, method: str, path: str, body: dict[str, object] | None, wanted: set[int]) -> None:
    """Repeat a request until the answer is one of these."""
    admin = Admin(stage.cluster)
    content = MERGE if method == "PATCH" else "application/json"
    _until(lambda: admin.ask(method, path, body, content)[0] in wanted)
    admin.close()


def _until(reached: Callable[[], bool]) -> None:
    """Wait for this, at most a minute: the checks find what takes longer."""
    deadline = time.monotonic() + RETRY_SECONDS
    while not reached() and time.monotonic() < deadline:
        time.sleep(0.3)


_FUNCTIONS: dict[Kind, Callable[[Stage, Fault], None]] = {
    Kind.KILL: _kill,
    Kind.PAUSE: _pause,
    Kind.PARTITION: _partition,
    Kind.SLOW: _slow,
    Kind.ERRORS: _errors,
    Kind.CUT: _cut,
    Kind.EXPIRE: _expire,
    Kind.API_SERVER: _api_server,
    Kind.ETCD: _etcd,
    Kind.CERTIFICATE: _certificate,
    Kind.AUTHORITY: _authority,
    Kind.SECRET: _secret,
    Kind.ROLL: _roll,
    Kind.ALL_DOWN: _all_down,
    Kind.NAMESPACE: _namespace,
    Kind.STALE: _stale,
    Kind.STALE_KILL: _stale_kill,
    Kind.HOSTILE: _hostile,
    Kind.NEIGHBOUR: _neighbour,
}
