"""Names, addresses and files of the real nodes of a cluster. Plain data."""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from pathlib import Path

from dev.cluster.spec import Layout

BRIDGE = "br0"
GATEWAY = IPv4Interface("10.200.0.1/24")
"""The address of the bridge between the nodes. Nodes reach the API server at this address."""
PODS = IPv4Network("10.244.0.0/16")
DNS = IPv4Address("10.96.0.10")
EGRESS = "egress.sock"
"""Socket by which the API server connects to nodes and pods. The path is relative to the cluster's folder."""


@dataclass(frozen=True)
class RealNode:
    """The real node with the number `index` (from 0) of a cluster."""

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
        """The file with the id of its PID 1 on the machine. It exists while the node runs."""
        return self.folder / "pid"

    @property
    def cgroups(self) -> Path:
        """The file with the folders of its cgroups, one a line."""
        return self.folder / "cgroups"

    @property
    def off(self) -> Path:
        """A file that keeps the node off while it exists."""
        return self.folder / "off"


def folder(layout: Layout) -> Path:
    return layout.root / "real"


def network_process(layout: Layout) -> Path:
    """The file with the id of the process whose network namespace has the bridge."""
    return folder(layout) / "network.pid"


def real_nodes(layout: Layout, count: int) -> list[RealNode]:
    return [RealNode(layout, index) for index in range(count)]


def find_node(layout: Layout, name: str) -> RealNode | None:
    """The real node with this name; None if the cluster does not have it."""
    names = [each.name for each in folder(layout).glob("real-*")]
    return RealNode(layout, int(name.removeprefix("real-"))) if name in names else None
