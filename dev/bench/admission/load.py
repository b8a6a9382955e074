"""Measures latency, answers, processor time and memory of an admission server under a constant rate of reviews.

Server and load generator have a core each. The generator's processor time does not count for the server.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dev.bench import proc
from dev.bench.load_generator import ROOT, Load, Review, run
from kube.model.meta import JSON


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """The server process, its port, and the file with the CA of its certificate."""

    process: subprocess.Popen[str]
    port: int
    authorities: Path


def cores() -> tuple[int, int]:
    """A core for the server and another one for the load generator, or twice the same if there is only one."""
    usable = sorted(os.sched_getaffinity(0))
    return usable[0], usable[-1]


@contextlib.contextmanager
def run_server(core: int, policies: int = 0) -> Iterator[tuple[ServerProcess, dict[int, int]]]:
    """A server process with this number of policies. After the block, the dict has the number of answers by code."""
    codes: dict[int, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        authorities = Path(folder) / "ca.crt"
        command = [sys.executable, "-m", "dev.bench.admission.server", str(core), str(authorities), str(policies)]
        with subprocess.Popen(  # noqa: S603 - a module of ours
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                port = process.stdout.readline() if process.stdout else ""
                if not port:
                    raise SystemExit("the server did not start; its error output is above")
                yield ServerProcess(process, int(port), authorities), codes
                counts, _ = process.communicate()
                codes.update({int(code): count for code, count in json.loads(counts).items()})
            finally:
                process.kill()


def measure(reviews: Sequence[Review], load: Load, policies: int = 0) -> JSON:
    """Send the reviews in turn, and return figures. Times are in milliseconds, memory in MiB."""
    server_core, load_core = cores()
    cores_before = os.sched_getaffinity(0)
    with run_server(server_core, policies) as (server_process, codes):
        pid = server_process.process.pid
        os.sched_setaffinity(0, {load_core})  # the generator inherits it
        try:
            cpu_before = proc.cpu_seconds(pid)
            report = run(server_process.port, server_process.authorities, reviews, load)
            cpu = proc.cpu_seconds(pid) - cpu_before
        finally:
            os.sched_setaffinity(0, cores_before)
        memory = {"rss_mib": proc.memory_mib(pid), "peak_rss_mib": proc.memory_mib(pid, "VmHWM")}
    return {
        **report,
        **memory,
        "cpu_ms_per_request": cpu * 1e3 / max(report["answered"], 1),
        "core_busy_percent": cpu * 100 / (load.seconds + load.warm_up),
        "answers": codes,
    }
