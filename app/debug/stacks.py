"""Where every task and thread of this process is now: file, line and function, no values of variables."""

import asyncio
import sys
import threading
import traceback
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from types import AsyncGeneratorType, CodeType, CoroutineType, GeneratorType
from typing import Any, Final

MAX_TASKS: Final = 10_000
"""Tasks that are looked at."""

MAX_FRAMES: Final = 40
"""Frames of one stack."""

NAMES: Final = 5
"""Names of tasks with the same stack that are shown."""

BATCH: Final = 100
"""Tasks that are looked at before others run: 2 ms."""

Stack = tuple[str, ...]


async def stacks() -> str:
    """Threads, then tasks, each stack with its innermost call last. Tasks with the same stack are one entry."""
    lines = [line for name, stack in _threads() for line in (f"thread {name}", *stack, "")]
    tasks = asyncio.all_tasks()
    same: defaultdict[Stack, list[str]] = defaultdict(list)
    for number, task in enumerate(islice(tasks, MAX_TASKS), 1):
        same[_stack(task.get_coro())].append(task.get_name())
        if number % BATCH == 0:
            await asyncio.sleep(0)
    for stack, names in sorted(same.items(), key=lambda entry: -len(entry[1])):
        more = f" and {len(names) - NAMES} more" if len(names) > NAMES else ""
        lines += [f"{len(names)} task{'s'[: len(names) - 1]}: {', '.join(names[:NAMES])}{more}", *stack, ""]
    if len(tasks) > MAX_TASKS:
        lines.append(f"{len(tasks) - MAX_TASKS} more tasks are not shown")
    return "\n".join(lines)


def _threads() -> Iterator[tuple[str, Stack]]:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():  # noqa: SLF001 -- documented, and the only way
        calls = list(islice(traceback.walk_stack(frame), MAX_FRAMES))
        yield names.get(ident, str(ident)), _lines((inner.f_code, line) for inner, line in reversed(calls))


def _stack(awaited: Any) -> Stack:
    """What a task's coroutine awaits, as far as it can be followed."""
    calls: list[tuple[CodeType, int]] = []
    while len(calls) < MAX_FRAMES:
        match awaited:
            case CoroutineType(cr_frame=frame, cr_await=inner):
                pass
            case GeneratorType(gi_frame=frame, gi_yieldfrom=inner):
                pass
            case AsyncGeneratorType(ag_frame=frame, ag_await=inner):
                pass
            case _:
                break
        if frame is None:
            break
        calls.append((frame.f_code, frame.f_lineno))
        awaited = inner
    end = () if awaited is None else (f"  awaits {type(awaited).__name__}",)
    return (*_lines(calls), *end)


def _lines(calls: Iterable[tuple[CodeType, int]]) -> Stack:
    return tuple(f"  {code.co_qualname} ({code.co_filename}:{line})" for code, line in calls)
