"""Plays systemd-logind towards one kubelet, as far as that asks it: the lock that delays a shutdown, and its signal.

It is bus and service in one: a kubelet calls Hello, AddMatch, Get (of InhibitDelayMaxUSec) and Inhibit, and waits for
PrepareForShutdown. All that follows from this is the kubelet's own. The format is that of the D-Bus specification.
"""

import os
import select
import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue

PATH = "/org/freedesktop/login1"
MANAGER = "org.freedesktop.login1.Manager"
LONGEST_DELAY = 3600 * 10**6
REPLY, SIGNAL = 2, 4
ANSWERS = {b"AUTH": b"REJECTED EXTERNAL", b"AUTH EXTERNAL": b"DATA", b"NEGOTIATE_UNIX_FD": b"AGREE_UNIX_FD"}
ACCEPTED = b"OK 0123456789abcdef0123456789abcdef"
Field = tuple[int, str, str | int]


class Logind:
    """`locks` has the read end of each lock that was taken: it ends when the kubelet lets go of the lock."""

    def __init__(self, server: socket.socket) -> None:
        self.locks: SimpleQueue[int] = SimpleQueue()
        self._server = server
        self._connections: list[socket.socket] = []

    def serve(self) -> None:
        """Until the socket is closed."""
        with suppress(OSError):
            while True:
                connection, _ = self._server.accept()
                self._connections.append(connection)
                threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def close(self) -> None:
        for each in (self._server, *self._connections):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def shut_down(self, seconds: float) -> bool:
        """Announce a shutdown; whether the kubelet has let go of its lock within that time."""
        lock = self.locks.get(timeout=seconds)
        fields: list[Field] = [(1, "o", PATH), (2, "s", MANAGER), (3, "s", "PrepareForShutdown"), (8, "g", "b")]
        for connection in self._connections:
            with suppress(OSError):  # one that has ended
                connection.sendall(message(SIGNAL, fields, struct.pack("<I", 1)))
        try:
            return bool(select.select([lock], [], [], seconds)[0])
        finally:
            os.close(lock)

    def _talk(self, connection: socket.socket) -> None:
        with suppress(OSError), connection.makefile("rb") as stream:
            stream.read(1)
            for line in iter(stream.readline, b"BEGIN\r\n"):
                connection.sendall(ANSWERS.get(line.strip(), ACCEPTED) + b"\r\n")
            while head := stream.read(16):
                body, serial, length = struct.unpack("<4xIII", head)
                fields = stream.read(-(-length // 8) * 8)
                stream.read(body)
                self._answer(connection, serial, next(iter(members(fields[:length]))))

    def _answer(self, connection: socket.socket, serial: int, member: str) -> None:
        fields: list[Field] = [(5, "u", serial)]
        if member == "Hello":
            connection.sendall(message(REPLY, [*fields, (8, "g", "s")], text(":1.1")))
        elif member == "Get":
            delay = b"\x01t\x00" + bytes(5) + struct.pack("<Q", LONGEST_DELAY)
            connection.sendall(message(REPLY, [*fields, (8, "g", "v")], delay))
        elif member == "Inhibit":
            ours, theirs = os.pipe()
            whole = message(REPLY, [*fields, (8, "g", "h"), (9, "u", 1)], struct.pack("<I", 0))
            socket.send_fds(connection, [whole], [theirs])
            os.close(theirs)
            self.locks.put(ours)
        else:
            connection.sendall(message(REPLY, fields, b""))


def text(value: str) -> bytes:
    return struct.pack("<I", len(value)) + value.encode() + b"\x00"


def padded(data: bytes, size: int) -> bytes:
    return data + bytes(-len(data) % size)


def message(kind: int, fields: Sequence[Field], body: bytes) -> bytes:
    """A message of the bus, with a serial number that no answer refers to."""
    found = b""
    for code, form, value in fields:
        found = padded(found, 8) + bytes([code, 1]) + form.encode() + b"\x00"
        if isinstance(value, int):
            found += struct.pack("<I", value)
        else:
            found += bytes([len(value)]) + value.encode() + b"\x00" if form == "g" else text(value)
    return padded(struct.pack("<4BIII", ord("l"), kind, 1, 1, len(body), 1, len(found)) + found, 8) + body


def members(fields: bytes) -> Iterator[str]:
    """The name of the method in the header fields of a call."""
    at = 0
    while at < len(fields):
        at += -at % 8
        code, form = fields[at], chr(fields[at + 2])
        at += 4
        if form == "g":
            at += fields[at] + 2
            continue
        [size] = struct.unpack_from("<I", fields, at)
        at += 4
        if form == "u":
            continue
        if code == 3:
            yield fields[at : at + size].decode()
        at += size + 1


@contextmanager
def logind(root: Path) -> Iterator[Logind]:
    """Plays logind in the node with this root folder for the length of the block."""
    path = root / "var/run/dbus/system_bus_socket"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        found = Logind(server)
        thread = threading.Thread(target=found.serve)
        thread.start()
        try:
            yield found
        finally:
            found.close()
            thread.join()
            path.unlink(missing_ok=True)  # it is out of reach once the node has no power
