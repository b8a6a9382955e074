"""The objects on the heap of this process: the types that take most of it.

tracemalloc would name the lines that allocate, but it makes every allocation slower, and a snapshot of a million
allocations stops the event loop for seconds. Counting the types of objects costs nothing until it is requested.
"""

import asyncio
import gc
import resource
import sys
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Final

MAX_LOOKED_AT: Final = 1_000_000
"""Objects that are looked at; if there are more, every second or third one is."""

MAX_RESIDENT: Final = 2 << 30
"""Bytes of memory in use above which no objects are counted: the list of all of them alone would stop the loop for
half a second."""

MAX_TYPES: Final = 40
"""Types that are shown."""

BATCH: Final = 5_000
"""Objects that are looked at before others run: 2 ms."""

_MIB: Final = 1 << 20


async def objects(max_looked_at: int = MAX_LOOKED_AT, max_resident: int = MAX_RESIDENT) -> str:
    """Memory in use, then the types with most bytes. Bytes of an object are its own, not those of what it refers to."""
    resident = _resident()
    head = (
        f"{resident / _MIB:.0f} MiB in use, {sys.getallocatedblocks()} blocks of Python\n"
        f"{gc.get_freeze_count()} objects were there at the start and are not counted below\n"
    )
    if resident > max_resident:
        return f"{head}objects are not counted: more than {max_resident / _MIB:.0f} MiB are in use\n"
    found = gc.get_objects()
    step = -(-len(found) // max_looked_at)
    count: Counter[type] = Counter()
    size: Counter[type] = Counter()
    for number, each in enumerate(islice(found, 0, None, step), 1):
        kind = type(each)
        count[kind] += 1
        size[kind] += sys.getsizeof(each)
        if number % BATCH == 0:
            await asyncio.sleep(0)
    looked_at = "" if step == 1 else f"; one in {step} was looked at, numbers are estimates"
    lines = [
        f"{size[kind] * step:>12} {count[kind] * step:>9} {_name(kind)}" for kind, _ in size.most_common(MAX_TYPES)
    ]
    return f"{head}{len(found)} objects{looked_at}\n\n{'bytes':>12} {'objects':>9} type\n" + "\n".join(lines) + "\n"


def _resident() -> int:
    """Bytes of memory in use; if the system does not report them, the highest number so far."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return pages * resource.getpagesize()


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
