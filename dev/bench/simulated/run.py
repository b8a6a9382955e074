"""Measures a manager under the simulated API server: its memory, its start, and how fast it restarts all it has.

The API answers at once, so that what is left is the manager's own limit. Wall-clock figures need a core for the manager
and one for the server; processor seconds do not.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from controllers.resources import JOBSETS
from dev.bench.proc import TICKS, cpu_seconds, memory_mib
from dev.bench.simulated.fleet import NAMESPACE, WORKERS, Fleet, jobset, set_name
from dev.cluster import pki, rest

JSON = dict[str, Any]

SETTINGS_VERSION, SETTINGS_KIND = "config.jobset.x-k8s.io/v1alpha1", "Configuration"
PROBE, SINGLE = "probe", "single"
ANSWER_SECONDS = 60
"""So long the server may take to answer: a list of 100,000 Jobs holds up everything else."""

STALL_SECONDS = 120
"""So long nothing moved: the measurement has failed."""

QUIET_SECONDS = 2.0
"""So long without a request: the manager has settled."""

LONGEST_SECONDS = 900
"""So long a manager, or a machine that is too busy, may take to settle."""

PROMPT_SECONDS = 0.5
"""A server that takes longer to answer is at work on a long list: the manager waits for that, and has not settled."""

RATE = 100_000
"""Requests per second that the manager may send: its own limit is looked for, not that of its settings."""

GOAL_KIB_PER_NODE, GOAL_PODS_PER_SECOND = 100, 1000


class SimulationError(Exception):
    """The measurement cannot go on; the text says what was seen."""


@dataclass(frozen=True, slots=True)
class Bench:
    """A manager and the server it talks to."""

    connection: rest.Connection
    manager: subprocess.Popen[bytes]
    log: Path

    def request(self, method: str, path: str, body: JSON | None = None) -> Any:
        """What the server answers. Raises `SimulationError` for a refusal, and for an answer that does not come."""
        try:
            status, answer = self.connection.request(method, path, body)
        except TimeoutError:
            text = f"the simulated API server has not answered {method} {path} in {ANSWER_SECONDS:g} s"
            raise SimulationError(f"{text}: the machine is too busy to measure\n{self.tail()}") from None
        if status >= 400:
            raise SimulationError(f"{method} {path} was answered with {status}: {answer}")
        return answer

    def state(self) -> JSON:
        state: JSON = self.request("GET", "/simulated/state")
        return state

    def counts(self) -> JSON:
        """The state without the JobSets."""
        counts: JSON = self.request("GET", "/simulated/counts")
        return counts

    def wait(self, reached: Callable[[JSON], bool], what: str) -> JSON:
        """Poll until the state is as wanted; raises when nothing has moved for long."""
        return self._wait(self.state, reached, what)

    def wait_for_counts(self, reached: Callable[[JSON], bool], what: str) -> JSON:
        """The same for the state without the JobSets."""
        return self._wait(self.counts, reached, what)

    def _wait(self, look: Callable[[], JSON], reached: Callable[[JSON], bool], what: str) -> JSON:
        moved, last = time.monotonic(), None
        while not reached(state := look()):
            if self.manager.poll() is not None:
                raise SimulationError(f"the manager ended with exit code {self.manager.returncode}:\n{self.tail()}")
            if state != last:
                moved, last = time.monotonic(), state
            if time.monotonic() > moved + STALL_SECONDS:
                raise SimulationError(f"waited in vain for {what}: {state}\n{self.tail()}")
            time.sleep(0.05)
        return state

    def settle(self) -> JSON:
        """Until the manager has asked for nothing for a while. Raises `SimulationError` if that never comes."""
        calls, since = None, time.monotonic()
        last = since + LONGEST_SECONDS
        while time.monotonic() < since + QUIET_SECONDS:
            if time.monotonic() > last:
                raise SimulationError(f"the manager has not come to rest in {LONGEST_SECONDS} s\n{self.tail()}")
            begun = time.monotonic()
            state = self.counts()
            asked = [call for call in state["calls"] if call[1] != "leases"]  # those are renewed all the time
            if asked != calls or time.monotonic() > begun + PROMPT_SECONDS:
                calls, since = asked, time.monotonic()
            time.sleep(0.1)
        return state

    def check(self, names: list[str], jobs: int) -> None:
        """Raise unless what the status of these JobSets says is true."""
        running = self.request("GET", "/simulated/running")
        if wrong := {name: running[name] for name in names if running[name] != jobs}:
            raise SimulationError(f"the status says that {jobs} Jobs are ready, but so many are: {wrong}")

    def tail(self) -> str:
        """The end of the manager's log."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-4000:]


