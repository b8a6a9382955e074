"""The supervisor starts a cluster's processes in order, watches them, and stops them in reverse order.

`cluster.up` starts it as `python -m dev.cluster.supervisor STATE_DIR [OWNER_PID]`. With an owner, it ends when the
owner is gone. Without an owner, it runs until it gets SIGTERM. It must not import slow modules, and must stay
single-threaded: the death signal of a child is tied to the thread that started the child.
"""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType

from dev.cluster.components import Component, Plan, components
from dev.cluster.kept import KeptProcesses
from dev.cluster.real import kernel
from dev.cluster.real.cgroups import remove_remains
from dev.cluster.spec import Layout, replace_text

START_SECONDS = 60
STOP_SECONDS = 10
PARTIAL_STOP_SECONDS = 1
POLL_SECONDS = 0.1
MAX_LOG_LINES = 12
HINTS = {
    "address already in use": "a port was taken between choosing and using it: run `up` again (or another --port).",
    "no space left on device": "the disk is full: free some space, or use another --state-dir.",
    "permission denied": "a file of the cluster is not accessible: check who owns the state folder.",
}
"""The likely cause of an end, by a text in the last lines of the log."""


class SupervisorStopped(Exception):  # noqa: N818 - not an error: someone asked for the end
    """The supervisor was told to stop, or its owner has ended."""


class ComponentDied(Exception):  # noqa: N818 - reads as what happened
    """A component ended, or did not become ready in time. The message is for the user."""


class Supervisor:
    """The lifetime of one cluster's processes."""

    def __init__(self, layout: Layout, owner_pid: int | None) -> None:
        self._layout = layout
        self._owner_pid = owner_pid
        self._running: list[tuple[Component, subprocess.Popen[bytes]]] = []
        self._kept_processes = KeptProcesses(layout, spawn)
        self._is_stop_requested = False
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._request_stop)

    def run(self) -> int:
        """Start, watch and stop the processes. Returns 0 after a requested stop, 1 after a failure."""
        try:
            plan = Plan.read(self._layout)
            self._start(components(plan))
            self._report("ready")
            while True:
                if plan.spec.keep:
                    self._restart_ended()
                self._raise_if_ended()
                if self._kept_processes.start_due_processes():
                    self._report("ready")
                time.sleep(POLL_SECONDS)
        except SupervisorStopped:
            final_phase, message = "stopped", ""
        except ComponentDied as died:
            final_phase, message = "failed", str(died)
        self._report("stopping", message)
        stop_in_order([*self._running, *self._kept_processes.running()])
        self._report(final_phase, message)
        if self._is_orphaned():
            remove_folder(self._layout)  # the owner, which would remove it, has ended already
        return 0 if final_phase == "stopped" else 1

    def _is_orphaned(self) -> bool:
        return self._owner_pid is not None and os.getppid() != self._owner_pid

    def _request_stop(self, _number: int, _frame: FrameType | None) -> None:
        self._is_stop_requested = True

    def _start(self, processes: list[Component]) -> None:
        for rank in sorted({component.rank for component in processes}):
            group = [component for component in processes if component.rank == rank]
            for component in group:
                self._running.append((component, self._spawn(component)))
            self._report("starting", f"waiting for {', '.join(component.name for component in group)}")
            # There is no need to wait for etcd, since the API server is ready only when etcd answers.
            if rank > 0:
                for component in group:
                    self._wait_ready(component)

    def _restart_ended(self) -> None:
        for index, (component, process) in enumerate(self._running):
            if process.poll() is not None:
                self._running[index] = (component, self._spawn(component))
                self._report("ready")

    def _spawn(self, component: Component) -> subprocess.Popen[bytes]:
        try:
            return spawn(component, self._layout)
        except OSError as error:
            raise ComponentDied(
                f"{component.name} cannot be started: {component.argv[0]}: {error.strerror}."
            ) from error

    def _wait_ready(self, component: Component) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not component.is_ready():
            self._raise_if_ended()
            if time.monotonic() > deadline:
                raise ComponentDied(
                    f"{component.name} was not ready after {START_SECONDS} s.\n{self._last_log_lines(component)}"
                )
            time.sleep(POLL_SECONDS)

    def _raise_if_ended(self) -> None:
        if self._is_stop_requested or self._is_orphaned():
            raise SupervisorStopped
        for component, process in self._running:
            code = process.poll()
            if code is not None:
                end = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
                raise ComponentDied(f"{component.name} {end}.\n{self._last_log_lines(component)}")

    def _last_log_lines(self, component: Component) -> str:
        path = self._layout.log(component.name)
        lines = tail(path, MAX_LOG_LINES)
        text = "\n".join(lines).lower()
        hints = [f"Likely cause: {hint}" for error_text, hint in HINTS.items() if error_text in text]
        return "\n".join([f"Last lines of {path}:", *(f"  {line[:1500]}" for line in lines), *hints])

    def _report(self, phase: str, message: str = "") -> None:
        write_status(
            self._layout,
            {
                "phase": phase,
                "message": message,
                "supervisor": os.getpid(),
                "owner": self._owner_pid,
                "components": {component.name: process.pid for component, process in self._running},
                "kept": self._kept_processes.report(),
            },
        )


