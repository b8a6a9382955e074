"""Counts the work of a call, so that a test can say by what it grows; times would differ from run to run."""

import gc
import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any


def steps(call: Callable[[], object]) -> int:
    """Lines that the call executes, each round of a loop again. What is done in C counts as one."""
    count = 0

    def trace(_frame: FrameType, event: str, _arg: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    gc.disable()  # what is called after a collection would be counted
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
        gc.enable()
    return count


def memory(call: Callable[[], object]) -> int:
    """Bytes that the call holds at once, at most: this shows lists that are made in C.

    The least of two calls, as other threads of the process allocate meanwhile.
    """
    return min(_held(call) for _ in range(2))


def _held(call: Callable[[], object]) -> int:
    running = tracemalloc.is_tracing()
    gc.disable()  # how much garbage is left at the peak would depend on when it was collected last
    if not running:
        tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        call()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        if not running:
            tracemalloc.stop()
        gc.enable()


def retained_memory(call: Callable[[], object]) -> int:
    """Bytes that the result of a call holds, with all that the call has stored elsewhere.

    The least of three calls: in one of them a table of the interpreter may grow, such as that of interned strings, which
    all share. So a call must replace what the one before it has stored.
    """
    return min(_retained(call) for _ in range(3))


def _retained(call: Callable[[], object]) -> int:
    gc.collect()
    running = tracemalloc.is_tracing()
    if not running:
        tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        result = call()
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0] - before
        del result
        return taken
    finally:
        if not running:
            tracemalloc.stop()
