"""The worker of main container mode: started, signalled, reaped, and never left behind.

The agent is process 1 of its container, or else makes itself the one that orphans fall to; either way everything the
worker ever started is sooner or later a child of the agent, and can be waited for and killed.
"""

from __future__ import annotations

import contextlib
import glob
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

KILL_SECONDS = 5.0
_UNCATCHABLE = {signal.SIGKILL, signal.SIGSTOP}
_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Make this process the parent of descendants whose parents end, as process 1 is by nature. Linux only."""
    if os.getpid() == 1:
        return
    import ctypes  # noqa: PLC0415 - a megabyte that no agent in a container of its own needs

    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def start(shell: str, command: str) -> int:
    """Start `shell -c command` in a process group of its own, with signals as if it had been started by the kubelet.

    Gives its process id, which is also the group's. Raises OSError.
    """
    return os.posix_spawn(
        shell,
        [shell, "-c", command],
        os.environ,
        setpgroup=0,
        # Python ignores SIGPIPE and SIGXFSZ, and the agent inherits what its parent ignores (under nohup: SIGHUP).
        setsigdef=signal.valid_signals() - _UNCATCHABLE,
    )


def reap(worker: int, ended: Callable[[int], None], all_gone: Callable[[], None]) -> None:
    """Wait for the worker and whatever it leaves behind; for a thread of its own.

    `ended` gets the worker's exit code, 128 + signal where a signal ended it; `all_gone` is called when no descendant
    is left.
    """
    while True:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            all_gone()
            return
        if pid == worker:
            code = os.waitstatus_to_exitcode(status)
            ended(code if code >= 0 else 128 - code)


def send_signal(worker: int, number: int) -> None:
    """Send a signal to the worker's process group."""
    with contextlib.suppress(ProcessLookupError):  # it has just ended
        os.killpg(worker, number)


def kill(worker: int) -> bool:
    """Kill the worker and everything it started, sessions of their own included; whether all are gone.

    Needs `reap` to run. Something that even SIGKILL cannot end (a driver that hangs) is given up after a while: the end
    of the container takes it along.
    """
    send_signal(worker, signal.SIGKILL)
    deadline = time.monotonic() + KILL_SECONDS
    while children := _children():
        if time.monotonic() > deadline:
            return False
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    return True


def _children() -> list[int]:
    """Processes whose parent is this one; none where the kernel does not list them."""
    found: list[int] = []
    for name in glob.glob("/proc/self/task/*/children"):  # noqa: PTH207 - lists of threads that end are no errors
        with contextlib.suppress(OSError):
            found += map(int, Path(name).read_text().split())
    return found
