"""The admission server under a constant rate of reviews: latency, answers, processor time and memory.

Server and load generator have a core each; what the generator needs is not charged to the server. It must not know
what the reviews are about.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dev.bench.vegeta import Target, attack

TICKS = os.sysconf("SC_CLK_TCK")
ROOT = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class Load:
    """`rate` requests a second for `seconds`, after `warm_up` seconds that do not count."""

    rate: int = 500
    seconds: int = 20
    warm_up: int = 5


@dataclass(frozen=True, slots=True)
class Running:
    """The server process: where it listens, what to trust, and what it uses."""

    process: subprocess.Popen[str]
    port: int
    authorities: Path

    def cpu_seconds(self) -> float:
        """User and system time since its start."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def memory_mib(self, field: str = "VmRSS") -> float:
        """Resident memory now, or the most there was (VmHWM)."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:")) / 1024


def cores() -> tuple[int, int]:
    """A core for the server and one for the load; the same one where there is no other."""
    usable = sorted(os.sched_getaffinity(0))
    return usable[0], usable[-1]


@contextlib.contextmanager
def server(core: int, policies: int = 0) -> Iterator[tuple[Running, dict[int, int]]]:
    """A server process with so many policies; the dict has its answers by code once the block is over."""
    codes: dict[int, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        authorities = Path(folder) / "ca.crt"
        command = [sys.executable, "-m", "dev.bench.admission.server", str(core), str(authorities), str(policies)]
        with subprocess.Popen(  # noqa: S603 - a module of ours
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                line = process.stdout.readline() if process.stdout else ""
                if not line:
                    raise SystemExit("the server did not start; what it said is above")
                yield Running(process, int(line), authorities), codes
                said, _ = process.communicate()
                codes.update({int(code): count for code, count in json.loads(said).items()})
            finally:
                process.kill()


def measure(bodies: Mapping[str, tuple[str, bytes]], load: Load, policies: int = 0) -> dict[str, Any]:
    """Send the bodies (name -> path, review) in turn. Times in milliseconds, memory in MiB."""
    ours, theirs = cores()
    before = os.sched_getaffinity(0)
    with server(ours, policies) as (running, codes):
        os.sched_setaffinity(0, {theirs})  # the generator inherits it
        try:
            base = f"https://127.0.0.1:{running.port}"
            targets = [Target(name, base + path, body) for name, (path, body) in bodies.items()]
            attack(targets, rate=load.rate, seconds=load.warm_up, authorities=running.authorities)
            before_cpu = running.cpu_seconds()
            report = attack(targets, rate=load.rate, seconds=load.seconds, authorities=running.authorities)
            cpu = running.cpu_seconds() - before_cpu
        finally:
            os.sched_setaffinity(0, before)
        memory = {"rss_mib": running.memory_mib(), "peak_rss_mib": running.memory_mib("VmHWM")}
    return {**_figures(report, cpu), **memory, "answers": codes}


def _figures(report: dict[str, Any], cpu: float) -> dict[str, Any]:
    latencies = report["latencies"]
    wanted = {"p50": "50th", "p90": "90th", "p99": "99th", "max": "max"}
    return {
        **{f"{short}_ms": latencies[name] / 1e6 for short, name in wanted.items()},
        "requests": report["requests"],
        "achieved_per_s": report["throughput"],
        "sent_per_s": report["rate"],
        "errors": sum(count for code, count in report["status_codes"].items() if code != "200"),
        "error_texts": report["errors"],
        "cpu_ms_per_request": cpu * 1e3 / report["requests"],
        "core_busy_percent": cpu * 1e11 / (report["duration"] + report["wait"]),
    }
