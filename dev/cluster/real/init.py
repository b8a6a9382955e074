"""PID 1 of a real node. It makes the node's mounts and network, and runs containerd, kubelet and kube-proxy.

A program that ends is started again after a second. SIGUSR1 stops the kubelet, SIGUSR2 starts it again. There is no
graceful stop: the node's processes end with PID 1, as in a power cut. All modules have to be imported before `run`,
since the machine's Python is not in the node's root folder.
"""

import os
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Interface
from pathlib import Path

from dev.cluster.real import cgroups, config, kernel, layout, netlink
from dev.cluster.real.enter import CTR
from dev.cluster.real.layout import RealNode

DISK_MIB = 2048
"""Size of the kubelet's file system, which holds emptyDir volumes and secrets. It is memory of the machine."""
# The kubelet would set these values for the whole machine. It finds them already set, and changes nothing.
KERNEL_SETTINGS = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1000000,
    "kernel/keys/root_maxbytes": 25000000,
}
_LINKS = ("bin", "sbin", "lib", "lib64")
_FOLDERS = (
    "usr",
    "proc",
    "sys",
    "dev",
    "run",
    "tmp",
    "root",
    "opt/jobset",
    "var/lib/kubelet",
    "var/log/pods",
    "var/tmp",
)
_ENVIRONMENT = {"PATH": f"{config.PROGRAMS}/bin:/usr/sbin:/usr/bin", "GOGC": os.environ.get("GOGC", "100")}
_PAUSE_SECONDS = 1.0
_POLL_SECONDS = 0.1


@dataclass
class Service:
    """A program of the node. `log_descriptor`: of its log on the machine. `start_at`: when to start it again."""

    name: str
    argv: tuple[str, ...]
    log_descriptor: int
    pid: int = 0
    start_at: float = 0.0
    should_run: bool = True


@dataclass
class NodeProcess:
    """The data of PID 1. `bridge_descriptor`: of the bridge's network namespace. `assets`: the folder of programs."""

    node: RealNode
    node_count: int
    assets: Path
    bridge_descriptor: int
    cgroup_folders: Sequence[Path]
    kubelet: Service
    services: Sequence[Service] = field(default_factory=list)


def run(node_process: NodeProcess) -> None:
    """Run the node. Does not return. An error ends the node, and is in its log."""
    kernel.die_with_parent()
    cgroups.move_into(node_process.cgroup_folders)
    hierarchies = cgroups.own_hierarchies()
    kernel.unshare(kernel.NEW_MOUNTS | kernel.NEW_CGROUPS | kernel.NEW_NAMES | kernel.NEW_IPC | kernel.NEW_NETWORK)
    socket.sethostname(node_process.node.name)
    _connect_to_bridge(node_process)
    _mount_root(node_process, hierarchies)
    signal.signal(signal.SIGUSR1, lambda *_: _set_kubelet_silent(node_process.kubelet, silent=True))
    signal.signal(signal.SIGUSR2, lambda *_: _set_kubelet_silent(node_process.kubelet, silent=False))
    _start_service(node_process.services[0])  # containerd, which the other programs need
    while not _ctr_succeeds("version"):
        time.sleep(_POLL_SECONDS)
    for archive in sorted(Path(config.PROGRAMS, "images").glob("*.tar")):
        if not _ctr_succeeds("images", "import", "--digests=false", str(archive)):
            raise OSError(f"the image {archive.name} cannot be imported")
    while True:
        _reap_children(node_process.services)
        for service in node_process.services:
            if service.should_run and not service.pid and time.monotonic() >= service.start_at:
                _start_service(service)
        time.sleep(_POLL_SECONDS)


def programs(node: RealNode, node_labels: str) -> dict[str, tuple[str, ...]]:
    """The command lines of the node's programs by name, in the order of their start."""
    folder = f"{config.PROGRAMS}/bin"
    return {
        "containerd": (f"{folder}/containerd", "--config", config.CONTAINERD),
        "kubelet": (
            f"{folder}/kubelet",
            f"--config={config.KUBELET}",
            f"--kubeconfig={config.KUBECONFIG}",
            f"--hostname-override={node.name}",
            f"--node-ip={node.address.ip}",
            f"--node-labels={node_labels}",
        ),
        "kube-proxy": (f"{folder}/kube-proxy", f"--config={config.PROXY}"),
    }


