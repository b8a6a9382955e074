"""Causes and ends faults of the kubelet, the power, the network cable and the disk of real nodes."""

import os
import signal
import time
from datetime import UTC, datetime

from dev.cluster.errors import DevclusterError
from dev.cluster.nodes import READY_SECONDS, wait_usable
from dev.cluster.real import init, kernel, netlink
from dev.cluster.real.enter import node_process, run_in_node
from dev.cluster.real.layout import RealNode, network_process
from dev.cluster.rest import Connection

_VOLUMES = "/var/lib/kubelet"
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_POLL_SECONDS = 0.1


def stop_kubelet(node: RealNode) -> None:
    """Stop the kubelet by a signal to PID 1, so that it does not report any more. The containers keep running."""
    os.kill(node_process(node), signal.SIGUSR1)


def cut_power(node: RealNode) -> None:
    """End all processes of the node at once, and keep it off. Its disk stays as it was, its memory is lost."""
    process = node_process(node)
    node.off.touch()
    os.kill(process, signal.SIGKILL)
    _wait_for_process(node, f"node {node.name} did not end", running=False)


def cut_cable(node: RealNode) -> None:
    """Disconnect the node from the network. Everything on the node keeps running."""
    _set_cable(node, up=False)


def fill_disk(node: RealNode) -> None:
    """Fill the file system of the kubelet, by shrinking it to its content."""
    disk = os.statvfs(f"/proc/{node_process(node)}/root{_VOLUMES}")
    _resize_disk(node, (disk.f_blocks - disk.f_bfree) * disk.f_frsize + disk.f_frsize)


def come_back(node: RealNode, connection: Connection) -> None:
    """End every fault of the node. Returns once the node can be used."""
    request_time = datetime.now(UTC).isoformat()
    if node.off.exists():
        node.off.unlink()
        _wait_for_process(node, f"node {node.name} did not start", running=True)
    else:
        _set_cable(node, up=True)
        _resize_disk(node, init.DISK_MIB << 20)
        os.kill(node_process(node), signal.SIGUSR2)  # starts the kubelet again
    # Until the kubelet has renewed its Lease, the node may only seem to be ready.
    deadline = time.monotonic() + READY_SECONDS
    while connection.request("GET", f"{_LEASES}/{node.name}")[1].get("spec", {}).get("renewTime", "") < request_time:
        if time.monotonic() > deadline:
            raise DevclusterError(
                f"the kubelet of {node.name} does not renew its Lease: see `jobset cluster logs {node.name}-kubelet`."
            )
        time.sleep(_POLL_SECONDS)
    wait_usable(connection, {node.name}, f"logs {node.name} and {node.name}-kubelet")


def _set_cable(node: RealNode, *, up: bool) -> None:
    namespace = kernel.open_namespace(network_process(node.layout).read_text())
    with kernel.inside_network(namespace):
        netlink.set_up(node.port, up=up)
    os.close(namespace)


def _resize_disk(node: RealNode, size: int) -> None:
    run_in_node(node, "/usr/bin/mount", "-o", f"remount,size={size}", _VOLUMES)


def _wait_for_process(node: RealNode, problem: str, *, running: bool) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while node.process.exists() != running:
        if time.monotonic() > deadline:
            raise DevclusterError(f"{problem}: see `jobset cluster logs {node.name}`.")
        time.sleep(_POLL_SECONDS)
