"""Picks the ports of a cluster's listeners on 127.0.0.1."""

import errno
import random
import socket

from dev.cluster.components import port_names
from dev.cluster.errors import DevclusterError
from dev.cluster.spec import ClusterSpec

# Below the range from which Linux and macOS serve outgoing connections, so that no other program gets them by chance.
PORTS = range(20000, 32000)


def pick_ports(spec: ClusterSpec) -> dict[str, int]:
    """A free port for each listener, by name. Raises DevclusterError if the port of the spec is taken."""
    if spec.port and not _is_free(spec.port):
        raise DevclusterError(
            f"port {spec.port} on 127.0.0.1 is taken by another process: choose another --port, or none to have "
            f"a free one picked (`jobset cluster status` lists the ports of other clusters)."
        )
    names = port_names(spec)
    candidates = random.sample(PORTS, 20 * len(names))
    free_ports = (port for port in candidates if _is_free(port))
    ports = dict(zip(names, free_ports, strict=False))
    if len(ports) < len(names):
        raise DevclusterError(f"no free ports between {PORTS.start} and {PORTS.stop} on 127.0.0.1.")
    if spec.port:
        ports["kube-apiserver"] = spec.port
    return ports


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
    return True
