"""The process that plays all agents of a JobSet (`dev.bench.agents`), and what it reports."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

from dev.bench.scene import STALL_SECONDS, Scene, wait


class AgentProcess:
    """The moments at which agents let their workers go, by attempt and pod."""

    def __init__(self, fail_worker: Callable[[], None] = lambda: None) -> None:
        self.fail_worker = fail_worker
        """Lets the worker of one pod fail."""
        self._moments: dict[int, dict[str, float]] = {}

    def read(self, line: str) -> None:
        report = json.loads(line)
        self._moments.setdefault(report["attempt"], {}).setdefault(report["pod"], report["moment"])

    def moments(self, attempt: int) -> list[float]:
        """When the agents that have begun an attempt did."""
        return list(self._moments.get(attempt, {}).values())

    def wait(self, attempt: int, count: int, timeout: float = STALL_SECONDS) -> None:
        """Wait until so many agents have begun an attempt."""
        wait(lambda: len(self.moments(attempt)) >= count, timeout, f"all agents to begin attempt {attempt}")

    @classmethod
    @contextlib.contextmanager
    def running(cls, scene: Scene, *, worker_only: bool) -> Iterator[AgentProcess]:
        """The agents of all pods of the JobSet, for the length of the block."""
        options = ["--worker-only"] if worker_only else []
        options += ["--kubeconfig", str(scene.cluster.kubeconfig), "--namespace", scene.namespace, "--jobset", "bench"]
        with subprocess.Popen(  # noqa: S603 -- a module of ours
            [sys.executable, "-m", "dev.bench.agents", *options], stdout=subprocess.PIPE, text=True
        ) as process:
            agents, lines = cls(lambda: process.send_signal(signal.SIGUSR1)), process.stdout or ()

            def read() -> None:
                for line in lines:
                    agents.read(line)

            reader = threading.Thread(target=read, daemon=True)
            reader.start()
            try:
                yield agents
            finally:
                process.terminate()
                reader.join(30)
