"""Sets interfaces, addresses and routes of this network namespace by rtnetlink, without the program `ip`."""

import os
import socket
import struct
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Interface, IPv4Network

_NEW_LINK, _DELETE_LINK, _NEW_ADDRESS, _NEW_ROUTE = 16, 17, 20, 24
_REQUEST, _ACK, _EXCLUSIVE, _CREATE = 1, 4, 0x200, 0x400
_ERROR, _ROUTES = 2, 0  # NLMSG_ERROR, NETLINK_ROUTE
_ADDRESS, _NAME, _MASTER, _INFO = 1, 3, 10, 18  # IFLA_*
_KIND, _DATA, _PEER, _NAMESPACE = 1, 2, 1, 28  # IFLA_INFO_*, VETH_INFO_PEER, IFLA_NET_NS_FD
_UP = 1
_GET_TABLES = 10 << 8 | 16  # NFNL_SUBSYS_NFTABLES, NFT_MSG_GETGEN


def add_bridge(name: str) -> None:
    info = _attribute(_INFO, _attribute(_KIND, b"bridge"))
    _talk(_NEW_LINK, _link(attributes=[_text(_NAME, name), info]), _CREATE | _EXCLUSIVE)


def add_cable(name: str, peer: str, namespace: int) -> None:
    """Add a pair of veth interfaces: `name` in this network namespace, `peer` in the one with the file descriptor."""
    end = _link(attributes=[_text(_NAME, peer), _attribute(_NAMESPACE, struct.pack("I", namespace))])
    info = _attribute(_INFO, _attribute(_KIND, b"veth") + _attribute(_DATA, _attribute(_PEER, end)))
    _talk(_NEW_LINK, _link(attributes=[_text(_NAME, name), info]), _CREATE | _EXCLUSIVE)


def remove_interface(name: str) -> None:
    """Remove the interface, if it exists."""
    if name in {interface for _, interface in socket.if_nameindex()}:
        _talk(_DELETE_LINK, _link(socket.if_nametoindex(name)))


def set_up(name: str, *, up: bool = True) -> None:
    _talk(_NEW_LINK, _link(socket.if_nametoindex(name), _UP if up else 0, _UP))


def plug_into(bridge: str, name: str) -> None:
    master = _attribute(_MASTER, struct.pack("I", socket.if_nametoindex(bridge)))
    _talk(_NEW_LINK, _link(socket.if_nametoindex(name), attributes=[master]))


def add_address(name: str, address: IPv4Interface) -> None:
    head = struct.pack("BBBBI", socket.AF_INET, address.network.prefixlen, 0, 0, socket.if_nametoindex(name))
    addresses = _attribute(1, address.ip.packed) + _attribute(2, address.ip.packed)  # IFA_ADDRESS, IFA_LOCAL
    _talk(_NEW_ADDRESS, head + addresses, _CREATE | _EXCLUSIVE)


def add_route(destination: IPv4Network, gateway: IPv4Address) -> None:
    head = struct.pack(
        "BBBBBBBBI", socket.AF_INET, destination.prefixlen, 0, 0, 254, 4, 0, 1, 0
    )  # main, static, universe, unicast
    attributes = _attribute(1, destination.network_address.packed) + _attribute(
        5, gateway.packed
    )  # RTA_DST, RTA_GATEWAY
    _talk(_NEW_ROUTE, head + attributes, _CREATE | _EXCLUSIVE)


def request_nftables() -> None:
    """Raises OSError if the kernel has no nftables, which kube-proxy uses."""
    _talk(_GET_TABLES, struct.pack("BBH", 0, 0, 0), family=12)  # NETLINK_NETFILTER


def _link(index: int = 0, flags: int = 0, change: int = 0, attributes: Iterable[bytes] = ()) -> bytes:
    return struct.pack("BBHiII", socket.AF_UNSPEC, 0, 0, index, flags, change) + b"".join(attributes)


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def _text(kind: int, value: str) -> bytes:
    return _attribute(kind, value.encode() + b"\0")


def _talk(kind: int, body: bytes, flags: int = 0, *, family: int = _ROUTES) -> None:
    """Send one request and wait for the kernel's answer. Raises OSError if the kernel refuses the request."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, family) as kernel:
        kernel.send(struct.pack("IHHII", 16 + len(body), kind, _REQUEST | _ACK | flags, 1, 0) + body)
        while True:
            answer = kernel.recv(65536)
            if struct.unpack_from("H", answer, 4)[0] == _ERROR:
                break
    number = -struct.unpack_from("i", answer, 16)[0]
    if number:
        raise OSError(number, f"netlink: {os.strerror(number)}")