def _connect_to_bridge(node_process: NodeProcess) -> None:
    """Plug the node into the bridge. It reaches no other network, since the default route leads nowhere."""
    node = node_process.node
    with kernel.inside_network(node_process.bridge_descriptor):
        netlink.remove_interface(node.port)  # left over from before a power cut
    netlink.set_up("lo")
    netlink.add_cable("eth0", node.port, node_process.bridge_descriptor)
    with kernel.inside_network(node_process.bridge_descriptor):
        netlink.plug_into(layout.BRIDGE, node.port)
        netlink.set_up(node.port)
    netlink.add_address("eth0", node.address)
    netlink.set_up("eth0")
    netlink.add_route(IPv4Interface("0.0.0.0/0").network, layout.GATEWAY.ip)
    for other in layout.real_nodes(node.layout, node_process.node_count):
        if other != node:
            netlink.add_route(other.pods, other.address.ip)


def _mount_root(node_process: NodeProcess, hierarchies: Sequence[cgroups.Hierarchy]) -> None:
    root = node_process.node.root
    kernel.mount("none", "/", flags=kernel.RECURSIVE | kernel.PRIVATE)
    for name in _FOLDERS:
        (root / name).mkdir(parents=True, exist_ok=True)
    for name in _LINKS:
        with suppress(FileExistsError):
            (root / name).symlink_to(f"usr/{name}")
    kernel.bind(root, root)
    kernel.bind(node_process.assets / "debian" / "usr", root / "usr", read_only=True)
    kernel.bind(node_process.assets, root / "opt/jobset", read_only=True)
    kernel.bind("/dev", root / "dev")
    kernel.mount("proc", root / "proc", "proc")
    kernel.mount("sysfs", root / "sys", "sysfs")
    kernel.mount("tmpfs", root / "run", "tmpfs", data="mode=755")
    kernel.mount("kubelet", root / "var/lib/kubelet", "tmpfs", data=f"mode=755,size={DISK_MIB}m")
    kernel.change_root(root)
    kernel.mount("none", "/", flags=kernel.RECURSIVE | kernel.SHARED)
    _mount_cgroups(hierarchies)
    os.makedirs("/run/settings")  # noqa: PTH103
    # A machine that starts again has a new boot id.
    for name, value in {**KERNEL_SETTINGS, "kernel/random/boot_id": uuid.uuid4()}.items():
        file = Path("/run/settings", name.replace("/", "."))
        file.write_text(f"{value}\n")
        kernel.bind(file, f"/proc/sys/{name}")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def _mount_cgroups(hierarchies: Sequence[cgroups.Hierarchy]) -> None:
    top = Path("/sys/fs/cgroup")
    if hierarchies[0].version == 2:
        kernel.mount("cgroup2", top, "cgroup2")
        # A cgroup with processes cannot enable controllers for its children.
        (top / "init").mkdir(exist_ok=True)
        cgroups.move_into([top / "init"])
        names = (top / "cgroup.controllers").read_text().split()
        (top / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in names))
        return
    kernel.mount("cgroup", top, "tmpfs", data="mode=755")
    for hierarchy in hierarchies:
        folder = top / hierarchy.options.rpartition("=")[2]
        folder.mkdir()
        kernel.mount("cgroup", folder, "cgroup", data=hierarchy.options)


def _start_service(service: Service) -> None:
    null = os.open("/dev/null", os.O_RDONLY)
    actions = [
        (os.POSIX_SPAWN_DUP2, null, 0),
        *((os.POSIX_SPAWN_DUP2, service.log_descriptor, each) for each in (1, 2)),
    ]
    # The module subprocess would take the exit codes that `_reap_children` needs.
    service.pid = os.posix_spawn(service.argv[0], service.argv, _ENVIRONMENT, file_actions=actions)
    os.close(null)


def _set_kubelet_silent(kubelet: Service, *, silent: bool) -> None:
    kubelet.should_run = not silent
    if silent and kubelet.pid:
        os.kill(kubelet.pid, signal.SIGKILL)


def _reap_children(services: Sequence[Service]) -> None:
    """Take the exit codes of the programs, and of orphans, which also become children of PID 1."""
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            for service in services:
                if service.pid == pid:
                    service.pid, service.start_at = 0, time.monotonic() + _PAUSE_SECONDS
                    print(f"{service.name} ended: {os.waitstatus_to_exitcode(status)}", flush=True)  # noqa: T201


def _ctr_succeeds(*arguments: str) -> bool:
    """Whether the command of containerd succeeds. Its output goes to the node's log."""
    return subprocess.run([*CTR, *arguments], stdin=subprocess.DEVNULL, check=False).returncode == 0  # noqa: S603
