"""Starts, signals, reaps and kills the worker of main container mode, with all its descendants.

The agent is process 1 of its container, or makes itself the reaper of its descendants. Either way every process that
the worker starts becomes a child of the agent once its parent ends. The agent can then wait for it and kill it.
"""

from __future__ import annotations

import contextlib
import glob
import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

KILL_SECONDS = 5.0
"""Seconds within which `kill` waits for processes to end."""
_UNCATCHABLE = {signal.SIGKILL, signal.SIGSTOP}
_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Make this process the reaper of orphaned descendants, as process 1 always is. Linux only."""
    if os.getpid() == 1:
        return
    import ctypes  # noqa: PLC0415 - a megabyte that no agent in a container of its own needs

    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def start(
    command: tuple[str, ...], env: Mapping[str, str] = os.environ, output: Mapping[int, int] | None = None
) -> int:
    """Start a program with its arguments in a process group of its own, with signals as if the kubelet had started it.

    `output` maps the program's stdout (1) and stderr (2) to open descriptors. Returns the id of the process, which is
    also the id of the process group. Raises OSError.
    """
    return os.posix_spawnp(
        command[0],
        command,
        env,
        file_actions=[(os.POSIX_SPAWN_DUP2, source, number) for number, source in (output or {}).items()],
        setpgroup=0,
        # Python ignores SIGPIPE and SIGXFSZ, and the agent inherits what its parent ignores (under nohup: SIGHUP).
        setsigdef=signal.valid_signals() - _UNCATCHABLE,
    )


def reap(worker: int, on_end: Callable[[int], None], on_all_gone: Callable[[], None]) -> None:
    """Wait for the worker and its orphans; for a thread of its own.

    `on_end` gets the worker's exit code, which is 128 + signal if a signal ended it. `on_all_gone` is called when no
    descendant is left.
    """
    while True:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            on_all_gone()
            return
        if pid == worker:
            code = os.waitstatus_to_exitcode(status)
            on_end(code if code >= 0 else 128 - code)


def send_signal(worker: int, number: int) -> None:
    """Send a signal to the worker's process group."""
    with contextlib.suppress(ProcessLookupError):  # it has just ended
        os.killpg(worker, number)


def send_signal_to(pid: int, number: int) -> None:
    """Send a signal to one process."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def wait_for_group(group: int, seconds: float) -> bool:
    """Wait until a process group ends, for at most `seconds`. Returns whether it has ended. Needs `reap` to run."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.01)
    return False


def descendants() -> list[int]:
    """All processes below this one; none if the kernel does not list them."""
    pids = _children()
    for pid in pids:  # the list grows in the loop
        pids += _children(str(pid))
    return pids


def handles(pid: int, number: int) -> bool:
    """Whether the process has a handler for the signal."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:  # it has just ended
        return False
    masks = [int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:")]
    return any(mask >> (number - 1) & 1 for mask in masks)


def kill(worker: int) -> bool:
    """Kill the worker and all its descendants, also in other sessions. Returns whether all of them are gone.

    Needs `reap` to run. A process that even SIGKILL does not end within KILL_SECONDS, because a driver hangs, ends with
    the container.
    """
    send_signal(worker, signal.SIGKILL)
    deadline = time.monotonic() + KILL_SECONDS
    while children := _children():
        if time.monotonic() > deadline:
            return False
        for pid in children:
            send_signal_to(pid, signal.SIGKILL)
        time.sleep(0.01)
    return True


def _children(pid: str = "self") -> list[int]:
    """Processes whose parent is this one, or `pid`; none if the kernel does not list them."""
    pids: list[int] = []
    for name in glob.glob(f"/proc/{pid}/task/*/children"):  # noqa: PTH207 - lists of threads that end are not errors
        with contextlib.suppress(OSError):
            pids += map(int, Path(name).read_text().split())
    return pids
