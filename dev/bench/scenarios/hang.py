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

from dev.bench.phases import counted, settled
from dev.bench.scenarios.group import Result, Size
from dev.bench.scenarios.node_lost import figures
from dev.bench.scenarios.steps import created
from dev.bench.scene import JSON, STALL_SECONDS, BenchmarkError, Scene, wait
from dev.bench.sets import checked, jobset, restarting_in_place, says

JOBS, PODS = 2, 2
"""And pods of each Job: every agent is a process that starts on this machine, whatever else that does."""

DEADLINE_SECONDS = 5
"""Without a heartbeat for so long a program hangs."""

GATES = {"InPlaceRestart": True}
ROOT = Path(__file__).parents[3]
RIGHTS = ROOT / "examples" / "in-place-restart.yaml"
ACCOUNT = "in-place-restart"
HANG_EXIT_CODE = 124

PROGRAM = """
import faulthandler, itertools, json, os, pathlib, signal, time
faulthandler.register(signal.SIGUSR1, all_threads=True)
def say(what):
    print(json.dumps({"pod": os.environ["POD_NAME"], "said": what, "moment": time.monotonic()}), flush=True)
say("begun")
beat = pathlib.Path(os.environ["JOBSET_HEARTBEAT_FILE"])
for number in itertools.count():
    beat.touch()
    if number == int(os.environ["HANGS_AFTER"]):
        say("hangs")
        signal.pause()
    time.sleep(0.1)
"""
"""Says when it begins, and when it has given its last heartbeat."""


def run(scene: Scene, _size: Size, _: frozenset[str]) -> Iterator[Result]:
    """The set begins, one of its programs hangs, and all begin again."""
    pods = created(scene, restarting_in_place(jobset(JOBS, PODS)))[1]
    with tempfile.TemporaryDirectory(prefix="jobset-bench-") as folder, counted(scene) as phase:
        said = Said()
        with _containers(scene, pods, said, Path(folder)) as containers:
            wait(lambda: len(said.begun(2)) == len(pods), STALL_SECONDS, "all programs to begin again")
            if containers[0].codes != [HANG_EXIT_CODE]:
                raise BenchmarkError(f"the agent of the program that hangs ended with {containers[0].codes}")
            phase.update(figures(said.begun(2), said.hangs))
            phase["reported_seconds"] = settled(lambda: says(scene, ready=JOBS))
            phase["reported_seconds"] -= said.hangs
            checked(scene, len(pods))
    yield "P16", phase


class Said:
    """What programs say: when each began, run after run, and when the one that hangs has given its last heartbeat."""

    def __init__(self) -> None:
        self.hangs = 0.0
        self._begun: dict[str, list[float]] = {}

    def read(self, line: str) -> None:
        found = json.loads(line)
        if found["said"] == "hangs":
            self.hangs = found["moment"]
        else:
            self._begun.setdefault(found["pod"], []).append(found["moment"])

    def begun(self, times: int) -> list[float]:
        """When programs began for that time, from 1; of those that have."""
        return [moments[times - 1] for moments in self._begun.values() if len(moments) >= times]


class Container:
    """The container of a pod: a real agent and its program, which start again whenever they end."""

    def __init__(self, env: dict[str, str], said: Said, log: Path) -> None:
        self.codes: list[int] = []
        self._env, self._said, self._log = env, said, log
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
                    self._said.read(line)
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
def _containers(scene: Scene, pods: list[JSON], said: Said, folder: Path) -> Iterator[list[Container]]:
    """Those of all pods for the length of the block. The program of the first hangs after a second in its first run."""
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
            running.append(Container(env, said, folder / f"{name}.log"))
        yield running
    finally:
        for container in running:
            container.close()


def _account(scene: Scene, folder: Path) -> Path:
    """A folder such as the kubelet mounts into a pod, of an account with the rights that an agent needs."""
    for body in [*yaml.safe_load_all(RIGHTS.read_text(encoding="utf-8"))][:3]:
        root = "/api/v1" if body["apiVersion"] == "v1" else f"/apis/{body['apiVersion']}"
        scene.request("POST", scene.path(f"{body['kind'].lower()}s", root), body)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = scene.request("POST", f"{scene.path('serviceaccounts')}/{ACCOUNT}/token", request)
    folder.mkdir()
    (folder / "token").write_text(answer["status"]["token"])
    (folder / "namespace").write_text(scene.namespace)
    (folder / "ca.crt").write_bytes((scene.cluster.plan.layout.pki / "ca.crt").read_bytes())
    return folder
