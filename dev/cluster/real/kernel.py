"""System calls of Linux for which Python 3.11 has no function: namespaces, mounts, the death signal."""

import ctypes
import os
import platform
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NEW_MOUNTS, NEW_CGROUPS, NEW_NAMES, NEW_IPC = 0x00020000, 0x02000000, 0x04000000, 0x08000000
NEW_PROCESSES, NEW_NETWORK = 0x20000000, 0x40000000
"""Flags of `unshare` (CLONE_NEW*)."""

READ_ONLY, REMOUNT, BIND, RECURSIVE, PRIVATE, SHARED = 1, 32, 4096, 16384, 1 << 18, 1 << 20
"""Flags of `mount` (MS_*)."""

PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
"""The number of the system call pivot_root, by `platform.machine()`."""

_MNT_DETACH = 2
_PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)


def _raise_on_error(result: int, call: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Give this process new namespaces. With `NEW_PROCESSES`, only its future children are in the new namespace."""
    _raise_on_error(_libc.unshare(flags), "unshare")


def enter_namespace(namespace: int) -> None:
    """Move this process into the namespace with this file descriptor."""
    _raise_on_error(_libc.setns(namespace, 0), "setns")


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends for any reason."""
    _raise_on_error(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")


def mount(source: str, target: Path | str, kind: str = "", flags: int = 0, data: str = "") -> None:
    result = _libc.mount(source.encode(), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), data.encode())
    _raise_on_error(result, f"mount of {source} at {target}")


def bind(source: Path | str, target: Path | str, *, read_only: bool = False) -> None:
    """Mount a file or folder, with all mounts below it, also at `target`, which must exist."""
    mount(str(source), target, flags=BIND | RECURSIVE)
    if read_only:
        mount("none", target, flags=BIND | REMOUNT | READ_ONLY)


def change_root(root: Path) -> None:
    """Make a mount point the root of this mount namespace, and detach the old root."""
    os.chdir(root)
    _raise_on_error(_libc.syscall(PIVOT_ROOT[platform.machine()], b".", b"."), "pivot_root")
    _raise_on_error(_libc.umount2(b".", _MNT_DETACH), "umount")
    os.chdir("/")


@contextmanager
def inside_network(namespace: int) -> Iterator[None]:
    """Run the block in the network namespace with this file descriptor. Only for single-threaded programs."""
    own_namespace = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        enter_namespace(namespace)
        try:
            yield
        finally:
            enter_namespace(own_namespace)
    finally:
        os.close(own_namespace)


def open_namespace(pid: int | str, kind: str = "net") -> int:
    """A new file descriptor of a namespace of a process."""
    return os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
