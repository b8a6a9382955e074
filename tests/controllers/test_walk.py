"""How far a reader has to walk to follow one failed Job through a reconcile: files, calls, returns to a file."""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from tests.support.model.blind import Blind
from tests.support.model.memory_api import MemoryApi
from tests.support.objects.stored_sets import jobset, rjob

ROOT = str(Path(__file__).parents[2]) + "/"
PROGRAM = ("api/", "controllers/", "kube/")


class Walk(NamedTuple):
    files: int
    calls: int
    returns: int
    """Calls into a file that had been left for another one."""


async def walk(work: Callable[[], Awaitable[object]]) -> Walk:
    """What `work` calls of the program, in order."""
    calls: list[str] = []

    def note(frame: FrameType, event: str, _argument: object) -> None:
        file = frame.f_code.co_filename.removeprefix(ROOT)
        if event == "call" and file.startswith(PROGRAM):
            calls.append(file)

    sys.setprofile(note)
    try:
        await work()
    finally:
        sys.setprofile(None)
    changes = [file for before, file in zip(["", *calls], calls, strict=False) if before != file]
    return Walk(len({*calls}), len(calls), len(changes) - len({*changes}))


async def test_one_failed_job_is_followed_through_few_files():
    blind = Blind(MemoryApi(), jobset(rjob("workers", 4), failurePolicy={"maxRestarts": 3}))
    await blind.reconcile()
    for number in range(4):
        running = {"active": 1, "ready": 1, "startTime": "2026-01-01T00:00:00Z"}
        blind.change_job(f"js-workers-{number}", status=running)
    await blind.reconcile()
    failed = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "no more"}
    blind.change_job("js-workers-1", status={"conditions": [{**failed, "lastTransitionTime": "2026-01-01T00:01:00Z"}]})

    seen = await walk(blind.reconcile)

    assert blind.api.objects("jobsets")["ns", "js"]["status"]["restarts"] == 1
    assert seen.files <= 68, seen
    assert seen.calls <= 810, seen
    assert seen.returns <= 255, seen
