"""Parses addresses to listen on, and binds them."""

import contextlib
import errno
import os
import re
import socket
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address

Address = tuple[str, int]
"""Host ("" = every interface) and TCP port (0 = any free port)."""

_HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?\.?")
"""A host name that resolvers accept. Unlike in DNS-1123, it may have underscores."""

BACKLOG = 2048
"""The most connections that wait to be accepted."""


class BindError(OSError):
    """The server cannot listen on an address. The text is one line with the reason."""


def parse_bind_address(text: str) -> Address | None:
    """The address in `host:port`, `:port` or `[ipv6]:port`; None for `0`, which means do not listen.

    Raises `BindError` for any other text.
    """
    if text == "0":
        return None
    host, colon, port = text.rpartition(":")
    has_brackets = host.startswith("[") and host.endswith("]")
    bare_host = host[1:-1] if has_brackets else host
    if not colon or (":" in bare_host) != has_brackets or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise BindError(f"cannot listen on {text!r}: write host:port, :port or [ipv6]:port, or 0 to switch it off")
    check_host(bare_host)
    return bare_host, int(port)


def check_host(host: str) -> None:
    """Raise `BindError` for an invalid host name or address; "" is every interface."""
    if host and ip_of(host) is None and not _HOST_NAME.fullmatch(host):
        raise BindError(
            f"cannot listen on {host!r}: it is neither an address nor the name of a host;"
            " write one of this machine, such as 10.0.0.7, or leave it empty for all"
        )


def ip_of(host: str) -> IPv4Address | IPv6Address | None:
    """The IP address; None if the host is a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


@lru_cache(maxsize=1024)
def network_of(host: str) -> str:
    """The network of a client: its IPv4 address, or the first half of its IPv6 address, as it chooses the rest."""
    ip = ip_of(host)
    if not isinstance(ip, IPv6Address):
        return host
    return str(ip.ipv4_mapped or IPv6Address(int(ip) >> 64 << 64))


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to the address."""
    ip = ip_of(host)
    return host == "localhost" or (ip is not None and ip.is_loopback)


def bind(address: Address, purpose: str) -> socket.socket:
    """A listening socket. Raises `BindError`, whose text has the address, the `purpose` and the reason."""
    host, port = address
    try:
        listener = _listen(host, port)
    except OSError as error:
        location = f"[{host}]:{port}" if ":" in host else f"{host or '*'}:{port}"
        hint = "another process has it: stop that one or choose another port"
        hint = hint if error.errno == errno.EADDRINUSE else "give an address of this machine and a port you may use"
        raise BindError(f"cannot listen on {location} for {purpose}: {_reason(error)} ({hint})") from error
    # Connections inherit this option, which asyncio does not set on accepted sockets. Without it, an answer, whose head
    # and body are written separately, would wait 40 ms for an acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _reason(error: OSError) -> str:
    """The system's error message, without the additions of Python."""
    if error.errno is None or isinstance(error, socket.gaierror):
        return str(error.strerror)
    return os.strerror(error.errno)


def _listen(host: str, port: int) -> socket.socket:
    if not host and socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):  # the kernel supports IPv6, but it is disabled on this machine
            return socket.create_server(("", port), family=socket.AF_INET6, backlog=BACKLOG, dualstack_ipv6=True)
    family = socket.getaddrinfo(host or "0.0.0.0", port, type=socket.SOCK_STREAM)[0][0]  # noqa: S104 (all = asked for)
    return socket.create_server((host, port), family=family, backlog=BACKLOG)
