"""The page of the current stack of every task and thread of this process, without values of variables."""

import asyncio
import sys
import threading
import traceback
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from types import AsyncGeneratorType, CodeType, CoroutineType, GeneratorType
from typing import Any, Final

from kube.model.field import join_names

MAX_TASKS: Final = 10_000
"""Largest number of tasks on the page."""

MAX_FRAMES: Final = 40
"""Largest number of frames of one stack."""

BATCH: Final = 100
"""Number of tasks that are inspected before the event loop gets a turn. Inspecting a batch takes 2 ms."""

Stack = tuple[str, ...]


async def stacks() -> str:
    """The page: threads, then tasks. A stack ends with its innermost call. Tasks with the same stack are one entry."""
    lines = [line for name, stack in _thread_stacks() for line in (f"thread {name}", *stack, "")]
    tasks = asyncio.all_tasks()
    names_by_stack: defaultdict[Stack, list[str]] = defaultdict(list)
    for number, task in enumerate(islice(tasks, MAX_TASKS), 1):
        names_by_stack[_task_stack(task.get_coro())].append(task.get_name())
        if number % BATCH == 0:
            await asyncio.sleep(0)
    for stack, names in sorted(names_by_stack.items(), key=lambda entry: -len(entry[1])):
        lines += [f"{len(names)} task{'s'[: len(names) - 1]}: {join_names(names)}", *stack, ""]
    if len(tasks) > MAX_TASKS:
        lines.append(f"{len(tasks) - MAX_TASKS} more tasks are not shown")
    return "\n".join(lines)


def _thread_stacks() -> Iterator[tuple[str, Stack]]:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():  # noqa: SLF001 -- documented, and the only way
        calls = list(islice(traceback.walk_stack(frame), MAX_FRAMES))
        yield names.get(ident, str(ident)), _call_lines((inner.f_code, line) for inner, line in reversed(calls))


def _task_stack(awaited: Any) -> Stack:
    """The stack of a task's coroutine, as far as its awaits can be followed."""
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
    return (*_call_lines(calls), *end)


def _call_lines(calls: Iterable[tuple[CodeType, int]]) -> Stack:
    return tuple(f"  {code.co_qualname} ({code.co_filename}:{line})" for code, line in calls)
