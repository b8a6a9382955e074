"""P16: a worker hangs, and all restart in place: real agents with the watchdog, each with a program, beside fake pods.

The benchmark is the kubelet for these processes: it starts an agent again when it ends. The time runs from the last
heartbeat of the program that hangs until the programs of all pods have begun again.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import yaml

from cli import local
from dev.bench.phases import count_requests, figures, wait_for_status
from dev.bench.play import Play
from dev.bench.scene import JSON, STALL_SECONDS, BenchmarkError, Scene, wait
from dev.bench.sets import jobset, restarting_in_place, running_pods, says

JOBS, PODS = 2, 2
"""Jobs, and pods of each: few, since every agent is a process on this machine."""

DEADLINE_SECONDS = 5
"""Time without a heartbeat after which a program hangs."""

ROOT = Path(__file__).parents[2]
RIGHTS = ROOT / "examples" / "in-place-restart.yaml"
ACCOUNT = "in-place-restart"
HANG_EXIT_CODE = 124

PROGRAM = """
import faulthandler, itertools, json, os, pathlib, signal, time
faulthandler.register(signal.SIGUSR1, all_threads=True)
def say(event):
    print(json.dumps({"pod": os.environ["POD_NAME"], "said": event, "moment": time.monotonic()}), flush=True)
say("begun")
beat = pathlib.Path(os.environ["JOBSET_HEARTBEAT_FILE"])
for number in itertools.count():
    beat.touch()
    if number == int(os.environ["HANGS_AFTER"]):
        say("hangs")
        signal.pause()
    time.sleep(0.1)
"""
"""Reports its start, and its last heartbeat."""


def restart_after_hang(play: Play) -> JSON:
    """P16: the set begins, one of its programs hangs, and all begin again."""
    scene = play.scene
    play.create(restarting_in_place(jobset(JOBS, PODS)))
    count = len(play.pods)
    with tempfile.TemporaryDirectory(prefix="jobset-bench-") as folder, count_requests(scene) as phase:
        programs = Programs()
        with _containers(scene, play.pods, programs, Path(folder)) as containers:
            wait(lambda: len(programs.starts(2)) == count, STALL_SECONDS, "all programs to begin again")
            if containers[0].codes != [HANG_EXIT_CODE]:
                raise BenchmarkError(f"the agent of the program that hangs ended with {containers[0].codes}")
            phase.update(figures(programs.starts(2), programs.last_heartbeat))
            phase["reported_seconds"] = wait_for_status(lambda: says(scene, ready=JOBS)) - programs.last_heartbeat
            running_pods(scene, count)
    return phase


class Programs:
    """The starts of programs, run after run, and the last heartbeat of the one that hangs, from what they print."""

    def __init__(self) -> None:
        self.last_heartbeat = 0.0
        self._starts: dict[str, list[float]] = {}

    def read(self, line: str) -> None:
        report = json.loads(line)
        if report["said"] == "hangs":
            self.last_heartbeat = report["moment"]
        else:
            self._starts.setdefault(report["pod"], []).append(report["moment"])

    def starts(self, run: int) -> list[float]:
        """When programs began their run of this number, from 1; of those that have."""
        return [moments[run - 1] for moments in self._starts.values() if len(moments) >= run]


class Container:
    """The container of a pod: a real agent and its program, which start again whenever they end."""

    def __init__(self, env: dict[str, str], programs: Programs, log: Path) -> None:
        self.codes: list[int] = []
        self._env, self._programs, self._log = env, programs, log
        self._process: subprocess.Popen[str] | None = None
        self._over = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        command = [sys.executable, "-m", "agent", "--", sys.executable, "-c", PROGRAM]
        while not self._over:
            with (
                self._log.open("a") as log,
                subprocess.Popen(  # noqa: S603 -- ours
                    command, env=self._env, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True
                ) as process,
            ):
                self._process = process
                for line in process.stdout or ():
                    self._programs.read(line)
            self.codes.append(process.returncode)
            self._env = {**self._env, "HANGS_AFTER": "-1"}

    def close(self) -> None:
        """End it for good. It may just have started again."""
        self._over = True
        while self._thread.is_alive():
            if self._process is not None:
                self._process.terminate()
            self._thread.join(0.5)


@contextlib.contextmanager
def _containers(scene: Scene, pods: list[JSON], programs: Programs, folder: Path) -> Iterator[list[Container]]:
    """The containers of all pods. The first program hangs after a second of its first run."""
    account = _account(scene, folder / "account")
    running: list[Container] = []
    try:
        for number, pod in enumerate(pods):
            name = pod["metadata"]["name"]
            env = {
                "PATH": os.environ["PATH"],
                "JOBSET_NAME": "bench",
                "POD_NAME": name,
                "KUBERNETES_SERVICE_HOST": "127.0.0.1",
                "KUBERNETES_SERVICE_PORT": str(scene.cluster.plan.ports["kube-apiserver"]),
                "SERVICE_ACCOUNT_DIR": str(account),
                "JOBSET_HEARTBEAT_FILE": str(folder / f"{name}.beat"),
                "PROGRESS_DEADLINE_SECONDS": str(DEADLINE_SECONDS),
                "FIRST_HEARTBEAT_SECONDS": str(STALL_SECONDS),
                "STACK_DUMP_SIGNAL": "SIGUSR1",
                "HANGS_AFTER": "-1" if number else "10",
            }
            running.append(Container(env, programs, folder / f"{name}.log"))
        yield running
    finally:
        for container in running:
            container.close()


def _account(scene: Scene, folder: Path) -> Path:
    """A folder as the kubelet mounts it, for a ServiceAccount with the rights of an agent."""
    objects = [*yaml.safe_load_all(RIGHTS.read_text(encoding="utf-8"))][:3]
    local.kubectl(scene.cluster, "apply", "-n", scene.namespace, "-f", "-", stdin=yaml.safe_dump_all(objects))
    folder.mkdir()
    token = local.kubectl(scene.cluster, "create", "token", ACCOUNT, "-n", scene.namespace).stdout.strip()
    (folder / "token").write_text(token)
    (folder / "namespace").write_text(scene.namespace)
    (folder / "ca.crt").write_bytes((scene.cluster.plan.layout.pki / "ca.crt").read_bytes())
    return folder
