"""A manager under the simulated API server: both processes, the state of the server, and what a phase costs.

The server answers at once, so that figures are the manager's own limit. Seconds need a core for the manager and one for
the server; processor seconds do not.
"""

from __future__ import annotations

import contextlib
import json
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cli import local
from dev.bench.output import JSON
from dev.bench.proc import TICKS, cpu_seconds, memory_mib
from dev.bench.simulated.fleet import NAMESPACE, WORKERS, Fleet, set_name
from dev.cluster import pki, rest

ANSWER_SECONDS = 60
"""Time limit of an answer: a list of 100,000 Jobs holds up everything else."""

STALL_SECONDS = 120
"""Time without any change after which a measurement has failed."""

QUIET_SECONDS = 2.0
"""Time without requests after which a manager is at rest."""

IDLE = 0.05
"""Share of a core below which a manager is at rest."""

LONGEST_SECONDS = 900
"""Time limit for coming to rest, on a busy machine."""

PROMPT_SECONDS = 0.5
"""A server that takes longer to answer is busy with a long list, for which the manager waits: it is not at rest."""

RATE = 100_000
"""Requests per second that the manager may send, so that its settings are not its limit."""


class SimulationError(Exception):
    """The measurement cannot go on; the text says what was observed."""


@dataclass(frozen=True, slots=True)
class Bench:
    """A manager and the server it talks to."""

    connection: rest.Connection
    manager: subprocess.Popen[bytes]
    log: Path

    def request(self, method: str, path: str, body: JSON | None = None) -> Any:
        """The server's answer. Raises `SimulationError` if it refuses, or does not answer in time."""
        try:
            status, answer = self.connection.request(method, path, body)
        except TimeoutError:
            text = f"the simulated API server has not answered {method} {path} in {ANSWER_SECONDS:g} s"
            raise SimulationError(f"{text}: the machine is too busy to measure\n{self.tail()}") from None
        if status >= 400:
            raise SimulationError(f"{method} {path} was answered with {status}: {answer}")
        return answer

    def get(self, name: str) -> Any:
        """The server's `counts`, its `jobsets` as their status says, the Jobs `running` in truth, or its `agents`."""
        return self.request("GET", f"/simulated/{name}")

    def wait(self, name: str, reached: Callable[[Any], bool], goal: str) -> Any:
        """Poll until `reached` accepts that state. Raises `SimulationError` if nothing changes for long."""
        moved, last = time.monotonic(), None
        while not reached(state := self.get(name)):
            if self.manager.poll() is not None:
                raise SimulationError(f"the manager ended with exit code {self.manager.returncode}:\n{self.tail()}")
            if state != last:
                moved, last = time.monotonic(), state
            if time.monotonic() > moved + STALL_SECONDS:
                raise SimulationError(f"timed out waiting for {goal}: {state}\n{self.tail()}")
            time.sleep(0.05)
        return state

    def wait_for_start(self) -> None:
        """Wait for the manager's first request."""
        self.wait("counts", lambda counts: bool(counts["calls"]), "the manager's first request")

    def wait_until_ready(self, names: Sequence[str], jobs: int, restarts: int) -> None:
        """Wait until all Jobs of these JobSets are ready as their status says, and check that this is true."""
        expected = {"restarts": restarts, "ready": jobs}
        self.wait(
            "jobsets",
            lambda jobsets: all(jobsets.get(name) == expected for name in names),
            f"{jobs} ready Jobs in each JobSet after restart {restarts}",
        )
        running = self.get("running")
        if wrong := {name: running[name] for name in names if running[name] != jobs}:
            raise SimulationError(f"the status says that {jobs} Jobs are ready, but that many are: {wrong}")

    def wait_until_idle(self) -> float:
        """Wait until the manager is at rest; since when it is, in monotonic seconds. Raises `SimulationError`."""
        begun = since = time.monotonic()
        busy, last = cpu_seconds(self.manager.pid), None
        while time.monotonic() < since + QUIET_SECONDS:
            asked = time.monotonic()
            calls, now = self.calls(), cpu_seconds(self.manager.pid)
            is_late = time.monotonic() > asked + PROMPT_SECONDS
            if is_late or calls != last or now - busy > IDLE * (time.monotonic() - since):
                since, busy, last = time.monotonic(), now, calls
            if since > begun + LONGEST_SECONDS:
                raise SimulationError(f"the manager has not come to rest in {LONGEST_SECONDS} s\n{self.tail()}")
            time.sleep(0.1)
        return since

    def calls(self) -> dict[tuple[str, str, int], int]:
        """The manager's requests by verb, resource and code, without Leases, which are renewed all the time."""
        return {
            (verb, resource, code): count
            for verb, resource, code, count in self.get("counts")["calls"]
            if resource != "leases"
        }

    @contextlib.contextmanager
    def measure_phase(self) -> Iterator[JSON]:
        """Seconds of the block, and the manager's processor time and requests until it is at rest again."""
        before, busy, begun = self.calls(), cpu_seconds(self.manager.pid), time.monotonic()
        phase: JSON = {}
        yield phase
        phase["seconds"] = time.monotonic() - begun
        phase["rest_seconds"] = max(0.0, self.wait_until_idle() - begun)
        # The kernel counts in ticks: less than one counts as one, so that there are rates.
        phase["cpu_seconds"] = max(cpu_seconds(self.manager.pid) - busy, 1 / TICKS)
        phase["rss_mib"] = memory_mib(self.manager.pid)
        made = [[*call, count - before.get(call, 0)] for call, count in self.calls().items()]
        phase["calls"] = [call for call in made if call[-1]]
        phase["requests"] = sum(call[-1] for call in made)

    def tail(self) -> str:
        """The end of the manager's log."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-4000:]


def failure_path(jobset: int, job: int) -> str:
    """The path that lets a Job of a JobSet of the fleet fail."""
    return f"/simulated/fail?namespace={NAMESPACE}&name={set_name(jobset)}-{WORKERS}-{job}"


@contextlib.contextmanager
def simulated_server(folder: Path, fleet: Fleet) -> Iterator[rest.Connection]:
    """The simulated API server, in a process of its own."""
    authority = pki.new_authority("simulated")
    authority.write(folder, "ca")
    pki.issue_serving(authority, "simulated").write(folder, "tls")
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
    connection: rest.Connection,
    command: Sequence[str],
    folder: Path,
    *,
    replica: str = "",
    feature_gates: Mapping[str, bool] | None = None,
) -> Iterator[Bench]:
    """A manager with the configuration that any JobSet manager reads. Those with a `replica` elect a leader."""
    sections: JSON = {
        "webhook": {"certDir": str(folder)},
        # The server answers nothing else while it makes a long list, or deletes everything.
        "leaderElection": {"leaderElect": bool(replica), "leaseDuration": "120s", "renewDeadline": "100s"},
        "internalCertManagement": {"enable": False},
        "clientConnection": {"qps": RATE, "burst": RATE},
        **({"featureGates": dict(feature_gates)} if feature_gates else {}),
    }
    config, log = folder / f"config{replica}.yaml", folder / f"manager{replica}.log"
    settings = local.configuration(local.free_port(), local.free_port(), **sections)
    config.write_text(json.dumps(settings), encoding="utf-8")
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 (the caller's)
            [*command, f"--config={config}", f"--kubeconfig={folder / 'kubeconfig'}"], stdout=output, stderr=output
        )
    try:
        yield Bench(connection, process, log)
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
