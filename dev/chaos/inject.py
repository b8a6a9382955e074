"""Carries out faults. Each function blocks for as long as the fault lasts."""

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
from dev.chaos.portal import call_in_portal
from dev.chaos.relay import Conditions
from dev.chaos.replica import Replica
from dev.chaos.stage import DROPPED_NAMESPACE, Stage
from dev.cluster import rest
from dev.cluster.components import ADMIN
from dev.cluster.rest import MERGE
from manifests import NAMESPACE
from manifests.naming import WEBHOOK_SECRET

KILLED_IN_FLIGHT = 1.0
"""Seconds after a kill in which reviews that were sent to the killed replica may fail."""

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
    with stage.excuse(3.0):  # two probes need this long to notice it
        replica.signal(signal.SIGSTOP)
    time.sleep(fault.seconds)
    replica.signal(signal.SIGCONT)


@contextlib.contextmanager
def _worse_conditions(replicas: Sequence[Replica], **worse_values: float) -> Iterator[None]:
    """Worsen the connections of these replicas to the API server during the block."""
    usual_conditions = Conditions()
    for replica in replicas:
        for name, value in worse_values.items():
            setattr(replica.relay.conditions, name, value)
    yield
    for replica in replicas:
        for name in worse_values:
            setattr(replica.relay.conditions, name, getattr(usual_conditions, name))


def _partition(stage: Stage, fault: Fault) -> None:
    with _worse_conditions([stage.replica(fault.target)], is_held=True):
        time.sleep(fault.seconds)


def _worsen_all(condition: str) -> Callable[[Stage, Fault], None]:
    """A function that sets a condition of all connections to the strength of the fault while the fault lasts."""

    def worsen(stage: Stage, fault: Fault) -> None:
        with _worse_conditions(stage.replicas, **{condition: fault.strength}):
            time.sleep(fault.seconds)

    return worsen


def _cut(stage: Stage, _fault: Fault) -> None:
    for replica in stage.replicas:
        call_in_portal(stage.portal, replica.relay.cut)


def _expire(stage: Stage, fault: Fault) -> None:
    with _worse_conditions(stage.replicas, refuses_watches=True):
        _cut(stage, fault)
        time.sleep(fault.seconds)


def _api_server(stage: Stage, _fault: Fault) -> None:
    with stage.excuse(1.0):
        _end_component(stage, "kube-apiserver", signal.SIGTERM)
        _await_api_server(stage)


def _etcd(stage: Stage, _fault: Fault) -> None:
    _end_component(stage, "etcd", signal.SIGKILL)
    _await_api_server(stage)


def _end_component(stage: Stage, component: str, number: signal.Signals) -> None:
    """End a component by a signal, or by SIGKILL if that takes too long, and wait until a new process replaces it."""
    pid = stage.pid(component)
    for signal_number in (number, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal_number)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            if stage.pid(component) != pid:
                return
            time.sleep(0.1)


def _await_api_server(stage: Stage) -> None:
    plan = stage.cluster.plan
    tls = rest.client_tls(plan.layout.pki, ADMIN)
    _wait_until(lambda: rest.answers(plan.ports["kube-apiserver"], "/readyz", tls))


def _certificate(stage: Stage, _fault: Fault) -> None:
    _repeat_request(stage, "PATCH", f"{SECRETS}/{WEBHOOK_SECRET}", {"data": {"tls.crt": None, "tls.key": None}}, {200})


def _authority(stage: Stage, _fault: Fault) -> None:
    _repeat_request(stage, "PATCH", f"{SECRETS}/{WEBHOOK_SECRET}", {"data": {"ca.key": None}}, {200})


def _secret(stage: Stage, _fault: Fault) -> None:
    _repeat_request(stage, "DELETE", f"{SECRETS}/{WEBHOOK_SECRET}", None, {200, 404})
    _repeat_request(stage, "POST", SECRETS, {"metadata": {"name": WEBHOOK_SECRET}}, {201, 409})


def _roll(stage: Stage, _fault: Fault) -> None:
    for replica in stage.replicas:
        replica.roll()


def _all_down(stage: Stage, fault: Fault) -> None:
    with stage.excuse(1.0):
        for replica in stage.replicas:
            replica.should_run = False
            replica.signal(signal.SIGKILL)
        time.sleep(fault.seconds)
        for replica in stage.replicas:
            replica.should_run = True
        _wait_until(lambda: any(replica.is_ready for replica in stage.replicas))


def _namespace(stage: Stage, _fault: Fault) -> None:
    path = "/api/v1/namespaces"
    _repeat_request(stage, "DELETE", f"{path}/{DROPPED_NAMESPACE}", None, {404})
    _repeat_request(stage, "POST", path, {"metadata": {"name": DROPPED_NAMESPACE}}, {201, 409})


def _stale(stage: Stage, fault: Fault) -> None:
    with _worse_conditions([stage.replica("leader")], watch_delay=fault.strength):
        time.sleep(fault.seconds)


def _stale_kill(stage: Stage, fault: Fault) -> None:
    seconds_before = min(fault.strength, fault.seconds)
    with _worse_conditions(stage.replicas, watch_delay=fault.strength):
        time.sleep(seconds_before)  # until the caches of the other replicas are as old as possible
        with stage.excuse(KILLED_IN_FLIGHT):
            stage.replica("leader").signal(signal.SIGKILL)
        time.sleep(fault.seconds - seconds_before)


def _hostile(stage: Stage, fault: Fault) -> None:
    ports = [port for replica in stage.replicas for port in replica.ports]
    asyncio.run(abuse(ports, fault.seconds, stage.seed, stage.hostile))


def _neighbour(stage: Stage, fault: Fault) -> None:
    ports = [asdict(port) for replica in stage.replicas for port in replica.ports]
    output = stage.folder / "neighbour.json"
    with beside.running("dev.chaos.neighbour", {"ports": ports, "seed": stage.seed}, output):
        time.sleep(fault.seconds)
    stage.neighbour.update(json.loads(output.read_text()))


def _repeat_request(
    stage: Stage, method: str, path: str, body: dict[str, object] | None, expected_codes: set[int]
) -> None:
    """Repeat a request until the status of the answer is one of `expected_codes`."""
    admin = Admin(stage.cluster)
    content_type = MERGE if method == "PATCH" else "application/json"
    _wait_until(lambda: admin.ask(method, path, body, content_type)[0] in expected_codes)
    admin.close()


def _wait_until(is_reached: Callable[[], bool]) -> None:
    """Wait for a condition, for at most a minute. The checks report what takes longer."""
    deadline = time.monotonic() + RETRY_SECONDS
    while not is_reached() and time.monotonic() < deadline:
        time.sleep(0.3)


_FUNCTIONS: dict[Kind, Callable[[Stage, Fault], None]] = {
    Kind.KILL: _kill,
    Kind.PAUSE: _pause,
    Kind.PARTITION: _partition,
    Kind.SLOW: _worsen_all("request_delay"),
    Kind.ERRORS: _worsen_all("refused_share"),
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