def measure(command: list[str], fleet: Fleet | None = None, single: int = 5000) -> JSON:
    """Run `command --config=F --kubeconfig=F` through start, restart of everything, and a JobSet of single-pod Jobs.

    `single` is the number of those Jobs. Sizes are in MiB, times in seconds.
    """
    fleet = fleet or Fleet()
    with tempfile.TemporaryDirectory() as name, simulated_server(Path(name), fleet) as connection:
        collection = JOBSETS.path(NAMESPACE)
        connection.request("POST", collection, jobset(PROBE, 1, 1, exclusive=False))
        started = time.monotonic()
        with running_manager(command, Path(name)) as (process, log):
            bench = Bench(connection, process, log)
            first = bench.wait(lambda state: state["first_write"] is not None, "the first reconcile")
            settled = bench.settle()
            pid = process.pid
            idle = memory_mib(pid)
            result: JSON = {
                "fleet": asdict(fleet),
                "nodes": settled["nodes"],
                "pods": settled["pods"],
                "start": {
                    "first_reconcile_seconds": first["first_write"] - started,
                    "cpu_seconds": cpu_seconds(pid),
                    "calls": settled["calls"],
                    "rss_mib": idle,
                },
                "restart": _restart(bench, [set_name(number) for number in range(fleet.jobsets)], fleet.jobs),
            }
            result["single"] = _single(bench, collection, single)
            result["peak_rss_mib"] = memory_mib(pid, "VmHWM")
    nodes = result["nodes"]
    result["kib_per_node"] = result["peak_rss_mib"] * 1024 / nodes
    return result


def _single(bench: Bench, collection: str, jobs: int) -> JSON:
    """One JobSet of Jobs with one pod each: created, and restarted."""
    with _counted(bench) as created:
        bench.request("POST", collection, jobset(SINGLE, jobs, 1, exclusive=False))
        bench.wait(lambda now: _all_ready(now, SINGLE, 0, jobs), "all single-pod Jobs to run")
        created |= {"jobs": jobs, "pods": jobs}
    bench.check([SINGLE], jobs)
    return {"create": _with_rates(created), "restart": _restart(bench, [SINGLE], jobs)}


def _restart(bench: Bench, names: list[str], jobs: int) -> JSON:
    """Let one Job of each of these JobSets fail; measured until all their Jobs run again, as their status says."""
    before = bench.state()
    attempt = before["jobsets"][names[0]]["restarts"] + 1
    with _counted(bench) as phase:
        for name in names:
            bench.request("POST", f"/simulated/fail?namespace={NAMESPACE}&name={name}-{WORKERS}-0")
        state = bench.wait(
            lambda now: all(_all_ready(now, name, attempt, jobs) for name in names), f"attempt {attempt} to run"
        )
        phase |= {"jobs": jobs * len(names), "pods": state["pods_started"] - before["pods_started"]}
    bench.check(names, jobs)
    return _with_rates(phase)


@contextlib.contextmanager
def _counted(bench: Bench) -> Iterator[JSON]:
    """Seconds, processor seconds and requests of the manager in the block."""
    calls = {tuple(what): count for *what, count in bench.state()["calls"]}
    busy, begun = cpu_seconds(bench.manager.pid), time.monotonic()
    phase: JSON = {}
    yield phase
    phase["seconds"] = time.monotonic() - begun
    # The kernel counts in ticks: what took less than one is called one, so that there are rates.
    phase["cpu_seconds"] = max(cpu_seconds(bench.manager.pid) - busy, 1 / TICKS)
    after = bench.settle()["calls"]
    phase["calls"] = [[*what, count - calls.get(tuple(what), 0)] for *what, count in after]
    phase["calls"] = [call for call in phase["calls"] if call[-1]]
    phase["rss_mib"] = memory_mib(bench.manager.pid)


def _with_rates(phase: JSON) -> JSON:
    return {
        **phase,
        "pods_per_second": phase["pods"] / phase["seconds"],
        "pods_per_cpu_second": phase["pods"] / phase["cpu_seconds"],
        "cpu_ms_per_job": 1000 * phase["cpu_seconds"] / phase["jobs"],
    }


