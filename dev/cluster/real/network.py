"""`python -m dev.cluster.real.network ROOT`: holds the network of the real nodes, and relays across its border.

The nodes are plugged into a bridge in the network namespace of this process, which has no other interface. The API
server stays on the machine's network, so that kubectl, webhooks by URL and external managers work as without real
nodes. This process forwards connections from nodes to the API server. The API server connects to nodes and pods (logs,
exec, webhooks by Service) by HTTP CONNECT on a Unix socket, as in its egress configuration.
"""

import asyncio
import contextlib
import os
import socket
import sys
from pathlib import Path
from typing import TypeAlias

from dev.cluster.components import Plan
from dev.cluster.real import kernel, layout, netlink
from dev.cluster.spec import Layout

_CONNECT_SECONDS = 10
_KEEP_ALIVE_SECONDS = 15
_KEEP_ALIVE_OPTIONS = [getattr(socket, name) for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL") if hasattr(socket, name)]
_CHUNK_BYTES = 64 * 1024
Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy one direction of a connection until it ends."""
    while data := await reader.read(_CHUNK_BYTES):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


async def _exchange(client: Streams, server: Streams) -> None:
    """Copy both directions until both have ended, or one is broken."""
    for _, writer in (client, server):
        # A dead node does not close its connections, so keepalive is needed. Servers and clients in Go use it, too.
        connection_socket = writer.get_extra_info("socket")
        if connection_socket.family == socket.AF_INET:
            connection_socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option in _KEEP_ALIVE_OPTIONS:
                connection_socket.setsockopt(socket.IPPROTO_TCP, option, _KEEP_ALIVE_SECONDS)
    with contextlib.suppress(OSError):
        await asyncio.gather(_copy(client[0], server[1]), _copy(server[0], client[1]))


async def _connect(machine_namespace: int | None, host: str, port: int) -> Streams:
    """A connection from this network namespace, or from the namespace `machine_namespace`."""
    with kernel.inside_network(machine_namespace) if machine_namespace is not None else contextlib.nullcontext():
        connection_socket = socket.socket()
    connection_socket.setblocking(False)
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            await asyncio.get_running_loop().sock_connect(connection_socket, (host, port))
    except BaseException:
        connection_socket.close()
        raise
    return await asyncio.open_connection(sock=connection_socket)


class Border:
    """Relays connections in both directions. `machine_namespace`: a descriptor. `port`: the API server's port."""

    def __init__(self, machine_namespace: int, port: int) -> None:
        self._machine_namespace = machine_namespace
        self._port = port

    async def to_server(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Relay the connection of a node or pod to the API server."""
        with contextlib.closing(writer), contextlib.suppress(OSError):
            server = await _connect(self._machine_namespace, "127.0.0.1", self._port)
            with contextlib.closing(server[1]):
                await _exchange((reader, writer), server)

    async def to_node(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Relay a connection of the API server, which sends CONNECT HOST:PORT HTTP/1.1, to a node or pod."""
        with contextlib.closing(writer), contextlib.suppress(asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            host, _, port = head.split()[1].decode().rpartition(":")
            try:
                node = await _connect(None, host, int(port))
            except OSError as error:
                writer.write(f"HTTP/1.1 502 {error.strerror or 'no answer'}\r\n\r\n".encode())
                return
            with contextlib.closing(node[1]):
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
                await _exchange((reader, writer), node)


async def serve(plan: Plan, machine_namespace: int) -> None:
    port = plan.ports["kube-apiserver"]
    border = Border(machine_namespace, port)
    await asyncio.start_server(border.to_server, str(layout.GATEWAY.ip), port)
    await asyncio.start_unix_server(border.to_node, layout.EGRESS)
    layout.network_process(plan.layout).write_text(str(os.getpid()))
    await asyncio.Event().wait()


def main() -> None:
    plan = Plan.read(Layout(Path(sys.argv[1])))
    Path(layout.EGRESS).unlink(missing_ok=True)
    machine_namespace = kernel.open_namespace("self")
    kernel.unshare(kernel.NEW_NETWORK)
    netlink.set_up("lo")
    netlink.add_bridge(layout.BRIDGE)
    netlink.add_address(layout.BRIDGE, layout.GATEWAY)
    netlink.set_up(layout.BRIDGE)
    for node in layout.real_nodes(plan.layout, plan.spec.real_nodes):
        netlink.add_route(node.pods, node.address.ip)
    asyncio.run(serve(plan, machine_namespace))


if __name__ == "__main__":
    main()
