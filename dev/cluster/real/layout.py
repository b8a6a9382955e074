"""Names, addresses and files of the real nodes of a cluster. Plain data."""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from pathlib import Path

from dev.cluster.spec import Layout

BRIDGE = "br0"
GATEWAY = IPv4Interface("10.200.0.1/24")
"""The bridge between the nodes. At its address they reach the API server."""
PODS = IPv4Network("10.244.0.0/16")
DNS = IPv4Address("10.96.0.10")
EGRESS = "egress.sock"
"""Socket by which the API server connects to nodes and pods; relative to the cluster's folder, in which it runs."""


@dataclass(frozen=True)
class RealNode:
    """Number `index` (from 0) of a cluster."""

    layout: Layout
    index: int

    @property
    def name(self) -> str:
        return f"real-{self.index}"

    @property
    def address(self) -> IPv4Interface:
        return IPv4Interface((GATEWAY.ip + 10 + self.index, GATEWAY.network.prefixlen))

    @property
    def pods(self) -> IPv4Network:
        return list(PODS.subnets(new_prefix=24))[1 + self.index]

    @property
    def port(self) -> str:
        """The interface of the bridge that the node's cable is plugged into."""
        return f"v{self.index}"

    @property
    def folder(self) -> Path:
        return folder(self.layout) / self.name

    @property
    def root(self) -> Path:
        """The node's root folder."""
        return self.folder / "root"

    @property
    def process(self) -> Path:
        """Holds the number of its PID 1 on the machine while it runs."""
        return self.folder / "pid"

    @property
    def cgroups(self) -> Path:
        """Holds the folders of its cgroups, a line each."""
        return self.folder / "cgroups"

    @property
    def off(self) -> Path:
        """While this file exists the node stays without power."""
        return self.folder / "off"


def folder(layout: Layout) -> Path:
    return layout.root / "real"


def network_process(layout: Layout) -> Path:
    """Holds the number of the process whose network namespace has the bridge."""
    return folder(layout) / "network.pid"


def real_nodes(layout: Layout, count: int) -> list[RealNode]:
    return [RealNode(layout, index) for index in range(count)]


def find_node(layout: Layout, name: str) -> RealNode | None:
    """The real node of that name, if the cluster has it."""
    known = [each.name for each in folder(layout).glob("real-*")]
    return RealNode(layout, int(name.removeprefix("real-"))) if name in known else None
