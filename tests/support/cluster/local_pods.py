"""The pods of a manifest as processes of this machine, with the environment that the JobSet gives them.

Each pod has a loopback address of its own, which stands for its host name. Files of ConfigMaps are in a folder. What a
container image brings has to be on `path`; `pip install` in a command does nothing.
"""

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from api import keys
from cli import main as cli
from tests.support.cluster.requests import wait_for
from tests.support.pages.files import ROOT

JSON = dict[str, Any]
FRAMEWORKS = sorted((ROOT / "examples/frameworks").glob("*.yaml"))
MARK = "TESTED_POD"
"""A variable of all processes of a pod: those that went into the background are found by it."""
_FIELD = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")


@dataclass(frozen=True, slots=True)
class LocalPod:
    """One pod: the name of its ReplicatedJob, its host name, address, environment and command."""

    rjob: str
    host: str
    address: str
    env: dict[str, str]
    command: list[str]


def objects(file: Path, kind: str) -> list[JSON]:
    """The objects of this kind in a file."""
    return [each for each in yaml.safe_load_all(file.read_text(encoding="utf-8")) if each["kind"] == kind]


def rendered(file: Path, capsys: Any) -> list[JSON]:
    """The Jobs that the JobSet of a file leads to."""
    assert cli.main(["render", "-f", str(file)]) == 0
    return [each for each in yaml.safe_load_all(capsys.readouterr().out) if each["kind"] == "Job"]


def pods(jobs: list[JSON]) -> list[LocalPod]:
    """The pods of Jobs, in the order of Jobs and indices."""
    found = []
    for job in jobs:
        for index in range(job["spec"]["completions"]):
            address = f"127.{os.getpid() % 250 + 1}.0.{len(found) + 1}"
            found.append(_pod(job, index, address))
    return found


def _pod(job: JSON, index: int, address: str) -> LocalPod:
    template = job["spec"]["template"]
    meta = template["metadata"]
    given = {"labels": {**meta["labels"], keys.COMPLETION_INDEX: str(index)}, "annotations": meta["annotations"]}
    [container] = template["spec"]["containers"]
    env = {"JOB_COMPLETION_INDEX": str(index)}
    for each in container["env"]:
        env[each["name"]] = each["value"] if "value" in each else _field(each, given, address)
    command = [re.sub(r"\$\((\w+)\)", lambda found: env[found[1]], word) for word in container["command"]]
    host = f"{job['metadata']['name']}-{index}.{template['spec']['subdomain']}"
    return LocalPod(meta["labels"][keys.REPLICATED_JOB_NAME], host, address, env, command)


def _field(each: JSON, given: Mapping[str, Mapping[str, str]], address: str) -> str:
    path = each["valueFrom"]["fieldRef"]["fieldPath"]
    if path == "status.podIP":
        return address
    found = _FIELD.fullmatch(path)
    assert found, f"{path}: only labels, annotations and status.podIP are known here"
    return given[found[1]][found[2]]


def environment(path: Path) -> dict[str, str]:
    """Of programs in the folder `path`: they come first, and what PyTorch compiles is kept beside it."""
    return {"PATH": f"{path}:{os.environ['PATH']}", "TORCH_EXTENSIONS_DIR": str(path.with_name("extensions"))}


@contextlib.contextmanager
def running(
    every: list[LocalPod], file: Path, folder: Path, path: Path, *, started: str = ""
) -> Iterator[dict[str, subprocess.Popen[str]]]:
    """Start all pods with `path` first on PATH. What they print is in `folder`, in a file of their host name.

    At the end all their processes are killed. `started`: a pod starts when the one before has printed this, since pods
    that look for free ports at the same moment find the same ones here.
    """
    app = folder / "app"
    app.mkdir()
    names = {pod.host: pod.address for pod in every} | {"/app/": f"{app}/"}

    def here(text: str) -> str:
        for name, stand_in in names.items():
            text = text.replace(name, stand_in)
        return text

    for config in objects(file, "ConfigMap"):
        for name, text in config["data"].items():
            (app / name).write_text(here(text), encoding="utf-8")
    own = folder / "bin"
    own.mkdir()
    (own / "pip").write_text("#!/bin/sh\n", encoding="utf-8")
    (own / "pip").chmod(0o755)
    base = environment(path)
    base |= {"PATH": f"{own}:{base['PATH']}", "HOME": str(folder), "TMPDIR": str(folder), MARK: str(folder)}
    processes: dict[str, subprocess.Popen[str]] = {}
    try:
        for pod in every:
            env = base | {name: here(value) for name, value in pod.env.items()}
            with (folder / f"{pod.host}.log").open("w", encoding="utf-8") as log:
                processes[pod.host] = subprocess.Popen(  # noqa: S603 - an example of ours
                    [here(word) for word in pod.command],
                    env=env,
                    cwd=folder,
                    text=True,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            if started:
                log_file = folder / f"{pod.host}.log"
                wait_for(lambda file=log_file: started in file.read_text(encoding="utf-8"), timeout=60, what=started)
        yield processes
    finally:
        _kill(folder)
        for process in processes.values():
            process.wait()


def _kill(folder: Path) -> None:
    """Kill what has the mark, until there is nothing left: what is killed may just have started another."""
    mark = f"{MARK}={folder}".encode()
    ends = time.monotonic() + 10
    while time.monotonic() < ends:
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    found.append(int(process.name))
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            return
        time.sleep(0.1)
