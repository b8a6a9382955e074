"""Programs beside a run, in separate processes, so that neither slows the other."""

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
    """`python -m module` works on the task until the end of the block. What it prints goes to `output`.

    Raises `LocalError` if it has failed.
    """
    with output.open("wb") as lines:
        process = subprocess.Popen(  # noqa: S603 (ourselves)
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=lines,
            bufsize=0,
            start_new_session=True,  # a signal of the terminal is for the run, which ends it
        )
        with process:
            if process.stdin is not None:
                process.stdin.write(json.dumps(task).encode() + b"\n")
            yield
    if process.returncode:
        raise LocalError(f"{module} ended with exit code {process.returncode}; its error is above")


def give_way(nice: int) -> None:
    """Lower the priority of this process.

    Linux may share processor time between sessions, and niceness only counts within each, so that of our session is
    set, too.
    """
    os.nice(nice)
    with contextlib.suppress(OSError):  # not supported here
        Path("/proc/self/autogroup").write_text(str(nice))


def work(on_task: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
    """The program's part: works on the task until its input ends, with the block or with the run."""
    task = json.loads(sys.stdin.buffer.readline())

    async def wait_for_end() -> None:
        working = asyncio.create_task(on_task(task))
        await asyncio.to_thread(sys.stdin.buffer.read)
        working.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await working

    asyncio.run(wait_for_end())
