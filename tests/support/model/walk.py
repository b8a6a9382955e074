"""What a reader has to walk through: the calls of a piece of work, by the file that has the function."""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import NamedTuple

ROOT = str(Path(__file__).parents[3]) + "/"


class Walk(NamedTuple):
    """Files that were entered, calls, and calls into a file that had been left for another one."""

    files: frozenset[str]
    calls: int
    returns: int


async def walk(work: Callable[[], Awaitable[object]], *packages: str) -> Walk:
    """What `work` calls of these packages (`api/`), in order."""
    calls: list[str] = []

    def note(frame: FrameType, event: str, _argument: object) -> None:
        file = frame.f_code.co_filename.removeprefix(ROOT)
        if event == "call" and file.startswith(packages):
            calls.append(file)

    sys.setprofile(note)
    try:
        await work()
    finally:
        sys.setprofile(None)
    changes = [file for before, file in zip(["", *calls], calls, strict=False) if before != file]
    return Walk(frozenset(calls), len(calls), len(changes) - len({*changes}))