def _all_ready(state: JSON, name: str, attempt: int, jobs: int) -> bool:
    """Whether the status of a JobSet says that all its Jobs of that attempt are ready."""
    return bool(state["jobsets"].get(name) == {"restarts": attempt, "ready": jobs})


@contextlib.contextmanager
def simulated_server(folder: Path, fleet: Fleet) -> Iterator[rest.Connection]:
    """The simulated API server, in a process of its own."""
    authority = pki.new_authority("simulated")
    authority.write(folder, "ca")
    pki.issue_serving(authority, "simulated").write(folder, "serving")
    sizes = [f"--{name}={value:d}" for name, value in asdict(fleet).items()]
    command = [sys.executable, "-m", "dev.bench.simulated.server", f"--folder={folder}", *sizes]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)  # noqa: S603 (ourselves)
    try:
        line = process.stdout.readline().split() if process.stdout is not None else []
        if line[:1] != [b"ready"]:
            raise SimulationError("the simulated API server did not start")
        port = int(line[1])
        client = pki.issue_client(authority, "manager")
        kubeconfig = pki.kubeconfig("simulated", f"https://127.0.0.1:{port}", authority.certificate, client)
        (folder / "kubeconfig").write_text(kubeconfig, encoding="utf-8")
        with rest.Connection(port, ssl.create_default_context(cafile=folder / "ca.crt"), ANSWER_SECONDS) as connection:
            yield connection
    finally:
        process.terminate()
        process.communicate()


@contextlib.contextmanager
def running_manager(
    command: list[str], folder: Path, *, replica: str = "", feature_gates: Mapping[str, bool] | None = None
) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A manager with the configuration that any JobSet manager reads. Those with a `replica` elect a leader."""
    for name in ("crt", "key"):
        (folder / f"tls.{name}").write_bytes((folder / f"serving.{name}").read_bytes())
    settings = {
        "apiVersion": SETTINGS_VERSION,
        "kind": SETTINGS_KIND,
        "webhook": {"port": _free_port(), "certDir": str(folder)},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{_free_port()}"},
        # The server answers nothing else while it makes a long list, or deletes all that there is.
        "leaderElection": {"leaderElect": bool(replica), "leaseDuration": "120s", "renewDeadline": "100s"},
        "internalCertManagement": {"enable": False},
        "clientConnection": {"qps": RATE, "burst": RATE},
        **({"featureGates": dict(feature_gates)} if feature_gates else {}),
    }
    config, log = folder / f"config{replica}.yaml", folder / f"manager{replica}.log"
    config.write_text(json.dumps(settings), encoding="utf-8")
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 (the caller's)
            [*command, f"--config={config}", f"--kubeconfig={folder / 'kubeconfig'}"],
            stdout=output,
            stderr=output,
        )
    try:
        yield process, log
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def rows(result: JSON) -> list[dict[str, str]]:
    """What was measured, for a table: one line for each phase."""
    start, single = result["start"], result["single"]
    first = {
        "phase": f"start: {result['nodes']:,} nodes, {result['pods']:,} pods",
        "seconds": f"{start['first_reconcile_seconds']:.1f}",
        "pods/s": "-",
        "CPU (s)": f"{start['cpu_seconds']:.1f}",
        "CPU (ms/Job)": "-",
        "requests": str(sum(call[-1] for call in start["calls"])),
        "RSS (MiB)": f"{start['rss_mib']:.0f}",
    }
    phases = {
        "restart of all": result["restart"],
        "one pod a Job, create": single["create"],
        "one pod a Job, restart": single["restart"],
    }
    return [first, *(_row(name, phase) for name, phase in phases.items())]


def _row(name: str, phase: JSON) -> dict[str, str]:
    return {
        "phase": f"{name}: {phase['jobs']:,} Jobs, {phase['pods']:,} pods",
        "seconds": f"{phase['seconds']:.1f}",
        "pods/s": f"{phase['pods_per_second']:,.0f}",
        "CPU (s)": f"{phase['cpu_seconds']:.1f}",
        "CPU (ms/Job)": f"{phase['cpu_ms_per_job']:.2f}",
        "requests": str(sum(call[-1] for call in phase["calls"])),
        "RSS (MiB)": f"{phase['rss_mib']:.0f}",
    }
