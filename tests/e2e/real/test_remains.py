"""Nothing is left of real nodes on the machine: no process, mount, namespace, interface, cgroup."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.cluster.assets import Sources
from dev.cluster.cluster import Cluster, down, statuses, up
from dev.cluster.real import cgroups
from dev.cluster.real.preflight import real_nodes_missing
from dev.cluster.spec import ClusterSpec
from tests.support.cluster.requests import wait_for

UP = """
import sys
from pathlib import Path
from dev.cluster.assets import Sources
from dev.cluster.cluster import up
from dev.cluster.spec import ClusterSpec
up(ClusterSpec(name="killed", real_nodes=1), sources=Sources(assets=Path(sys.argv[1])), state_root=Path(sys.argv[2]))
"""
SETTINGS = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "net/ipv4/ip_forward")


def processes_of(cluster: Cluster) -> dict[int, str]:
    """All that runs for it, by number: those that name its folder, and those in the namespaces of its nodes."""
    found = {}
    nodes = {pid.read_text() for pid in cluster.plan.layout.root.glob("real/*/pid")}
    spaces = {network(pid) for pid in nodes}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_text().replace("\0", " ")
            inside = network(folder.name) in spaces
        except OSError:
            continue
        if inside or str(cluster.plan.layout.root) in command:
            found[int(folder.name)] = command
    return found


def network(pid: int | str) -> str:
    """The network namespace of a process; empty if the process is gone."""
    try:
        return str(Path(f"/proc/{pid}/ns/net").readlink())
    except OSError:
        return ""


def cgroups_made() -> set[Path]:
    """The cgroups of nodes, of whichever cluster."""
    folders = {hierarchy.parent() or hierarchy.own_folder for hierarchy in cgroups.own_hierarchies()}
    return {path for folder in folders for path in folder.rglob("jobset-*real-*")}


def machine() -> dict[str, object]:
    """What real nodes must not change."""
    return {
        "mounts": sorted(re.findall(r" - (\S+ \S+)", Path("/proc/self/mountinfo").read_text())),
        "interfaces": sorted(name for _, name in socket.if_nameindex()),
        "routes": Path("/proc/net/route").read_text(),
        "settings": {name: Path("/proc/sys", name).read_text() for name in SETTINGS},
    }


@pytest.fixture
def cluster(tmp_path: Path, binaries: Path) -> Iterator[Cluster]:
    if missing := real_nodes_missing():
        pytest.skip(missing)
    yield up(ClusterSpec(name="remains", real_nodes=1), sources=Sources(assets=binaries), state_root=tmp_path)
    down("remains", state_root=tmp_path)


@pytest.mark.parametrize(
    "killed",
    ["supervisor", pytest.param("all", marks=pytest.mark.slow), pytest.param("none", marks=pytest.mark.slow)],
)
def test_nothing_is_left_whichever_processes_were_killed(cluster, killed):
    before, running, folder = machine(), processes_of(cluster), cluster.plan.layout.root
    made = {path for path in cgroups_made() if "-remains-" in path.name}
    assert made
    assert any("kubelet" in command for command in running.values())
    networks = {network(pid) for pid in running}
    supervisor = statuses(state_root=folder.parent)[0]["supervisor"]
    for pid in {"none": [], "supervisor": [supervisor], "all": [supervisor, *running]}[killed]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if killed != "none":
        wait_for(lambda: not alive(running), what="the end of all processes", last=lambda: alive(running))
    down(cluster.name, state_root=folder.parent)
    assert not alive(running)
    assert not any(path.exists() for path in made)
    assert not folder.exists()
    assert machine() == before
    left = {network(folder.name) for folder in Path("/proc").glob("[0-9]*")}
    assert not (networks - {network("self"), ""}) & left


@pytest.mark.slow
@pytest.mark.parametrize("made", ["cluster.json", "status.json", "real/network.pid", "real/real-0/cgroups", "ready"])
def test_nothing_is_left_after_up_was_killed(tmp_path: Path, binaries: Path, made: str):
    if missing := real_nodes_missing():
        pytest.skip(missing)
    before, folder = machine(), tmp_path / "killed"

    def is_there() -> bool:
        status = folder / "status.json"
        return '"ready"' in status.read_text() if made == "ready" and status.exists() else (folder / made).exists()

    command = [sys.executable, "-c", UP, str(binaries), str(tmp_path)]
    with subprocess.Popen(command) as starting:  # noqa: S603
        try:
            wait_for(is_there, timeout=60, what=made)
        finally:
            starting.kill()
    assert down("killed", state_root=tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert machine() == before
    assert {path for path in cgroups_made() if "-killed-" in path.name} == set()
    commands = [(entry / "cmdline").read_text() for entry in Path("/proc").glob("[0-9]*") if stat(int(entry.name))]
    assert [command for command in commands if str(folder) in command] == []


def alive(known: dict[int, str]) -> dict[int, str]:
    """Those that still run; one that is not reaped yet is dead all the same."""
    return {
        pid: command
        for pid, command in known.items()
        if (text := stat(pid)) and text.rpartition(")")[2].split()[0] != "Z"
    }


def stat(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
