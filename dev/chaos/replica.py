"""One replica of the manager. Like a kubelet, it starts the manager's process again whenever it ends.

A life of a replica is the time between one start of its process and the next.
"""

import contextlib
import http.client
import math
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from anyio.from_thread import BlockingPortal
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from dev import local
from dev.chaos.checks.admission import Window
from dev.chaos.checks.calm import Stop
from dev.chaos.events import MANAGER
from dev.chaos.failover import Failover
from dev.chaos.hostile import Port
from dev.chaos.portal import call_in_portal
from dev.chaos.relay import Relay
from dev.cluster import pki
from dev.cluster.cluster import Cluster
from manifests import NAMESPACE
from webhooks.jobset.handlers import VALIDATE_PATH

GROUPS = ("system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}")
PROBE_PERIOD = 0.2
PROBE_TIMEOUT = 1.0
RESTART_PAUSE = 1.0
"""Seconds between an end and the next start."""

MAX_HANGS = 2
"""Number of probes in a row without an answer after which connections to a replica are broken. A busy machine may delay
one probe."""

MAX_MISSES = 3
"""Number of probes in a row that fail before a kubelet starts a container again."""

GRACE_SECONDS = 20.0
"""Seconds that a replica has to end after SIGTERM."""


@dataclass(slots=True)
class Replica:
    """The replica with this number and folder. `clock_shift`: seconds by which its clock is wrong."""

    number: int
    folder: Path
    cluster: Cluster
    relay: Relay
    failover: Failover
    portal: BlockingPortal
    lease: Mapping[str, str]
    """Times of the lease that differ from the defaults."""

    clock_shift: float = 0.0
    port: int = field(default_factory=local.free_port)
    health_port: int = field(default_factory=local.free_port)
    metrics_port: int = field(default_factory=local.free_port)
    should_run: bool = True
    is_ready: bool = False
    lives: dict[str, str] = field(default_factory=dict)
    """The name of each life, by its credential in the audit log."""

    life_start: float = 0.0
    """The time at which this life began (monotonic seconds)."""

    stops: list[Stop] = field(default_factory=list)
    """The times at which a life ended, or failed its probes after it had been ready."""

    answer_windows: list[Window] = field(default_factory=list)
    """The times in which it has to answer, each from when it is ready or continues until it is ended or paused."""

    _is_halted: bool = False
    """Whether it got a signal to end or to pause."""

    _has_been_ready: bool = False
    """Whether this life has been ready and has not ended."""

    _miss_count: int = 0
    """Number of probes of this life that failed since the last successful probe."""

    _hang_count: int = 0
    """Number of probes of this life without an answer in time since the last successful probe."""

    _process: subprocess.Popen[bytes] | None = None
    _stop_event: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    @property
    def slot(self) -> str:
        """The name that all its lives share."""
        return f"replica-{self.number}"

    @property
    def name(self) -> str:
        """The name of the current life."""
        return f"{self.slot}-{len(self.lives)}"

    @property
    def logs(self) -> list[Path]:
        """The log files, one for each life."""
        return sorted(self.folder.glob("*.log"))

    @property
    def pid(self) -> int | None:
        """Id of the manager's parent process; None if it does not run."""
        return self._process.pid if self._process and self._process.poll() is None else None

    @property
    def ports(self) -> list[Port]:
        return [
            Port("webhooks", self.port, VALIDATE_PATH, tls=True),
            Port("probes", self.health_port, "/readyz"),
            Port("metrics", self.metrics_port, "/metrics", tls=True),
        ]

    def start(self) -> None:
        self.folder.mkdir(parents=True)
        self._thread = threading.Thread(target=self._keep_running, name=self.slot, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Kill the process, and do not start it again."""
        self._stop_event.set()
        if self._thread is not None:
            self._thread.join()
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all processes of the replica. Does nothing if they have ended."""
        self._is_halted = number != signal.SIGCONT
        if self._is_halted:
            self._end_answer_window(time.time())
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def roll(self) -> None:
        """End the process gracefully, and wait until the next life is ready."""
        lives_before = len(self.lives)
        self.signal(signal.SIGTERM)
        deadline = time.monotonic() + GRACE_SECONDS
        while len(self.lives) == lives_before and time.monotonic() < deadline:
            time.sleep(PROBE_PERIOD)
        if len(self.lives) == lives_before:
            self.signal(signal.SIGKILL)
        while not self.is_ready and time.monotonic() < deadline + GRACE_SECONDS:
            time.sleep(PROBE_PERIOD)

    def _keep_running(self) -> None:
        start_at = 0.0
        while not self._stop_event.wait(PROBE_PERIOD):
            if self.pid is None:
                self.is_ready = False
                if self._has_been_ready and self._process is not None:
                    self._has_been_ready = False
                    self._record_stop(f"it ended with exit code {self._process.returncode}")
                    self._end_answer_window(time.time() - GRACE_SECONDS)
                if self.should_run and time.monotonic() >= start_at:
                    self._start_life()
                    start_at = time.monotonic() + RESTART_PAUSE
            else:
                self._probe()

    def _start_life(self) -> None:
        if self._process is not None:
            self.signal(signal.SIGKILL)  # processes left over from the last life
        self._write_config()
        pair = pki.issue_client(pki.Pair.read(self.cluster.plan.layout.pki, "ca"), MANAGER, GROUPS)
        self.lives[_credential(pair)] = f"{self.slot}-{len(self.lives) + 1}"
        pair.write(self.cluster.plan.layout.pki, self.name)
        call_in_portal(self.portal, self.relay.use_certificate, self.name)
        authority = (self.cluster.plan.layout.pki / "ca.crt").read_bytes()
        kubeconfig = self.folder / "kubeconfig"
        server = f"https://127.0.0.1:{self.relay.port}"
        pki.write_private(kubeconfig, pki.kubeconfig("chaos", server, authority, pair).encode())
        program = (
            [sys.executable, "-m", "dev.chaos.shifted", str(self.clock_shift), "manager"]
            if self.clock_shift
            else local.MANAGER_COMMAND
        )
        with (self.folder / f"{self.name}.log").open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 (ourselves)
                [*program, f"--config={self.folder / 'config.yaml'}", f"--kubeconfig={kubeconfig}"],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self.life_start = time.monotonic()
        self._is_halted, self._has_been_ready, self._miss_count, self._hang_count = False, False, 0, 0

    def _write_config(self) -> None:
        metrics = {"bindAddress": f"127.0.0.1:{self.metrics_port}"}
        config = local.configuration(
            self.port,
            self.health_port,
            leaderElection=dict(self.lease),
            metrics=metrics,
            featureGates={"JobSetPolicies": True},
        )
        (self.folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")

    def _probe(self) -> None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.health_port}/readyz", timeout=PROBE_TIMEOUT):
                self.is_ready = self._has_been_ready = True
            self._hang_count = 0
            if not self._is_halted and not self._is_answer_expected:
                self.answer_windows.append((time.time(), math.inf))
        except TimeoutError:
            self.is_ready = False
            self._hang_count += 1
            if self._hang_count >= MAX_HANGS:
                call_in_portal(self.portal, self.failover.drop, self.port)
        except (OSError, http.client.HTTPException):
            self.is_ready = False
        self._miss_count = 0 if self.is_ready else self._miss_count + 1
        if self._has_been_ready and self._miss_count == MAX_MISSES:
            self._record_stop(f"{MAX_MISSES} probes in a row failed")

    @property
    def _is_answer_expected(self) -> bool:
        return bool(self.answer_windows) and self.answer_windows[-1][1] == math.inf

    def _end_answer_window(self, end: float) -> None:
        if self._is_answer_expected:
            self.answer_windows[-1] = (self.answer_windows[-1][0], end)

    def _record_stop(self, reason: str) -> None:
        self.stops.append(Stop(time.time(), self.name, reason))


def _credential(pair: pki.Pair) -> str:
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    return f"X509SHA256={certificate.fingerprint(hashes.SHA256()).hex()}"
