"""Ends a worker that hangs: dumps its stacks, then sends SIGTERM. The caller kills the processes that are left."""

from __future__ import annotations

import os
import signal
import threading
import time

from agent import worker
from agent.follow import say
from agent.watchdog_settings import WatchdogSettings

# A handler such as faulthandler's writes at once, but does not report when it has finished.
SIGNAL_SECONDS = 1.0


def end_hanging_worker(settings: WatchdogSettings, shell: str, pid: int, worker_ended: threading.Event) -> None:
    """Dump the stacks of worker `pid`, ask it to end, and return after its time limit; for a thread of its own.

    The caller sets `worker_ended` when the worker ends, so that this function returns earlier.
    """
    if settings.dump_signal is not None:
        _dump_by_signal(settings.dump_signal, pid)
    elif settings.dump_command:
        _dump_by_command(settings, shell, pid)
    say("sending SIGTERM to the worker")
    worker.send_signal(pid, signal.SIGTERM)
    if not worker_ended.wait(settings.termination_seconds):
        say(f"the worker has not ended {settings.termination_seconds} s after SIGTERM")


def _dump_by_signal(number: signal.Signals, pid: int) -> None:
    """Send the signal only to processes that handle it. It would end any other process before a dump."""
    processes = [process for process in worker.descendants() if worker.handles(process, number)]
    if not processes:
        say(
            f"no stack dump: no process of the worker (process {pid}) handles {number.name}; a Python program does"
            f" after faulthandler.register(signal.{number.name}, all_threads=True)"
        )
        return
    say(f"{number.name} for a stack dump to {', '.join(map(str, processes))}")
    for process in processes:
        worker.send_signal_to(process, number)
    time.sleep(SIGNAL_SECONDS)


def _dump_by_command(settings: WatchdogSettings, shell: str, pid: int) -> None:
    say("running STACK_DUMP_COMMAND")
    try:
        command = worker.start((shell, "-c", settings.dump_command), {**os.environ, "WORKER_PID": str(pid)})
    except OSError as error:
        say(f"no stack dump: cannot run {shell}: {error.strerror}")
        return
    if not worker.wait_for_group(command, settings.dump_seconds):
        say(f"STACK_DUMP_COMMAND has not ended after {settings.dump_seconds} s: killing it")
        worker.send_signal(command, signal.SIGKILL)
