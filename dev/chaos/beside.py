"""Runs programs beside a chaos run, each in its own process, so that the run does not slow them."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

from dev.local import LocalError


@contextlib.contextmanager
def running(module: str, task: Any, output: Path) -> Iterator[None]:
    """Run `python -m module` on the task until the end of the block. Its standard output goes to `output`.

    Raises `LocalError` if the program has failed.
    """
    with output.open("wb") as lines:
        process = subprocess.Popen(  # noqa: S603 (ourselves)
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=lines,
            bufsize=0,
            start_new_session=True,  # a signal of the terminal reaches only the run, which ends the program
        )
        with process:
            if process.stdin is not None:
                process.stdin.write(json.dumps(task).encode() + b"\n")
            yield
    if process.returncode:
        raise LocalError(f"{module} ended with exit code {process.returncode}; its error is above")


def lower_priority(nice: int) -> None:
    """Lower the priority of this process and of its session.

    Linux may share processor time between sessions. The niceness of a process then counts only within its session.
    """
    os.nice(nice)
    with contextlib.suppress(OSError):  # not supported here
        Path("/proc/self/autogroup").write_text(str(nice))


def run_task(on_task: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
    """Run `on_task` in a program that `running` has started, until the end of the block of `running`."""
    task = json.loads(sys.stdin.buffer.readline())

    async def run_until_input_ends() -> None:
        running_task = asyncio.create_task(on_task(task))
        await asyncio.to_thread(sys.stdin.buffer.read)
        running_task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running_task

    asyncio.run(run_until_input_ends())