def remove_folder(layout: Layout) -> None:
    """Remove the state folder of a cluster whose processes have ended, and the cgroups of its real nodes.

    The record is removed last, so that after an interruption the folder still counts as ours, and `down` removes it.
    """
    remove_remains(layout)
    for path in layout.root.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path != layout.record:
            path.unlink()
    shutil.rmtree(layout.root)


def spawn(component: Component, layout: Layout) -> subprocess.Popen[bytes]:
    """Start one component, with its output in its log file. On Linux, it ends with this process."""
    with layout.log(component.name).open("ab") as log:
        return subprocess.Popen(  # noqa: S603 - the command lines are our own
            component.argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=layout.root,
            preexec_fn=death_signal(),  # noqa: PLW1509 - single-threaded, and the only way to set it before exec
        )


def death_signal() -> Callable[[], None] | None:
    """A hook by which a child gets SIGKILL when this process dies; None if the system does not support that."""
    if sys.platform != "linux":
        return None
    parent = os.getpid()

    def set_death_signal() -> None:
        kernel.die_with_parent()
        if os.getppid() != parent:  # the parent died before the line above
            os._exit(1)

    return set_death_signal


def stop_in_order(running: Iterable[tuple[Component, subprocess.Popen[bytes]]]) -> None:
    """Stop clients first, then the API server, and etcd last, as an API server without etcd takes long to stop."""
    pairs = list(running)
    # A process without its server or store would not end by itself.
    seconds = STOP_SECONDS if all(process.poll() is None for _, process in pairs) else PARTIAL_STOP_SECONDS
    for rank in sorted({component.rank for component, _ in pairs}, reverse=True):
        group = [process for component, process in pairs if component.rank == rank]
        for process in group:
            process.terminate()
        deadline = time.monotonic() + seconds
        for process in group:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def tail(path: Path, count: int) -> list[str]:
    """The last `count` lines of a text file; empty if the file cannot be read."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 512 * count))
        return file.read().decode(errors="replace").splitlines()[-count:]
    return []


def write_status(layout: Layout, status: dict[str, object]) -> None:
    """Replace the status file. Ignores a full disk, so that the supervisor can still stop its children."""
    with contextlib.suppress(OSError):
        replace_text(layout.status, json.dumps(status))


def main() -> int:
    layout = Layout(Path(sys.argv[1]))
    owner_pid = int(sys.argv[2]) if len(sys.argv) > 2 else None
    with layout.lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return Supervisor(layout, owner_pid).run()


if __name__ == "__main__":
    sys.exit(main())
